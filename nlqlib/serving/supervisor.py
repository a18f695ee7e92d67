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


class StateError(RuntimeError):
    """The state file cannot be written."""


def process_start(pid: int) -> str | None:
    """When process `pid` started, in the system's own ticks; `None` if it does not run.

    Together with the id it names one process for good: ids are reused, the pair is not.
    """
    fields = _stat(pid)
    return fields[19] if fields and fields[0] not in "ZX" else None


def boot() -> str | None:
    """Names this run of the system and its space of process ids; `None` where that cannot be told.

    An id kept from another run, or from another container on a shared cache, names somebody else's process.
    """
    try:
        run = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        return f"{run} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return None


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


def end_remains(session: int, start: str | None, grace_s: float) -> None:
    """End what is left of the session that process `session`, started at `start`, led, if anything is.

    A session keeps its id while any member lives; a leader with another start is another session's.
    """
    if process_start(session) in (None, start):
        end_session(session, grace_s)


@contextlib.contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold the advisory lock `path`; the system lets go of it when the process ends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def write_state(path: Path, state: dict[str, Any]) -> None:
    """Replace the state file in one step, so that no reader sees half of it. Raises `OSError`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f"{path.name}.{os.getpid()}")
    try:
        draft.write_text(json.dumps(state), encoding="utf-8")
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)  # left only where writing failed


def read_state(path: Path) -> dict[str, Any] | None:
    """What the state file says; `None` if there is none, or only damage."""
    try:
        state = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return state if isinstance(state, dict) else None


def main() -> int:
    """Run the command described in argv[1] (JSON): `command, cwd, log, owner, grace_s, state, facts`.

    Once the command runs, nothing but the end of its session leads out of here, a full disk included.
    """
    spec = json.loads(sys.argv[1])
    stopping = _stopping()
    try:
        child = _spawn(spec)
    except OSError as error:
        _say({"error": f"cannot run {spec['command'][0]}: {error.strerror}"})
        return 127
    state: Path | None = None  # until it is written: our owner holds its lock, and waits for us if it is not
    try:
        state = _noted(spec, child.pid)
        _say({"pid": child.pid, "pid_start": process_start(child.pid)})
        while child.poll() is None and not stopping and not _let_go(spec["owner"]):
            pass
    except StateError as error:
        _say({"error": str(error)})
    finally:
        _end(child, state, spec["grace_s"])
    return child.returncode if child.returncode >= 0 else 128 - child.returncode


def _stopping() -> list[int]:
    """The signals caught so far that ask for the end."""
    caught: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda one, _frame: caught.append(one))
    return caught


def _spawn(spec: dict[str, Any]) -> subprocess.Popen[bytes]:
    with open(spec["log"], "ab") as log:
        return subprocess.Popen(
            spec["command"],
            cwd=spec["cwd"],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            restore_signals=True,
        )


def _noted(spec: dict[str, Any], pid: int) -> Path | None:
    """The state file, where one is wanted, that now names process `pid`.

    Raises `StateError`: a command that no state names would not be found, and a second one started beside it.
    """
    if not spec["state"]:
        return None
    state = Path(spec["state"])
    try:
        write_state(state, _facts(spec, pid))
    except OSError as error:
        todo = "make room there, or name another folder in NLQLIB_CACHE"
        raise StateError(f"{state} cannot be written ({error.strerror}): {todo}") from error
    return state


def _end(child: subprocess.Popen[bytes], state: Path | None, grace_s: float) -> None:
    """End the session of `child`; the state says so before and is gone after, as far as the disk allows."""
    if state:
        _update(state, child.pid, {"ending": True})
    end_session(child.pid, grace_s)
    child.wait()
    if state:
        _update(state, child.pid, None)


def _facts(spec: dict[str, Any], pid: int) -> dict[str, Any]:
    return spec["facts"] | {
        "pid": pid,
        "pid_start": process_start(pid),
        "boot": boot(),
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
    """Add `more` to our own state, or remove it (`None`); leave a successor's alone.

    What cannot be written stays as it is: a state counts only while its processes live.
    """
    with contextlib.suppress(OSError), locked(path.with_suffix(".lock")):
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
