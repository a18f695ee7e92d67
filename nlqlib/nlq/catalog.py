"""The catalog: what can be asked for, and how it is computed. Read from one TOML file, frozen after that.

Prompt, SQL builder, guardrail and checks read nothing else, so another trade needs another file and no code.
"""

import difflib
import re
import tomllib
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import date
from pathlib import Path
from typing import Any, Literal

from nlqlib import paths

Unit = Literal["money", "count", "ratio"]
Value = str | int


class QuestionError(ValueError):
    """Something asked for cannot be answered; the text says what to ask for instead, in one line."""


class UnknownName(QuestionError):
    """A metric or dimension that the catalog does not have."""


class UnknownValue(QuestionError):
    """A value that a dimension does not have."""


class AmbiguousValue(QuestionError):
    """A name that several values share."""


class CatalogError(ValueError):
    """The catalog file contradicts itself."""


@dataclass(frozen=True)
class Fact:
    """Rows of one grain: where they are read, their time (UTC), a standing filter, columns by dimension."""

    name: str
    source: str
    time: str
    dimensions: Mapping[str, str]
    where: str | None = None
    finer: str | None = None
    """The fact to count on instead when a dimension is not reached here."""


@dataclass(frozen=True)
class Measure:
    """One aggregate over one fact."""

    name: str
    fact: str
    value: str


@dataclass(frozen=True)
class Metric:
    """What can be asked for: one measure, the difference of two, or the ratio of two."""

    name: str
    description: str
    unit: Unit
    good: Literal["high", "low"]
    kind: Literal["measure", "difference", "ratio"]
    measures: tuple[str, ...]
    synonyms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Dimension:
    """What a metric can be split or filtered by."""

    name: str
    description: str
    values: tuple[str, ...] = ()
    nullable: bool = False
    synonyms: tuple[str, ...] = ()
    value_synonyms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    lookup: str | None = None
    """SQL for (id, name) pairs of a dimension whose values live in the warehouse."""
    names: Mapping[int, str] = field(default_factory=dict, repr=False)
    """id → name, once looked up."""


@dataclass(frozen=True)
class Catalog:
    """All of it. `metrics` and `dimensions` keep the order of the file."""

    today: date
    first_day: date
    week_start: str
    time_zone: str
    currency: str
    facts: Mapping[str, Fact]
    measures: Mapping[str, Measure]
    metrics: Mapping[str, Metric]
    dimensions: Mapping[str, Dimension]

    def metric(self, name: str) -> Metric:
        """The metric called `name`. Raises `UnknownName` with close names."""
        return _named(self.metrics, name, "metric")

    def dimension(self, name: str) -> Dimension:
        """The dimension called `name`. Raises `UnknownName` with close names."""
        return _named(self.dimensions, name, "dimension")

    def fact_for(self, measure: str, dimensions: Iterable[str]) -> Fact | None:
        """The coarsest fact on which `measure` reaches all `dimensions`, or `None`."""
        fact: Fact | None = self.facts[self.measures[measure].fact]
        wanted = set(dimensions)
        while fact is not None and not wanted <= set(fact.dimensions):
            fact = self.facts[fact.finer] if fact.finer else None
        return fact

    def reaches(self, metric: str, dimension: str) -> bool:
        """Whether `metric` can be split or filtered by `dimension`."""
        return all(self.fact_for(m, [dimension]) is not None for m in self.metric(metric).measures)

    def resolve(self, dimension: str, text: Value) -> Value:
        """The value of `dimension` that `text` means: a canonical name, or an id where names are not unique.

        Case, spacing, punctuation, curly quotes and possessives do not matter. Raises `UnknownValue` with
        close values, or `AmbiguousValue` with the ids.
        """
        known = self.dimension(dimension)
        if known.lookup is not None:
            return _resolve_id(known, text)
        spellings = _spellings(known)
        found = spellings.get(fold(str(text)))
        if found is None:
            raise UnknownValue(f"{dimension} has no value {str(text)!r}{_close(str(text), spellings)}")
        return found

    def with_values(self, names: Mapping[str, Mapping[int, str]]) -> "Catalog":
        """This catalog knowing the ids and names that live in the warehouse, by dimension."""
        known = {k: replace(d, names=dict(names[k])) if k in names else d for k, d in self.dimensions.items()}
        return replace(self, dimensions=known)


def fold(text: str) -> str:
    """`text` without case, accents, spacing, punctuation and possessives, for comparison."""
    plain = unicodedata.normalize("NFKD", text.replace("’", "'").replace("‘", "'")).casefold()
    plain = "".join(c for c in plain if not unicodedata.combining(c))
    plain = re.sub(r"(\w)'s\b|(\w)s'(?=\W|$)", lambda m: (m[1] or m[2]) + "s", plain)
    return re.sub(r"[\W_]+", "", plain)


def _spellings(dimension: Dimension) -> dict[str, str]:
    out = {fold(value): value for value in dimension.values}
    for value, words in dimension.value_synonyms.items():
        for word in words:
            out.setdefault(fold(word), value)
    for value in dimension.values:  # Women for Women's, Toy for Toys
        out.setdefault(fold(value).removesuffix("s"), value)
    return out


def _resolve_id(dimension: Dimension, text: Value) -> int:
    wanted = str(text).strip().lstrip("#")
    if wanted.isdecimal():
        if int(wanted) in dimension.names:
            return int(wanted)
        raise UnknownValue(f"there is no {dimension.name} with id {wanted}")
    folded = fold(wanted)
    ids = [i for i, name in dimension.names.items() if fold(name) == folded]
    if len(ids) == 1:
        return ids[0]
    if ids:
        listed = ", ".join(map(str, sorted(ids)))
        raise AmbiguousValue(f"{len(ids)} {dimension.name}s are called {wanted!r}: name one by id ({listed})")
    raise UnknownValue(f"there is no {dimension.name} called {wanted!r}{_close(wanted, _folded(dimension))}")


def _folded(dimension: Dimension) -> dict[str, str]:
    return {fold(name): name for name in dimension.names.values()}


def _close(text: str, spellings: Mapping[str, str]) -> str:
    """`; did you mean …?`, or what there is when nothing is close."""
    close = difflib.get_close_matches(fold(text), spellings, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {', '.join(dict.fromkeys(spellings[c] for c in close))}?"
    some = list(dict.fromkeys(spellings.values()))
    return f"; there are {', '.join(some[:12])}{' …' if len(some) > 12 else ''}"


def _named(known: Mapping[str, Any], name: str, what: str) -> Any:
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(known)}"
    raise UnknownName(f"unknown {what} {name!r}; {hint}")


def load_catalog(path: Path = paths.CATALOG) -> Catalog:
    """The catalog in the TOML file `path`. Raises `CatalogError` where it contradicts itself."""
    raw = tomllib.loads(path.read_text("utf-8"))
    catalog = Catalog(
        today=raw["today"],
        first_day=raw["first_day"],
        week_start=raw["week_start"],
        time_zone=raw["time_zone"],
        currency=raw["currency"],
        facts={k: Fact(k, **_fact(v)) for k, v in raw["facts"].items()},
        measures={k: Measure(k, **v) for k, v in raw["measures"].items()},
        metrics={k: _metric(k, v) for k, v in raw["metrics"].items()},
        dimensions={k: Dimension(k, **_dimension(v)) for k, v in raw["dimensions"].items()},
    )
    _check(catalog)
    return catalog


def _fact(raw: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v.strip() if isinstance(v, str) else v for k, v in raw.items() if k != "description"}


def _metric(name: str, raw: Mapping[str, Any]) -> Metric:
    kinds = [k for k in ("measure", "difference", "ratio") if k in raw]
    if len(kinds) != 1:
        raise CatalogError(f"metric {name} needs exactly one of measure, difference, ratio")
    kind: Any = kinds[0]
    measures = raw[kind] if isinstance(raw[kind], list) else [raw[kind]]
    synonyms = tuple(raw.get("synonyms", ()))
    return Metric(name, raw["description"], raw["unit"], raw["good"], kind, tuple(measures), synonyms)


def _dimension(raw: Mapping[str, Any]) -> dict[str, Any]:
    words = {k: tuple(v) for k, v in raw.get("value_synonyms", {}).items()}
    lists = {k: tuple(v) if isinstance(v, list) else v for k, v in raw.items()}
    return {**lists, "value_synonyms": words}


def _check(catalog: Catalog) -> None:
    """Every name that is referred to exists."""
    for metric in catalog.metrics.values():
        _all_known(metric.measures, catalog.measures, f"metric {metric.name}")
    for measure in catalog.measures.values():
        _all_known([measure.fact], catalog.facts, f"measure {measure.name}")
    for fact in catalog.facts.values():
        _all_known(fact.dimensions, catalog.dimensions, f"fact {fact.name}")
        _all_known([fact.finer] if fact.finer else [], catalog.facts, f"fact {fact.name}")
    for dimension in catalog.dimensions.values():
        _all_known(dimension.value_synonyms, dimension.values, f"dimension {dimension.name}")


def _all_known(names: Iterable[str], known: Iterable[str], where: str) -> None:
    missing = sorted(set(names) - set(known))
    if missing:
        raise CatalogError(f"{where} refers to what the catalog does not have: {', '.join(missing)}")
