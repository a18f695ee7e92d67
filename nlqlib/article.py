"""What a number of ours says about a number of the article: claim, value, tolerance, verdict.

The claims are data (`article_data`, `data/article/`). A claim is compared with one value on a named target;
where the comparison would mean nothing, or there is no value, the verdict says that instead.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd

from nlqlib import article_data
from nlqlib.article_data import Claim, Exclusion, Tolerance, claim, claims, exclusions
from nlqlib.records import Metric

__all__ = [
    "Claim",
    "Exclusion",
    "Verdict",
    "claim",
    "claims",
    "comparison_table",
    "exclusions",
    "verdict",
    "verdicts_of",
]

NO_VALUE = "no value of this target"
NAMED_TARGETS = ("twin", "local", "l4", "url")
COLUMNS = [
    *("claim", "section", "article", "value", "interval"),
    *("difference", "tolerance", "verdict", "tag", "reason"),
]

Word = Literal["reproduced", "differs", "not comparable", "not measured"]
Pair = tuple[Any, ...]
"""(claim or id, value[, interval[, tag]])"""


@dataclass(frozen=True)
class Verdict:
    """A value of ours beside a claim."""

    claim: Claim
    value: float | None
    interval: tuple[float, float] | None
    relative_difference: float | None
    """From the nearest end of the claim's interval, as a share of it; 0 inside; `None` where undefined."""
    tolerance: Tolerance
    verdict: Word
    reason: str
    tag: str = "measured"
    target: str | None = None


def verdict(
    claim: Claim | str,
    value: float | None,
    interval: tuple[float, float] | None = None,
    tag: str = "measured",
    target: str | None = None,
) -> Verdict:
    """Judge `value` (in the claim's unit) of a target: twin, local, l4, or the name of any other endpoint.

    The value decides; our own `interval` is kept and named where it reaches into the tolerance. Without a
    `target` comparability by target is not checked. What holds by construction is never a confirmation.
    """
    c = article_data.claim(claim) if isinstance(claim, str) else claim
    if value is not None and not math.isfinite(value):
        raise ValueError(f"{c.id}: {value} is no value; hand over None for one that is missing")
    word, reason = _judge(c, value, interval, tag, target)
    difference = None if value is None else _relative(c, value)
    return Verdict(c, value, interval, difference, c.tolerance, word, reason, tag, target)


def _judge(
    c: Claim, value: float | None, interval: tuple[float, float] | None, tag: str, target: str | None
) -> tuple[Word, str]:
    kind = target if target is None or target in NAMED_TARGETS else "url"
    if not c.scope.targets or (kind is not None and kind not in c.scope.targets):
        return "not comparable", c.scope.reason
    if tag == "by construction":
        return "not comparable", f"holds by construction on {target or 'this target'}: no confirmation"
    if value is None:
        return "not measured", NO_VALUE
    sample = "; a row the model was fitted on" if tag == "fitted" else ""
    if _within(c, value):
        return "reproduced", f"{_expected(c)}{sample}"
    reaches = interval is not None and _within(c, min(max(c.low, interval[0]), interval[1]))
    aside = "; our interval reaches into the tolerance: more repeats could decide" if reaches else ""
    return "differs", f"not {_expected(c)}{sample}{aside}"


def _expected(c: Claim) -> str:
    """What a reproduced value is, in words."""
    if c.qualifier in ("<", ">", "≥"):
        return c.shown
    bounds = f"{shown(c.low)} to {shown(c.high)}" if c.high > c.low else shown(c.low)
    wide = c.tolerance.relative or c.tolerance.absolute
    return f"within {c.tolerance} of {bounds} {c.unit}" if wide else f"equal to {bounds} {c.unit}"


def _within(c: Claim, value: float) -> bool:
    low, high = c.low - c.tolerance.width(c.low), c.high + c.tolerance.width(c.high)
    slack = 1e-12 * max(1.0, abs(value))
    if c.qualifier == "<":
        return value < high
    if c.qualifier == ">":
        return value > low
    return value >= low - slack and (c.qualifier == "≥" or value <= high + slack)


def _relative(c: Claim, value: float) -> float | None:
    kept_bound = c.qualifier in ("<", ">", "≥") and _within(c, value)
    if kept_bound or c.low <= value <= c.high:
        return 0.0
    end = c.low if value < c.low else c.high
    return (value - end) / abs(end) if end else None


def comparison_table(
    pairs: Iterable[Verdict | Pair], *, target: str | None = None, tag: str = "measured"
) -> pd.DataFrame:
    """The table 'Against the article' of a notebook, a row per pair, in the order given.

    A pair is a `Verdict`, or (claim or id, value[, interval[, tag]]), where the value may be a `Metric`,
    whose tag then counts. A missing value reads 'not measured'.
    """
    judged = [_judged(pair, target, tag) for pair in pairs]
    table = pd.DataFrame([_row(v) for v in judged], columns=COLUMNS, dtype=object)
    table.attrs["verdicts"] = tuple(judged)
    return table


def verdicts_of(table: pd.DataFrame) -> tuple[Verdict, ...]:
    """The verdicts a `comparison_table` was made of, unrounded, in its order."""
    found: tuple[Verdict, ...] = table.attrs.get("verdicts", ())
    return found


def _judged(pair: Verdict | Pair, target: str | None, tag: str) -> Verdict:
    if isinstance(pair, Verdict):
        return pair
    about, value, interval, own_tag = (*pair, None, None)[:4]
    if isinstance(value, Metric):
        own_tag, value = own_tag or value.tag, value.value
    return verdict(about, value, interval, own_tag or tag, target)


def _row(v: Verdict) -> dict[str, str]:
    c = v.claim
    interval = "" if v.interval is None else f"{shown(v.interval[0])} to {shown(v.interval[1])}"
    return {
        "claim": c.id,
        "section": c.section,
        "article": c.shown,
        "value": "not measured" if v.value is None else f"{shown(v.value)} {c.unit}",
        "interval": interval,
        "difference": "" if v.relative_difference is None else f"{v.relative_difference:+.1%}",
        "tolerance": str(c.tolerance),
        "verdict": v.verdict,
        "tag": "" if v.value is None else v.tag,
        "reason": v.reason,
    }


def shown(value: float) -> str:
    """A number as tables of this kind print it: four digits, or whole thousands."""
    return f"{value:.4g}" if abs(value) < 1000 else f"{value:,.0f}"
