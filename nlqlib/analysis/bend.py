"""Where the curve bends: the knee of a sweep by a segmented fit, and the concurrency where gains end.

Both answer in words as well: *no knee* and *cannot tell* are answers, with a reason. The knee is the break of
a continuous line of two pieces (Hudson 1966); its interval holds every break whose residual sum of squares an
F test cannot tell from the best one. Two knees are compared by a bootstrap of the residuals (Efron 1979).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy import stats as sp

from nlqlib.analysis.stats import RESAMPLES, Estimate, Floats, Interval

GRID = 200
"""Candidate breaks between the second and the last but one concurrency."""
MAX_SLOPE_RATIO = 0.9
"""A second slope above this share of the first is no bend worth a decision."""
MIN_RISE = 0.1
"""Throughput rises when its best level beats the first by more than this share, wherever it ends."""
MIN_POINTS = 5
"""Two slopes, an intercept and a break take four; one is left to judge the fit by."""


@dataclass(frozen=True)
class Knee:
    """A break of the throughput curve, or the reason why there is none."""

    status: Literal["knee", "no knee", "cannot tell"]
    at: float | None
    interval: Interval | None
    """Breaks that fit about as well; open at the ends of the sweep."""
    slope_before: float | None
    """Throughput gained per additional request in flight, req/s."""
    slope_after: float | None
    reason: str


@dataclass(frozen=True)
class Level:
    """One concurrency of a sweep: mean throughput in req/s over its repeats, its interval, and p95 in s."""

    concurrency: float
    throughput: float
    interval: Interval | None = None
    p95_s: float | None = None


@dataclass(frozen=True)
class Saturation:
    """The first concurrency after which more load buys latency and no throughput."""

    status: Literal["saturated", "not reached", "cannot tell"]
    at: float | None
    reason: str


def knee(
    concurrency: Sequence[float] | Floats, throughput: Sequence[float] | Floats, confidence: float = 0.95
) -> Knee:
    """The knee of throughput (req/s) over concurrency; repeats may stand as rows of their own."""
    n, x = np.asarray(concurrency, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    places = np.unique(n)
    if len(places) < MIN_POINTS:
        return _without("cannot tell", f"{len(places)} different concurrencies; a knee needs {MIN_POINTS}")
    straight = _residual(np.column_stack([np.ones_like(n), n]), x)
    means = [float(x[n == place].mean()) for place in places]
    if max(means) <= (1 + MIN_RISE) * means[0]:
        return _without("no knee", "throughput does not rise with concurrency")
    breaks = np.linspace(places[1], places[-2], GRID)
    sums = np.array([_residual(_pieces(n, b), x) for b in breaks])
    best = int(sums.argmin())
    before, after = _slopes(n, x, float(breaks[best]))
    if before <= 0 or after > MAX_SLOPE_RATIO * before:
        return _without("no knee", f"slope {before:.3g} before and {after:.3g} after the best break: no bend")
    p_value = _better(straight, float(sums[best]), len(n))
    if p_value > 1 - confidence:
        return _without("no knee", f"a straight line fits about as well (p = {p_value:.2f})")
    inside = breaks[sums <= _bound(float(sums[best]), len(n), confidence)]
    interval = Interval(float(inside.min()), float(inside.max()))
    reason = f"slope falls from {before:.3g} to {after:.3g} req/s per request in flight (p = {p_value:.2g})"
    return Knee("knee", float(breaks[best]), interval, before, after, reason)


Swept = tuple[Sequence[float] | Floats, Sequence[float] | Floats]
"""Concurrency and throughput of the runs of one sweep."""


def knee_shift(first: Swept, second: Swept, *, seed: int = 0, confidence: float = 0.95) -> Estimate:
    """The knee of the `second` sweep less that of the `first`, in requests in flight; `None` if one has none.

    Each sweep is drawn anew from its own two lines and their residuals, which are made wider by
    sqrt(m / (m − 4)) for the four parameters that flatten them; the interval is the percentile one. With ten
    runs on a side it holds the truth about nine times in ten (simulated), so it is rather too narrow.
    """
    m, method = len(first[0]) + len(second[0]), "difference of knees, bootstrap of residuals"
    one, other = (knee(n, x, confidence).at for n, x in (first, second))
    if one is None or other is None:
        return Estimate(None, None, m, method)
    rng = np.random.default_rng(seed)
    before, after = (_redrawn(n, x, at, rng) for (n, x), at in ((first, one), (second, other)))
    low, high = np.quantile(after - before, [(1 - confidence) / 2, (1 + confidence) / 2])
    return Estimate(other - one, Interval(float(low), float(high)), m, method)


def _redrawn(
    concurrency: Sequence[float] | Floats,
    throughput: Sequence[float] | Floats,
    at: float,
    rng: np.random.Generator,
) -> Floats:
    """Breaks of `RESAMPLES` sweeps that are the two lines with the break `at` and residuals drawn anew."""
    n, x = np.asarray(concurrency, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    fitted = _projected(_pieces(n, at), x[:, None])[:, 0]
    rest = (x - fitted) * np.sqrt(len(n) / (len(n) - 4))
    drawn = fitted[:, None] + rng.choice(rest, (len(n), RESAMPLES))
    places = np.unique(n)
    breaks = np.linspace(places[1], places[-2], GRID)
    sums = [((drawn - _projected(_pieces(n, float(b)), drawn)) ** 2).sum(axis=0) for b in breaks]
    return np.asarray(breaks[np.argmin(sums, axis=0)])


def _projected(terms: Floats, x: Floats) -> Floats:
    """The fit of `terms` to every column of `x`."""
    return np.asarray(terms @ (np.linalg.pinv(terms) @ x))


def _without(status: Literal["no knee", "cannot tell"], reason: str) -> Knee:
    return Knee(status, None, None, None, None, reason)


def _pieces(n: Floats, at: float) -> Floats:
    return np.column_stack([np.ones_like(n), n, np.maximum(0.0, n - at)])


def _residual(terms: Floats, x: Floats) -> float:
    found = np.linalg.lstsq(terms, x, rcond=None)[0]
    return float(((x - terms @ found) ** 2).sum())


def _slopes(n: Floats, x: Floats, at: float) -> tuple[float, float]:
    found = np.linalg.lstsq(_pieces(n, at), x, rcond=None)[0]
    return float(found[1]), float(found[1] + found[2])


def _better(straight: float, broken: float, points: int) -> float:
    """p-value of an F test that the break and its second slope (two parameters) earn their place."""
    if broken <= 1e-12 * straight:
        return 0.0
    ratio = (straight - broken) / 2 / (broken / (points - 4))
    return float(sp.f.sf(ratio, 2, points - 4))


def _bound(best: float, points: int, confidence: float) -> float:
    degrees = points - 4
    return best * (1 + float(sp.f.isf(1 - confidence, 1, degrees)) / degrees) + 1e-12


def saturation(levels: Sequence[Level]) -> Saturation:
    """The first level whose throughput interval no later level leaves upwards while p95 rises after it.

    Levels in any order; the candidate needs an interval (repeats) and the following one a p95.
    """
    rows = sorted(levels, key=lambda level: level.concurrency)
    if len(rows) < 2:
        return Saturation("cannot tell", None, "a single concurrency shows no gain to end")
    unknown = None
    for i, row in enumerate(rows[:-1]):
        if row.interval is None or row.p95_s is None:
            unknown = unknown if unknown is not None else row.concurrency
            continue
        later = [r.throughput for r in rows[i + 1 :]]
        p95 = rows[i + 1].p95_s
        if max(later) <= row.interval.high and p95 is not None and p95 > row.p95_s:
            return Saturation("saturated", row.concurrency, _why(row, max(later), p95))
    if unknown is not None:
        reason = f"concurrency {unknown:g} has no interval or no p95: repeat it at least three times"
        return Saturation("cannot tell", None, reason)
    last = rows[-1].concurrency
    return Saturation("not reached", None, f"throughput still gains, or p95 does not rise, up to {last:g}")


def _why(row: Level, best_later: float, p95_later: float) -> str:
    high = row.interval.high if row.interval else row.throughput
    return (
        f"no more than {best_later:.2f} req/s above {row.concurrency:g}, inside its interval ({high:.2f}), "
        f"while p95 rises from {row.p95_s:.2f} to {p95_later:.2f} s"
    )
