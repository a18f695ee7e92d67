"""Worker processes as one thing: started together, released at one instant, ended whatever happens.

Each lives in a session of its own, so that Ctrl-C reaches only this process, which then ends them; and each
ends by itself when its input does, so that none outlives a parent that was killed.
"""

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from types import TracebackType
from typing import IO, Any

from nlqlib.cpu_clock import machine_s
from nlqlib.load.errors import LoadError, WorkerError
from nlqlib.load.jobs import Job
from nlqlib.records import Json

COMMAND = (sys.executable, "-m", "nlqlib.load.worker")
START_LIMIT_S = 120.0
"""A worker takes 0.2 s of a core to start, one with statistics 1 s; many share the cores."""
LEAD_S = 0.1
LEAD_PER_WORKER_S = 0.005
"""From the last `ready` to the instant of release: time for its news to reach every worker."""
PATIENCE_S = 2.0
"""How long a worker may take to end by itself."""
LOOK_S = 0.2
TAIL = 2000


@dataclass
class Worker:
    """One process, its place in the order, and where its errors go."""

    number: int
    job: Job
    process: "subprocess.Popen[str]"
    errors: IO[bytes]

    def tail(self) -> str:
        """The end of what it wrote to standard error, without secrets."""
        self.errors.seek(0)
        text = self.errors.read()[-TAIL:].decode(errors="replace").strip()
        return self.job.endpoint.redact(text) if text else "nothing on standard error"


class Workers:
    """The processes of `jobs`, one each; use in a `with` block, after which none is left."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self._jobs = jobs
        self._workers: list[Worker] = []
        self._threads: list[threading.Thread] = []
        self._lines: queue.SimpleQueue[tuple[int, Json | None]] = queue.SimpleQueue()

    def __enter__(self) -> "Workers":
        with ExitStack() as started:
            started.callback(self._end)
            for number, job in enumerate(self._jobs):
                self._start(number, job)
            for worker in self._workers:
                self._tell(worker, worker.job.to_json())
            started.pop_all()  # all are up: from here on `__exit__` ends them
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def release(self) -> tuple[float, list[int]]:
        """Wait until all are ready, then let them go at one instant; that instant and their process ids.

        The instant is on CLOCK_MONOTONIC. Raises `WorkerError` when one ended or they take too long.
        """
        ready = self._gather("ready", machine_s() + START_LIMIT_S)
        at_s = machine_s() + LEAD_S + LEAD_PER_WORKER_S * len(self._workers)
        for worker in self._workers:
            self._tell(worker, {"at_s": at_s})
        return at_s, ready

    def results(self, done: Callable[[int, int], None] = lambda number, count: None) -> list[Json]:
        """What each worker made, in their order; `done(number, count)` is called as they go on.

        Raises `LoadError` with the reason of a worker that failed, or of the last to find its first requests
        all failed when every one has; `WorkerError` when one ended without a result.
        """
        return self._gather("result", None, done)

    def _start(self, number: int, job: Job) -> None:
        errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in `_end`
        process = subprocess.Popen(
            COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            encoding="utf-8",
            start_new_session=True,
        )
        self._workers.append(Worker(number, job, process, errors))
        thread = threading.Thread(target=self._listen, args=(number, process), daemon=True)
        thread.start()
        self._threads.append(thread)

    def _listen(self, number: int, process: "subprocess.Popen[str]") -> None:
        assert process.stdout is not None
        try:
            for line in process.stdout:
                self._lines.put((number, json.loads(line)))
        finally:
            self._lines.put((number, None))

    def _tell(self, worker: Worker, message: Json) -> None:
        assert worker.process.stdin is not None
        try:
            worker.process.stdin.write(json.dumps(message) + "\n")
            worker.process.stdin.flush()
        except BrokenPipeError:
            raise self._death(worker) from None

    def _gather(
        self,
        what: str,
        until_s: float | None,
        done: Callable[[int, int], None] = lambda number, count: None,
    ) -> list[Any]:
        """The message `what` of every worker, in their order."""
        found: dict[int, Any] = {}
        hopeless: dict[int, str | None] = {}
        while len(found) < len(self._workers):
            number, line = self._next(until_s, len(found))
            if line is None and number not in found:
                raise self._death(self._workers[number])
            if line is not None and "error" in line:
                raise LoadError(f"process {number + 1} of {len(self._workers)}: {line['error']}")
            if line is not None and "hopeless" in line:
                hopeless[number] = line["hopeless"]
                if len(hopeless) == len(self._workers) and all(hopeless.values()):
                    raise LoadError(f"process {number + 1} of {len(self._workers)}: {line['hopeless']}")
            if line is not None and "done" in line:
                done(number, line["done"])
            if line is not None and what in line:
                found[number] = line[what]
        return [found[number] for number in range(len(self._workers))]

    def _next(self, until_s: float | None, n_found: int) -> tuple[int, Json | None]:
        while True:
            try:
                return self._lines.get(timeout=LOOK_S)  # a wait without a limit cannot be interrupted
            except queue.Empty:
                if until_s is not None and machine_s() > until_s:
                    raise WorkerError(
                        f"after {START_LIMIT_S:g} s only {n_found} of {len(self._workers)} processes are "
                        "ready: start fewer, or free this machine's cores"
                    ) from None

    def _death(self, worker: Worker) -> WorkerError:
        status = _ended(worker.process, machine_s() + PATIENCE_S)
        how = f"by signal {-status}" if status < 0 else f"with exit status {status}"
        return WorkerError(
            f"process {worker.number + 1} of {len(self._jobs)} ended {how} before its work was done; "
            f"it left: {worker.tail()}"
        )

    def _end(self) -> None:
        """Close their inputs, by which they end; kill those that do not."""
        for worker in self._workers:
            assert worker.process.stdin is not None
            with suppress(BrokenPipeError):  # it is gone already
                worker.process.stdin.close()
        until_s = machine_s() + PATIENCE_S
        for worker in self._workers:
            _ended(worker.process, until_s)
        for thread, worker in zip(self._threads, self._workers, strict=True):
            thread.join()
            assert worker.process.stdout is not None
            worker.process.stdout.close()
            worker.errors.close()


def _ended(process: "subprocess.Popen[str]", until_s: float) -> int:
    """The exit status of `process`, which is killed if it has not ended by itself by then."""
    try:
        return process.wait(max(0.0, until_s - machine_s()))
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()
