"""The owner's side of `supervisor`: a command that ends with this process, whatever ends this process."""

import atexit
import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from nlqlib.records import Json
from nlqlib.serving import supervisor
from nlqlib.serving.engine_settings import EngineError

TAIL_LINES = 25
"""Last lines of a log shown in an error: enough for a traceback's end."""
END_S = 15.0
"""On top of the grace: what the supervisor needs to kill, reap and clean up."""


@dataclass
class OwnedProcess:
    """A running command, its log, and the supervisor that ends it."""

    pid: int
    log: Path
    grace_s: float
    started: str | None
    """When process `pid` started, in the system's own ticks; `None` if it had ended before that was seen."""
    _supervisor: subprocess.Popen[str] = field(repr=False)

    def poll(self) -> int | None:
        """The exit status of the command, `None` while it runs."""
        return self._supervisor.poll()

    def stop(self) -> int:
        """End the command and everything it started; returns once nothing is left. May be called again."""
        atexit.unregister(self.stop)
        pipe = self._supervisor.stdin
        if pipe and not pipe.closed:
            with contextlib.suppress(BrokenPipeError):  # it ended by itself
                pipe.write("\n")  # a forked child may hold the pipe too, so end-of-file alone is not enough
                pipe.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._supervisor.wait(self.grace_s + END_S)
        if self._supervisor.poll() is None:
            self._supervisor.kill()
        status = self._supervisor.wait()
        supervisor.end_remains(self.pid, self.started, self.grace_s)  # it may have failed
        return status

    def last_words(self) -> str:
        """The end of the log, for an error's text."""
        return last_words(self.log)


def start_owned(
    command: Sequence[str],
    log: Path,
    *,
    environment: Mapping[str, str],
    cwd: Path,
    grace_s: float,
    state: Path | None = None,
    facts: Json | None = None,
) -> OwnedProcess:
    """Start `command`, output appended to `log`; with `state`, `facts` are kept there while it runs.

    Raises `EngineError` when the command cannot be started at all.
    """
    log.parent.mkdir(parents=True, exist_ok=True)
    spec = {
        "command": list(command),
        "cwd": str(cwd),
        "log": str(log),
        "owner": os.getpid(),
        "grace_s": grace_s,
        "state": str(state) if state else None,
        "facts": facts or {},
    }
    with log.open("ab") as errors:
        process = subprocess.Popen(
            [sys.executable, "-I", supervisor.__file__, json.dumps(spec)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=dict(environment),
            start_new_session=True,  # Ctrl-C is for the owner, who then ends the rest in order
            text=True,
            encoding="utf-8",
        )
    assert process.stdout is not None
    with process.stdout as answers:
        line = answers.readline()
    said: Json = json.loads(line) if line else {"error": f"the supervisor ended at once:\n{tail(log)}"}
    if "error" in said:
        process.wait()
        raise EngineError(said["error"])
    owned = OwnedProcess(said["pid"], log, grace_s, said["pid_start"], process)
    atexit.register(owned.stop)
    return owned


def run_owned(
    name: str,
    command: Sequence[str],
    log: Path,
    *,
    cwd: Path,
    progress: Callable[[str], None],
    environment: Mapping[str, str] | None = None,
    every_s: float = 10.0,
) -> None:
    """Run a step of an installation to its end, saying every `every_s` seconds that it still runs.

    Raises `EngineError` with the last lines of `log` when it fails; ends the step on Ctrl-C.
    """
    begin = time.monotonic()
    owned = start_owned(command, log, environment=environment or os.environ, cwd=cwd, grace_s=0)
    told = begin
    try:
        while (status := owned.poll()) is None:
            time.sleep(0.1)
            if time.monotonic() - told >= every_s:
                told = time.monotonic()
                progress(f"engine: {name} … {told - begin:.0f} s")
    finally:
        owned.stop()
    if status != 0:
        raise EngineError(f"{name} failed (exit status {status}); {owned.last_words()}")
    progress(f"engine: {name} done in {time.monotonic() - begin:.0f} s")


def last_words(log: Path) -> str:
    """Names the log and quotes its last lines."""
    return f"last lines of {log}:\n{tail(log)}"


def tail(log: Path, lines: int = TAIL_LINES) -> str:
    """The last `lines` lines of a log that may hold anything."""
    if not log.exists():
        return ""
    with log.open("rb") as handle:
        handle.seek(max(0, log.stat().st_size - 64 * 1024))
        text = handle.read().decode("utf-8", errors="replace")
    return "\n".join(text.splitlines()[-lines:])
