"""The statistics, each formula once: means, shares, percentiles, lines and paired tests, with intervals.

Pure functions on numbers. What is undefined (one value has no spread, no value has no percentile) is
`None`; what is not a finite number is refused, since a NaN that travels makes a plausible wrong figure.
"""

import math
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats as sp

Floats = NDArray[np.float64]

PERCENTILE_METHOD = "linear"
"""Hyndman and Fan's type 7 (1996), numpy's default: interpolates between the two nearest order statistics."""
RESAMPLES = 2_000
"""Bootstrap resamples: the end of a 95 % interval then rests on the 50 most extreme ones."""


class Interval(NamedTuple):
    """A closed interval, in the unit of what it encloses."""

    low: float
    high: float


@dataclass(frozen=True)
class Estimate:
    """A value with its interval; `value` or `interval` is `None` where it is undefined."""

    value: float | None
    interval: Interval | None
    n: int
    method: str


@dataclass(frozen=True)
class Summary:
    """Repeats of one quantity: `sd` and `cv` (sample, n − 1) need two values, `cv` also a mean not 0."""

    n: int
    mean: float | None
    sd: float | None
    cv: float | None
    interval: Interval | None
    """Student t interval of the mean."""


@dataclass(frozen=True)
class Line:
    """Least-squares line; `slope_interval` needs three points, `r2` a y that varies."""

    slope: float
    intercept: float
    r2: float | None
    slope_interval: Interval | None
    n: int


def _array(values: Sequence[float] | Floats, name: str = "values") -> Floats:
    array = np.asarray(values, dtype=np.float64).ravel()
    if not np.isfinite(array).all():
        raise ValueError(f"{name} hold a NaN or an infinity: leave missing values out before the analysis")
    return array


def _share_of(confidence: float) -> float:
    """The probability in one tail."""
    if not 0 < confidence < 1:
        raise ValueError(f"confidence is a share between 0 and 1, not {confidence}")
    return (1 - confidence) / 2


def t_interval(values: Sequence[float] | Floats, confidence: float = 0.95) -> Interval | None:
    """Student's t interval of the mean (Student 1908); `None` below two values."""
    x, tail = _array(values), _share_of(confidence)
    if len(x) < 2:
        return None
    half = float(sp.t.isf(tail, len(x) - 1)) * float(x.std(ddof=1)) / math.sqrt(len(x))
    mean = float(x.mean())
    return Interval(mean - half, mean + half)


def summary(values: Sequence[float] | Floats, confidence: float = 0.95) -> Summary:
    """Mean, spread, coefficient of variation and t interval of repeats."""
    x = _array(values)
    mean = float(x.mean()) if len(x) else None
    sd = float(x.std(ddof=1)) if len(x) > 1 else None
    return Summary(len(x), mean, sd, cv(x), t_interval(x, confidence))


def cv(values: Sequence[float] | Floats) -> float | None:
    """Coefficient of variation: sample standard deviation / |mean|; `None` below two values or at mean 0."""
    x = _array(values)
    if len(x) < 2 or x.mean() == 0:
        return None
    return float(x.std(ddof=1) / abs(x.mean()))


def percentile(values: Sequence[float] | Floats, q: float) -> float | None:
    """The `q`-th percentile (0 to 100) by `PERCENTILE_METHOD`; `None` of no values."""
    x = _array(values)
    if not 0 <= q <= 100:
        raise ValueError(f"a percentile lies between 0 and 100, not at {q}")
    return float(np.percentile(x, q, method="linear")) if len(x) else None


def bootstrap(
    values: Sequence[float] | Floats,
    statistic: Callable[[Floats], Floats],
    *,
    seed: int,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Percentile bootstrap interval (Efron 1979) of `statistic`, which maps (resamples, n) to (resamples,).

    `None` below two values. The same seed gives the same interval.
    """
    x, tail = _array(values), _share_of(confidence)
    if len(x) < 2:
        return None
    draws = np.random.default_rng(seed).integers(0, len(x), (resamples, len(x)))
    return _middle(statistic(x[draws]), tail)


def _middle(draws: Floats, tail: float) -> Interval:
    low, high = np.quantile(draws, [tail, 1 - tail])
    return Interval(float(low), float(high))


def percentile_estimate(
    values: Sequence[float] | Floats, q: float, *, seed: int, confidence: float = 0.95
) -> Estimate:
    """A percentile with its bootstrap interval, in the unit of `values`."""
    x = _array(values)
    interval = bootstrap(x, lambda rows: np.percentile(rows, q, axis=1), seed=seed, confidence=confidence)
    return Estimate(percentile(x, q), interval, len(x), f"p{q:g}, {PERCENTILE_METHOD}; percentile bootstrap")


def cluster_bootstrap(
    values: Sequence[float] | Floats,
    clusters: Sequence[Hashable],
    *,
    seed: int,
    confidence: float = 0.95,
    resamples: int = RESAMPLES,
) -> Interval | None:
    """Interval of the mean when values come in clusters (contrast pairs): whole clusters are drawn.

    `values` and `clusters` have the same length; `None` below two clusters. Field and Welsh (2007).
    """
    x, tail = _array(values), _share_of(confidence)
    if len(clusters) != len(x):
        raise ValueError(f"{len(x)} values but {len(clusters)} cluster names")
    names = list(dict.fromkeys(clusters))
    if len(names) < 2:
        return None
    member = np.array([names.index(c) for c in clusters])
    sums, sizes = np.bincount(member, x), np.bincount(member)
    draws = np.random.default_rng(seed).integers(0, len(names), (resamples, len(names)))
    return _middle(sums[draws].sum(1) / sizes[draws].sum(1), tail)


def wilson(k: int, n: int, confidence: float = 0.95) -> Interval:
    """Wilson's score interval (1927) of the share `k` of `n`; refuses `n` = 0, whose share is `n/a`."""
    if not 0 <= k <= n or n == 0:
        raise ValueError(f"a share needs 0 ≤ k ≤ n and n > 0, not {k} of {n}: report n/a for 0 of 0")
    z, p = float(sp.norm.isf(_share_of(confidence))), k / n
    centre, scale = p + z * z / (2 * n), 1 + z * z / n
    half = z * math.sqrt(p * (1 - p) / n + z * z / (4 * n * n))
    low, high = (centre - half) / scale, (centre + half) / scale
    return Interval(0.0 if k == 0 else low, 1.0 if k == n else high)


def mcnemar(only_first: int, only_second: int) -> float:
    """Exact two-sided McNemar test (1947): p-value of the discordant counts being a fair coin's.

    `only_first` questions only the first condition has right, `only_second` only the second. Without
    any discordant pair there is no evidence of a difference: 1.0.
    """
    if only_first < 0 or only_second < 0:
        raise ValueError(f"counts cannot be negative: {only_first}, {only_second}")
    n = only_first + only_second
    return min(1.0, 2 * float(sp.binom.cdf(min(only_first, only_second), n, 0.5)))


def holm(p_values: Sequence[float] | Floats) -> tuple[float, ...]:
    """Holm's step-down adjusted p-values (1979), in the order given."""
    p = _array(p_values, "p-values")
    if ((p < 0) | (p > 1)).any():
        raise ValueError("p-values lie between 0 and 1")
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)).clip(max=1.0)
    adjusted = np.empty(len(p))
    adjusted[order] = stepped
    return tuple(float(a) for a in adjusted)


def difference(
    before: Sequence[float] | Floats, after: Sequence[float] | Floats, confidence: float = 0.95
) -> Estimate:
    """mean(after) − mean(before) with Welch's t interval (1947), which needs two values on each side."""
    a, b = _array(before, "before"), _array(after, "after")
    method = "difference of means, Welch t interval"
    if not len(a) or not len(b):
        return Estimate(None, None, len(a) + len(b), method)
    value = float(b.mean() - a.mean())
    return Estimate(value, _welch(a, b, value, _share_of(confidence)), len(a) + len(b), method)


def _welch(a: Floats, b: Floats, value: float, tail: float) -> Interval | None:
    if min(len(a), len(b)) < 2:
        return None
    va, vb = float(a.var(ddof=1)) / len(a), float(b.var(ddof=1)) / len(b)
    if va + vb == 0:
        return Interval(value, value)
    degrees = (va + vb) ** 2 / (va**2 / (len(a) - 1) + vb**2 / (len(b) - 1))
    half = float(sp.t.isf(tail, degrees)) * math.sqrt(va + vb)
    return Interval(value - half, value + half)


def line(x: Sequence[float] | Floats, y: Sequence[float] | Floats, confidence: float = 0.95) -> Line | None:
    """Ordinary least squares of `y` on `x` with a t interval of the slope.

    `None` where no line is defined: below two points, or all `x` equal.
    """
    xs, ys, tail = _array(x, "x"), _array(y, "y"), _share_of(confidence)
    if len(xs) != len(ys):
        raise ValueError(f"{len(xs)} x but {len(ys)} y")
    if len(xs) < 2 or np.ptp(xs) == 0:
        return None
    dx, dy = xs - xs.mean(), ys - ys.mean()
    sxx, syy = float(dx @ dx), float(dy @ dy)
    slope = float(dx @ dy) / sxx
    rest = float(((dy - slope * dx) ** 2).sum())
    interval = None
    if len(xs) > 2:
        half = float(sp.t.isf(tail, len(xs) - 2)) * math.sqrt(rest / (len(xs) - 2) / sxx)
        interval = Interval(slope - half, slope + half)
    r2 = 1 - rest / syy if syy > 0 else None
    return Line(slope, float(ys.mean() - slope * xs.mean()), r2, interval, len(xs))
