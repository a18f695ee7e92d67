"""Requests running and waiting on the server, and its GPUs, sampled through a run."""

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
    """Why running or waiting is missing."""
    kv_usage: float | None = None
    """Share of KV blocks in use, 0 to 1, mean over engines."""


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
    kv_usage_mean: float | None = None
    kv_usage_max: float | None = None


def levels(samples: Iterable[Sample], span: Interval | None = None) -> Levels:
    """Time averages and maxima over the samples in `span` (loop seconds), by default over all of them.

    A value holds until the next sample, and the last one until the end of the span.
    """
    kept = sorted((s for s in samples if span is None or span.low <= s.at_s <= span.high), key=_time)
    end = None if span is None else span.high
    running, waiting, usage = (_told(kept, name) for name in ("running", "waiting", "kv_usage"))
    totals = [s.running + s.waiting for s in kept if s.running is not None and s.waiting is not None]
    return Levels(
        n=max(len(running), len(waiting)),
        running_mean=_mean(running, end),
        running_max=_max(running),
        waiting_mean=_mean(waiting, end),
        waiting_max=_max(waiting),
        total_max=max(totals, default=None),
        kv_usage_mean=_mean(usage, end),
        kv_usage_max=_max(usage),
    )


def _told(samples: Iterable[Sample], name: str) -> list[tuple[float, float]]:
    """Time and value of the samples that have one."""
    return [(s.at_s, value) for s in samples if (value := getattr(s, name)) is not None]


def _max(rows: list[tuple[float, float]]) -> float | None:
    return max((value for _, value in rows), default=None)


def _time(sample: Sample) -> float:
    return sample.at_s


def _mean(rows: list[tuple[float, float]], end: float | None) -> float | None:
    if not rows:
        return None
    times, values = np.array(rows).T
    held = np.diff(np.append(times, times[-1] if end is None else end))
    return float(np.average(values, weights=held)) if held.sum() > 0 else float(values.mean())


@dataclass(frozen=True)
class Gpu:
    """One accelerator at one time; what its driver does not say is `None`."""

    name: str
    """Its index, or what the exporter calls it."""
    model: str | None = None
    utilisation: float | None = None
    """Share of the last moments in which any kernel ran, 0 to 1: busy, not efficient."""
    memory_used_bytes: float | None = None
    memory_total_bytes: float | None = None
    power_w: float | None = None


@dataclass(frozen=True)
class GpuSample:
    """All accelerators of an endpoint at one time."""

    at_s: float
    gpus: tuple[Gpu, ...] = ()
    problem: str | None = None
    """Why there are none."""


@dataclass(frozen=True)
class GpuLevels:
    """GPU samples of a run, summed up; every value is `None` where nothing was seen."""

    n: int
    """Samples that hold a GPU."""
    gpus: int | None
    utilisation_mean: float | None
    """Over GPUs and samples, 0 to 1."""
    utilisation_max: float | None
    memory_used_max_bytes: float | None
    """Largest sum over the GPUs."""
    memory_total_bytes: float | None
    power_mean_w: float | None
    """Mean of the sum over the GPUs."""


def gpu_levels(samples: Iterable[GpuSample]) -> GpuLevels:
    """Means and maxima over samples taken at equal steps; a sum that lacks a GPU is left out."""
    seen = [s for s in samples if s.gpus]
    shares = [g.utilisation for s in seen for g in s.gpus if g.utilisation is not None]
    used, total, power = (
        [x for s in seen if (x := _whole_sum(s, name)) is not None]
        for name in ("memory_used_bytes", "memory_total_bytes", "power_w")
    )
    return GpuLevels(
        n=len(seen),
        gpus=max((len(s.gpus) for s in seen), default=None),
        utilisation_mean=sum(shares) / len(shares) if shares else None,
        utilisation_max=max(shares, default=None),
        memory_used_max_bytes=max(used, default=None),
        memory_total_bytes=max(total, default=None),
        power_mean_w=sum(power) / len(power) if power else None,
    )


def _whole_sum(sample: GpuSample, name: str) -> float | None:
    values = [getattr(gpu, name) for gpu in sample.gpus]
    return None if None in values else float(sum(values))
