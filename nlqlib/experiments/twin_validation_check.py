"""One bound of the twin, what it came to, and whether it is met: data, printed by `validate-twin`."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import pandas as pd

from nlqlib.records import Json

Tag = Literal["measured", "fitted", "predicted", "counted", "by construction"]
NO_BOUND = "no bound"
VERDICTS = {True: "met", False: "NOT MET", None: "not run"}


@dataclass(frozen=True)
class Check:
    """One row of the table."""

    group: str
    """Row of the stated bounds that this belongs to."""
    what: str
    bound: str
    """Empty: shown beside the others, and never a reason to fail."""
    value: str
    """What it came to, for reading; empty when it was not run."""
    tag: Tag
    """How the value came about: `predicted` was never used to fit, `measured` is a clock's."""
    ok: bool | None
    """`None`: not run, which is not met either."""
    note: str = ""

    @property
    def verdict(self) -> str:
        return VERDICTS[self.ok] if self.bound else NO_BOUND

    def to_json(self) -> Json:
        """Plain data."""
        return dataclasses.asdict(self) | {"verdict": self.verdict}


def not_run(group: str, what: str, bound: str, tag: Tag, note: str) -> Check:
    """A bound that could not be looked at, with the reason and what to do."""
    return Check(group, what, bound, "", tag, None, note)


def within(group: str, what: str, error: float | None, limit: float, tag: Tag, note: str = "") -> Check:
    """A relative `error` that may be at most `limit` either way; missing is not met."""
    ok = error is not None and abs(error) <= limit
    value = "missing" if error is None else f"{error:+.2%}"
    return Check(group, what, f"≤ {limit:.1%}", value, tag, ok, note)


def at_least(group: str, what: str, value: float, limit: float, unit: str, note: str = "") -> Check:
    """A measured speed that must reach `limit`."""
    bound, told = f"≥ {limit:,.0f} {unit}", f"{value:,.0f} {unit}"
    return Check(group, what, bound, told, "measured", value >= limit, note)


def holds(group: str, what: str, bound: str, value: object, ok: bool, tag: Tag, note: str = "") -> Check:
    """Anything else: a count, an equality, a name."""
    return Check(group, what, bound, str(value), tag, ok, note)


def shown(group: str, what: str, value: str, tag: Tag) -> Check:
    """A value that stands beside the bounded ones."""
    return Check(group, what, "", value, tag, None)


def table(checks: Sequence[Check]) -> str:
    """All checks as text, one line each, and how many are met."""
    rows = [
        {"what": f"{c.group}: {c.what}", "bound": c.bound, "value": c.value, "tag": c.tag, "": c.verdict}
        for c in checks
    ]
    notes = [f"  {c.group}: {c.what}: {c.note}" for c in checks if c.note and c.bound and not c.ok]
    lines = [_aligned(pd.DataFrame(rows)), "", summary(checks)]
    return "\n".join([*lines, *notes])


def _aligned(frame: pd.DataFrame) -> str:
    widths = {name: max(len(name), *(len(str(v)) for v in frame[name])) for name in frame}
    left = {"what", "tag", ""}

    def line(values: Sequence[str]) -> str:
        padded = zip(widths.items(), values, strict=True)
        return "  ".join(f"{v:<{w}}" if n in left else f"{v:>{w}}" for (n, w), v in padded).rstrip()

    return "\n".join([line(list(frame.columns)), *(line([str(v) for v in row]) for row in frame.to_numpy())])


def summary(checks: Sequence[Check]) -> str:
    """One sentence: how many bounds are met."""
    count = {word: sum(c.verdict == word for c in checks) for word in VERDICTS.values()}
    told = f"{count['met']} of {sum(count.values())} bounds met"
    return f"{told}, {count['NOT MET']} not met, {count['not run']} not run"


def all_met(checks: Sequence[Check]) -> bool:
    """Whether every bound was looked at and is met."""
    bounded = [c for c in checks if c.bound]
    return bool(bounded) and all(c.ok for c in bounded)
