"""A real engine for the tests of a module: the one that runs, or one that is started (installed if need be).

It ends with the module, since some need an engine with settings of their own and there is only one at a time.
"""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from nlqlib.serving import engine_state, supervisor
from nlqlib.serving.engine import Engine, start_engine


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder needs a real vLLM: `-m 'not engine'` leaves it out."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.engine)


@pytest.fixture(scope="module", autouse=True)
def started() -> Iterator[set[psutil.Process]]:
    """What a module's engines consist of, seen at each test; when the module ends nothing of it lives."""
    before = running()
    seen: set[psutil.Process] = set()
    yield seen
    seen -= family(before) if before else set()  # somebody else's goes on
    left = [process for process in seen if lives(process)]
    members = [pid for process in seen for pid in supervisor.session_members(process.pid)]
    assert (left, members) == ([], [])


@pytest.fixture(autouse=True)
def look(started: set[psutil.Process]) -> Iterator[None]:
    """Notes which processes the engine has before and after a test."""
    note(started)
    yield
    note(started)


def note(started: set[psutil.Process]) -> None:
    """Add what the running engine consists of, where one runs."""
    if (pid := running()) is not None:
        started |= family(pid)


def running() -> int | None:
    """The engine that runs, by its process."""
    with supervisor.locked(engine_state.lock_file()):
        found = engine_state.running()
    return found.pid if found else None


def family(pid: int) -> set[psutil.Process]:
    """A process, everything that came from it, and all of its session."""
    members = {pid, *supervisor.session_members(pid)}
    found: set[psutil.Process] = set()
    for member in members:
        with contextlib.suppress(psutil.NoSuchProcess):
            process = psutil.Process(member)
            found |= {process, *process.children(recursive=True)}
    return found


def lives(process: psutil.Process) -> bool:
    """Whether this very process still runs; an id that was given out again is another one."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


@pytest.fixture(scope="module")
def engine(request: pytest.FixtureRequest) -> Iterator[Engine]:
    """A vLLM that answers; its progress is shown although pytest captures output, since it takes minutes."""
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    with start_engine(progress=tell) as running:
        yield running
