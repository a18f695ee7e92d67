"""From what was observed of a prediction to its verdict. Pure.

A change is taken as a share of the larger of both values, so that it lies between −1 (gone) and +1 (from
nothing), and has a value where the smaller one is 0. A prediction names a region of such changes; it is
confirmed when the whole interval lies inside, rejected when it lies outside, and undecided in between. Where
each side was measured once there is no interval: such a verdict says *once*, and is never counted with those
that repeats bear out.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from nlqlib.analysis.stats import Interval, difference, wilson
from nlqlib.experiments.control_data import Direction

Verdict = Literal[
    "rejected",
    "rejected once",
    "confirmed",
    "confirmed once",
    "undecided",
    "holds by construction",
    "not observable here",
]
ORDER: tuple[Verdict, ...] = get_args(Verdict)
"""As they are shown: a rejected prediction is a finding."""
REJECTED: tuple[Verdict, ...] = ("rejected", "rejected once")
CONFIRMED: tuple[Verdict, ...] = ("confirmed", "confirmed once")
ONCE = "one run each: no interval"
REPEATS = "repeats, Welch"
COUNTS = "counts, Newcombe"
NORMAL = 1.959964
"""The 97.5th percentile of the standard normal distribution."""
PAIRED = "the same answers, Bonett and Price"


@dataclass(frozen=True)
class Side:
    """One side of a comparison: the values of its repeats, or a share of `n`."""

    values: tuple[float, ...]
    n: int | None = None
    """Of a share: how many it is a share of."""

    @property
    def mean(self) -> float:
        return sum(self.values) / len(self.values)


@dataclass(frozen=True)
class Change:
    """What a control did to a signal, in the signal's unit and as a share of the larger value."""

    before: float
    after: float
    interval: Interval | None
    """Of `after − before`, 95 %; `None` where each side was measured once."""
    method: str

    @property
    def by(self) -> float:
        return self.after - self.before

    @property
    def scale(self) -> float:
        return max(abs(self.before), abs(self.after))

    @property
    def share(self) -> float:
        """`by` as a share of the larger value; 0 where both are 0."""
        return self.by / self.scale if self.scale else 0.0

    @property
    def share_interval(self) -> Interval | None:
        """The interval on the same scale."""
        if self.interval is None or not self.scale:
            return None if self.interval is None else Interval(0.0, 0.0)
        return Interval(self.interval.low / self.scale, self.interval.high / self.scale)


def change(before: Side, after: Side) -> Change:
    """The change from one side to the other, with the interval that its kind of number allows."""
    counts = before.n and after.n and len(before.values) == len(after.values) == 1
    if counts:
        return Change(before.mean, after.mean, newcombe(before, after), COUNTS)
    interval = difference(before.values, after.values).interval
    return Change(before.mean, after.mean, interval, REPEATS if interval else ONCE)


def paired(before: Sequence[bool], after: Sequence[bool]) -> Change:
    """The change of a share when the same questions are judged twice: Bonett and Price (2012).

    Their interval adds one discordant pair of each kind, so that it has a width where no answer changed.
    """
    n = len(before)
    gained = (sum(b and not a for a, b in zip(before, after, strict=True)) + 1) / (n + 2)
    lost = (sum(a and not b for a, b in zip(before, after, strict=True)) + 1) / (n + 2)
    half = NORMAL * math.sqrt((gained + lost - (gained - lost) ** 2) / (n + 2))
    interval = Interval(max(-1.0, gained - lost - half), min(1.0, gained - lost + half))
    return Change(sum(before) / n, sum(after) / n, interval, PAIRED)


def newcombe(before: Side, after: Side) -> Interval:
    """Interval of the difference of two shares: Newcombe (1998), method 10, from Wilson's intervals."""
    (p1, n1), (p2, n2) = ((side.mean, int(side.n or 0)) for side in (before, after))
    w1, w2 = wilson(round(p1 * n1), n1), wilson(round(p2 * n2), n2)
    low = p2 - p1 - math.hypot(p2 - w2.low, w1.high - p1)
    high = p2 - p1 + math.hypot(w2.high - p2, p1 - w1.low)
    return Interval(low, high)


def region(direction: Direction, least: float) -> Interval:
    """The changes that `direction` foretells, as shares of the larger value."""
    if direction == "same":
        return Interval(-least, least)
    return Interval(least, math.inf) if direction == "up" else Interval(-math.inf, -least)


def judge(seen: Change, direction: Direction, least: float) -> tuple[Verdict, str]:
    """The verdict on a change, and why; without an interval it is one of those that say *once*."""
    inside, once = region(direction, least), seen.interval is None
    found = seen.share_interval or Interval(seen.share, seen.share)
    if inside.low <= found.low and found.high <= inside.high:
        return ("confirmed once", ONCE) if once else ("confirmed", "")
    if found.high < inside.low or inside.high < found.low:
        return ("rejected once" if once else "rejected"), _why(seen, direction, least)
    return "undecided", (
        f"the interval {found.low:+.0%} to {found.high:+.0%} reaches into what was foretold and "
        "out of it; more repeats or questions would narrow it"
    )


def _why(seen: Change, direction: Direction, least: float) -> str:
    """How it came out instead."""
    once = "" if seen.interval else f"; {ONCE}"
    if direction == "same":
        return f"it changed by {seen.share:+.0%}, more than {least:.0%}{once}"
    along = seen.share if direction == "up" else -seen.share
    told = "it went the other way" if along <= -least else "it moved less than foretold"
    return f"{told} ({seen.share:+.0%}){once}"


def of_row(verdicts: Sequence[Verdict]) -> Verdict:
    """The verdict on a row: rejected if any of its predictions is; else the first in `ORDER` that any has."""
    return next((v for v in ORDER if v in verdicts), "not observable here")
