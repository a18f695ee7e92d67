"""Requests running and waiting on the server, sampled through a run."""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from nlqlib.analysis.stats import Interval


@dataclass(frozen=True)
class Sample:
    """What the engines said at one time, summed over all of them."""

    at_s: float
    """Seconds of the loop that read it."""
    running: float | None
    waiting: float | None
    """`None`: one of the engines did not say, and a part of a sum is no sum."""
    problem: str | None = None
    """Why something is missing."""


@dataclass(frozen=True)
class Levels:
    """Samples of a run, summed up; every value is `None` where nothing was sampled."""

    n: int
    """Samples that hold a value."""
    running_mean: float | None
    running_max: float | None
    waiting_mean: float | None
    waiting_max: float | None
    total_max: float | None
    """Largest running + waiting at one time."""


def levels(samples: Iterable[Sample], span: Interval | None = None) -> Levels:
    """Time averages and maxima over the samples in `span` (loop seconds), by default over all of them.

    A value holds until the next sample, and the last one until the end of the span.
    """
    kept = sorted((s for s in samples if span is None or span.low <= s.at_s <= span.high), key=_time)
    running = [(s.at_s, s.running) for s in kept if s.running is not None]
    waiting = [(s.at_s, s.waiting) for s in kept if s.waiting is not None]
    totals = [s.running + s.waiting for s in kept if s.running is not None and s.waiting is not None]
    end = None if span is None else span.high
    return Levels(
        max(len(running), len(waiting)),
        _mean(running, end),
        max((value for _, value in running), default=None),
        _mean(waiting, end),
        max((value for _, value in waiting), default=None),
        max(totals, default=None),
    )


def _time(sample: Sample) -> float:
    return sample.at_s


def _mean(rows: list[tuple[float, float]], end: float | None) -> float | None:
    if not rows:
        return None
    times, values = np.array(rows).T
    held = np.diff(np.append(times, times[-1] if end is None else end))
    return float(np.average(values, weights=held)) if held.sum() > 0 else float(values.mean())
