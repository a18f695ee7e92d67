"""Before and after a change: what differs at each concurrency, with an interval.

Times differ between runs of one and the same thing, because a machine drifts; so a difference is read from
two runs or more on each side. Runs measured in pairs, one of each side close together, are compared pair by
pair (Student's t), else the sides by their means (Welch). With one run on a side the interval is a bootstrap
over requests, of throughput by Little's law X = N / R, and holds no drift between runs: a difference is read
only where all of it lies beyond `DRIFT`. Failures are counted, requests taken as independent.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nlqlib.analysis.latency import (
    latencies,
    steady_window,
    throughput_run,
)
from nlqlib.analysis.stats import RESAMPLES, Floats, Interval, difference, percentile, t_interval, wilson
from nlqlib.records import Completion

Runs = Sequence[Sequence[Completion]]
"""Completions of each repeat."""
Values = Sequence[float | None]
"""One quantity of each repeat."""
Quantity = Literal["throughput", "mean latency", "p95 latency", "failed"]
TIMED: tuple[Quantity, ...] = ("throughput", "mean latency", "p95 latency")
UNITS: Mapping[Quantity, str] = {
    "throughput": "req/s",
    "mean latency": "s",
    "p95 latency": "s",
    "failed": "share",
}
DRIFT = 0.2
"""Share of the value before by which two single runs of one and the same thing may well differ."""
Reading = Literal["higher", "lower", "no difference shown", "one run, cannot tell", "not comparable"]
READ: tuple[Reading, ...] = ("higher", "lower", "no difference shown")
"""The readings of what could be compared."""


@dataclass(frozen=True)
class Change:
    """One quantity at one concurrency, before and after. `None`: undefined."""

    concurrency: int
    quantity: Quantity
    unit: str
    before: float | None
    after: float | None
    difference: float | None
    interval: Interval | None
    reading: Reading
    method: str
    by_pair: tuple[float, ...] = ()
    """After over before of each pair; empty where runs are not paired."""

    @property
    def ratio(self) -> float | None:
        """After over before."""
        return self.after / self.before if self.before and self.after is not None else None


@dataclass(frozen=True)
class Common:
    """The change of one quantity that all concurrencies share, as a share of what it was before."""

    quantity: Quantity
    levels: int
    share: float
    interval: Interval
    reading: Reading | Literal["the pairs disagree"]
    by_pair: tuple[float, ...]
    """The share of each pair by itself; empty where runs are not paired at every level."""


def changes(
    before: Mapping[int, Runs], after: Mapping[int, Runs], *, paired: bool = False, seed: int = 0
) -> tuple[Change, ...]:
    """Every quantity at every concurrency that both sides measured, ascending.

    `paired`: the k-th run of one side was measured beside the k-th of the other. Raises `ValueError` where
    one side then has more runs.
    """
    both = sorted(set(before) & set(after))
    return tuple(change for n in both for change in _at(n, before[n], after[n], paired, seed))


def _at(n: int, before: Runs, after: Runs, paired: bool, seed: int) -> list[Change]:
    if paired and len(before) != len(after):
        raise ValueError(f"runs in pairs: {len(before)} before and {len(after)} after at concurrency {n}")
    whole = all(c.ok for runs in (before, after) for run in runs for c in run)
    if min(len(before), len(after)) < 2:
        timed = [_single(n, q, before, after, whole, seed) for q in TIMED]
    else:
        timed = [
            _timed(n, q, _values(before, n, q, whole), _values(after, n, q, whole), paired) for q in TIMED
        ]
    return [*timed, _failed(n, before, after)]


# ---- two runs or more ------------------------------------------------------------------------------------


def _timed(n: int, quantity: Quantity, before: Values, after: Values, paired: bool) -> Change:
    """By the runs that have the quantity; of pairs, by those that have it on both sides."""
    if paired:
        pairs = [(a, b) for a, b in zip(before, after, strict=True) if a is not None and b is not None]
        told = _mean([a for a, _ in pairs]), _mean([b for _, b in pairs])
        interval = t_interval([b - a for a, b in pairs])
        ratios = tuple(b / a for a, b in pairs if a)
        return _change(n, quantity, told, interval, "pairs of runs, t", ratios)
    first, second = ([v for v in side if v is not None] for side in (before, after))
    interval = difference(first, second).interval
    return _change(n, quantity, (_mean(first), _mean(second)), interval, "runs, Welch")


def _values(runs: Runs, n: int, quantity: Quantity, whole: bool) -> Values:
    if quantity == "throughput":
        return [_throughput(run, n, whole) for run in runs]
    return [_statistic(latencies(run), quantity) for run in runs]


def _throughput(run: Sequence[Completion], n: int, whole: bool) -> float | None:
    """N / R where no run has a failure, else good answers per second of all of it: one way for both sides."""
    steady = _steady(run, n)
    return n / float(steady.mean()) if whole and len(steady) else throughput_run(run)


def _steady(run: Sequence[Completion], n: int) -> Floats:
    """Latencies of the good requests that were sent after all N were in flight."""
    window = steady_window(run, n)
    if window is None:
        return np.empty(0)
    return latencies(c for c in run if c.start_s is not None and c.start_s > window.low)


def _statistic(values: Floats, quantity: Quantity) -> float | None:
    if not len(values):
        return None
    return float(values.mean()) if quantity == "mean latency" else percentile(values, 95)


def common(found: Sequence[Change], quantity: Quantity) -> Common | None:
    """What all concurrencies with runs to compare share: the mean of ln(after / before), with a t interval.

    Of pairs a concurrency has the mean of theirs. `None` below two concurrencies. They count as independent:
    what a start of an engine does to all of them is not in the interval, so pairs that disagree in their
    direction are no change that is shown.
    """
    rows = [c for c in found if c.quantity == quantity and c.reading in READ and c.ratio and all(c.by_pair)]
    logs = [_mean_log(c.by_pair or (c.ratio,)) for c in rows if c.ratio]
    inside = t_interval(logs)
    if inside is None:
        return None
    low, high = (math.expm1(end) for end in inside)
    share, pairs = math.expm1(sum(logs) / len(logs)), _pairs(rows)
    reading = _reading(share, Interval(low, high))
    if reading in ("higher", "lower") and pairs and min(pairs) < 0 < max(pairs):
        return Common(quantity, len(rows), share, Interval(low, high), "the pairs disagree", pairs)
    return Common(quantity, len(rows), share, Interval(low, high), reading, pairs)


def _pairs(rows: Sequence[Change]) -> tuple[float, ...]:
    """The share of each pair over all levels, where each level has as many."""
    if len({len(c.by_pair) for c in rows}) != 1:
        return ()
    return tuple(math.expm1(_mean_log(pair)) for pair in zip(*(c.by_pair for c in rows), strict=True))


def _mean_log(ratios: Sequence[float]) -> float:
    return sum(map(math.log, ratios)) / len(ratios)


# ---- one run on a side -----------------------------------------------------------------------------------


def _single(n: int, quantity: Quantity, before: Runs, after: Runs, whole: bool, seed: int) -> Change:
    """Both values, and an interval over requests, from which only what exceeds any drift is read."""
    values = [_values(runs, n, quantity, whole) for runs in (before, after)]
    told = [_mean([v for v in side if v is not None]) for side in values]
    interval = None
    if whole or quantity != "throughput":
        one, other = (_requests(runs, n, quantity) for runs in (before, after))
        interval = _bootstrap(one, other, _OVER[quantity](n), seed)
    found = _change(n, quantity, (told[0], told[1]), interval, "bootstrap over requests, no drift in it")
    drift = DRIFT * (found.before or 0.0)
    beyond = interval is not None and max(interval.low, -interval.high) > drift
    return found if found.difference is None or beyond else replace(found, reading="one run, cannot tell")


def _requests(runs: Runs, n: int, quantity: Quantity) -> Floats:
    parts = [_steady(run, n) if quantity == "throughput" else latencies(run) for run in runs]
    return np.concatenate(parts)


_OVER: Mapping[Quantity, Callable[[int], Callable[[Floats], Floats]]] = {
    "throughput": lambda n: lambda rows: np.asarray(n / rows.mean(axis=1)),
    "mean latency": lambda n: lambda rows: np.asarray(rows.mean(axis=1)),
    "p95 latency": lambda n: lambda rows: np.asarray(np.percentile(rows, 95, axis=1)),
}
"""The statistic at N in flight of many resamples at once, one a row."""


def _bootstrap(
    before: Floats, after: Floats, statistic: Callable[[Floats], Floats], seed: int
) -> Interval | None:
    """Percentile bootstrap of the difference, each side resampled by itself; `None` below two on a side."""
    if min(len(before), len(after)) < 2:
        return None
    rng = np.random.default_rng(seed)
    drawn = [side[rng.integers(0, len(side), (RESAMPLES, len(side)))] for side in (before, after)]
    low, high = np.quantile(statistic(drawn[1]) - statistic(drawn[0]), [0.025, 0.975])
    return Interval(float(low), float(high))


# ---- failures, and how a difference is read --------------------------------------------------------------


def _failed(n: int, before: Runs, after: Runs) -> Change:
    """Shares of failed requests; the interval is Newcombe's (1998, method 10), from Wilson's."""
    (f1, n1), (f2, n2) = _count(before), _count(after)
    if not n1 or not n2:
        return _change(n, "failed", (None, None), None, "counts")
    p1, p2, w1, w2 = f1 / n1, f2 / n2, wilson(f1, n1), wilson(f2, n2)
    low = p2 - p1 - math.hypot(p2 - w2.low, w1.high - p1)
    high = p2 - p1 + math.hypot(w2.high - p2, p1 - w1.low)
    return _change(n, "failed", (p1, p2), Interval(low, high), "counts, Newcombe")


def _count(runs: Runs) -> tuple[int, int]:
    """Failed requests and all of them."""
    total = sum(len(r) for r in runs)
    return total - sum(c.ok for r in runs for c in r), total


def _change(
    n: int,
    quantity: Quantity,
    told: tuple[float | None, float | None],
    interval: Interval | None,
    method: str,
    by_pair: tuple[float, ...] = (),
) -> Change:
    before, after = told
    by = after - before if before is not None and after is not None else None
    told_as = _reading(by, interval)
    return Change(n, quantity, UNITS[quantity], before, after, by, interval, told_as, method, by_pair)


def _reading(by: float | None, interval: Interval | None) -> Reading:
    if by is None:
        return "not comparable"
    if interval is None:
        return "one run, cannot tell"
    if interval.low <= 0 <= interval.high:
        return "no difference shown"
    return "higher" if by > 0 else "lower"


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
