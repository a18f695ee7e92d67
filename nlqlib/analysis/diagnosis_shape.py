"""The outside view: what X(N) and p95(N) alone say.

Steady throughput alone cannot tell a limit of K from an engine that is exhausted by K requests: both are
flat beyond K, and by Little's law both latencies then grow in proportion to N. What tells them apart is how
N requests that were sent at once come back; see `diagnosis_burst`.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nlqlib.analysis.bend import Knee, knee
from nlqlib.analysis.diagnosis_fit import CornerFit, fit_corner
from nlqlib.analysis.diagnosis_levels import SweepLevel
from nlqlib.analysis.stats import Interval, line

FLAT = 0.05
"""Throughput that gains no more than this share is flat; twice its standard error where that is more."""
WIDEST_FLAT = 0.12
"""However noisy: a gain above it is a gain."""
LOST = 0.25
"""A level this share below the best one has fallen: beyond what an unrepeated level may owe to chance."""
SURELY = 3.0
"""Standard errors of the difference that a fall must exceed as well."""
SPAN = 1.5
"""A plateau reaches at least this factor in concurrency; over less, flat means little."""
LINEAR = 0.9
"""Scaling efficiency that a limited service keeps up to the corner, if the curve alone is to tell."""
CLEARLY = 9.0
"""Units of misfit (three standard errors) by which one law must beat another."""
NORMAL_P95 = 1.645
"""Standard deviations from the median to the 95th percentile of a normal distribution."""

Law = Literal["sharp", "smooth", "either"]


@dataclass(frozen=True)
class Shape:
    """The curve of one sweep, levels ascending."""

    concurrency: tuple[int, ...]
    throughput: tuple[float, ...]
    """Steady estimates in req/s; see `SweepLevel.throughput`."""
    plateau_from: int | None
    """Smallest concurrency that no later level beats by more than the noise; `None`: still growing."""
    plateau: float | None
    """Throughput there and beyond, as far as it does not fall, req/s."""
    fallen_from: int | None
    """From this concurrency on every level lies clearly below the best one; `None`: there is no fall."""
    corner: float
    """Where a limit would have to be, K of the best fit; the largest concurrency: there need be none."""
    corner_interval: Interval
    law: Law
    """Which kind of curve fits: growth that stops at a corner, or one that fades."""
    knee: Knee
    p95_slope_s: float | None
    """Seconds of p95 for each further request in flight."""
    p95_r2: float | None

    @property
    def gain(self) -> float:
        """Largest throughput over that of the smallest concurrency."""
        return max(self.throughput) / self.throughput[0]

    @property
    def best_at(self) -> int:
        """Concurrency of the largest throughput."""
        return self.concurrency[self.throughput.index(max(self.throughput))]

    @property
    def lost(self) -> float:
        """By which share the last throughput lies below the largest."""
        return 1 - self.throughput[-1] / max(self.throughput)

    @property
    def flat(self) -> bool:
        """No level beats the smallest one."""
        return self.plateau_from == self.concurrency[0]


def alone_spread(levels: Sequence[SweepLevel]) -> float | None:
    """Relative standard deviation of one request's latency without company; `None` without such a level."""
    lowest = levels[0]
    if lowest.concurrency > 1 or not lowest.mean_s:
        return None
    if lowest.sd_s is not None:
        return lowest.sd_s / lowest.mean_s
    if lowest.p50_s is None or lowest.p95_s is None:
        return None
    return (lowest.p95_s - lowest.p50_s) / NORMAL_P95 / lowest.mean_s


def shape(levels: Sequence[SweepLevel], spread: float | None = None) -> Shape | None:
    """The shape of pooled `levels`, ascending; `None` below two levels that have a throughput.

    `spread`: relative error of one measurement, see `diagnosis_repeats.noise`.
    """
    rows = [r for r in levels if r.throughput]
    if len(rows) < 2:
        return None
    n, x = tuple(r.concurrency for r in rows), tuple(r.throughput or 0.0 for r in rows)
    errors = [_error(r, alone_spread(levels), spread) for r in rows]
    begins = _plateau(n, x, errors)
    fallen = _fallen(x, errors, LOST if spread is None else FLAT)
    risen = fallen if fallen is not None and fallen > 1 else len(x)
    # the law of the corner knows no fall
    fit = fit_corner(n[:risen], x[:risen], errors[:risen])
    tail = {r.concurrency: r.p95_s for r in rows if r.p95_s is not None}
    p95 = line(list(tail), list(tail.values()))
    return Shape(
        n,
        x,
        plateau_from=None if begins is None else n[begins],
        plateau=None if begins is None else float(np.mean(x[begins : max(risen, begins + 1)])),
        fallen_from=None if fallen is None else n[fallen],
        corner=fit.corner,
        corner_interval=fit.interval,
        law=_law(fit, n[:risen]),
        knee=knee(n, x),
        p95_slope_s=p95.slope if p95 else None,
        p95_r2=p95.r2 if p95 else None,
    )


def _error(row: SweepLevel, alone: float | None, spread: float | None) -> float:
    """Relative standard error of a level's throughput: a mean over its good answers."""
    return max((spread or 0.0) / math.sqrt(row.repeats), (alone or 0.0) / math.sqrt(max(1, row.ok)))


def _plateau(n: Sequence[int], x: Sequence[float], errors: Sequence[float]) -> int | None:
    """Index of the first level that no later one beats, if the sweep goes on far enough beyond it."""
    for i in range(len(n) - 1):
        if all(x[j] <= x[i] * (1 + _tolerance(errors[i], errors[j])) for j in range(i + 1, len(n))):
            return i if n[-1] >= SPAN * n[i] else None
    return None


def _fallen(x: Sequence[float], errors: Sequence[float], least: float) -> int | None:
    """Index from which on every level lies below the best one by `least` and more than its error."""
    best = max(range(len(x)), key=lambda i: x[i])
    first = len(x)
    while first - 1 > best:
        share = max(least, SURELY * math.hypot(errors[best], errors[first - 1]))
        if x[first - 1] >= (1 - share) * x[best]:
            break
        first -= 1
    return first if first < len(x) else None


def _tolerance(one: float, other: float) -> float:
    return min(WIDEST_FLAT, max(FLAT, 2 * math.hypot(one, other)))


def _law(fit: CornerFit, n: Sequence[int]) -> Law:
    """Does growth end at a corner, or fade?"""
    kept = 1 / (1 + fit.slowing * (fit.corner - 1))
    beyond = sum(at >= fit.corner for at in n)
    # a single level beyond the corner is always flat with itself
    if fit.better > CLEARLY and beyond > 1 and kept >= LINEAR and fit.worst <= max(FLAT, WIDEST_FLAT / 2):
        return "sharp"
    fades = fit.open_worst <= WIDEST_FLAT and fit.interval.low > n[-1] / 2
    return "smooth" if fades else "either"
