"""A supervised command ends with its owner, whole, however the owner ends."""

import contextlib
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from engine_world import FAKE, await_gone, kill, owner

from nlqlib.serving import supervisor
from nlqlib.serving.engine_settings import EngineError
from nlqlib.serving.owned import OwnedProcess, run_owned, start_owned, tail

SLEEP = (sys.executable, "-c", "import time; print('up', flush=True); time.sleep(300)")
STUBBORN = (
    sys.executable,
    "-c",
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
    "print('up', flush=True); time.sleep(300)",
)
LAST_LINE = "Starting vLLM server"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with spaces and braces in its path."""
    folder = tmp_path / "a b {c}"
    folder.mkdir()
    return folder


def start(
    place: Path, command: tuple[str, ...], grace_s: float = 0.3, state: Path | None = None
) -> OwnedProcess:
    return start_owned(
        command,
        place / "log.txt",
        environment=os.environ,
        cwd=place,
        grace_s=grace_s,
        state=state,
        facts={"port": 1},
    )


def await_line(log: Path, text: str) -> None:
    deadline = time.monotonic() + 8
    while text not in tail(log):
        assert time.monotonic() < deadline, tail(log)
        time.sleep(0.02)


OWNER = """
    from pathlib import Path
    from nlqlib.serving.owned import start_owned
    place = Path(os.environ["PLACE"])
    command = (sys.executable, str(FAKE), "--port", "0", "--fake-stubborn")
    p = start_owned(command, place / "log.txt", environment=os.environ,
                    cwd=place, grace_s=0.3, state=place / "state.json", facts={})
    print(p.pid, flush=True)
"""


def test_kill_9_of_the_owner_leaves_no_process_and_no_state(place: Path) -> None:
    process = owner(OWNER + "    time.sleep(300)", PLACE=str(place))
    session = int(process.stdout.readline())
    await_line(place / "log.txt", LAST_LINE)
    assert len(supervisor.session_members(session)) == 3
    keeper = supervisor.read_state(place / "state.json")["supervisor"]
    kill(process.pid)
    process.wait()
    assert await_gone(session) == []
    deadline = time.monotonic() + 5
    while supervisor.process_start(keeper) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert supervisor.process_start(keeper) is None
    assert not (place / "state.json").exists()


def test_a_forked_child_that_inherits_the_pipe_does_not_keep_the_command_alive(place: Path) -> None:
    code = """
        child = os.fork()
        if child == 0:
            os.close(1)
        time.sleep(300)
    """
    process = owner(OWNER + "\n".join(line[4:] for line in code.splitlines()), PLACE=str(place))
    session = int(process.stdout.readline())
    kill(process.pid)
    process.wait()
    try:
        assert await_gone(session) == []
    finally:
        for pid in supervisor.session_members(process.pid):  # the fork itself
            kill(pid)


def test_an_owner_that_exits_normally_waits_for_the_end(place: Path) -> None:
    process = owner(OWNER, PLACE=str(place))
    session = int(process.stdout.readline())
    assert process.wait(10) == 0
    assert supervisor.session_members(session) == []


def test_stop_ends_children_that_ignore_sigterm_or_left_the_process_group(place: Path) -> None:
    process = start(place, (sys.executable, str(FAKE), "--port", "0", "--fake-stubborn"))
    await_line(place / "log.txt", LAST_LINE)
    groups = {os.getpgid(pid) for pid in supervisor.session_members(process.pid)}
    assert len(groups) == 2
    process.stop()
    assert supervisor.session_members(process.pid) == []


def test_stop_may_be_called_twice_and_tells_the_status(place: Path) -> None:
    process = start(place, SLEEP)
    await_line(place / "log.txt", "up")
    assert process.stop() == 128 + signal.SIGTERM
    assert process.stop() == 128 + signal.SIGTERM


def test_a_command_that_ignores_sigterm_is_killed_after_the_grace(place: Path) -> None:
    process = start(place, STUBBORN)
    await_line(place / "log.txt", "up")
    assert process.stop() == 128 + signal.SIGKILL


def test_what_a_finished_command_left_behind_is_ended(place: Path) -> None:
    code = f"import subprocess, sys; subprocess.Popen({list(STUBBORN)!r}); sys.exit(7)"
    process = start(place, (sys.executable, "-c", code))
    deadline = time.monotonic() + 8
    while process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert process.poll() == 7
    assert supervisor.session_members(process.pid) == []


def test_sigterm_to_the_supervisor_ends_the_command(place: Path) -> None:
    state = place / "state.json"
    process = start(place, SLEEP, state=state)
    os.kill(supervisor.read_state(state)["supervisor"], signal.SIGTERM)
    assert await_gone(process.pid) == []
    process.stop()


def test_ctrl_c_in_the_terminal_does_not_reach_the_command(place: Path) -> None:
    process = start(place, SLEEP)
    try:
        assert os.getsid(process.pid) == process.pid
        assert os.getpgid(process.pid) != os.getpgid(0)
    finally:
        process.stop()


def test_the_state_names_both_processes_by_id_and_start_and_goes_with_them(place: Path) -> None:
    state = place / "state.json"
    process = start(place, SLEEP, state=state)
    told = supervisor.read_state(state)
    assert told["port"] == 1
    assert told["owner"] == os.getpid()
    assert told["pid_start"] == supervisor.process_start(process.pid)
    assert told["supervisor_start"] == supervisor.process_start(told["supervisor"])
    assert told["boot"] == supervisor.boot()
    process.stop()
    assert not state.exists()


def test_a_successors_state_is_left_alone(place: Path) -> None:
    state = place / "state.json"
    process = start(place, SLEEP, state=state)
    supervisor.write_state(state, {"pid": 1})
    process.stop()
    assert supervisor.read_state(state) == {"pid": 1}


def running_with(word: str) -> list[str]:
    """Processes with `word` on their command line."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if word.encode() in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


def test_a_command_whose_state_cannot_be_written_is_ended_and_that_is_said(place: Path) -> None:
    (place / "file").touch()
    state = place / "file" / "state.json"
    with pytest.raises(EngineError, match=r"file/state\.json cannot be written \(.+\): make room there"):
        start(place, (*STUBBORN, str(place)), state=state)
    assert running_with(str(place)) == []


def test_a_disk_that_is_full_at_the_end_keeps_neither_the_command_nor_its_state(place: Path) -> None:
    state = place / "state.json"
    process = start(place, SLEEP, state=state)
    await_line(place / "log.txt", "up")
    keeper = supervisor.read_state(state)["supervisor"]
    _, most = resource.prlimit(keeper, resource.RLIMIT_FSIZE)
    resource.prlimit(keeper, resource.RLIMIT_FSIZE, (0, most))  # from now on it can write nothing
    assert process.stop() == 128 + signal.SIGTERM
    assert supervisor.session_members(process.pid) == []
    assert sorted(p.name for p in place.iterdir()) == ["log.txt", "state.lock"]


def test_a_state_that_can_no_longer_be_reached_does_not_keep_the_command_alive(place: Path) -> None:
    folder = place / "run"
    process = start(place, STUBBORN, state=folder / "state.json")
    await_line(place / "log.txt", "up")
    folder.rename(place / "moved")
    folder.touch()
    assert process.stop() == 128 + signal.SIGKILL
    assert supervisor.session_members(process.pid) == []


def beside_a_failed_supervisor(
    place: Path, started: str | None = None
) -> tuple[OwnedProcess, "subprocess.Popen[bytes]"]:
    """A command that goes on although its supervisor ended with status 1, its start told rightly or not."""
    left = subprocess.Popen(SLEEP, start_new_session=True, stdout=subprocess.DEVNULL)
    failed = subprocess.Popen((sys.executable, "-c", "raise SystemExit(1)"), stdin=subprocess.PIPE, text=True)
    started = started or supervisor.process_start(left.pid)
    return OwnedProcess(left.pid, place / "log.txt", 0.3, started, failed), left


def test_stop_ends_what_a_supervisor_that_failed_has_left(place: Path) -> None:
    process, left = beside_a_failed_supervisor(place)
    assert process.stop() == 1
    assert left.wait(5) == -signal.SIGTERM


def test_stop_touches_no_process_that_has_the_id_by_now(place: Path) -> None:
    process, left = beside_a_failed_supervisor(place, started="another time")
    try:
        assert process.stop() == 1
        assert left.poll() is None
    finally:
        left.kill()
        left.wait()


def test_the_name_of_the_system_s_run_stays_the_same(place: Path) -> None:
    code = "import runpy, sys; print(runpy.run_path(sys.argv[1])['boot']())"
    words = (sys.executable, "-c", code, supervisor.__file__)
    told = subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()
    assert told == supervisor.boot()
    assert len(told.split()) == 2


def test_a_command_that_does_not_exist_is_a_clear_error(place: Path) -> None:
    with pytest.raises(EngineError, match="cannot run /no/such/thing: No such file or directory"):
        start(place, ("/no/such/thing",))


def test_a_process_that_does_not_run_has_no_start() -> None:
    assert supervisor.process_start(2**22 + 1) is None
    assert supervisor.process_start(os.getpid()) is not None


@pytest.mark.parametrize("text", ["", "{", "[1]", "\x00"])
def test_a_damaged_state_reads_as_none(place: Path, text: str) -> None:
    (place / "state.json").write_text(text)
    assert supervisor.read_state(place / "state.json") is None


def test_a_failed_step_quotes_the_last_lines_of_its_log(place: Path) -> None:
    code = "print('first'); print('the reason'); raise SystemExit(3)"
    with pytest.raises(EngineError, match=r"brewing failed \(exit status 3\)(?s:.)*the reason"):
        run_owned("brewing", (sys.executable, "-c", code), place / "log.txt", cwd=place, progress=str)


def test_a_long_step_says_that_it_still_runs(place: Path) -> None:
    said: list[str] = []
    code = (sys.executable, "-c", "import time; time.sleep(0.8)")
    run_owned("brewing", code, place / "log.txt", cwd=place, progress=said.append, every_s=0.2)
    assert said[0] == "engine: brewing … 0 s"
    assert said[-1].startswith("engine: brewing done in ")


def test_the_tail_of_a_log_that_is_no_text_is_still_shown(place: Path) -> None:
    (place / "log").write_bytes(b"\xff\xfe\n" * 100 + b"end\n")
    assert tail(place / "log", 1) == "end"
    assert tail(place / "nothing") == ""
