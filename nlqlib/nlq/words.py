"""How a question was understood, in one sentence that an analyst can check without reading SQL."""

from datetime import date, timedelta

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.intent import Filter, Intent, sorted_by
from nlqlib.nlq.sql_parts import plain

OPS = {
    "in": "is",
    "not_in": "is not",
    "is_null": "is not recorded",
    "not_null": "is recorded",
    "gt": "above",
    "gte": "at least",
    "lt": "below",
    "lte": "at most",
}


def interpretation(
    intent: Intent, period: tuple[date, date], ranked: str | None, limit: int | None, catalog: Catalog
) -> str:
    """`revenue by region; channel is Web; 2024-01-01 to 2024-12-31, local time; highest revenue first`."""
    keys = [*([intent.grain] if intent.grain else []), *map(_spoken, intent.dimensions)]
    what = " and ".join(map(_spoken, intent.metrics)) + (f" by {' and '.join(keys)}" if keys else "")
    start, end = period
    parts = [what, *(_condition(f, catalog) for f in intent.filters)]
    parts.append(f"{start} to {end - timedelta(days=1)}, {catalog.time_zone} time")
    parts += _order(intent, ranked)
    parts += [f"at most {limit} row{'s' if limit > 1 else ''}"] if limit else []
    return "; ".join(parts)


def _spoken(name: str) -> str:
    return name.replace("_", " ")


def _condition(condition: Filter, catalog: Catalog) -> str:
    if condition.field in catalog.metrics:
        values = [f"{v:,}" for v in condition.values]
    else:
        values = [_value(condition.field, v, catalog) for v in condition.values]
    return f"{_spoken(condition.field)} {OPS[condition.op]} {' or '.join(values)}".rstrip()


def _value(field: str, value: str | float, catalog: Catalog) -> str:
    """A value under its canonical name; one that goes by id, with its name beside it."""
    known = catalog.resolve(field, plain(value))
    return f"{known} ({catalog.dimension(field).names[known]})" if isinstance(known, int) else known


def _order(intent: Intent, ranked: str | None) -> list[str]:
    direction = intent.sort.direction if intent.sort else "desc"
    if ranked:
        return [f"{'highest' if direction == 'desc' else 'lowest'} {_spoken(ranked)} first"]
    by = sorted_by(intent)
    return [f"sorted by {_spoken(by)}, {direction}"] if by else []
