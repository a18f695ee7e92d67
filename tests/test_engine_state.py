"""The state file of the engine: what counts of it, what is cleaned, and whose processes are never touched."""

import contextlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from engine_world import fake, kill, wanted

from nlqlib.serving import engine_state, supervisor
from nlqlib.serving.engine import Engine, EngineError, start_engine
from nlqlib.serving.engine_health import answers


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache whose path holds spaces and braces."""
    folder = tmp_path / "a b {c}"
    monkeypatch.setenv("NLQLIB_CACHE", str(folder))
    return folder


def start() -> Engine:
    return start_engine(wanted(), prepare=fake(), progress=lambda _line: None)


GONE = 2**22 + 1
STALE = {
    "nothing of it lives": {
        "pid": GONE,
        "pid_start": "1",
        "supervisor": GONE,
        "supervisor_start": "1",
    },
    "its id was reused": {"pid": 1, "pid_start": "no", "supervisor": 1, "supervisor_start": "no"},
    "it says nothing": {},
}


@pytest.mark.parametrize("name", STALE)
def test_a_stale_state_is_cleaned(name: str) -> None:
    supervisor.write_state(engine_state.state_file(), STALE[name])
    with start() as engine:
        assert engine.owned


@pytest.fixture
def daemon() -> Iterator[tuple[int, int]]:
    """A session whose leader is gone, and the process that lives on in it."""
    code = "import subprocess, sys; print(subprocess.Popen(['sleep', '300'], stdout=subprocess.DEVNULL).pid)"
    leader = subprocess.Popen((sys.executable, "-c", code), start_new_session=True, stdout=subprocess.PIPE)
    member = int(leader.communicate()[0])
    yield leader.pid, member
    with contextlib.suppress(ProcessLookupError):
        kill(member)


def running() -> engine_state.RunningEngine | None:
    with supervisor.locked(engine_state.lock_file()):
        return engine_state.running()


def stale(session: int, **more: str | None) -> None:
    """A state of a dead engine whose session had the id `session`."""
    told = {"pid": session, "pid_start": "1", "supervisor": GONE, "supervisor_start": "1"}
    supervisor.write_state(engine_state.state_file(), told | more)


@pytest.mark.parametrize("told", [{"boot": "another run"}, {"boot": None}, {}])
def test_an_id_kept_from_another_run_of_the_system_is_not_ours_to_end(
    daemon: tuple[int, int], told: dict[str, str | None]
) -> None:
    session, member = daemon
    stale(session, **told)
    assert running() is None
    assert not engine_state.state_file().exists()
    assert supervisor.session_members(session) == [member]


def test_what_is_left_of_an_engine_of_this_run_is_ended(daemon: tuple[int, int]) -> None:
    session, _ = daemon
    stale(session, boot=supervisor.boot())
    assert running() is None
    assert supervisor.session_members(session) == []


def test_a_state_from_another_run_of_the_system_does_not_count_whatever_its_ids() -> None:
    with start() as engine:
        state = supervisor.read_state(engine_state.state_file())
        supervisor.write_state(engine_state.state_file(), state | {"boot": "another run"})
        assert running() is None
        assert answers(engine.port)


def test_a_state_that_does_not_tell_the_run_of_a_live_engine_counts() -> None:
    with start() as engine:
        state = supervisor.read_state(engine_state.state_file())
        del state["boot"]
        supervisor.write_state(engine_state.state_file(), state)
        assert running().pid == engine.pid


def test_an_engine_is_not_started_where_its_state_cannot_be_written(cache: Path) -> None:
    engine_state.state_file().parent.mkdir(parents=True)
    engine_state.state_file().mkdir()  # in the way
    with pytest.raises(EngineError, match=r"engine\.json cannot be written \(.+\): make room there"):
        start()
    left = sorted(p.name for p in engine_state.state_file().parent.iterdir())
    assert left == ["engine.json", "engine.lock"]


def test_phases_that_cannot_be_noted_end_no_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    with start() as engine:
        monkeypatch.setattr(engine_state, "state_file", lambda: Path("/dev/full/engine.json"))
        engine_state.record_startup(engine.pid, {"total": 1.0})
        assert answers(engine.port)


def test_a_damaged_state_is_replaced() -> None:
    engine_state.state_file().parent.mkdir(parents=True)
    engine_state.state_file().write_text("{")
    with start() as engine:
        assert engine.owned
