"""The numbers of the article, read from `data/article/*.toml` (format: its README): claims and exclusions."""

import difflib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, Literal

from nlqlib.paths import DATA

ARTICLE = DATA / "article"

Kind = Literal["measured", "derived", "configured", "assumed", "target"]
Qualifier = Literal["", "≈", "<", ">", "≥"]


@dataclass(frozen=True)
class Tolerance:
    """How far a value may lie from the article's: the larger of the two widths, and why."""

    name: str
    relative: float
    """Share of the article's value."""
    absolute: float
    """In the claim's unit."""
    reason: str

    def width(self, end: float) -> float:
        """How far from `end` is still close enough, in the claim's unit."""
        return max(self.relative * abs(end), self.absolute)

    def __str__(self) -> str:
        widths = [f"{self.relative:.0%}"] * bool(self.relative) + [f"{self.absolute:g}"] * bool(self.absolute)
        return "±" + " or ".join(widths) if widths else "exact"


@dataclass(frozen=True)
class Scope:
    """The targets on which the number means the same thing, and why not on the others."""

    name: str
    targets: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Claim:
    """One number of the article, in SI units and shares (0.69, not 69 %)."""

    id: str
    section: str
    quote: str
    """A short fragment that occurs once in the article."""
    printed: str
    """The number as the article prints it, within the quote."""
    kind: Kind
    unit: str
    stat: str
    condition: Mapping[str, Any]
    value: float | None
    """`None` where the article prints an interval."""
    low: float
    high: float
    """What a value is compared with: an interval where the article has one, or measured a row twice."""
    qualifier: Qualifier
    tolerance: Tolerance
    scope: Scope
    notebook: str
    formula: str | None = None
    inputs: Mapping[str, str] | None = None
    """Names in the formula → ids of claims; conditions that are numbers may be used by their names."""
    same_row: tuple[str, ...] = ()
    """Other measurements of the same row: the interval spans them."""
    also: tuple[str, ...] = ()
    """Other places where the same number stands."""
    note: str | None = None

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def is_result(self) -> bool:
        return self.kind in ("measured", "derived")

    @property
    def shown(self) -> str:
        """The printed number with its qualifier, where the article puts that in words."""
        worded = self.qualifier and not self.printed.startswith(("~", ">"))
        return f"{self.qualifier} {self.printed}" if worded else self.printed

    @property
    def derived_from(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys((self.inputs or {}).values()))


@dataclass(frozen=True)
class Exclusion:
    """Numbers of the article that are no results, with the reason."""

    id: str
    reason: str
    quotes: tuple[str, ...] = ()
    pattern: str | None = None


def claims(section: str | None = None) -> tuple[Claim, ...]:
    """All claims in the article's order of themes, or those of one section (its heading)."""
    rows = tuple(_claims().values())
    if section is None:
        return rows
    known = list(dict.fromkeys(c.section for c in rows))
    if section not in known:
        raise LookupError(f"no section {section!r} with claims; {_close(section, known)}")
    return tuple(c for c in rows if c.section == section)


def claim(claim_id: str) -> Claim:
    """The claim of that id, for example `after.throughput.32`."""
    found = _claims().get(claim_id)
    if found is None:
        raise LookupError(f"no claim {claim_id!r}; {_close(claim_id, list(_claims()))}")
    return found


@cache
def exclusions() -> tuple[Exclusion, ...]:
    """What `data/article/exclusions.toml` leaves out, with reasons."""
    rows = tomllib.loads((ARTICLE / "exclusions.toml").read_text("utf-8"))["exclusion"]
    return tuple(Exclusion(**{**row, "quotes": tuple(row.get("quotes", ()))}) for row in rows)


def _close(word: str, known: list[str]) -> str:
    near = difflib.get_close_matches(word, known, n=3, cutoff=0.4)
    return f"did you mean {', '.join(near)}?" if near else f"there are: {', '.join(known[:8])} …"


@cache
def _claims() -> dict[str, Claim]:
    common = tomllib.loads((ARTICLE / "common.toml").read_text("utf-8"))
    rows = [
        _claim(row, common)
        for path in sorted(ARTICLE.glob("[0-9]*.toml"))
        for row in _flat(path.read_text("utf-8"))
    ]
    by_id = {c.id: c for c in rows}
    if len(by_id) != len(rows):
        double = [c.id for c in rows if by_id[c.id] is not c]
        raise ValueError(f"claim ids occur twice in {ARTICLE}: {', '.join(double)}")
    return {c.id: _spanned(c, by_id) for c in rows}


def _flat(text: str) -> list[dict[str, Any]]:
    """Claims of a file: those alone, and those of a group, which take over what the group says."""
    tables = tomllib.loads(text)
    rows = list(tables.get("claim", []))
    for group in tables.get("group", []):
        shared = {k: v for k, v in group.items() if k not in ("claims", "id", "condition")}
        for row in group["claims"]:
            condition = {**group.get("condition", {}), **row.get("condition", {})}
            rows.append({**shared, **row, "id": f"{group['id']}.{row['id']}", "condition": condition})
    return rows


def _claim(row: dict[str, Any], common: dict[str, Any]) -> Claim:
    rest = {
        k: v
        for k, v in row.items()
        if k not in ("tolerance", "scope", "value", "lo", "hi", "same_row", "also")
    }
    width, scope = common["tolerance"][row["tolerance"]], common["scope"][row["scope"]]
    low, high = (float(row[k] if k in row else row["value"]) for k in ("lo", "hi"))
    return Claim(
        **{"condition": {}, "qualifier": "", **rest},
        value=row.get("value"),
        low=low,
        high=high,
        tolerance=Tolerance(
            row["tolerance"], width.get("relative", 0.0), width.get("absolute", 0.0), width["reason"]
        ),
        scope=Scope(row["scope"], tuple(scope["targets"]), scope["reason"]),
        same_row=tuple(row.get("same_row", ())),
        also=tuple(row.get("also", ())),
    )


def _spanned(c: Claim, by_id: Mapping[str, Claim]) -> Claim:
    """The claim with the interval that spans all measurements of its row."""
    rows = [c, *(by_id[other] for other in c.same_row)]
    return replace(c, low=min(r.low for r in rows), high=max(r.high for r in rows))
