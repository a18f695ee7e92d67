"""Executes one notebook; run by the driver as a process of its own, `python -m nlqlib.notebook_child`.

The driver holds the other end of standard input: a line `interrupt` interrupts the kernel, end-of-file (also
that of a killed driver) ends kernel and child at once. What became of the notebook goes to standard output
as one JSON line; everything else that is printed goes to standard error, the log.
"""

import json
import os
import signal
import sys
import threading
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil

from nlqlib.files import WriteError, write_atomic
from nlqlib.notebook_failure import INTERRUPT, Failure, died, failure
from nlqlib.records import Json
from nlqlib.redaction import redact, redact_all, secrets

KERNEL = "python3"
START_TIMEOUT_S = 180
"""A kernel's start on a machine that is busy with other work."""
REPEAT_S = 3.0
"""An interrupt that arrives between two cells is lost, so it is repeated."""
STDIN, STDOUT, STDERR = 0, 1, 2


@dataclass(frozen=True)
class Job:
    """One notebook to be executed. Paths are relative to the notebook's folder, the working directory."""

    notebook: str
    working: str
    """Where papermill writes while it runs."""
    executed: str
    """Where the finished notebook goes."""
    parameters: Json


def main() -> None:
    """Read the job from the arguments, execute it, report."""
    job = Job(**json.loads(sys.argv[1]))
    report = os.dup(STDOUT)
    os.dup2(STDERR, STDOUT)
    threading.Thread(target=_obey, daemon=True).start()
    result = execute(job)
    os.write(report, (json.dumps(result) + "\n").encode())


def execute(job: Job) -> Json:
    """Run the notebook and keep it; `{"status": success | failed | interrupted, "failure": …}`."""
    problem = None
    try:
        problem = _run(job)
        if problem is None or problem.error != INTERRUPT:
            _keep(job)
    except (OSError, ValueError, WriteError) as error:  # a full disk refuses it, or cuts the one in work
        problem = problem or _unwritten(error)
    if problem is None:
        return {"status": "success", "failure": None}
    status = "interrupted" if problem.error == INTERRUPT else "failed"
    return {"status": status, "failure": asdict(problem)}


def _unwritten(error: Exception) -> Failure:
    told = str(error)
    if isinstance(error, OSError):
        told = f"{error.strerror or error} while the notebook was written"
    return Failure(type(error).__name__, redact(told))


def _run(job: Job) -> Failure | None:
    """Execute with papermill; why it failed, or `None`."""
    import papermill
    from nbclient.exceptions import DeadKernelError

    try:
        papermill.execute_notebook(
            literal(job.notebook),
            literal(job.working),
            parameters=job.parameters,
            kernel_name=KERNEL,
            language="python",
            progress_bar=False,
            start_timeout=START_TIMEOUT_S,
        )
    except papermill.PapermillExecutionError as error:
        return failure(_cells(job)) or Failure(error.ename, redact(error.evalue))
    except DeadKernelError:
        return died(_cells(job), "killed, out of memory, or ended by its own code; the log may say more")
    return None


def literal(path: str) -> str:
    """`path` protected from papermill, which formats paths with the parameters."""
    return path.replace("{", "{{").replace("}", "}}")


def _cells(job: Job) -> list[nbformat.NotebookNode]:
    """The cells of the notebook in work; none where a full disk cut it."""
    try:
        return list(nbformat.reads(Path(job.working).read_text("utf-8"), as_version=4).cells)
    except (OSError, ValueError):
        return []


def _keep(job: Job) -> None:
    """Publish the executed notebook: whole, without secrets and without paths of this machine."""
    notebook = nbformat.reads(Path(job.working).read_text("utf-8"), as_version=4)
    for name in ("input_path", "output_path"):
        notebook.metadata.get("papermill", {}).pop(name, None)
    hidden = secrets()
    notebook.cells = [nbformat.from_dict(_redacted(cell, hidden)) for cell in notebook.cells]
    write_atomic(Path(job.executed), nbformat.writes(notebook).encode())


def _redacted(value: Any, hidden: tuple[str, ...]) -> Any:
    """`value` without secrets; pictures are left alone, since chance letters in them mean nothing."""
    if isinstance(value, dict):
        return {k: v if k.startswith("image/") else _redacted(v, hidden) for k, v in value.items()}
    if isinstance(value, list):
        return [_redacted(item, hidden) for item in value]
    return redact_all(value, hidden)


def _obey() -> None:
    """Do what the driver says, until it says nothing more."""
    while command := os.read(STDIN, 64):
        if b"interrupt" in command:
            threading.Thread(target=_interrupt, daemon=True).start()
    for process in psutil.Process().children(recursive=True):
        _signal(process, signal.SIGKILL)
    os._exit(1)


def _interrupt() -> None:
    """Interrupt the kernel, as Ctrl-C would; before there is one, end here."""
    while True:
        kernels = psutil.Process().children()
        if not kernels:
            os._exit(128 + signal.SIGINT)
        for kernel in kernels:
            _signal(kernel, signal.SIGINT)
        time.sleep(REPEAT_S)


def _signal(process: psutil.Process, number: signal.Signals) -> None:
    try:
        process.send_signal(number)
    except psutil.NoSuchProcess:
        return


if __name__ == "__main__":
    main()
