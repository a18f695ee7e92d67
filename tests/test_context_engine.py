"""Making room for another engine: one of our own run may be ended, nobody else's is touched."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from nlqlib.experiments.context_engine import ancestors, release
from nlqlib.serving import engine_state, supervisor
from nlqlib.serving.owned import OwnedProcess, start_owned

RELEASE = "from nlqlib.experiments.context_engine import release; print(release())"


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NLQLIB_CACHE", str(tmp_path))
    return tmp_path


def engine(folder: Path) -> OwnedProcess:
    """A process that stands for an engine, owned by this one."""
    return start_owned(
        ["sleep", "60"],
        folder / "log",
        environment=dict(os.environ),
        cwd=folder,
        grace_s=0,
        state=engine_state.state_file(),
        facts={"port": 1, "declared": {}},
    )


def running() -> engine_state.RunningEngine | None:
    with supervisor.locked(engine_state.lock_file()):
        return engine_state.running()


def test_an_engine_that_a_process_above_has_started_is_told_to_end(cache: Path) -> None:
    process = engine(cache)
    done = subprocess.run([sys.executable, "-c", RELEASE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "True"
    deadline = time.monotonic() + 10
    while running() is not None and time.monotonic() < deadline:
        time.sleep(0.05)
    assert running() is None
    process.stop()


def test_an_engine_of_somebody_else_is_left_alone(cache: Path) -> None:
    process = engine(cache)
    assert release() is False  # its owner is this process, which is not above itself
    found = running()
    assert found is not None and not found.ending
    process.stop()


def test_without_an_engine_there_is_nothing_to_end(cache: Path) -> None:
    assert release() is False


def test_the_processes_above_are_found() -> None:
    assert next(ancestors(os.getpid())) == os.getppid()
    assert list(ancestors(2**30)) == []
