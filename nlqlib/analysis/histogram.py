"""What a Prometheus histogram still knows: count, sum, and between which two bounds a percentile lies.

A bucket says how many values lie in it and not where, so no percentile is interpolated: 100 waits of 20 ms
under a first bound of 0.3 s have the mean 0.020 and a 95th percentile of "≤ 0.3".
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from nlqlib.analysis.exposition import Labels

Bucket = tuple[float, float]
"""Upper bound `le` and the number of values at or below it."""


@dataclass(frozen=True)
class Between:
    """Where a value lies: above `low` (`None`: the first bucket), at most `high` (`None`: the last, open)."""

    low: float | None
    high: float | None

    @property
    def text(self) -> str:
        """`≤ 0.3`, `0.5 … 0.8` or `> 7680`."""
        if self.low is None:
            return "unknown" if self.high is None else f"≤ {self.high:g}"
        return f"> {self.low:g}" if self.high is None else f"{self.low:g} … {self.high:g}"


@dataclass(frozen=True)
class Histogram:
    """The values that were observed in a window."""

    count: float
    total: float
    """Their sum, in the histogram's unit."""
    buckets: tuple[Bucket, ...] = ()
    """By rising bound; the last bound is infinite. Empty where the page showed none."""

    @property
    def mean(self) -> float | None:
        """ΔΣ / Δn; `None` where nothing was observed."""
        return self.total / self.count if self.count else None

    def percentile(self, q: float) -> Between | None:
        """The bounds around the `q`-th percentile (linear, 0 to 100); `None` without values or buckets."""
        if not self.count or not self.buckets:
            return None
        rank = q / 100 * (self.count - 1)
        return Between(self._below(math.floor(rank) + 1), self._above(math.ceil(rank) + 1))

    def _above(self, nth: float) -> float | None:
        """Upper bound of the bucket that holds the `nth` value."""
        bound = next(le for le, cumulative in self.buckets if cumulative >= nth)
        return None if math.isinf(bound) else bound

    def _below(self, nth: float) -> float | None:
        """Largest bound below which the `nth` value cannot lie."""
        return max((le for le, cumulative in self.buckets if cumulative < nth), default=None)


def pooled(parts: Sequence[Histogram]) -> Histogram:
    """Several engines' histograms as one; of the bounds, only those that all of them have."""
    common = set.intersection(*({le for le, _ in part.buckets} for part in parts)) if parts else set()
    counts = {le: sum(dict(part.buckets)[le] for part in parts) for le in common}
    return Histogram(
        sum(part.count for part in parts), sum(part.total for part in parts), tuple(sorted(counts.items()))
    )


def buckets_of(series: Mapping[Labels, float]) -> dict[Labels, dict[float, float]]:
    """Bucket samples by the labels of their histogram: `le` → cumulative count."""
    found: dict[Labels, dict[float, float]] = {}
    for labels, value in series.items():
        rest = tuple(item for item in labels if item[0] != "le")
        bound = next((float(text) for name, text in labels if name == "le"), math.inf)
        found.setdefault(rest, {})[bound] = value
    return found


def differences(after: Mapping[float, float], before: Mapping[float, float]) -> tuple[Bucket, ...]:
    """Cumulative counts of what came in between."""
    bounds: Iterable[float] = sorted(after)
    return tuple((le, after[le] - before.get(le, 0.0)) for le in bounds)
