"""Runs one command in a session of its own and ends all of it when the owner goes, however the owner went.

Started by path in a process of its own, with the standard library only. The owner holds the write end of
this process's standard input: end-of-file, or any byte, means "let go". A `kill -9` of the owner closes the
pipe like any other exit. vLLM's EngineCore and workers outlive a killed API server, hence the whole session.
"""

import contextlib
import fcntl
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

POLL_S = 0.5
"""How often the owner's process id is looked at: a forked child may keep the pipe open after it."""
TRACKER_S = 2.0
"""What multiprocessing's resource tracker gets to unlink shared memory after its processes were killed."""


def process_start(pid: int) -> str | None:
    """When process `pid` started, in the system's own ticks; `None` if it does not run.

    Together with the id it names one process for good: ids are reused, the pair is not.
    """
    fields = _stat(pid)
    return fields[19] if fields and fields[0] not in "ZX" else None


def session_members(session: int) -> list[int]:
    """Process ids of all live members of `session`, whatever process group they moved to (Linux)."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            fields = _stat(int(entry.name))
            if fields and fields[0] not in "ZX" and int(fields[3]) == session:
                found.append(int(entry.name))
    return found


def end_session(session: int, grace_s: float) -> None:
    """Ask every process of `session` to end, wait `grace_s` seconds, kill what is left."""
    _signal(session_members(session), signal.SIGTERM)
    if _gone(session, grace_s):
        return
    _signal([pid for pid in session_members(session) if not _is_tracker(pid)], signal.SIGKILL)
    if not _gone(session, TRACKER_S):
        _signal(session_members(session), signal.SIGKILL)
        _gone(session, TRACKER_S)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the advisory lock `path`; the system lets go of it when the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace the state file in one step, so that no reader sees half of it."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    draft.write_text(json.dumps(state, sort_keys=True), encoding="utf-8")
    draft.replace(path)


def read_state(path: Path) -> dict[str, Any] | None:
    """What the state file says; `None` if there is none, or only damage."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None


def main() -> int:
    """Run the command described in argv[1] (JSON): `command, cwd, log, owner, grace_s, state, facts`."""
    spec = json.loads(sys.argv[1])
    stopping: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda caught, _frame: stopping.append(caught))
    with open(spec["log"], "ab") as log:
        try:
            child = subprocess.Popen(
                spec["command"],
                cwd=spec["cwd"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                restore_signals=True,
            )
        except OSError as error:
            _say({"error": f"cannot run {spec['command'][0]}: {error.strerror}"})
            return 127
    state = Path(spec["state"]) if spec["state"] else None
    if state:
        write_state(state, _facts(spec, child.pid))
    _say({"pid": child.pid})
    while child.poll() is None and not stopping and not _let_go(spec["owner"]):
        pass
    if state:
        _update(state, child.pid, {"ending": True})
    end_session(child.pid, spec["grace_s"])
    child.wait()
    if state:
        _update(state, child.pid, None)
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _facts(spec: dict[str, Any], pid: int) -> dict[str, Any]:
    return spec["facts"] | {
        "pid": pid,
        "pid_start": process_start(pid),
        "supervisor": os.getpid(),
        "supervisor_start": process_start(os.getpid()),
        "owner": spec["owner"],
        "owner_start": process_start(spec["owner"]),
        "log": spec["log"],
    }


def _let_go(owner: int) -> bool:
    readable, _, _ = select.select([sys.stdin.fileno()], [], [], POLL_S)
    return bool(readable) or os.getppid() != owner


def _update(path: Path, pid: int, more: dict[str, Any] | None) -> None:
    """Add `more` to our own state, or remove it (`None`); leave a successor's alone."""
    with locked(path.with_suffix(".lock")):
        ours = read_state(path)
        if not ours or ours.get("pid") != pid:
            return
        if more is None:
            path.unlink(missing_ok=True)
        else:
            write_state(path, ours | more)


def _stat(pid: int) -> list[str] | None:
    """Fields of /proc/PID/stat after the command's name: state, parent, group, session, …"""
    try:
        return (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
    except OSError:
        return None


def _is_tracker(pid: int) -> bool:
    try:
        return b"multiprocessing.resource_tracker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


def _signal(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def _gone(session: int, timeout_s: float) -> bool:
    deadline = time.monotonic() + timeout_s
    while session_members(session):
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def _say(message: dict[str, Any]) -> None:
    """Tell the owner, who may be gone already."""
    with contextlib.suppress(BrokenPipeError):
        print(json.dumps(message), flush=True)


if __name__ == "__main__":
    sys.exit(main())
