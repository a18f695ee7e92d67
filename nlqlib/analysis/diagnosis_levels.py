"""What the diagnosis looks at: one plain row for each concurrency, whoever measured it, wherever it was kept.

Times are seconds. `None` is what could not be seen, never 0: without `/metrics` the engine's numbers are
missing, without the gateway's headers those of router and replica.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from nlqlib.analysis.latency import (
    latencies,
    latency_summary,
    mean_in_flight,
    outcome_counts,
    peak_in_flight,
    spans,
    steady_window,
    throughput_run,
    throughput_window,
)
from nlqlib.analysis.stats import Floats, Interval
from nlqlib.records import Completion, Rule

BURST_SHARE = 0.1
"""Requests belong to the first burst if they start within this share of the fastest answer."""
MIN_BURST = 4
"""A burst of fewer shows no order."""
HUNG = 1.5
"""A failure that lasts this many times the slowest good answer held its place for nothing."""


@dataclass(frozen=True)
class SweepLevel:
    """One measured concurrency of a closed loop."""

    concurrency: int
    n: int
    """Requests sent."""
    ok: int
    throughput_window: float | None = None
    """Good answers per second in the steady state; `None` when that was too short."""
    throughput_run: float | None = None
    """Good answers per second, ramp and drain included."""
    mean_s: float | None = None
    """Mean latency of the good answers."""
    sd_s: float | None = None
    """Standard deviation of the good answers' latency."""
    p50_s: float | None = None
    p95_s: float | None = None
    steady_s: float | None = None
    """Mean latency of those sent when all N were in flight already."""
    in_flight_mean: float | None = None
    """As the client counts, over the steady state; `None` without one: ramp and drain are no fault of its."""
    in_flight_peak: float | None = None
    running_mean: float | None = None
    """Sequences the engine runs, all replicas together, sampled through the level."""
    running_max: float | None = None
    waiting_mean: float | None = None
    waiting_max: float | None = None
    running_samples: int | None = None
    """How often the engine was asked for these; `None`: the level does not say."""
    router_queue_s: float | None = None
    """Mean wait at the router, from its headers."""
    replica_queue_s: float | None = None
    good_in_flight: float | None = None
    """Requests in flight that will be answered well, on average over the steady state.

    Where refusals used up all that was to be sent in an instant, then."""
    retry_after_s: float | None = None
    """For how long those that were refused were told to wait, on average; `None`: they were not told."""
    past_router: float | None = None
    """Requests in flight beyond the router's queue, on average over the steady state."""
    past_replica: float | None = None
    """The same beyond the replica's queue."""
    engine_queue_s: float | None = None
    """Mean wait in the engine's scheduler, from its metrics."""
    kv_usage: float | None = None
    """Largest share of the KV cache in use."""
    pool_ceiling: int | None = None
    """Most connections the client may have; `None`: unlimited, or not told."""
    pool_waits: int | None = None
    """Requests that waited for a connection in the client."""
    client_rules: tuple[Rule, ...] = ()
    """Validity rules about the client; a failed one makes the client a suspect."""
    invalid: str | None = None
    """Why nothing follows from this level (foreign traffic, a restart, another model); else `None`."""
    hung_share: float | None = None
    """Of the requests in flight in the steady state, those that failed much later than any answer came."""
    hidden: str | None = None
    """Why the engine's numbers are missing although `/metrics` is there: it shows a part of what answered."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Requests by outcome, good ones left out."""
    unusable: Mapping[str, int] = field(default_factory=dict)
    """Answers served to their end and of no use (cut, malformed), by outcome; they count as good here."""
    replicas: tuple[str, ...] | None = None
    """Names of the replicas that answered; `None`: they do not say."""
    replica_count: int | None = None
    """How many replicas were up, where something counts them."""
    repeats: int = 1
    """Measurements pooled in this row."""
    burst_s: tuple[float, ...] = ()
    """Ends of the first N requests, sent at once, in the order they were sent; empty: no such burst."""

    @property
    def failed(self) -> int:
        return self.n - self.ok

    @property
    def failed_share(self) -> float:
        return self.failed / self.n if self.n else 1.0

    @property
    def throughput(self) -> float | None:
        """The best estimate of the steady throughput in req/s.

        The window's where that is long enough; else N / R over the requests that found all N in flight
        (Little's law, without failures); else the whole run's, which ramp and drain make too low.
        """
        if self.throughput_window is not None:
            return self.throughput_window
        if self.steady_s and not self.failed:
            return self.concurrency / self.steady_s
        return self.throughput_run

    @property
    def occupancy(self) -> float | None:
        """Good requests in flight, X·R by Little's law over the run."""
        if self.throughput_run is None or self.mean_s is None:
            return None
        return self.throughput_run * self.mean_s

    @property
    def seen_replicas(self) -> int | None:
        """How many replicas there were, as far as anything told."""
        told = len(self.replicas) if self.replicas else None
        return max((n for n in (told, self.replica_count) if n is not None), default=None)


def level(
    completions: Sequence[Completion],
    concurrency: int,
    *,
    running: Sequence[float] = (),
    waiting: Sequence[float] = (),
    **known: object,
) -> SweepLevel:
    """The row of a closed loop's measured `completions`; times since its first start.

    `running`, `waiting`: what was sampled of the engine, empty where nothing was. Further fields of
    `SweepLevel` by name. Raises `ValueError` for completions without times.
    """
    window = steady_window(completions, concurrency)
    times, good = spans(completions), latency_summary(completions)
    if not len(times):
        raise ValueError("no request has a start and an end: an endpoint without a clock cannot be diagnosed")
    row = SweepLevel(
        concurrency,
        n=len(completions),
        ok=sum(c.ok for c in completions),
        throughput_window=throughput_window(completions, window),
        throughput_run=throughput_run(completions),
        mean_s=good.mean_s,
        sd_s=_sd(completions),
        p50_s=good.p50_s,
        p95_s=good.p95_s,
        steady_s=None if window is None else mean_of(_sent_after(completions, window.low)),
        in_flight_mean=None if window is None else mean_in_flight(times, window),
        in_flight_peak=float(peak_in_flight(times)),
        running_mean=mean_of(running),
        running_max=max(running, default=None),
        waiting_mean=mean_of(waiting),
        waiting_max=max(waiting, default=None),
        running_samples=len(running) or None,
        router_queue_s=mean_of(c.router_queue_s for c in completions if c.ok),
        replica_queue_s=mean_of(c.replica_queue_s for c in completions if c.ok),
        good_in_flight=_good_in_flight(completions, concurrency, window),
        retry_after_s=mean_of(c.retry_after_s for c in completions),
        past_router=_past(completions, window, lambda c: c.router_queue_s),
        past_replica=_past(completions, window, _both_waits),
        hung_share=_hung_share(completions, window),
        failures={k: v for k, v in outcome_counts(completions).items() if k != "ok"},
        replicas=tuple(sorted({c.replica for c in completions if c.replica})) or None,
        burst_s=burst(completions, concurrency),
    )
    return replace(row, **known)  # type: ignore[arg-type]


def _sent_after(completions: Iterable[Completion], at_s: float) -> list[float]:
    return [
        c.e2e_s for c in completions if c.e2e_s is not None and c.start_s is not None and c.start_s > at_s
    ]


def _both_waits(c: Completion) -> float | None:
    if c.router_queue_s is None or c.replica_queue_s is None:
        return None
    return c.router_queue_s + c.replica_queue_s


def _good_in_flight(
    completions: Sequence[Completion], concurrency: int, window: Interval | None
) -> float | None:
    if window is not None or len(completions) <= concurrency:
        return _past(completions, window, lambda c: 0.0 if c.ok else None)
    last = spans(completions)[-1, 0]
    return float(sum(start <= last < end for start, end in spans(c for c in completions if c.ok)))


def _past(
    completions: Iterable[Completion],
    window: Interval | None,
    waited: Callable[[Completion], float | None],
) -> float | None:
    """Requests in flight that had waited as long as they had to, good or not, on average over `window`."""
    rows = [
        (c.start_s + wait, c.end_s)
        for c in completions
        if c.start_s is not None and c.end_s is not None and (wait := waited(c)) is not None
    ]
    return mean_in_flight(rows, window) if rows and window is not None else None


def _hung_share(completions: Sequence[Completion], window: Interval | None) -> float | None:
    slowest, times = max(latencies(completions), default=None), spans(completions)
    every = mean_in_flight(times, window) if window is not None else None
    if slowest is None or not every:
        return None
    hung = times[times[:, 1] - times[:, 0] > HUNG * slowest]
    return (mean_in_flight(hung, window) or 0.0) / every


def _sd(completions: Iterable[Completion]) -> float | None:
    found = latencies(completions)
    return float(found.std(ddof=1)) if len(found) > 1 else None


def mean_of(values: Iterable[float | None] | Floats) -> float | None:
    """Mean of what is there; `None` when nothing is."""
    there = [float(v) for v in values if v is not None]
    return fmean(there) if there else None


def burst(completions: Sequence[Completion], concurrency: int) -> tuple[float, ...]:
    """Ends of the first N requests since the first start, in the order of their starts.

    Empty when they were not sent at once, when too few of them succeeded, or when N is too small to show an
    order.
    """
    rows = [(c.start_s, c.end_s, c.ok) for c in completions if c.start_s is not None and c.end_s is not None]
    rows.sort(key=lambda row: row[0])  # of equal starts the given order is the order of sending
    fastest = min((end - start for start, end, good in rows if good), default=None)
    if fastest is None:
        return ()
    first = rows[0][0]
    wave = [end - first for start, end, good in rows if good and start - first <= BURST_SHARE * fastest]
    wave = wave[:concurrency]
    return tuple(wave) if len(wave) >= max(MIN_BURST, 0.6 * concurrency) else ()


def totals(counts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Counts added up by name, the largest first."""
    found = sum((Counter(c) for c in counts), Counter())
    return dict(found.most_common())
