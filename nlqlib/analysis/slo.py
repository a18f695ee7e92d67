"""From a sweep to a policy: which measured concurrency to operate at, or that none meets the objective.

A service-level objective here is a bound on p95. A point whose p95 is missing, or that broke a validity rule,
meets nothing. Ties go to the smaller concurrency.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal

Goal = Literal["throughput", "cost", "latency"]


@dataclass(frozen=True)
class OperatingPoint:
    """One concurrency of a sweep, as a policy sees it."""

    concurrency: int
    throughput: float | None
    """Good answers per second (steady state where there is one)."""
    p95_s: float | None
    p95_high_s: float | None = None
    """Upper end of the interval of p95, where there is one."""
    cost_per_1000: float | None = None
    """Dollars per 1,000 valid answers."""
    valid: bool = True
    """All validity rules of the point held."""


@dataclass(frozen=True)
class Policy:
    """An objective: p95 strictly below a bound, and what to make best among the points that keep it."""

    name: str
    p95_below_s: float
    goal: Goal = "throughput"
    cautious: bool = False
    """Judge by the upper end of p95's interval instead of its value; a point without interval then fails."""


@dataclass(frozen=True)
class Choice:
    """What a policy chooses; `point` is `None` when none meets it."""

    policy: Policy
    point: OperatingPoint | None
    meeting: tuple[int, ...]
    """Every concurrency that keeps the bound, ascending."""
    reason: str


ARTICLE_POLICIES = (
    Policy("p95 below 4 seconds", 4.0),
    Policy("p95 below 4.5 seconds", 4.5),
    Policy("lowest cost per query with p95 below 5 seconds", 5.0, "cost"),
)
"""The three policies the article reads off its sweep."""


def choose(points: Iterable[OperatingPoint], policy: Policy) -> Choice:
    """The best point by the policy's goal among the valid ones that keep its bound."""
    if not policy.p95_below_s > 0:
        raise ValueError(f"a bound on p95 is a positive number of seconds, not {policy.p95_below_s}")
    rows = sorted(points, key=lambda p: p.concurrency)
    usable = [
        p for p in rows if p.valid and _judged(p, policy) is not None and _merit(p, policy.goal) is not None
    ]
    meeting = [p for p in usable if (_judged(p, policy) or 0.0) < policy.p95_below_s]
    if not meeting:
        return Choice(policy, None, (), _none_meets(rows, usable, policy))
    best = max(meeting, key=lambda p: _merit(p, policy.goal) or 0.0)
    levels = f"{len(meeting)} levels" if len(meeting) > 1 else "the only level"
    reason = f"p95 {_judged(best, policy):.2f} s < {policy.p95_below_s:g} s, best {policy.goal} of {levels}"
    return Choice(policy, best, tuple(p.concurrency for p in meeting), reason)


def policy_table(points: Sequence[OperatingPoint], policies: Iterable[Policy]) -> tuple[Choice, ...]:
    """One choice per policy, in their order."""
    return tuple(choose(points, policy) for policy in policies)


def _judged(point: OperatingPoint, policy: Policy) -> float | None:
    return point.p95_high_s if policy.cautious else point.p95_s


def _merit(point: OperatingPoint, goal: Goal) -> float | None:
    """Larger is better; `None` when the goal's own number is missing."""
    if goal == "throughput":
        return point.throughput
    value = point.cost_per_1000 if goal == "cost" else point.p95_s
    return None if value is None else -value


def _none_meets(rows: list[OperatingPoint], usable: list[OperatingPoint], policy: Policy) -> str:
    left_out = len(rows) - len(usable)
    aside = f"; {left_out} of {len(rows)} points are invalid or lack a number" if left_out else ""
    if not usable:
        return f"none meets it: no usable point{aside}"
    lowest = min(_judged(p, policy) or 0.0 for p in usable)
    return f"none meets it: the lowest p95 is {lowest:.2f} s, the bound {policy.p95_below_s:g} s{aside}"
