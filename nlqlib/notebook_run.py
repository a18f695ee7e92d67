"""One notebook running in a process of its own, and what became of its points.

The driver holds a pipe to the child: closing it, by intent or by dying, ends child and kernel.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

from nlqlib import paths
from nlqlib.artifact_record import READ, ArtifactError, load_record
from nlqlib.artifacts import MANIFEST, PASSED
from nlqlib.files import text_lines
from nlqlib.notebook_child import Job
from nlqlib.notebook_failure import Failure
from nlqlib.progress import PROGRESS
from nlqlib.records import Json
from nlqlib.redaction import redact
from nlqlib.remeasured import Comparison

RunStatus = Literal["ok", "unchanged", "failed", "interrupted", "not run"]
DONE: tuple[RunStatus, ...] = ("ok", "unchanged")
"""Of a notebook whose executed form is there and right; `unchanged`: it was kept and not run again."""
KILL_AFTER_S = 5.0
"""Between the end of the pipe and SIGKILL for the child's process group."""
LOG_LINES = 6
BACKEND = "module://matplotlib_inline.backend_inline"
"""With any other backend every figure is lost, and papermill still exits with 0."""


@dataclass(frozen=True)
class Notebook:
    """A notebook to be run, with the parameters that differ from its own."""

    path: Path
    parameters: Json = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass(frozen=True)
class Points:
    """What became of a notebook's points, by its manifest and the artifacts themselves."""

    measured: int = 0
    reused: int = 0
    failed: int = 0
    open: int = 0
    """Begun and not ended: a killed kernel."""


@dataclass(frozen=True)
class Finished:
    """A notebook that has ended, or was never begun."""

    notebook: Notebook
    status: RunStatus
    points: Points = Points()
    wall_s: float | None = None
    failure: Failure | None = None


@dataclass
class Running:
    """A notebook being executed."""

    notebook: Notebook
    folder: Path
    """Scratch folder of this run: manifest, progress, the notebook in work."""
    log: Path
    process: subprocess.Popen[bytes]
    started: float = field(default_factory=time.monotonic)
    interrupted: bool = False
    _read: dict[str, int] = field(default_factory=dict)

    def lines(self) -> list[str]:
        """Progress lines that are new since the last call."""
        return [redact(line) for line in self._new("progress")]

    def events(self) -> list[Json]:
        """Manifest events that are new since the last call."""
        return _whole(self._new("manifest"))

    def touched(self) -> set[Path]:
        """The folders whose artifacts it read or wrote so far."""
        folders = {Path(event["path"]).parent for event in _events(self.folder / "manifest")}
        read = self.folder / "read"
        lines = text_lines(read.read_text("utf-8", "replace")) if read.is_file() else []
        return folders | {Path(json.loads(line)) for line in lines}

    def reproduced(self) -> bool:
        """Was every point that it measured anew the retained one, byte for byte? True where none was."""
        told = [event["comparison"] for event in _events(self.folder / "manifest")]
        return all(Comparison(**c).exact for c in told if c)

    def finished(self) -> Finished | None:
        """The outcome, once the process has ended."""
        if self.process.poll() is None:
            return None
        output, _ = self.process.communicate()
        points = count_points(_events(self.folder / "manifest"))
        status, failure = self._outcome(output, points)
        return Finished(self.notebook, status, points, time.monotonic() - self.started, failure)

    def interrupt(self) -> None:
        """Interrupt the kernel: the open point is cancelled, finished ones stay."""
        self.interrupted = True
        self._say(b"interrupt\n")

    def kill(self) -> None:
        """End child and kernel now."""
        self.interrupted = True
        if self.process.stdin:
            _close(self.process.stdin)
            self.process.stdin = None  # `communicate` would flush a closed pipe
        try:
            self.process.wait(KILL_AFTER_S)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def _say(self, command: bytes) -> None:
        try:
            if self.process.stdin:
                self.process.stdin.write(command)
                self.process.stdin.flush()
        except BrokenPipeError:  # it has just ended by itself
            return

    def _outcome(self, output: bytes, points: Points) -> tuple[RunStatus, Failure | None]:
        try:
            told = json.loads(output)
        except ValueError:
            told = {"status": "interrupted" if self.interrupted else "lost", "failure": None}
        if told["status"] == "interrupted" and self.interrupted:
            return "interrupted", None
        if told["status"] != "success":
            return "failed", _failure(told["failure"]) or self._lost()
        if points.failed or points.open:
            text = f"{points.failed + points.open} of its points have no result, though every cell completed"
            return "failed", Failure("points failed", text)
        return "ok", None

    def _lost(self) -> Failure:
        """The process ended without a word: show the end of its log."""
        code = self.process.returncode
        how = f"killed by signal {-code}" if code < 0 else f"exit status {code}"
        tail = self.log.read_text("utf-8", "replace").splitlines()[-LOG_LINES:]
        return Failure("the notebook's process ended", how, None, tuple(redact(line) for line in tail))

    def _new(self, name: str) -> list[str]:
        path = self.folder / name
        if not path.is_file():
            return []
        with path.open("rb") as handle:
            handle.seek(self._read.get(name, 0))
            whole, newline, _ = handle.read().rpartition(b"\n")
        self._read[name] = self._read.get(name, 0) + len(whole) + len(newline)
        return text_lines(whole.decode("utf-8", "replace"))


def start(
    notebook: Notebook, folder: Path, executed: Path, log: Path, environment: Mapping[str, str]
) -> Running:
    """Start executing `notebook`, whose result goes to `executed`; the child's own messages go to `log`."""
    folder.mkdir(parents=True, exist_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    home = notebook.path.parent
    working = folder / notebook.path.name
    job = Job(
        notebook.path.name,
        os.path.relpath(working, home),
        os.path.relpath(executed, home),
        notebook.parameters,
    )
    with log.open("wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "nlqlib.notebook_child", json.dumps(asdict(job))],
            cwd=home,
            env=kernel_environment(notebook, folder, environment),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=written,
            start_new_session=True,
        )
    return Running(notebook, folder, log, process)


def kernel_environment(notebook: Notebook, folder: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """`environment` with what a kernel needs, whatever the user's own Jupyter is set to."""
    return {
        **environment,
        "MPLBACKEND": BACKEND,
        "PYTHONUTF8": "1",
        "PYTHONPATH": os.pathsep.join(filter(None, [str(paths.ROOT), environment.get("PYTHONPATH")])),
        "IPYTHONDIR": str(folder / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(folder / "jupyter"),
        "JUPYTER_PREFER_ENV_PATH": "1",
        "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        MANIFEST: str(folder / "manifest"),
        READ: str(folder / "read"),
        PROGRESS: str(folder / "progress"),
        PASSED: json.dumps(notebook.parameters),
    }


def count_points(events: list[Json]) -> Points:
    """Points by their last event; `measured` and `reused` only if the artifact itself says success."""
    last = {event["path"]: event for event in events}
    ends = [_verdict(event) for event in last.values()]
    return Points(**{name: ends.count(name) for name in ("measured", "reused", "failed", "open")})


def _verdict(event: Json) -> str:
    if event["event"] == "started":
        return "open"
    if event["event"] not in ("measured", "reused"):
        return "failed"
    try:
        return str(event["event"]) if load_record(Path(event["path"])).status == "success" else "failed"
    except ArtifactError:
        return "failed"


def _events(manifest: Path) -> list[Json]:
    if not manifest.is_file():
        return []
    return _whole(text_lines(manifest.read_text("utf-8", "replace")))


def _whole(lines: list[str]) -> list[Json]:
    """The events in `lines`. One that a kill or a full disk cut is none: its point then counts as open."""
    found = []
    for line in lines:
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def _failure(told: Json | None) -> Failure | None:
    return Failure(**{**told, "frames": tuple(told["frames"])}) if told else None


def _close(pipe: Any) -> None:
    try:
        pipe.close()
    except BrokenPipeError:  # something was still to be written, to a process that has ended
        return
