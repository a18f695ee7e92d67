"""How throughput grows with concurrency: efficiency, the Universal Scalability Law, the bounds it must keep.

The fit is Gunther's own (*Guerrilla Capacity Planning*, 2007, ch. 5): with C(N) = X(N) / X(1) and

    X(N) = X(1) N / (1 + σ (N − 1) + κ N (N − 1)),

the deviation from linearity N / C(N) − 1 is linear in σ (contention) and κ (coherency), so least squares
with σ, κ ≥ 0 has one answer and no starting value. Knee and saturation are in `bend.py`.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from scipy import optimize
from scipy import stats as sp

from nlqlib.analysis.stats import Floats, Interval
from nlqlib.records import Rule

LITTLE_TOLERANCE = 0.05
"""N and X·R agree within this share in a steady closed loop."""
BEYOND_TOLERANCE = 0.03
"""A fall of throughput smaller than this share is repeat noise, not retrograde scaling."""


@dataclass(frozen=True)
class UslFit:
    """Coefficients of the law. An interval is `None` where no residual is left to judge by."""

    x1: float
    """Throughput at concurrency 1 in req/s, as given or measured."""
    sigma: float
    kappa: float
    sigma_interval: Interval | None
    kappa_interval: Interval | None
    n_points: int
    largest: float
    """Largest concurrency the fit has seen; the law says nothing certain beyond."""
    worst_error: float
    """Largest |fitted / measured − 1| over the points."""

    def throughput(self, concurrency: float) -> float:
        """X(N) in req/s."""
        n = concurrency
        return self.x1 * n / (1 + self.sigma * (n - 1) + self.kappa * n * (n - 1))

    def efficiency(self, concurrency: float) -> float:
        """X(N) / (N·X(1)), a share."""
        return self.throughput(concurrency) / (concurrency * self.x1)

    @property
    def peak(self) -> float | None:
        """Concurrency of largest throughput, √((1 − σ) / κ); `None` when the law never turns down."""
        if self.kappa <= 0 or self.sigma >= 1:
            return None
        return max(1.0, math.sqrt((1 - self.sigma) / self.kappa))

    def concurrency_at(self, efficiency: float) -> float | None:
        """The N where efficiency has fallen to a share; `None` when it never does (σ = κ = 0)."""
        if not 0 < efficiency <= 1:
            raise ValueError(f"efficiency is a share above 0 and up to 1, not {efficiency}")
        lost = 1 / efficiency - 1
        a, b = self.kappa, self.sigma + self.kappa
        if b <= 0:
            return None
        # κ(N−1)² + (σ+κ)(N−1) = lost, in the form that stays exact as κ → 0
        return 1 + 2 * lost / (b + math.sqrt(b * b + 4 * a * lost))


@dataclass(frozen=True)
class Beyond:
    """What the points above the fitted range do, compared with what the law foretells there."""

    verdict: Literal["as predicted", "capped", "retrograde", "above the law"]
    predicted: float
    measured: float
    reason: str


def _points(
    concurrency: Sequence[float] | Floats, throughput: Sequence[float] | Floats
) -> tuple[Floats, Floats]:
    n, x = np.asarray(concurrency, dtype=np.float64), np.asarray(throughput, dtype=np.float64)
    if n.shape != x.shape or n.ndim != 1:
        raise ValueError(f"concurrency and throughput are lists of one length, not {n.shape} and {x.shape}")
    if not (np.isfinite(n).all() and np.isfinite(x).all() and (n >= 1).all() and (x > 0).all()):
        raise ValueError("concurrency is at least 1 and throughput above 0 req/s: leave failed points out")
    return n, x


def throughput_at_one(
    concurrency: Sequence[float] | Floats, throughput: Sequence[float] | Floats
) -> float | None:
    """Mean throughput of the rows at concurrency 1 in req/s; `None` if there is none."""
    n, x = _points(concurrency, throughput)
    return float(x[n == 1].mean()) if (n == 1).any() else None


def scaling_efficiency(concurrency: float, throughput: float, x1: float | None) -> float | None:
    """X(N) / (N·X(1)) as a share; `None` without a measured, positive X(1)."""
    return throughput / (concurrency * x1) if x1 else None


def fit_usl(
    concurrency: Sequence[float] | Floats,
    throughput: Sequence[float] | Floats,
    *,
    x1: float | None = None,
    confidence: float = 0.95,
) -> UslFit | None:
    """The law through rows of a sweep; repeats may stand as rows of their own.

    `x1` is X(1) in req/s, by default the mean of the rows at 1. `None` where the law is not determined:
    no X(1), or fewer than two different concurrencies above 1.
    """
    n, x = _points(concurrency, throughput)
    base = throughput_at_one(n, x) if x1 is None else x1
    above = n > 1
    if not base or len(set(n[above])) < 2:
        return None
    terms = np.column_stack([n[above] - 1, n[above] * (n[above] - 1)])
    deviation = n[above] * base / x[above] - 1
    sigma, kappa = (float(c) for c in optimize.nnls(terms, deviation)[0])
    halves = _half_widths(terms, deviation, np.array([sigma, kappa]), confidence)
    around = _around(sigma, kappa, halves)
    fit = UslFit(base, sigma, kappa, *around, n_points=len(n), largest=float(n.max()), worst_error=0.0)
    worst = max(abs(fit.throughput(float(a)) / float(b) - 1) for a, b in zip(n, x, strict=True))
    return replace(fit, worst_error=worst)


def _around(sigma: float, kappa: float, halves: Floats | None) -> tuple[Interval | None, Interval | None]:
    """Intervals of both coefficients, cut at 0."""
    if halves is None:
        return None, None
    s, k = float(halves[0]), float(halves[1])
    return Interval(max(0.0, sigma - s), sigma + s), Interval(max(0.0, kappa - k), kappa + k)


def _half_widths(terms: Floats, deviation: Floats, found: Floats, confidence: float) -> Floats | None:
    """Student t half widths of the two coefficients, each with the other free."""
    degrees = len(deviation) - 2
    if degrees < 1:
        return None
    residual = deviation - terms @ found
    covariance = np.linalg.inv(terms.T @ terms) * float(residual @ residual) / degrees
    return float(sp.t.isf((1 - confidence) / 2, degrees)) * np.sqrt(np.diag(covariance))


def beyond(
    fit: UslFit,
    concurrency: Sequence[float] | Floats,
    throughput: Sequence[float] | Floats,
    tolerance: float = BEYOND_TOLERANCE,
) -> Beyond | None:
    """Whether points above the fitted range follow the law, lie under a cap, or fall (retrograde).

    `throughput` in req/s; judged at the largest concurrency. `None` if no point lies above the range.
    """
    n, x = _points(concurrency, throughput)
    outside = n > fit.largest
    if not outside.any():
        return None
    last = float(n.max())
    measured, predicted = float(x[n == last].mean()), fit.throughput(last)
    best = max(float(x[n == m].mean()) for m in set(n))
    row = f"{measured:.2f} req/s at {last:g}, the law {predicted:.2f}"
    if measured < best * (1 - tolerance):
        return Beyond("retrograde", predicted, measured, f"{row}; {1 - measured / best:.0%} below the best")
    if measured < predicted * (1 - tolerance):
        return Beyond(
            "capped", predicted, measured, f"{row}; level with the best, so a limit and not a decline"
        )
    if measured > predicted * (1 + tolerance):
        return Beyond("above the law", predicted, measured, row)
    return Beyond("as predicted", predicted, measured, row)


def linear_bound(throughput_by_concurrency: Mapping[float, float], tolerance: float = 0.0) -> Rule:
    """The sanity rule X(N) ≤ N·X(1), over a sweep in req/s; unchecked (`ok=None`) without a row at 1.

    `tolerance` is the share allowed above for repeat noise.
    """
    x1 = throughput_by_concurrency.get(1)
    ratios = {n: x / (n * x1) for n, x in throughput_by_concurrency.items() if x1 and n > 1}
    if not ratios:
        return Rule("X(N) ≤ N·X(1)", None, 1 + tolerance, None)
    worst = max(ratios.values())
    return Rule("X(N) ≤ N·X(1)", worst, 1 + tolerance, worst <= 1 + tolerance)


def little(
    concurrency: float,
    throughput: float | None,
    response_s: float | None,
    tolerance: float = LITTLE_TOLERANCE,
) -> Rule:
    """Little's law (1961) in a closed loop: X·R / N is 1 within `tolerance`.

    `throughput` in req/s counts every request that left, `response_s` is their mean; a missing one leaves
    the rule unchecked.
    """
    if throughput is None or response_s is None:
        return Rule("Little's law: X·R / N", None, tolerance, None)
    ratio = throughput * response_s / concurrency
    return Rule("Little's law: X·R / N", ratio, tolerance, abs(ratio - 1) <= tolerance)


def mean_below_p95(concurrency: float, throughput: float | None, p95_s: float | None) -> Rule:
    """The mean latency N / X that a steady closed loop implies must not exceed its own p95.

    Value and threshold in seconds. It fails on throughput that includes ramp and drain.
    """
    if not throughput or p95_s is None:
        return Rule("N / X ≤ p95", None, p95_s, None)
    return Rule("N / X ≤ p95", concurrency / throughput, p95_s, concurrency / throughput <= p95_s)
