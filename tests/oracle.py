"""The rows of an intent, computed a second time: pandas and fractions, written from the contract alone.

Nothing here comes from the SQL builder. Periods are pandas' own, local time is pandas' own, ratios are exact
fractions. The metrics and their rules are spelled out again instead of being read from the catalog.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from typing import Any

import pandas as pd

from nlqlib.nlq.intent import Filter, Intent
from nlqlib.nlq.warehouse import Warehouse

TODAY, FIRST_DAY, ZONE = date(2025, 6, 15), date(2023, 1, 1), "America/New_York"
FREQ = {"day": "D", "week": "W-SUN", "month": "M", "quarter": "Q", "year": "Y"}  # W-SUN: Monday to Sunday
RATIOS = {
    "average_order_value": ("revenue", "orders"),
    "gross_margin_rate": ("gross_margin", "revenue"),
    "return_rate": ("returned_units", "units"),
}
"""Metrics that are a sum over a sum; the others are additive."""
FACTS = {
    "revenue": ("line",),
    "units": ("line",),
    "gross_margin": ("line",),
    "gross_margin_rate": ("line",),
    "orders": ("order",),
    "customers": ("order",),
    "average_order_value": ("line", "order"),
    "refunds": ("return",),
    "return_rate": ("return", "line"),
    "net_revenue": ("line", "return"),
}
COLUMN = {"customer": "customer_id", "customer_segment": "segment", "return_reason": "reason"}
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "gt": lambda a, b: a > b,
    "gte": lambda a, b: a >= b,
    "lt": lambda a, b: a < b,
    "lte": lambda a, b: a <= b,
}
COMPLETE_SERIES = True
"""Whether a series lists the buckets in which nothing happened, for each group of the period."""
Frames = dict[str, pd.DataFrame]
Row = tuple[Any, ...]


@dataclass(frozen=True)
class Answer:
    """Rows in order, ratios and money as fractions, and whether the cut goes through a tie."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]
    tie_at_cut: bool


def frames(warehouse: Warehouse) -> Frames:
    """The rows of each grain, with everything known of them, in local time; cancelled orders are out."""

    def read(sql: str) -> pd.DataFrame:
        return warehouse.connection.execute(sql).df()

    cents = "CAST({0} * 100 AS BIGINT) AS {0}".format
    orders = read("SELECT * FROM orders").merge(read("SELECT customer_id, segment FROM customers"))
    products = read("SELECT product_id, name AS product, category FROM products")
    money = f"{cents('net_amount')}, {cents('cost')}"
    lines = read(f"SELECT line_id, order_id, product_id, quantity AS sold, {money} FROM order_lines")
    lines = lines.merge(products, on="product_id").merge(orders, on="order_id")
    amount = cents("refund_amount")
    returns = read(f"SELECT line_id, returned_at, quantity AS back, {amount}, reason FROM returns")
    returns = returns.merge(lines, on="line_id")
    local = {
        "order": orders.assign(day=_local_day(orders["ordered_at"])),
        "line": lines.assign(day=_local_day(lines["ordered_at"])),
        "return": returns.assign(day=_local_day(returns["returned_at"])),
    }
    kept = {name: local[name][local[name]["status"] != "cancelled"] for name in ("order", "line")}
    return {**kept, "return": local["return"]}


def _local_day(stamps: pd.Series) -> pd.Series:
    return stamps.dt.tz_localize("UTC").dt.tz_convert(ZONE).dt.tz_localize(None).dt.normalize()


def days(text: str) -> tuple[date, date]:
    """First and last local day of a period, both inside it, clipped to the data. Empty: first > last."""
    first, last = _days(text)
    return max(first, FIRST_DAY), min(last, TODAY)


def _days(text: str) -> tuple[date, date]:
    today = pd.Timestamp(TODAY)
    if text == "all":
        return FIRST_DAY, TODAY
    if text.startswith("this_"):
        return today.to_period(FREQ[text[5:]]).start_time.date(), TODAY
    if text.startswith("last_"):
        *number, unit = text[5:].split("_")
        if unit == "days":
            return (today - pd.Timedelta(days=int(number[0]) - 1)).date(), TODAY
        now = today.to_period(FREQ[unit.removesuffix("s")])
        return (now - int(number[0] if number else 1)).start_time.date(), (now - 1).end_time.date()
    first, _, last = text.partition("..")
    return _period(first).start_time.date(), _period(last or first).end_time.date()


def _period(text: str) -> pd.Period:
    freq = {4: "Y", 7: "Q" if "Q" in text else "M", 10: "D"}[len(text)]
    return pd.Period(text.replace("-Q", "Q"), freq)


def answer(intent: Intent, known: Frames) -> Answer:
    """The rows of `intent` from the `frames` of a warehouse; filter values must be canonical."""
    thresholds = [f for f in intent.filters if f.op in COMPARE]
    by, direction = _order(intent)
    wanted = dict.fromkeys([*intent.metrics, *(f.field for f in thresholds), *([by] if by in FACTS else [])])
    keys = ([intent.grain] if intent.grain else []) + list(intent.dimensions)
    groups = _groups(intent, keys, list(wanted), known)
    table = [
        {**dict(zip(keys, key, strict=True)), **_metrics(wanted, parts)} for key, parts in groups.items()
    ]
    table = _sorted([row for row in table if all(_passes(f, row) for f in thresholds)], keys, by, direction)
    limit = intent.limit or (5 if intent.query_type == "top_n_by_metric" else None)
    tie = bool(
        limit and keys and by in FACTS and len(table) > limit and table[limit - 1][by] == table[limit][by]
    )
    columns = (*keys, *intent.metrics)
    return Answer(columns, tuple(tuple(row[c] for c in columns) for row in table[:limit]), tie)


Table = list[dict[str, Any]]


def _sorted(table: Table, keys: list[str], by: str | None, direction: str) -> Table:
    """By the sort term, nulls last in both directions, then by all keys ascending, nulls last."""
    terms = [(key, False) for key in reversed(keys)] + ([(by, direction == "desc")] if by else [])
    for term, downwards in terms:  # each sort is stable, so the last one rules
        there = [row for row in table if row[term] is not None]
        there.sort(key=lambda row: row[term], reverse=downwards)
        table = there + [row for row in table if row[term] is None]
    return table


def _order(intent: Intent) -> tuple[str | None, str]:
    """What rows are ordered by before their keys; a ranking by one metric heeds only the direction."""
    direction = intent.sort.direction if intent.sort else "desc"
    if intent.query_type == "top_n_by_metric" and (intent.sort is None or len(intent.metrics) == 1):
        return intent.metrics[0], direction
    return (intent.sort.by if intent.sort else None), direction


def _groups(intent: Intent, keys: list[str], metrics: list[str], known: Frames) -> dict[Row, dict[str, Any]]:
    """Sums and counts of each group that has a row in a fact of one of `metrics`."""
    named = {*intent.dimensions, *(f.field for f in intent.filters)}
    groups: dict[Row, dict[str, Any]] = {} if keys else {(): {}}
    for fact in dict.fromkeys(f for m in metrics for f in FACTS[m]):
        by_line = fact == "order" and named & {"product", "category"}
        frame = _chosen(known["line" if by_line else fact], intent)
        for key, rows in _split(frame, keys):
            groups.setdefault(key, {}).update(_sums(fact, rows))
    if intent.grain and COMPLETE_SERIES:
        rest = {key[1:] for key in groups} if intent.dimensions else {()}
        return {(day, *key): groups.get((day, *key), {}) for day in _buckets(intent) for key in rest}
    return groups


def _buckets(intent: Intent) -> list[date]:
    every = pd.date_range(*days(intent.period)).to_period(FREQ[str(intent.grain)]).unique()
    return [period.start_time.date() for period in every]


def _chosen(frame: pd.DataFrame, intent: Intent) -> pd.DataFrame:
    first, last = days(intent.period)
    frame = frame[(frame["day"] >= pd.Timestamp(first)) & (frame["day"] <= pd.Timestamp(last))]
    for condition in intent.filters:
        if condition.op in COMPARE:
            continue
        column = frame[COLUMN.get(condition.field, condition.field)]
        frame = frame[_kept(column, condition)]
    return frame


def _kept(column: pd.Series, condition: Filter) -> pd.Series:
    if condition.op == "is_null":
        return column.isna()
    if condition.op == "not_null":
        return column.notna()
    inside = column.isin(list(condition.values))
    return inside if condition.op == "in" else ~inside  # null is in no list, so not_in keeps it


def _split(frame: pd.DataFrame, keys: list[str]) -> Iterable[tuple[Row, pd.DataFrame]]:
    if not keys:
        return [((), frame)]
    columns = [_key(frame, key) for key in keys]
    found = frame.groupby([c.rename(f"key_{i}") for i, c in enumerate(columns)], dropna=False)
    return [(tuple(None if pd.isna(k) else k for k in key), rows) for key, rows in found]


def _key(frame: pd.DataFrame, key: str) -> pd.Series:
    if key in FREQ:
        return frame["day"].dt.to_period(FREQ[key]).dt.start_time.dt.date
    return frame[COLUMN.get(key, key)]


def _sums(fact: str, rows: pd.DataFrame) -> dict[str, Any]:
    if fact == "order":
        return {"orders": int(rows["order_id"].nunique()), "customers": int(rows["customer_id"].nunique())}
    if fact == "return":
        return {
            "refunds": Fraction(int(rows["refund_amount"].sum()), 100),
            "returned_units": int(rows["back"].sum()),
        }
    net, cost = Fraction(int(rows["net_amount"].sum()), 100), Fraction(int(rows["cost"].sum()), 100)
    return {"revenue": net, "gross_margin": net - cost, "units": int(rows["sold"].sum())}


def _money(cents: pd.Series) -> Fraction:
    return Fraction(int(cents.sum()), 100)


def _metrics(names: Iterable[str], parts: dict[str, Any]) -> dict[str, Any]:
    return {name: _metric(name, parts) for name in names}


def _metric(name: str, parts: dict[str, Any]) -> Any:
    if name == "net_revenue":
        return parts.get("revenue", 0) - parts.get("refunds", 0)
    if name not in RATIOS:
        return parts.get(name, 0)
    above, below = (parts.get(part, 0) for part in RATIOS[name])
    return Fraction(above) / below if below else None


def _passes(threshold: Filter, row: dict[str, Any]) -> bool:
    value = row[threshold.field]
    return value is not None and COMPARE[threshold.op](value, Fraction(str(threshold.values[0])))
