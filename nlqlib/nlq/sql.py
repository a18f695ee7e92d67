"""An intent becomes one SELECT with bound values; the catalog supplies every identifier.

Each fact is aggregated at its own grain in a CTE of its own, and the CTEs are joined null-safely on the union
of their groups: no row is counted twice, and no group, null included, is dropped or doubled. A group is shown
when any of its metrics, thresholds or sort metrics has a row there. In it a sum or count without rows is 0,
and a ratio without a denominator is null.

A time series is complete: each bucket from the first to the last of the period is there for each group that
occurs in the period, with 0 (ratios: null) where nothing happened, so that an empty month is the lowest one
and not a missing one. Buckets at the ends of the period hold only what lies inside it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any

from nlqlib.nlq.catalog import Catalog, Fact, QuestionError, Unit
from nlqlib.nlq.intent import Filter, Intent, sorted_by
from nlqlib.nlq.periods import parse_period, start_of, utc
from nlqlib.nlq.sql_parts import (
    DEFAULT_TOP_N,
    METRIC_SIGNS,
    bucket,
    condition,
    formula,
    having,
    ordering,
    quoted,
    ranked_by,
    unique,
)
from nlqlib.nlq.warehouse import Warehouse
from nlqlib.nlq.words import interpretation

__all__ = ["DEFAULT_TOP_N", "Column", "Query", "Result", "Unreachable", "build", "execute"]

TIE = "tie_with_next"
"""Hidden column: whether the row after this one has the same value of the ranked metric."""
STEP = {"day": "1 DAY", "week": "7 DAY", "month": "1 MONTH", "quarter": "3 MONTH", "year": "1 YEAR"}


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
    """Rows with named columns and units, and how they came about.

    Money is `Decimal` (an average is a float), counts are `int`, ratios `float`, times the first `date` of
    their bucket, customers ids; a null is `None`.
    """

    columns: tuple[Column, ...]
    rows: tuple[tuple[Any, ...], ...]
    sql: str
    params: tuple[Any, ...]
    interpretation: str
    tie_at_cut: bool = False
    """The first row that was cut off has the same value as the last one shown."""


@dataclass(frozen=True)
class _Part:
    """A CTE, or the body of one, with its bound values."""

    name: str
    sql: str
    params: tuple[Any, ...] = ()

    def cte(self) -> str:
        return f"{self.name} AS (\n{self.sql}\n)"


@dataclass(frozen=True)
class _Plan:
    """What is split by what: `grain` and `dimensions` are the keys, `metrics` all that must be computed."""

    catalog: Catalog
    dimensions: tuple[str, ...]
    grain: str | None
    conditions: tuple[Filter, ...]
    thresholds: tuple[Filter, ...]
    metrics: tuple[str, ...]
    ranked: str | None
    period: tuple[date, date]

    @property
    def keys(self) -> tuple[str, ...]:
        return ((self.grain,) if self.grain else ()) + self.dimensions


def build(intent: Intent, catalog: Catalog) -> Query:
    """The query of `intent`. Raises `QuestionError` for what the catalog cannot compute."""
    plan = _plan(intent, catalog)
    limit = intent.limit or (DEFAULT_TOP_N if intent.query_type == "top_n_by_metric" else None)
    facts = [_aggregated(plan, fact, measures) for fact, measures in _facts(plan)]
    parts = [*facts, *_spine(plan, facts)]
    valued = _Part("valued", _valued(plan, facts))
    wanted, thresholds = having(plan.thresholds)
    order = ordering(intent, plan.keys, plan.ranked)
    shown = [quoted(name) for name in (*plan.keys, *intent.metrics)]
    tie = _tie(plan.ranked, order) if plan.ranked and limit and plan.keys else []
    sql = "WITH " + ",\n".join(part.cte() for part in (*parts, valued))
    sql += f"\nSELECT {', '.join(shown + tie)}\nFROM valued"
    sql += (f"\nWHERE {wanted}" if wanted else "") + (f"\nORDER BY {order}" if order else "")
    sql += "\nLIMIT ?" if limit else ""
    params = (*(p for part in parts for p in part.params), *thresholds, *((limit,) if limit else ()))
    words = interpretation(intent, plan.period, plan.ranked, limit, catalog)
    return Query(sql, params, _columns(plan, intent.metrics), words, limit, order)


def execute(query: Query, warehouse: Warehouse) -> Result:
    """The rows of `query`. Raises `QuestionError` past the warehouse's limits."""
    names, rows = warehouse.fetch(query.sql, query.params)
    words, tie = query.interpretation, False
    if TIE in names:
        tie = len(rows) == query.limit and bool(rows[-1][-1])
        rows = [row[:-1] for row in rows]
    if tie:
        words += "; a tie at the cut: the next row has the same value as the last one shown"
    return Result(query.columns, tuple(rows), query.sql, query.params, words, tie)


def _plan(intent: Intent, catalog: Catalog) -> _Plan:
    conditions = tuple(f for f in intent.filters if f.op not in METRIC_SIGNS)
    thresholds = tuple(f for f in intent.filters if f.op in METRIC_SIGNS)
    ranked = ranked_by(intent, catalog)
    metrics = unique([*intent.metrics, *(f.field for f in thresholds), *([ranked] if ranked else [])])
    plan = _Plan(
        catalog=catalog,
        dimensions=tuple(intent.dimensions),
        grain=intent.grain if intent.query_type == "time_series" else None,
        conditions=conditions,
        thresholds=thresholds,
        metrics=tuple(metrics),
        ranked=ranked,
        period=parse_period(intent.period, catalog),
    )
    _check(plan, intent)
    return plan


def _check(plan: _Plan, intent: Intent) -> None:
    """Names exist, dimensions are reached by every metric, and the kind has what it needs."""
    for dimension in unique([*plan.dimensions, *(f.field for f in plan.conditions)]):
        plan.catalog.dimension(dimension)
        for metric in plan.metrics:
            if not plan.catalog.reaches(metric, dimension):
                able = [m for m in plan.catalog.metrics if plan.catalog.reaches(m, dimension)]
                raise Unreachable(
                    f"{metric} cannot be split or filtered by {dimension}; only {' and '.join(able)} can"
                )
    by = sorted_by(intent)
    if by is not None and by not in plan.catalog.metrics and plan.catalog.dimension(by).name not in plan.keys:
        raise QuestionError(f"cannot sort by {by}: the answer is not split by it")
    if intent.query_type == "time_series" and intent.grain is None:
        raise QuestionError("a time series needs a grain: day, week, month, quarter or year")
    if intent.query_type == "top_n_by_metric" and not intent.dimensions:
        raise QuestionError("a ranking needs a dimension whose values are ranked")


def _columns(plan: _Plan, metrics: Sequence[str]) -> tuple[Column, ...]:
    keys = (Column(key, key if key == plan.grain else None) for key in plan.keys)
    return (*keys, *(Column(m, plan.catalog.metric(m).unit) for m in metrics))


def _facts(plan: _Plan) -> list[tuple[Fact, list[str]]]:
    """The facts needed, each with the measures to aggregate on it, in order of first use."""
    dimensions = unique([*plan.dimensions, *(f.field for f in plan.conditions)])
    found: dict[str, tuple[Fact, list[str]]] = {}
    for measure in unique(m for name in plan.metrics for m in plan.catalog.metric(name).measures):
        fact = plan.catalog.fact_for(measure, dimensions)
        if fact is None:
            raise Unreachable(f"{measure} cannot be split or filtered by all of {', '.join(dimensions)}")
        found.setdefault(fact.name, (fact, []))[1].append(measure)
    return list(found.values())


def _aggregated(plan: _Plan, fact: Fact, measures: Sequence[str]) -> _Part:
    """One fact, filtered, cut to the period, and aggregated at its own grain."""
    catalog = plan.catalog
    keys = [bucket(fact.time, plan.grain, catalog)] if plan.grain else []
    keys += [fact.dimensions[d] for d in plan.dimensions]
    shown = [f"{text} AS {quoted(key)}" for text, key in zip(keys, plan.keys, strict=True)]
    shown += [f"{catalog.measures[m].value} AS {quoted(m)}" for m in measures]
    where = [f"({fact.where})"] if fact.where else []
    where += [f"{fact.time} >= ?", f"{fact.time} < ?"]
    params: list[Any] = [utc(day, catalog.time_zone) for day in plan.period]
    for wanted in plan.conditions:
        text, bound = condition(wanted, fact, catalog)
        where.append(text)
        params += bound
    sql = f"SELECT {', '.join(shown)}\nFROM {fact.source}\nWHERE " + "\n  AND ".join(where)
    sql += f"\nGROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}" if keys else ""
    return _Part(quoted(f"{fact.name}_rows"), sql, tuple(params))


def _spine(plan: _Plan, facts: Sequence[_Part]) -> list[_Part]:
    """The rows of the answer, before anything is joined to them: its groups, and its buckets of time."""
    parts = []
    names = ", ".join(map(quoted, plan.dimensions))
    if plan.dimensions and (plan.grain or len(facts) > 1):
        each = "\nUNION\n".join(f"SELECT DISTINCT {names} FROM {fact.name}" for fact in facts)
        parts.append(_Part("groups", each))
    if plan.grain:
        start, end = plan.period
        first = start_of(start, plan.grain, plan.catalog.first_weekday)
        series = f"generate_series(CAST(? AS DATE), CAST(? AS DATE), INTERVAL {STEP[plan.grain]})"
        sql = f"SELECT CAST(unnest({series}) AS DATE) AS {quoted(plan.grain)}"
        parts.append(_Part("buckets", sql, (first, end - timedelta(days=1))))
    return parts


def _valued(plan: _Plan, facts: Sequence[_Part]) -> str:
    """The metrics of each row of the answer."""
    spine = [part.name for part in _spine(plan, facts)]
    joined = "\nCROSS JOIN ".join(spine or [fact.name for fact in facts])
    keys = list(map(quoted, plan.keys))
    if spine:
        owner = {k: "buckets" if k == quoted(plan.grain or "") else "groups" for k in keys}
        for fact in facts:
            same = " AND ".join(f"{fact.name}.{k} IS NOT DISTINCT FROM {owner[k]}.{k}" for k in keys)
            joined += f"\nLEFT JOIN {fact.name} ON {same}"
        keys = [f"{owner[k]}.{k}" for k in keys]
    metrics = [f"{formula(m, plan.catalog)} AS {quoted(m)}" for m in plan.metrics]
    return f"SELECT {', '.join(keys + metrics)}\nFROM {joined}"


def _tie(ranked: str, order: str) -> list[str]:
    name, window = quoted(ranked), f"OVER (ORDER BY {order})"
    followed = f"row_number() {window} < count(*) OVER ()"
    return [f"{followed} AND lead({name}) {window} IS NOT DISTINCT FROM {name} AS {TIE}"]
