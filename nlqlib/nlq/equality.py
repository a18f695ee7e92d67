"""When two intents mean the same: one canonical form, and three equalities that are reported apart.

`strict`: the canonical forms are equal. `kind`: the same `query_type`. `execution`: the same rows, with order
and the choice among ties at a cut only as far as the question asked for them. A question may accept several
golds; each equality asks for one of them.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from decimal import Decimal
from itertools import groupby
from typing import Any

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.intent import Filter, Intent, Sort, resolve_period, resolve_values, sorted_by
from nlqlib.nlq.schema import METRIC_OPS
from nlqlib.nlq.sql import DEFAULT_TOP_N, Result

Row = tuple[Any, ...]


@dataclass(frozen=True)
class Equality:
    """How an answer compares with the golds of its question."""

    strict: bool
    kind: bool
    execution: bool | None
    """`None` where the comparison could not be made: no gold has rows to compare with."""


WRONG = Equality(strict=False, kind=False, execution=False)
"""An answer from which no intent can be read counts as wrong in every sense."""


def canonical(intent: Intent, catalog: Catalog) -> Intent:
    """The one spelling of everything that means `intent`; itself a valid intent, for comparison, not for SQL.

    Evidence is dropped; metrics, dimensions, filters and values are sorted, the values resolved; the period
    is the range of its dates, clipped to the data. In a ranking a null limit is 5 and a null sort descending,
    and by a single metric only the direction of `sort` counts. The null sort of a time series (ascending
    time) has no other spelling. Raises `ContractViolation` for what the catalog does not have.
    """
    start, end = resolve_period(intent.period, catalog)
    ranking = intent.query_type == "top_n_by_metric"
    return intent.model_copy(
        update={
            "evidence": "",
            "metrics": tuple(sorted(intent.metrics)),
            "dimensions": tuple(sorted(intent.dimensions)),
            "filters": tuple(sorted({_filter(f, catalog) for f in intent.filters}, key=repr)),
            "period": f"{start}..{end - timedelta(days=1)}",
            "sort": _rank(intent) if ranking else intent.sort,
            "limit": intent.limit or (DEFAULT_TOP_N if ranking else None),
        }
    )


def _filter(condition: Filter, catalog: Catalog) -> Filter:
    values: Any = resolve_values(condition, catalog)
    if condition.op in METRIC_OPS:
        values = map(float, values)
    ordered = tuple(sorted(values, key=lambda v: (isinstance(v, str), v)))
    return condition.model_copy(update={"values": ordered})


def _rank(intent: Intent) -> Sort | None:
    """With several metrics an unstated sort stays unstated: the order of a list is not part of equality."""
    if len(intent.metrics) > 1:
        return intent.sort
    return Sort(by=intent.metrics[0], direction=intent.sort.direction if intent.sort else "desc")


def strict_equal(one: Intent, other: Intent, catalog: Catalog) -> bool:
    """Do both ask for the same, field by field? Raises `ContractViolation`."""
    return canonical(one, catalog) == canonical(other, catalog)


def kind_equal(one: Intent, other: Intent) -> bool:
    """Are both of one `query_type`?"""
    return one.query_type == other.query_type


def execution_equal(given: Result, gold: Result, asked: Intent) -> bool:
    """Are the rows of `given` those of `gold`, whose intent is `asked`?

    Columns match by name, in any order. Rows count as a bag, unless `asked` ranks or sorts: then the sorted
    column must run alike, and rows may swap only where it ties. Where `gold` cuts through a tie, any rows of
    that tie do.
    """
    names = [c.name for c in gold.columns]
    theirs = [c.name for c in given.columns]
    if sorted(names) != sorted(theirs) or len(given.rows) != len(gold.rows):
        return False
    place = [theirs.index(name) for name in names]
    found = [tuple(_plain(row[i]) for i in place) for row in given.rows]
    wanted = [tuple(_plain(value) for value in row) for row in gold.rows]
    if asked.sort is None and asked.query_type != "top_n_by_metric":
        return Counter(found) == Counter(wanted)
    by = ranked_by(asked)
    if by not in names:  # sorted by what is not shown: only the sequence itself can tell
        return found == wanted
    return _runs_equal(_runs(found, names.index(by)), _runs(wanted, names.index(by)), gold.tie_at_cut)


def ranked_by(intent: Intent) -> str:
    """The column whose order was asked for: the metric of a ranking, else what the intent sorts by."""
    by = sorted_by(intent)
    ranking = intent.query_type == "top_n_by_metric"
    return intent.metrics[0] if by is None or (ranking and by in intent.dimensions) else by


def _runs(rows: Sequence[Row], column: int) -> list[tuple[Any, list[Row]]]:
    """`rows` in stretches of equal `column`."""
    return [(value, list(run)) for value, run in groupby(rows, key=lambda row: row[column])]


def _runs_equal(
    found: list[tuple[Any, list[Row]]], wanted: list[tuple[Any, list[Row]]], tie_at_cut: bool
) -> bool:
    if [(value, len(run)) for value, run in found] != [(value, len(run)) for value, run in wanted]:
        return False
    compared = len(wanted) - 1 if tie_at_cut else len(wanted)
    bags = zip(found[:compared], wanted[:compared], strict=True)
    return all(Counter(a) == Counter(b) for (_, a), (_, b) in bags)


def _plain(value: Any) -> Any:
    """Numbers to 12 digits: enough for cents of billions, and blind to the last bits of a quotient."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        return value
    return float(f"{value:.12g}")


def compare(
    given: Intent | None,
    golds: Sequence[Intent],
    catalog: Catalog,
    run: Callable[[Intent], Result | None] | None = None,
) -> Equality:
    """`given` against any of `golds`; `None` (no intent could be read) is wrong in every sense.

    `run` gives the rows of an intent, `None` where it cannot be executed; without it there is no `execution`.
    """
    if given is None:
        return WRONG
    return Equality(
        strict=any(strict_equal(given, gold, catalog) for gold in golds),
        kind=any(kind_equal(given, gold) for gold in golds),
        execution=_execution(given, golds, run) if run else None,
    )


def _execution(given: Intent, golds: Sequence[Intent], run: Callable[[Intent], Result | None]) -> bool | None:
    wanted = [(rows, gold) for gold in golds if (rows := run(gold)) is not None]
    if not wanted:
        return None
    found = run(given)
    return found is not None and any(execution_equal(found, rows, gold) for rows, gold in wanted)


FIELDS = (
    ("kind", "query_type"),
    ("metric", "metrics"),
    ("dimension", "dimensions"),
    ("filter", "filters"),
    ("period", "period"),
    ("grain", "grain"),
    ("sort", "sort"),
    ("limit", "limit"),
)
"""Words of the error taxonomy, and the field each one looks at."""


def differences(given: Intent | None, golds: Sequence[Intent], catalog: Catalog) -> tuple[str, ...]:
    """The error taxonomy of `given` against the nearest of `golds`: the fields that differ, () when right.

    `invalid` where no intent could be read; `unit` instead of `filter` where the filters differ only by a
    factor of 100 in a ratio (8 for 8 %).
    """
    if given is None:
        return ("invalid",)
    return min((_differences(given, gold, catalog) for gold in golds), key=len)


def _differences(given: Intent, gold: Intent, catalog: Catalog) -> tuple[str, ...]:
    found, wanted = canonical(given, catalog), canonical(gold, catalog)
    words = [word for word, field in FIELDS if getattr(found, field) != getattr(wanted, field)]
    if "filter" in words and _in_units(found, catalog) == _in_units(wanted, catalog):
        words[words.index("filter")] = "unit"
    return tuple(words)


def _in_units(intent: Intent, catalog: Catalog) -> frozenset[tuple[Any, ...]]:
    """The filters, with thresholds above 1 on ratios read as percentages."""
    return frozenset((f.field, f.op, tuple(_share(f, v, catalog) for v in f.values)) for f in intent.filters)


def _share(condition: Filter, value: Any, catalog: Catalog) -> Any:
    ratio = condition.op in METRIC_OPS and catalog.metric(condition.field).unit == "ratio"
    return value / 100 if ratio and abs(value) > 1 else value
