"""The catalog: what can be asked for, and how it is computed. Read from one TOML file, frozen after that.

Prompt, SQL builder, guardrail and checks read nothing else, so another trade needs another file and no code.
"""

import difflib
import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import date
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from nlqlib import paths
from nlqlib.nlq.catalog_words import NO_WORDS, Words, words_beside

Unit = Literal["money", "count", "ratio"]
Value = str | int
WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
GRAINS = ("day", "week", "month", "quarter", "year")
"""Time columns of a result carry these names, so that no metric or dimension may."""
LISTED = 12
"""Values or ids that an error names at most."""


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
    description: str = ""
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
    words: Words = NO_WORDS

    @property
    def first_weekday(self) -> int:
        """The day on which weeks start: 0 for Monday, 6 for Sunday."""
        return WEEKDAYS.index(self.week_start)

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
            raise UnknownValue(f"{dimension} has no value {short(text)}{_close(str(text), spellings)}")
        return found

    def with_values(self, names: Mapping[str, Mapping[int, str]]) -> "Catalog":
        """This catalog knowing the ids and names that live in the warehouse, by dimension."""
        known = {k: replace(d, names=dict(names[k])) if k in names else d for k, d in self.dimensions.items()}
        return replace(self, dimensions=known)


def short(text: object) -> str:
    """`text` in quotes, on one line, cut to what fits an error message."""
    shown = repr(str(text)[:61])
    return shown if len(str(text)) <= 60 else f"{shown[:-2]}…{shown[-1]}"


@lru_cache(maxsize=1 << 15)  # a catalog's names are folded for every question
def fold(text: str) -> str:
    """`text` without case, accents, spacing, punctuation and possessives, for comparison."""
    plain = text.replace("’", "'").replace("‘", "'").replace("%", " percent ")
    plain = unicodedata.normalize("NFKD", plain).casefold()
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
    what, wanted = dimension.name, str(text).strip().removeprefix("#")
    if not dimension.names:
        raise UnknownValue(f"no {what} is known here: take the catalog from Warehouse.lookups")
    if re.fullmatch(r"[0-9]{1,18}", wanted):
        if int(wanted) in dimension.names:
            return int(wanted)
        raise UnknownValue(f"there is no {what} with id {wanted}")
    folded = fold(wanted)
    ids = sorted(i for i, name in dimension.names.items() if fold(name) == folded)
    if len(ids) == 1:
        return ids[0]
    if ids:
        listed = ", ".join(map(str, ids[:LISTED])) + (" …" if len(ids) > LISTED else "")
        raise AmbiguousValue(f"{len(ids)} {what}s are called {short(wanted)}: name one by id ({listed})")
    known = {fold(name): name for name in dimension.names.values()}
    raise UnknownValue(f"there is no {what} called {short(wanted)}{_close(wanted, known)}")


def _close(text: str, spellings: Mapping[str, str]) -> str:
    """`; did you mean …?`, or what there is when nothing is close."""
    close = difflib.get_close_matches(fold(text[:60]), spellings, n=3, cutoff=0.6)
    if close:
        return f"; did you mean {', '.join(dict.fromkeys(spellings[c] for c in close))}?"
    some = list(dict.fromkeys(spellings.values()))
    return f"; there are {', '.join(some[:LISTED])}{' …' if len(some) > LISTED else ''}"


def _named(known: Mapping[str, Any], name: str, what: str) -> Any:
    if name in known:
        return known[name]
    close = difflib.get_close_matches(name[:60], known, n=3, cutoff=0.5)
    hint = f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(known)}"
    raise UnknownName(f"unknown {what} {short(name)}; {hint}")


def load_catalog(path: Path = paths.CATALOG) -> Catalog:
    """The catalog in the file `path`, and its words beside it. Raises `CatalogError` on contradictions."""
    raw = tomllib.loads(path.read_text("utf-8"))
    tables = {
        "facts": {k: _entry(Fact, k, v) for k, v in raw.get("facts", {}).items()},
        "measures": {k: _entry(Measure, k, v) for k, v in raw.get("measures", {}).items()},
        "metrics": {k: _metric(k, v) for k, v in raw.get("metrics", {}).items()},
        "dimensions": {k: _entry(Dimension, k, v) for k, v in raw.get("dimensions", {}).items()},
        "words": _made(Words, "the table of words", raw.get("words", {}) | words_beside(path)),
    }
    return _checked(_made(Catalog, "the catalog", {**raw, **tables}))


def _made(kind: type, where: str, given: Mapping[str, Any]) -> Any:
    """A `kind` of `given` fields; an unknown or missing one is an error that names `where`."""
    _all_known(given, [f.name for f in fields(kind)], where)
    try:
        return kind(**given)
    except TypeError as error:
        raise CatalogError(f"{where}: {str(error).partition('() ')[2]}") from error


def _entry(kind: type, name: str, raw: Mapping[str, Any]) -> Any:
    return _made(kind, f"{kind.__name__.lower()} {name}", {**_frozen(dict(raw)), "name": name})


def _frozen(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _frozen(v) for k, v in value.items()}
    if isinstance(value, list):
        return tuple(value)
    return value.strip() if isinstance(value, str) else value


def _metric(name: str, raw: Mapping[str, Any]) -> Metric:
    kinds = [k for k in ("measure", "difference", "ratio") if k in raw]
    if len(kinds) != 1:
        raise CatalogError(f"metric {name} needs exactly one of measure, difference, ratio")
    kind = kinds[0]
    measures = raw[kind] if isinstance(raw[kind], list) else [raw[kind]]
    if len(measures) != (1 if kind == "measure" else 2):
        raise CatalogError(f"metric {name}: a {kind} is written of {1 if kind == 'measure' else 'two'}")
    rest = {k: v for k, v in raw.items() if k != kind}
    return _entry(Metric, name, {**rest, "kind": kind, "measures": measures})


def _checked(catalog: Catalog) -> Catalog:
    """`catalog`, where every name that is referred to exists and no name or spelling means two things."""
    _all_known([catalog.week_start], WEEKDAYS, "week_start")
    for metric in catalog.metrics.values():
        _all_known(metric.measures, catalog.measures, f"metric {metric.name}")
        _all_known([metric.unit], Unit.__args__, f"metric {metric.name}")  # type: ignore[attr-defined]
    for measure in catalog.measures.values():
        _all_known([measure.fact], catalog.facts, f"measure {measure.name}")
    for fact in catalog.facts.values():
        _all_known(fact.dimensions, catalog.dimensions, f"fact {fact.name}")
        _all_known([fact.finer] if fact.finer else [], catalog.facts, f"fact {fact.name}")
    for dimension in catalog.dimensions.values():
        _all_known(dimension.value_synonyms, dimension.values, f"dimension {dimension.name}")
        _all_distinct(map(fold, dimension.values), f"values of {dimension.name}")
    _all_known({**catalog.words.metric, **catalog.words.adjective}, catalog.metrics, "the table of words")
    _all_known(catalog.words.dimension, catalog.dimensions, "the table of words")
    _all_distinct([*catalog.metrics, *catalog.dimensions, *GRAINS], "metrics, dimensions and grains")
    return catalog


def _all_known(names: Iterable[str], known: Iterable[str], where: str) -> None:
    missing = sorted(set(names) - set(known))
    if missing:
        raise CatalogError(f"{where} refers to what the catalog does not have: {', '.join(missing)}")


def _all_distinct(names: Iterable[str], where: str) -> None:
    twice = sorted(name for name, n in Counter(names).items() if n > 1)
    if twice:
        raise CatalogError(f"{where} must differ, and these do not: {', '.join(twice)}")
