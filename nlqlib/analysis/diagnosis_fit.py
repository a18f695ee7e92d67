"""The corner of a throughput curve: a service that slows with company, cut off by a limit of K.

    X(N) = m / S(m),   m = min(N, K),   S(m) = S(1) (1 + c (m − 1))

is least squares in log X, each level weighted by its own noise. A limit is taken to cut a service that slows
moderately (a prior on c), since a service that slows in proportion to its company is flat without any limit.
Against it stands the open law, without K and with any contention and coherency (Gunther's, as in `scaling`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats as sp

from nlqlib.analysis.stats import Floats, Interval

FLOOR = 0.02
"""Relative error of a level that no number of requests takes away: engines do not slow by a straight line."""
MODERATE = 0.3
"""Usual slowing of a limited service by each further request: two take up to 1.3 times as long as one."""
SLOWING = (0.0, *np.geomspace(0.001, 2.0, 40))
COHERENCY = (0.0, *np.geomspace(1e-5, 0.03, 15))
CORNERS = 300
"""Candidate corners, evenly spaced in their logarithm."""


@dataclass(frozen=True)
class CornerFit:
    """The best corner and how well it does beside the open law."""

    corner: float
    interval: Interval
    """Corners that fit about as well (95 %)."""
    slowing: float
    """c: by how much each further request slows the service."""
    misfit: float
    """Weighted sum of squared residuals, per degree of freedom."""
    better: float
    """By how many such units the corner beats the open law."""
    worst: float
    """Largest |measured / fitted − 1| with the corner."""
    open_worst: float
    """The same of the open law."""


def fit_corner(concurrency: Sequence[int], throughput: Sequence[float], noise: Sequence[float]) -> CornerFit:
    """The corner of X(N) in req/s: two levels or more, ascending; `noise`: relative standard errors."""
    n, y = np.asarray(concurrency, dtype=np.float64), np.log(np.asarray(throughput, dtype=np.float64))
    weight = 1 / np.maximum(FLOOR, np.asarray(noise, dtype=np.float64)) ** 2
    corners: Floats = np.geomspace(n[0], n[-1], CORNERS)
    slowing: Floats = np.asarray(SLOWING, dtype=np.float64)
    shapes = _limited(n, corners[:, None, None], slowing[None, :, None])
    squares, residuals = _squares(y, shapes, weight)
    penalised = squares + (slowing / MODERATE) ** 2
    best = np.unravel_index(int(penalised.argmin()), penalised.shape)
    profile = penalised.min(axis=1)
    unit = max(1.0, float(squares[best]) / max(1, len(n) - 3))
    near = corners[profile <= profile.min() + float(sp.chi2.isf(0.05, 1)) * unit]
    plain, rest = _squares(y, _open(n), weight)
    least = np.unravel_index(int(plain.argmin()), plain.shape)
    return CornerFit(
        corner=float(corners[best[0]]),
        interval=Interval(float(near.min()), float(near.max())),
        slowing=float(slowing[best[1]]),
        misfit=unit,
        better=float(plain[least] - squares[best]) / unit,
        worst=float(np.abs(np.expm1(residuals[best])).max()),
        open_worst=float(np.abs(np.expm1(rest[least])).max()),
    )


def _limited(n: Floats, corner: Floats, slowing: Floats) -> Floats:
    inside = np.minimum(n, corner)
    return np.asarray(np.log(inside / (1 + slowing * (inside - 1))))


def _open(n: Floats) -> Floats:
    c = np.asarray(SLOWING, dtype=np.float64)[:, None, None]
    k = np.asarray(COHERENCY, dtype=np.float64)[None, :, None]
    return np.asarray(np.log(n / (1 + c * (n - 1) + k * n * (n - 1))))


def _squares(y: Floats, shapes: Floats, weight: Floats) -> tuple[Floats, Floats]:
    """Weighted sums of squares over the last axis, and the residuals, S(1) fitted for each shape."""
    gap = y - shapes
    level = (gap * weight).sum(axis=-1, keepdims=True) / weight.sum()
    residuals = gap - level
    return (residuals**2 * weight).sum(axis=-1), residuals
