"""The parts of a SELECT: conditions, thresholds, formulas, order, and the interpretation in words."""

from collections.abc import Iterable, Sequence
from datetime import UTC, date, datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from nlqlib.nlq.catalog import Catalog, Fact, QuestionError
from nlqlib.nlq.intent import Filter, Intent

DEFAULT_TOP_N = 5
METRIC_OPS = {"gt": ">", "gte": ">=", "lt": "<", "lte": "<="}


def utc(day: date, zone: str) -> datetime:
    """The UTC time stamp at which local `day` begins."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    return midnight.astimezone(UTC).replace(tzinfo=None)


def condition(wanted: Filter, fact: Fact, catalog: Catalog) -> tuple[str, list[Any]]:
    """SQL of a filter on a dimension, with its bound values; `not_in` keeps nulls."""
    column = fact.dimensions[wanted.field]
    if wanted.op in ("is_null", "not_null"):
        return f"{column} IS {'NOT ' if wanted.op == 'not_null' else ''}NULL", []
    if not wanted.values:
        raise QuestionError(f"the filter on {wanted.field} names no value")
    values = unique(catalog.resolve(wanted.field, text_of(v)) for v in wanted.values)
    marks = ", ".join("?" * len(values))
    if wanted.op == "in":
        return f"{column} IN ({marks})", list(values)
    return f"({column} NOT IN ({marks}) OR {column} IS NULL)", list(values)


def text_of(value: str | float) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def formula(metric: str, catalog: Catalog) -> str:
    """A metric from the folded measures of its group."""
    known = catalog.metric(metric)
    first, *second = (f"coalesce({m}, 0)" for m in known.measures)
    if known.kind == "measure":
        return first
    if known.kind == "difference":
        return f"{first} - {second[0]}"
    return f"CAST({first} AS DOUBLE) / NULLIF({second[0]}, 0)"


def having(thresholds: Sequence[Filter]) -> tuple[str, tuple[Any, ...]]:
    texts, params = [], []
    for threshold in thresholds:
        if len(threshold.values) != 1 or isinstance(threshold.values[0], str):
            raise QuestionError(f"a threshold on {threshold.field} needs exactly one number")
        texts.append(f"{threshold.field} {METRIC_OPS[threshold.op]} ?")
        params.append(threshold.values[0])
    return ("\nWHERE " + " AND ".join(texts) if texts else ""), tuple(params)


def ordering(intent: Intent, keys: Sequence[str]) -> tuple[str, str | None, int | None]:
    """ORDER BY terms, the metric ranked by, and the limit. Every order is total, by the keys at its end."""
    rest = [f"{key} ASC NULLS LAST" for key in keys]
    if intent.query_type == "top_n_by_metric":
        by = intent.sort.by if intent.sort and intent.sort.by not in keys else intent.metrics[0]
        direction = intent.sort.direction if intent.sort else "desc"
        return ", ".join([_term(by, direction), *rest]), by, intent.limit or DEFAULT_TOP_N
    if intent.sort is None:
        return ", ".join(rest), None, intent.limit
    ranked = intent.sort.by if intent.sort.by not in keys else None
    return ", ".join(unique([_term(intent.sort.by, intent.sort.direction), *rest])), ranked, intent.limit


def _term(by: str, direction: str) -> str:
    return f"{by} {direction.upper()} NULLS LAST"


def words(intent: Intent, start: date, end: date, limit: int | None) -> str:
    """How the question was understood, in a sentence."""
    named = [name.replace("_", " ") for name in intent.dimensions]
    text = " and ".join(m.replace("_", " ") for m in intent.metrics)
    if intent.query_type == "top_n_by_metric":
        by = (intent.sort.by if intent.sort else intent.metrics[0]).replace("_", " ")
        way = "lowest" if intent.sort and intent.sort.direction == "asc" else "highest"
        text = f"{text} by {' and '.join(named)}: the {limit} with the {way} {by}"
    else:
        text += (
            f" by {' and '.join(([intent.grain] if intent.grain else []) + named)}"
            if named or intent.grain
            else ""
        )
        text += (
            f", sorted by {intent.sort.by.replace('_', ' ')} {intent.sort.direction}" if intent.sort else ""
        )
        text += f", first {limit} rows" if limit else ""
    for f in intent.filters:
        listed = ", ".join(map(str, f.values))
        text += f"; {f.field.replace('_', ' ')} {f.op.replace('_', ' ')} {listed}".rstrip()
    text += f"; {start} to {end - timedelta(days=1)}"
    return text + ("; periods without data are not listed" if intent.query_type == "time_series" else "")


def unique(names: Iterable[Any]) -> list[Any]:
    """`names` in order, each once."""
    return list(dict.fromkeys(names))
