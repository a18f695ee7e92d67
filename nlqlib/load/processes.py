"""Load from independent operating-system processes: the staircase, and closed loops beyond one core.

Every process has its own interpreter, event loop and connections, so what they share lies beyond the client.
All times are of CLOCK_MONOTONIC, one clock for every process of a Linux machine, hence they can be compared.
The functions are synchronous and work in real time only: the endpoint must be behind a socket.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from nlqlib.analysis.latency import latency_summary, peak_in_flight, spans
from nlqlib.analysis.staircase import ProcessTimes
from nlqlib.analysis.stats import Interval
from nlqlib.load.errors import LoadError, WorkerError
from nlqlib.load.health import ClientHealth
from nlqlib.load.jobs import Job, Share, completion_of, split
from nlqlib.load.load_run import LoadRun, since
from nlqlib.load.sending import Counting
from nlqlib.load.workers import Workers
from nlqlib.records import ChatRequest, Completion, Json
from nlqlib.serving.client import ClientKind
from nlqlib.serving.endpoint import Endpoint

__all__ = ["LoadError", "Release", "WorkerError", "closed_loop_in_processes", "release_together"]


@dataclass(frozen=True)
class Release:
    """One request of each of k processes, released together. Times are seconds since the release."""

    completions: tuple[Completion, ...]
    """In the order of the requests; connecting is within the latency. `planned_s` is the release, 0."""
    woken_s: tuple[float, ...]
    """When each process was running again after the release."""
    pids: tuple[int, ...]

    @property
    def skew_s(self) -> float:
        """From the first request sent to the last, in seconds."""
        starts = [c.start_s for c in self.completions if c.start_s is not None]
        return max(starts) - min(starts)

    @property
    def times(self) -> tuple[ProcessTimes, ...]:
        """What `analysis.staircase.staircase` judges; a failed request has no end."""
        return tuple(
            ProcessTimes(woken, c.start_s, c.end_s if c.ok else None, c.output_tokens)
            for woken, c in zip(self.woken_s, self.completions, strict=True)
            if c.start_s is not None
        )


def release_together(
    endpoint: Endpoint, requests: Sequence[ChatRequest], kind: ClientKind = "wire"
) -> Release:
    """Send each of `requests` from a process of its own, all at one instant.

    Raises `LoadError` (`WorkerError` when a process ends early), `EndpointError` for a key that is not set.
    """
    if not requests:
        raise ValueError("there is no request to release: give one for each process")
    endpoint.key()
    with Workers([Job(endpoint, (request,), kind) for request in requests]) as workers:
        at_s, pids = workers.release()
        results = workers.results()
    completions = [completion_of({**r["completion"], "planned_s": at_s}) for r in results]
    return Release(since(completions, at_s), tuple(r["woken_s"] - at_s for r in results), tuple(pids))


def closed_loop_in_processes(
    endpoint: Endpoint,
    requests: Sequence[ChatRequest],
    concurrency: int,
    n: int,
    processes: int,
    *,
    lead_in: int = 0,
    salt: str | None = None,
    kind: ClientKind = "wire",
    report: Counting | None = None,
) -> LoadRun:
    """A closed loop of `concurrency` from several `processes`, which share it evenly; merged into one run.

    `requests` is cycled (see `closed_loop.cycled`), and of P processes each takes every P-th. Each replaces
    its own finished requests, so the window ends when the first of them has nothing left to start. Lag,
    share of a core and dispatch delay are those of the worst process. A process whose first requests all fail
    goes on while another is answered. Raises as `release_together` does.
    """
    check_processes(requests, concurrency, n, processes)
    endpoint.key()
    told = [0] * processes

    def done(number: int, count: int) -> None:
        for _ in range(count - told[number]):
            if report is not None:
                report.advance()
        told[number] = count

    parts = shares(concurrency, n, lead_in, processes, salt)
    with Workers([Job(endpoint, tuple(requests), kind, share) for share in parts]) as workers:
        workers.release()
        results = workers.results(done)
    for number, result in enumerate(results):
        done(number, len(result["completions"]))
    return merged(results, concurrency)


def shares(concurrency: int, n: int, lead_in: int, processes: int, salt: str | None) -> list[Share]:
    """The part of each process in a closed loop: none has more than one request in flight above another."""
    each = split(concurrency, [1] * processes)
    counts = zip(each, split(n, each), split(lead_in, each), strict=True)
    return [Share(*count, first, processes, salt) for first, count in enumerate(counts)]


def check_processes(requests: Sequence[ChatRequest], concurrency: int, n: int, processes: int) -> None:
    """Raise `ValueError` where a load cannot be shared like that."""
    if not requests:
        raise ValueError("there is no request to repeat: the workload is empty")
    if not 1 <= processes <= concurrency <= n:
        raise ValueError(
            "each process needs at least one of the requests in flight, and each of those one to send: "
            f"1 ≤ processes ≤ concurrency ≤ n, not {processes}, {concurrency} and {n}"
        )


def merged(results: Sequence[Json], concurrency: int) -> LoadRun:
    """One run of the workers' `results`, its times counted from the first measured start of them all."""
    origin_s = min(r["origin_s"] for r in results)
    completions = _together(results, "completions", origin_s)
    lead_in = _together(results, "lead_in", origin_s)
    health = _health(results, peak_in_flight(spans(lead_in + completions)), completions)
    return LoadRun(completions, concurrency, origin_s, health, (), lead_in, _window(results, origin_s))


def _together(results: Sequence[Json], name: str, origin_s: float) -> tuple[Completion, ...]:
    everything = [c for r in results for c in since(map(completion_of, r[name]), origin_s - r["origin_s"])]
    return tuple(sorted(everything, key=lambda c: (c.start_s or 0.0, c.request_id)))


def _window(results: Sequence[Json], origin_s: float) -> Interval | None:
    """From the moment every process has all its requests in flight to the first that starts no more."""
    if any(r["window"] is None for r in results):
        return None
    low = max(r["origin_s"] + r["window"][0] for r in results) - origin_s
    high = min(r["origin_s"] + r["window"][1] for r in results) - origin_s
    return Interval(low, high) if high > low else None


def _health(results: Sequence[Json], peak: int, completions: Sequence[Completion]) -> ClientHealth:
    parts = [r["health"] for r in results]
    return ClientHealth(
        peak_in_flight=peak,
        peak_connections=sum(part["peak_connections"] for part in parts),
        pool_waits=_all(sum, parts, "pool_waits"),
        loop_lag_p99_s=_all(max, parts, "loop_lag_p99_s"),
        cpu_share=_all(max, parts, "cpu_share"),
        dispatch_delay_p99_s=_all(max, parts, "dispatch_delay_p99_s"),
        pool_ceiling=_all(sum, parts, "pool_ceiling"),
        latency_s=latency_summary(completions).mean_s,
    )


def _all(take: Any, parts: Sequence[Json], name: str) -> Any:
    """`take` of the values of all parts; `None` where one is missing."""
    values = [part[name] for part in parts]
    return None if None in values else take(values)
