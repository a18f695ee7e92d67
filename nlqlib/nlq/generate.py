"""Rows of the star schema, drawn deterministically, with the traps that a careless query falls into.

Planted: several lines on an order and returns on a line (fan-out); ties at ranks 3, 5 and 10 in February
2023; null regions and categories; customers who share a name; a month without any order (July 2023);
cancelled orders; orders at the edges of local and UTC days and of daylight saving; values with quotes. Money
is made in whole cents.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nlqlib.nlq.catalog import Catalog, load_catalog

GENERATOR_VERSION = 1
ORDERS = 80_000
CUSTOMERS = 4_000
EMPTY_MONTH = (2023, 7)
TIED_MONTH = (2023, 2)
TIED_UNITS = (20, 18, 16, 16, 14, 14, 12, 11, 10, 9, 9, 8)
"""Units (= orders = tens of revenue) of twelve products in the tied month: ties at ranks 3, 5 and 10."""
EDGES_LOCAL = (
    "2023-12-31T23:59:59",
    "2024-01-01T00:00:00",
    "2024-03-10T01:59:59",  # the hour before the clocks go forward
    "2024-03-10T03:00:00",
    "2024-11-03T01:30:00",  # an hour that happens twice
    "2024-12-31T19:30:00",  # already the next year in UTC
    "2025-06-15T23:59:59",
)
FIRST_NAMES = "Ada Ben Cleo Dan Eva Finn Gia Hugo Ida Jon Kim Leo Mia Ned Ola Pia Quin Rosa Sam Tess"
LAST_NAMES = "Abbott Brown Chen Diaz Evans O'Brien Fischer Garcia Hughes Ito Jones D'Angelo Khan Lee Moore"
WEIGHTS = {
    "region": (14, 12, 11, 10, 9, 8, 7, 6, 5, 3),
    "channel": (22, 18, 14, 10, 7, 6, 4, 5, 5, 4, 3, 2),
    "segment": (46, 20, 15, 8, 6, 5),
    "reason": (24, 15, 12, 28, 14, 7),
}

Words = NDArray[np.uint64]
Ints = NDArray[np.int64]


def draw(seed: int, stream: int, n: int) -> Words:
    """`n` 64-bit words of SplitMix64, from counter 0 of `stream`."""
    start = np.uint64((seed * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) & 0xFFFFFFFFFFFFFFFF)
    with np.errstate(over="ignore"):
        z = start + (np.arange(n, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def below(words: Words, bound: int) -> Ints:
    """Each word as a whole number from 0 up to `bound`, exclusive."""
    return ((words >> np.uint64(11)) % np.uint64(bound)).astype(np.int64)


def weighted(words: Words, weights: Sequence[int]) -> Ints:
    """Each word as an index, drawn with whole-number `weights`."""
    return np.searchsorted(np.cumsum(weights), below(words, sum(weights)), side="right").astype(np.int64)


def tables(seed: int = 1, scale: float = 1.0) -> dict[str, pd.DataFrame]:
    """The five tables of the star schema as data frames, by name."""
    catalog = load_catalog()
    customers = _customers(seed, max(int(CUSTOMERS * scale), 60))
    products = _products(catalog)
    orders = _orders(seed, catalog, max(int(ORDERS * scale), 400), len(customers))
    lines = _lines(seed, orders, products)
    orders, lines = _plant(orders, lines, catalog)
    returns = _returns(seed, catalog, orders, lines)
    products = products.drop(columns="price_cents")
    return {
        "customers": customers,
        "products": products,
        "orders": orders.drop(columns="day"),
        "order_lines": _money(lines, "net_amount", "cost"),
        "returns": _money(returns, "refund_amount"),
    }


def _customers(seed: int, n: int) -> pd.DataFrame:
    segments = load_catalog().dimensions["customer_segment"].values
    given, family = FIRST_NAMES.split(), LAST_NAMES.split()
    first, last = below(draw(seed, 1, n), len(given)), below(draw(seed, 2, n), len(family))
    names = [f"{given[f]} {family[k]} {_suffix(i)}" for i, (f, k) in enumerate(zip(first, last, strict=True))]
    names[1] = names[0]  # two customers of one name
    names[7] = names[5] = names[3]  # and three
    kind = weighted(draw(seed, 3, n), WEIGHTS["segment"])
    return pd.DataFrame(
        {"customer_id": np.arange(1001, 1001 + n), "name": names, "segment": [segments[k] for k in kind]}
    )


def _suffix(i: int) -> str:
    """A running suffix that keeps the other names apart: A, B … AA, AB …"""
    letters = ""
    i += 1
    while i:
        i, rest = divmod(i - 1, 26)
        letters = chr(65 + rest) + letters
    return letters


def _products(catalog: Catalog) -> pd.DataFrame:
    """The catalog's products in file order: their categories in turn, the last two without one."""
    names, categories = catalog.dimensions["product"].values, catalog.dimensions["category"].values
    sizes = (6, 6, 6, 6, 6, 6, 6, 5, 5, 6)
    owner: list[str | None] = [c for c, size in zip(categories, sizes, strict=True) for _ in range(size)]
    owner += [None] * (len(names) - len(owner))
    price = 400 + below(draw(7, 4, len(names)), 19_600)
    return pd.DataFrame(
        {"product_id": np.arange(1, len(names) + 1), "name": names, "category": owner, "price_cents": price}
    )


def _days(catalog: Catalog) -> Ints:
    """Days on which ordinary orders happen, as offsets from the first; the two special months are out."""
    n = (catalog.today - catalog.first_day).days + 1
    days = [catalog.first_day + timedelta(i) for i in range(n)]
    return np.array([i for i, d in enumerate(days) if (d.year, d.month) not in (EMPTY_MONTH, TIED_MONTH)])


def _orders(seed: int, catalog: Catalog, n: int, n_customers: int) -> pd.DataFrame:
    days = _days(catalog)
    # the larger of two draws: business grows, so later days hold more orders
    at = np.maximum(below(draw(seed, 5, n), len(days)), below(draw(seed, 6, n), len(days)))
    second = below(draw(seed, 7, n), 86_400)
    region = weighted(draw(seed, 9, n), WEIGHTS["region"])
    regions = np.array(catalog.dimensions["region"].values, dtype=object)[region]
    regions[below(draw(seed, 10, n), 100) < 4] = None
    channels = np.array(catalog.dimensions["channel"].values, dtype=object)
    frame = pd.DataFrame(
        {
            "customer_id": 1001 + below(draw(seed, 8, n), n_customers),
            "day": days[at],
            "ordered_at": _utc(catalog, days[at], second),
            "region": regions,
            "channel": channels[weighted(draw(seed, 11, n), WEIGHTS["channel"])],
            "status": np.where(below(draw(seed, 12, n), 100) < 6, "cancelled", "completed"),
        }
    ).sort_values(["ordered_at", "customer_id"], ignore_index=True)
    frame.insert(0, "order_id", np.arange(1, n + 1))
    return frame


def _utc(catalog: Catalog, days: Ints, seconds: Ints) -> pd.Series:
    """UTC time stamps of local days (offsets from the first) and seconds of the day."""
    zone = ZoneInfo(catalog.time_zone)
    midnights = [
        datetime(d.year, d.month, d.day, tzinfo=zone).astimezone(UTC).replace(tzinfo=None)
        for d in (catalog.first_day + timedelta(int(i)) for i in range(int(days.max()) + 1))
    ]
    start = np.array(midnights, dtype="datetime64[s]")[days]
    # a day of 23 hours must not run into the next one
    return pd.Series(start + np.minimum(seconds, 82_799).astype("timedelta64[s]"))


def _lines(seed: int, orders: pd.DataFrame, products: pd.DataFrame) -> pd.DataFrame:
    """One to four lines on each order, of different products."""
    count = 1 + weighted(draw(seed, 13, len(orders)), (25, 30, 30, 15))
    order = np.repeat(orders["order_id"].to_numpy(), count)
    n = len(order)
    nth = np.arange(n) - np.repeat(np.cumsum(count) - count, count)
    first = below(draw(seed, 14, len(orders)), len(products))
    product = (np.repeat(first, count) + nth * 17) % len(products)  # 17 and 60 are coprime: no repeats
    quantity = 1 + weighted(draw(seed, 15, n), (60, 22, 10, 5, 3))
    discount = 5 * below(draw(seed, 16, n), 5)  # per cent
    price = products["price_cents"].to_numpy()[product] * quantity
    net = price * (100 - discount) // 100
    cost = price * (45 + below(draw(seed, 17, n), 30)) // 100
    return pd.DataFrame(
        {
            "line_id": np.arange(1, n + 1),
            "order_id": order,
            "product_id": products["product_id"].to_numpy()[product],
            "quantity": quantity,
            "net_amount": net,
            "cost": cost,
        }
    )


def _plant(orders: pd.DataFrame, lines: pd.DataFrame, catalog: Catalog) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Orders of one line of one unit: the tied month, and the edges of days."""
    zone = ZoneInfo(catalog.time_zone)
    tied = [
        (datetime(*TIED_MONTH, 1 + i % 28, 12, tzinfo=zone), product)
        for product, units in enumerate(TIED_UNITS, start=1)
        for i in range(units)
    ]
    edges = [(datetime.fromisoformat(text).replace(tzinfo=zone), 1) for text in EDGES_LOCAL]
    planted = [*tied, *edges]
    order_ids = orders["order_id"].max() + 1 + np.arange(len(planted))
    more = pd.DataFrame(
        {
            "order_id": order_ids,
            "customer_id": 1001 + np.arange(len(planted)) % 40,
            "day": [(when.date() - catalog.first_day).days for when, _ in planted],
            "ordered_at": [when.astimezone(UTC).replace(tzinfo=None) for when, _ in planted],
            "region": catalog.dimensions["region"].values[0],
            "channel": catalog.dimensions["channel"].values[0],
            "status": "completed",
        }
    ).astype({"ordered_at": orders["ordered_at"].dtype})
    sold = pd.DataFrame(
        {
            "line_id": lines["line_id"].max() + 1 + np.arange(len(planted)),
            "order_id": order_ids,
            "product_id": [product for _, product in planted],
            "quantity": 1,
            "net_amount": 1_000,
            "cost": 600,
        }
    )
    return pd.concat([orders, more], ignore_index=True), pd.concat([lines, sold], ignore_index=True)


def _returns(seed: int, catalog: Catalog, orders: pd.DataFrame, lines: pd.DataFrame) -> pd.DataFrame:
    """Units that came back: of some lines once, of some in two parts, never from cancelled orders."""
    bought = lines.merge(orders[["order_id", "day", "status"]], on="order_id")
    n = len(bought)
    word = below(draw(seed, 18, n), 1_000)
    odds = 40 + 12 * (bought["product_id"].to_numpy() % 8)  # per mille: products differ
    last_day = (catalog.today - catalog.first_day).days
    day = bought["day"].to_numpy() + 2 + below(draw(seed, 19, n), 40)
    empty = [(date(*EMPTY_MONTH, 1) - catalog.first_day).days + i for i in range(31)]
    possible = (
        (bought["status"] == "completed")
        & (day + 1 <= last_day)
        & ~np.isin([day, day + 1], empty).any(axis=0)
    )
    first = bought.assign(day=day)[(word < odds) & possible]
    second = first[(first["quantity"] > 1) & (first["line_id"] % 3 == 0)].assign(day=lambda f: f["day"] + 1)
    back = pd.concat([first, second]).sort_values(["day", "line_id"], ignore_index=True)
    m = len(back)
    reasons = np.array(catalog.dimensions["return_reason"].values, dtype=object)
    quantity = np.ones(m, dtype=np.int64)
    return pd.DataFrame(
        {
            "return_id": np.arange(1, m + 1),
            "line_id": back["line_id"],
            "returned_at": _utc(catalog, back["day"].to_numpy(), below(draw(seed, 20, m), 86_400)),
            "quantity": quantity,
            "refund_amount": back["net_amount"] // back["quantity"],
            "reason": reasons[weighted(draw(seed, 21, m), WEIGHTS["reason"])],
        }
    )


def _money(frame: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Whole cents as exact decimal text, which DuckDB reads into DECIMAL without rounding."""
    exact = {
        c: [f"{cents // 100}.{cents % 100:02d}" for cents in frame[c].to_numpy().tolist()] for c in columns
    }
    return frame.assign(**exact)
