"""The parts of a SELECT: keys, conditions, thresholds, formulas, order. Identifiers come from the catalog."""

from collections.abc import Iterable, Sequence
from typing import Any

from nlqlib.nlq.catalog import Catalog, Fact, QuestionError, Value
from nlqlib.nlq.intent import Filter, Intent, sorted_by

DEFAULT_TOP_N = 5
METRIC_SIGNS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}
RATIO_DIGITS = 9
"""Ratios are rounded to this many decimals, so that equal ones tie whatever their numerators were."""


def quoted(name: str) -> str:
    """`name` as an SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def text_literal(text: str) -> str:
    """`text` as an SQL string."""
    return "'" + text.replace("'", "''") + "'"


def bucket(time: str, grain: str, catalog: Catalog) -> str:
    """First local day of the `grain` in which the UTC time stamp `time` falls."""
    zone = text_literal(catalog.time_zone)
    local = f"timezone({zone}, timezone('UTC', {time}))"
    shift = -catalog.first_weekday % 7 if grain == "week" else 0
    if shift:  # date_trunc knows weeks from Monday only
        moved = f"date_trunc('week', {local} + INTERVAL {shift} DAY) - INTERVAL {shift} DAY"
        return f"CAST({moved} AS DATE)"
    return f"CAST(date_trunc('{grain}', {local}) AS DATE)"


def condition(wanted: Filter, fact: Fact, catalog: Catalog) -> tuple[str, list[Value]]:
    """SQL of a filter on a dimension, with its bound values; `not_in` keeps nulls."""
    column = fact.dimensions[wanted.field]
    if wanted.op in ("is_null", "not_null"):
        return f"{column} IS {'NOT ' if wanted.op == 'not_null' else ''}NULL", []
    if not wanted.values:
        raise QuestionError(f"the filter on {wanted.field} names no value")
    values = unique(catalog.resolve(wanted.field, plain(v)) for v in wanted.values)
    marks = ", ".join("?" * len(values))
    if wanted.op == "in":
        return f"{column} IN ({marks})", values
    return f"({column} NOT IN ({marks}) OR {column} IS NULL)", values


def plain(value: str | float) -> Value:
    """A value as the catalog knows it: text, or the whole number that a JSON 7.0 means."""
    if isinstance(value, float):
        return int(value) if value.is_integer() else str(value)
    return value


def formula(metric: str, catalog: Catalog) -> str:
    """A metric from the measures of its group: a sum or count without rows is 0, a ratio over 0 null."""
    known = catalog.metric(metric)
    first, *second = (f"coalesce({quoted(m)}, 0)" for m in known.measures)
    if known.kind == "measure":
        return first
    if known.kind == "difference":
        return f"{first} - {second[0]}"
    return f"round(CAST({first} AS DOUBLE) / NULLIF({second[0]}, 0), {RATIO_DIGITS})"


def having(thresholds: Sequence[Filter]) -> tuple[str, tuple[Any, ...]]:
    """Conditions on finished metrics, with their bound numbers. A null ratio meets none."""
    texts, params = [], []
    for threshold in thresholds:
        if len(threshold.values) != 1 or isinstance(threshold.values[0], str):
            raise QuestionError(f"a threshold on {threshold.field} needs exactly one number")
        texts.append(f"{quoted(threshold.field)} {METRIC_SIGNS[threshold.op]} ?")
        params.append(threshold.values[0])
    return " AND ".join(texts), tuple(params)


def ranked_by(intent: Intent, catalog: Catalog) -> str | None:
    """The metric by which rows are ordered: that of a ranking, or what the sort names; else `None`."""
    by = sorted_by(intent)
    if by in catalog.metrics:
        return by
    return intent.metrics[0] if intent.query_type == "top_n_by_metric" else None


def ordering(intent: Intent, keys: Sequence[str], ranked: str | None) -> str:
    """ORDER BY terms: what was asked for, then the keys from the left, ascending. Nulls always come last.

    By its keys every order is total, and an intent without `sort` is ordered by them alone.
    """
    by = ranked or sorted_by(intent)
    direction = intent.sort.direction if intent.sort else "desc"
    terms = {by: direction} if by else {}
    terms |= {key: "asc" for key in keys if key != by}
    return ", ".join(f"{quoted(name)} {way.upper()} NULLS LAST" for name, way in terms.items())


def unique(names: Iterable[Any]) -> list[Any]:
    """`names` in order, each once."""
    return list(dict.fromkeys(names))
