"""An intent becomes one SELECT with bound values; the catalog supplies every identifier.

Each fact is aggregated at its own grain in its own CTE. The CTEs are stacked and folded by group, so that a
group which one of them lacks is neither dropped nor doubled, and null is a group like any other. Within a
group that exists, a sum or count without rows is 0; a ratio without a denominator is null.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any

from nlqlib.nlq.catalog import Catalog, Fact, QuestionError, Unit
from nlqlib.nlq.intent import Filter, Intent
from nlqlib.nlq.periods import parse_period
from nlqlib.nlq.sql_parts import (
    DEFAULT_TOP_N,
    METRIC_OPS,
    condition,
    formula,
    having,
    ordering,
    unique,
    utc,
    words,
)
from nlqlib.nlq.warehouse import Warehouse

__all__ = ["DEFAULT_TOP_N", "Column", "Query", "Result", "Unreachable", "build", "execute"]

DIMENSION_OPS = ("in", "not_in", "is_null", "not_null")
TIE = "tie_with_next"
"""Hidden column: whether the row after this one has the same value of the ranked metric."""


class Unreachable(QuestionError):
    """A dimension that a metric cannot be split or filtered by."""


@dataclass(frozen=True)
class Column:
    """A column of a result; `unit` is money, count, ratio, the grain of a time column, or `None`."""

    name: str
    unit: Unit | str | None


@dataclass(frozen=True)
class Query:
    """One SELECT, its bound values in order, and what comes out."""

    sql: str
    params: tuple[Any, ...]
    columns: tuple[Column, ...]
    interpretation: str
    limit: int | None = None
    order: str = ""


@dataclass(frozen=True)
class Result:
    """Rows with named columns and units, and how they came about."""

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    sql: str
    params: tuple[Any, ...]
    interpretation: str
    tie_at_cut: bool = False
    """The first row that was cut off has the same value as the last one shown."""


def build(intent: Intent, catalog: Catalog) -> Query:
    """The query of `intent`. Raises `QuestionError` for what the catalog cannot compute."""
    plan = _plan(intent, catalog)
    stacked = "\nUNION ALL BY NAME\n".join(f"SELECT * FROM {cte.name}" for cte in plan.ctes)
    groups = ", ".join(plan.keys)
    folded = [*plan.keys, *(f"max({m}) AS {m}" for m in plan.measures)]
    grouping = f"\nGROUP BY {groups}" if plan.keys else ""
    metrics = ", ".join(f"{formula(m, catalog)} AS {m}" for m in plan.metrics)
    shown = ", ".join([*plan.keys, *intent.metrics])
    tie = f", lead({plan.ranked}) OVER (ORDER BY {plan.order}) IS NOT DISTINCT FROM {plan.ranked}"
    tie += f" AND row_number() OVER (ORDER BY {plan.order}) < count(*) OVER () AS {TIE}"
    sql = "WITH\n" + ",\n".join(f"{cte.name} AS (\n{cte.sql}\n)" for cte in plan.ctes)
    sql += f",\nfolded AS (\nSELECT {', '.join(folded)}\nFROM (\n{stacked}\n){grouping}\n)"
    sql += f",\nvalued AS (\nSELECT {', '.join([*plan.keys, metrics])}\nFROM folded\n)"
    sql += f"\nSELECT {shown}{tie if plan.ranked else ''}\nFROM valued{plan.having}"
    sql += f"\nORDER BY {plan.order}" if plan.order else ""
    sql += "\nLIMIT ?" if plan.limit else ""
    params = [*(p for cte in plan.ctes for p in cte.params), *plan.having_params]
    params += [plan.limit] if plan.limit else []
    return Query(sql, tuple(params), plan.columns, plan.words, plan.limit, plan.order)


def execute(query: Query, warehouse: Warehouse) -> Result:
    """The rows of `query`. Raises `QuestionError` past the warehouse's limits."""
    names, rows = warehouse.fetch(query.sql, query.params)
    tie = False
    if names and names[-1] == TIE:
        tie = bool(rows) and query.limit == len(rows) and bool(rows[-1][-1])
        rows = [row[:-1] for row in rows]
    words = query.interpretation
    if tie:
        words += "; the next one has the same value and was cut off"
    return Result(query.columns, tuple(rows), query.sql, query.params, words, tie)


@dataclass(frozen=True)
class _Cte:
    name: str
    sql: str
    params: tuple[Any, ...]


@dataclass(frozen=True)
class _Plan:
    ctes: tuple[_Cte, ...]
    keys: tuple[str, ...]
    measures: tuple[str, ...]
    metrics: tuple[str, ...]
    columns: tuple[Column, ...]
    having: str
    having_params: tuple[Any, ...]
    order: str
    ranked: str | None
    limit: int | None
    words: str


def _plan(intent: Intent, catalog: Catalog) -> _Plan:
    thresholds = [f for f in intent.filters if f.op in METRIC_OPS]
    conditions = [f for f in intent.filters if f.op in DIMENSION_OPS]
    sort_metric = [intent.sort.by] if intent.sort and intent.sort.by in catalog.metrics else []
    metrics = unique([*intent.metrics, *(f.field for f in thresholds), *sort_metric])
    _check(intent, metrics, conditions, catalog)
    used = [*intent.dimensions, *(f.field for f in conditions)]
    facts = _facts(metrics, used, catalog)
    start, end = parse_period(intent.period, catalog)
    grain = intent.grain if intent.query_type == "time_series" else None
    keys = ([grain] if grain else []) + list(intent.dimensions)
    ctes = tuple(
        _cte(fact, measures, intent.dimensions, grain, conditions, (start, end), catalog)
        for fact, measures in facts
    )
    order, ranked, limit = ordering(intent, keys)
    texts, having_params = having(thresholds)
    columns = [Column(k, k if k == grain else None) for k in keys]
    columns += [Column(m, catalog.metric(m).unit) for m in intent.metrics]
    return _Plan(
        ctes=ctes,
        keys=tuple(keys),
        measures=tuple(m for _, measures in facts for m in measures),
        metrics=tuple(metrics),
        columns=tuple(columns),
        having=texts,
        having_params=having_params,
        order=order,
        ranked=ranked if limit else None,
        limit=limit,
        words=words(intent, start, end, limit),
    )


def _check(intent: Intent, metrics: Sequence[str], conditions: Sequence[Filter], catalog: Catalog) -> None:
    """Names exist, dimensions are reached by every metric, and the sort names something that is there."""
    for dimension in unique([*intent.dimensions, *(f.field for f in conditions)]):
        catalog.dimension(dimension)
        for metric in metrics:
            if not catalog.reaches(metric, dimension):
                raise Unreachable(
                    f"{metric} cannot be split or filtered by {dimension}, only {_who(dimension, catalog)}"
                )
    if intent.sort and intent.sort.by in catalog.dimensions and intent.sort.by not in intent.dimensions:
        raise QuestionError(f"cannot sort by {intent.sort.by}: the answer is not split by it")
    if intent.query_type == "time_series" and intent.grain is None:
        raise QuestionError("a time series needs a grain: day, week, month, quarter or year")
    if intent.query_type == "top_n_by_metric" and not intent.dimensions:
        raise QuestionError("a ranking needs a dimension whose values are ranked")


def _who(dimension: str, catalog: Catalog) -> str:
    return " and ".join(m for m in catalog.metrics if catalog.reaches(m, dimension)) or "nothing"


def _facts(
    metrics: Sequence[str], dimensions: Sequence[str], catalog: Catalog
) -> list[tuple[Fact, list[str]]]:
    """The facts needed, each with the measures to aggregate on it, in order of first use."""
    found: dict[str, tuple[Fact, list[str]]] = {}
    for measure in unique(m for name in metrics for m in catalog.metric(name).measures):
        fact = catalog.fact_for(measure, dimensions)
        if fact is None:
            raise Unreachable(
                f"{measure} cannot be split or filtered by all of {', '.join(unique(dimensions))}"
            )
        found.setdefault(fact.name, (fact, []))[1].append(measure)
    return list(found.values())


def _cte(
    fact: Fact,
    measures: Sequence[str],
    dimensions: Sequence[str],
    grain: str | None,
    conditions: Sequence[Filter],
    period: tuple[date, date],
    catalog: Catalog,
) -> _Cte:
    """One fact, filtered, cut to the period, and aggregated at its own grain."""
    zone = catalog.time_zone
    bucket = f"date_trunc('{grain}', timezone('{zone}', timezone('UTC', {fact.time})))::DATE AS {grain}"
    keys = ([bucket] if grain else []) + [f"{fact.dimensions[d]} AS {d}" for d in dimensions]
    values = [f"{catalog.measures[m].value} AS {m}" for m in measures]
    where = [fact.where] if fact.where else []
    where += [f"{fact.time} >= ?", f"{fact.time} < ?"]
    params: list[Any] = [utc(day, zone) for day in period]
    for wanted in conditions:
        text, bound = condition(wanted, fact, catalog)
        where.append(text)
        params += bound
    sql = f"SELECT {', '.join(keys + values)}\nFROM {fact.source}\nWHERE " + "\n  AND ".join(where)
    sql += f"\nGROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
    return _Cte(f"{fact.name}_rows", sql, tuple(params))
