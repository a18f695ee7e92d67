"""Latencies, throughputs and requests in flight, from the completions of one measured point.

Pure functions on `records.Completion`; times are seconds of the point's own clock, intervals half-open
[start, end). Only good answers have a latency. Two throughputs are kept apart: `throughput_run` counts ramp
and drain in (what the article printed), `throughput_window` the steady state alone. Undefined is `None`.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nlqlib.analysis.stats import Floats, Interval, percentile
from nlqlib.records import OUTCOMES, Completion, Rule

MIN_LATENCIES_IN_WINDOW = 5
"""A window shorter than this many mean latencies holds too few rounds to be called steady."""
MIN_IN_FLIGHT = 0.95
"""Share of the wanted concurrency that must have been in flight, averaged over the window."""

Since = Literal["start", "planned"]
"""Latency from the actual send, or from the planned one (coordinated omission shows only there)."""


@dataclass(frozen=True)
class LatencySummary:
    """Latencies of good answers in seconds; every value is `None` when there is none."""

    n: int
    mean_s: float | None
    p50_s: float | None
    p90_s: float | None
    p95_s: float | None
    p99_s: float | None
    max_s: float | None


def spans(completions: Iterable[Completion]) -> Floats:
    """Start and end in seconds of every request that has both, good or failed: shape (n, 2), by start."""
    rows = [(c.start_s, c.end_s) for c in completions if c.start_s is not None and c.end_s is not None]
    array = np.array(sorted(rows), dtype=np.float64).reshape(-1, 2)
    if not np.isfinite(array).all() or (array[:, 1] < array[:, 0]).any():
        raise ValueError(
            "a request ends before it starts, or at no finite time: its point cannot be analysed"
        )
    return array


def outcome_counts(completions: Iterable[Completion]) -> dict[str, int]:
    """How many requests ended in which outcome, in the order of `records.OUTCOMES`, those that occurred."""
    counts = Counter(c.outcome for c in completions)
    return {name: counts[name] for name in OUTCOMES if counts[name]}  # type: ignore[index]


def latencies(completions: Iterable[Completion], since: Since = "start") -> Floats:
    """Latencies of good answers in seconds, from the actual or the planned send time."""
    if since == "start":
        return np.array([c.e2e_s for c in completions if c.e2e_s is not None])
    good = [c for c in completions if c.ok and c.planned_s is not None and c.end_s is not None]
    return np.array([c.end_s - c.planned_s for c in good])  # type: ignore[operator]


def summarise(values: Sequence[float] | Floats) -> LatencySummary:
    """Mean and percentiles (linear, see `stats`) of latencies in seconds."""
    x = np.asarray(values, dtype=np.float64)
    p50, p90, p95, p99 = (percentile(x, q) for q in (50, 90, 95, 99))
    mean, top = (float(x.mean()), float(x.max())) if len(x) else (None, None)
    return LatencySummary(len(x), mean, p50, p90, p95, p99, top)


def latency_summary(
    completions: Iterable[Completion], *, window: Interval | None = None, since: Since = "start"
) -> LatencySummary:
    """Summary over all good answers, or over those that ended inside a window."""
    rows = list(completions) if window is None else ended_in(completions, window)
    return summarise(latencies(rows, since))


def ended_in(completions: Iterable[Completion], window: Interval) -> list[Completion]:
    """The requests whose end lies in (low, high].

    The window's edges are themselves events (a start that an end released), so the end at its upper edge
    closes the last whole gap, and one at its lower edge belongs to the gap before.
    """
    return [c for c in completions if c.end_s is not None and window.low < c.end_s <= window.high]


def peak_in_flight(intervals: Iterable[tuple[float, float]] | Floats) -> int:
    """Largest number of half-open intervals that overlap: [0, 1) and [1, 2) never do."""
    rows = [(start, end) for start, end in intervals if end > start]
    level = peak = 0
    for _, change in sorted([(start, 1) for start, _ in rows] + [(end, -1) for _, end in rows]):
        level += change
        peak = max(peak, level)
    return peak


def mean_in_flight(
    intervals: Iterable[tuple[float, float]] | Floats, window: Interval | None = None
) -> float | None:
    """Time-weighted number in flight over a window, by default from the first start to the last end.

    `None` when that span has no length.
    """
    rows = np.asarray(list(intervals), dtype=np.float64).reshape(-1, 2)
    if window is None:
        if not len(rows):
            return None
        window = Interval(float(rows[:, 0].min()), float(rows[:, 1].max()))
    length = window.high - window.low
    if length <= 0:
        return None
    inside = np.minimum(rows[:, 1], window.high) - np.maximum(rows[:, 0], window.low)
    return float(inside.clip(min=0).sum()) / length


def steady_window(completions: Iterable[Completion], concurrency: int) -> Interval | None:
    """The steady part of a closed loop, cut by events: all N started → nothing left to start.

    Nothing is left to start from the moment the last request was started; the drain lies outside. `None`
    if there were no more than N requests, or the two moments coincide.
    """
    starts = sorted(c.start_s for c in completions if c.start_s is not None)
    if len(starts) <= concurrency:
        return None
    low, high = starts[concurrency - 1], starts[-1]
    return Interval(low, high) if high > low else None


def throughput_run(completions: Iterable[Completion]) -> float | None:
    """Good answers per second from first start to last end: ramp, drain and failures' time included."""
    rows = list(completions)
    times = spans(rows)
    if not len(times) or times[:, 1].max() <= times[0, 0]:
        return None
    return sum(c.ok for c in rows) / float(times[:, 1].max() - times[0, 0])


def throughput_window(
    completions: Iterable[Completion],
    window: Interval | None,
    min_latencies: float = MIN_LATENCIES_IN_WINDOW,
) -> float | None:
    """Good answers per second of the window once its first round has ended, each by its share inside.

    The N requests that begin together end together where they are batched and one by one where they queue, so
    that a count of ends begins with up to one silent latency: −11 % in a window of five. Hence the first
    round is left out, and an answer cut by an edge counts by the part of its time that lies inside, as in
    Little's law. `None` without a window, without a latency, when the window is shorter than `min_latencies`
    mean latencies, or the rest after its first round than one less.
    """
    rows = list(completions)
    mean = latency_summary(rows).mean_s
    if window is None or mean is None or window.high - window.low < min_latencies * mean:
        return None
    settled = after_first_round(rows, window)
    if settled is None or settled.high - settled.low < (min_latencies - 1) * mean:
        return None
    return count_inside(spans(c for c in rows if c.ok), settled) / (settled.high - settled.low)


def after_first_round(completions: Iterable[Completion], window: Interval) -> Interval | None:
    """The part of the window after as many good ends as good requests were in flight when it began.

    Refusals are back at once and end no round. `None` if nothing of the window is left.
    """
    times = spans(c for c in completions if c.ok)
    open_then = int(((times[:, 0] <= window.low) & (times[:, 1] > window.low)).sum())
    ends = np.sort(times[times[:, 1] > window.low, 1])
    low = float(ends[open_then - 1]) if open_then else window.low
    return Interval(low, window.high) if low < window.high else None


def count_inside(intervals: Floats, window: Interval) -> float:
    """How many of `intervals`, shape (n, 2), lie in [low, high): each by its share, an instant whole."""
    start, end = intervals[:, 0], intervals[:, 1]
    length = end - start
    within = (np.minimum(end, window.high) - np.maximum(start, window.low)).clip(min=0)
    at_once = (length == 0) & (start >= window.low) & (start < window.high)
    return float(np.divide(within, length, out=at_once.astype(np.float64), where=length > 0).sum())


def goodput(completions: Iterable[Completion], slo_s: float) -> float | None:
    """Good answers within `slo_s` seconds end to end, per second of the whole run."""
    rows = list(completions)
    total, good = throughput_run(rows), sum(c.ok for c in rows)
    if total is None:
        return None
    within = sum(c.e2e_s is not None and c.e2e_s <= slo_s for c in rows)
    return total * within / good if good else 0.0


def in_flight_rule(completions: Iterable[Completion], concurrency: int, window: Interval | None) -> Rule:
    """Validity of a closed-loop point: at least 95 % of N in flight, averaged over the window."""
    name = "mean in flight / N in the window"
    if window is None:
        return Rule(name, None, MIN_IN_FLIGHT, None)
    mean = mean_in_flight(spans(completions), window)
    share = None if mean is None else mean / concurrency
    return Rule(name, share, MIN_IN_FLIGHT, None if share is None else share >= MIN_IN_FLIGHT)


def window_rule(completions: Iterable[Completion], window: Interval | None) -> Rule:
    """Whether the window is long enough for a steady-state throughput, in mean latencies."""
    name = "window length in mean latencies"
    mean = latency_summary(completions).mean_s
    if not mean:
        return Rule(name, None, MIN_LATENCIES_IN_WINDOW, None)
    length = 0.0 if window is None else (window.high - window.low) / mean
    return Rule(name, length, MIN_LATENCIES_IN_WINDOW, length >= MIN_LATENCIES_IN_WINDOW)


def tpot_s(completion: Completion) -> float | None:
    """Time per output token, (last − first token) / (n − 1), in seconds (streaming only).

    n comes from `usage`, never from the number of chunks; `None` below two tokens or without token times.
    """
    n, times, first = completion.output_tokens, completion.token_times_s, completion.first_token_s
    if not completion.ok or not times or first is None or n is None or n < 2:
        return None
    return (times[-1] - first) / (n - 1)


def itl_s(completion: Completion) -> Floats | None:
    """Gaps between consecutive tokens in seconds, shape (n − 1,) (streaming only).

    `None` where a chunk carried several tokens, so that gaps between chunks are not gaps between tokens;
    `tpot_s` still holds there.
    """
    times, n = completion.token_times_s, completion.output_tokens
    if not completion.ok or len(times) < 2 or (n is not None and n - len(times) > 1):
        return None
    return np.diff(np.array(times))
