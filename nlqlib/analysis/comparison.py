"""Before and after a change: what differs at each concurrency, with an interval.

With two repeats or more on both sides a difference is between means of repeats (Welch). With one run on a
side it is a bootstrap over requests, of throughput by Little's law X = N / R. That takes requests of one run
as independent: such an interval is too narrow rather than too wide.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nlqlib.analysis.latency import (
    latencies,
    steady_window,
    throughput_run,
)
from nlqlib.analysis.stats import RESAMPLES, Floats, Interval, difference, percentile, wilson
from nlqlib.records import Completion

Runs = Sequence[Sequence[Completion]]
"""Completions of each repeat."""
Quantity = Literal["throughput", "mean latency", "p95 latency", "failed"]
Reading = Literal["higher", "lower", "no difference shown", "not comparable"]


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

    @property
    def ratio(self) -> float | None:
        """After over before."""
        return self.after / self.before if self.before and self.after is not None else None


def changes(before: Mapping[int, Runs], after: Mapping[int, Runs], *, seed: int = 0) -> tuple[Change, ...]:
    """Every quantity at every concurrency that both sides measured, ascending."""
    both = sorted(set(before) & set(after))
    return tuple(change for n in both for change in _at(n, before[n], after[n], seed))


def _at(n: int, before: Runs, after: Runs, seed: int) -> list[Change]:
    return [
        _throughput(n, before, after, seed),
        _latency(n, before, after, "mean latency", seed),
        _latency(n, before, after, "p95 latency", seed),
        _failed(n, before, after),
    ]


def _throughput(n: int, before: Runs, after: Runs, seed: int) -> Change:
    first, second = (_throughputs(runs, n) for runs in (before, after))
    interval, method = None, "mean of the runs"
    if min(len(before), len(after)) > 1 and first and second:
        interval, method = difference(first, second).interval, "repeats, Welch"
    elif all(c.ok for runs in (before, after) for run in runs for c in run):
        one, other = (_pooled([_steady(run, n) for run in runs]) for runs in (before, after))
        interval = _bootstrap(one, other, lambda rows: np.asarray(n / rows.mean(axis=1)), seed)
        method = "Little's law, bootstrap over requests"
    return _change(n, "throughput", "req/s", (_mean(first), _mean(second)), interval, method)


def _throughputs(runs: Runs, n: int) -> list[float]:
    """Of each run N / R where none failed, else good answers per second of all of it."""
    found = []
    for run in runs:
        steady = _steady(run, n)
        whole = len(steady) and all(c.ok for c in run)
        x = n / float(steady.mean()) if whole else throughput_run(run)
        if x is not None:
            found.append(x)
    return found


def _steady(run: Sequence[Completion], n: int) -> Floats:
    """Latencies of the good requests that were sent after all N were in flight."""
    window = steady_window(run, n)
    if window is None:
        return np.empty(0)
    return latencies(c for c in run if c.start_s is not None and c.start_s > window.low)


def _pooled(parts: Sequence[Floats]) -> Floats:
    return np.concatenate(parts)


def _latency(n: int, before: Runs, after: Runs, quantity: Quantity, seed: int) -> Change:
    first, second = (_statistics(runs, quantity) for runs in (before, after))
    if min(len(before), len(after)) > 1 and first and second:
        interval, method = difference(first, second).interval, "repeats, Welch"
    else:
        one, other = (_pooled([latencies(r) for r in runs]) for runs in (before, after))
        interval, method = _bootstrap(one, other, _OVER[quantity], seed), "bootstrap over requests"
    return _change(n, quantity, "s", (_mean(first), _mean(second)), interval, method)


def _statistics(runs: Runs, quantity: Quantity) -> list[float]:
    return [v for r in runs if (v := _statistic(latencies(r), quantity)) is not None]


def _statistic(values: Floats, quantity: Quantity) -> float | None:
    if not len(values):
        return None
    return float(values.mean()) if quantity == "mean latency" else percentile(values, 95)


_OVER: Mapping[Quantity, Callable[[Floats], Floats]] = {
    "mean latency": lambda rows: np.asarray(rows.mean(axis=1)),
    "p95 latency": lambda rows: np.asarray(np.percentile(rows, 95, axis=1)),
}
"""The same statistics of many resamples at once, one a row."""


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


def _failed(n: int, before: Runs, after: Runs) -> Change:
    """Shares of failed requests; the interval is Newcombe's (1998, method 10), from Wilson's."""
    (f1, n1), (f2, n2) = _count(before), _count(after)
    if not n1 or not n2:
        return _change(n, "failed", "share", (None, None), None, "counts")
    p1, p2, w1, w2 = f1 / n1, f2 / n2, wilson(f1, n1), wilson(f2, n2)
    low = p2 - p1 - math.hypot(p2 - w2.low, w1.high - p1)
    high = p2 - p1 + math.hypot(w2.high - p2, p1 - w1.low)
    return _change(n, "failed", "share", (p1, p2), Interval(low, high), "counts, Newcombe")


def _count(runs: Runs) -> tuple[int, int]:
    """Failed requests and all of them."""
    total = sum(len(r) for r in runs)
    return total - sum(c.ok for r in runs for c in r), total


def _change(
    n: int,
    quantity: Quantity,
    unit: str,
    told: tuple[float | None, float | None],
    interval: Interval | None,
    method: str,
) -> Change:
    before, after = told
    by = after - before if before is not None and after is not None else None
    return Change(n, quantity, unit, before, after, by, interval, _reading(by, interval), method)


def _reading(by: float | None, interval: Interval | None) -> Reading:
    if by is None:
        return "not comparable"
    if by == 0 or interval is None or interval.low <= 0 <= interval.high:
        return "no difference shown" if interval is not None or by == 0 else "not comparable"
    return "higher" if by > 0 else "lower"


def _mean(values: Sequence[float]) -> float | None:
    return float(np.mean(values)) if values else None
