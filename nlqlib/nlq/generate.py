"""Rows of the star schema, drawn deterministically, with the traps that a careless query falls into.

Drawn by SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014) on a
counter, all in whole numbers, so the same seed and scale give the same rows on every machine and with every
version of numpy. Money is made in whole cents. Drawn here: several lines on an order, also of one product;
several returns of a line; null regions and categories; customers who share a name; cancelled orders; lines
given away; values with quotes. Planted afterwards, in `plant.py`: a month without orders, orders and returns
at the edges of days, ties.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.periods import utc
from nlqlib.nlq.plant import (
    EMPTY_MONTH,
    Ints,
    Times,
    between,
    edge_returns,
    edges,
    even_out,
    in_data,
    level_revenue,
)

ORDERS = 85_000
CUSTOMERS = 4_000
FEWEST_ORDERS, FEWEST_CUSTOMERS = 400, 60
FIRST_ID = 1001
"""Customer ids start here, so that they look like ids."""
CATEGORY_SIZES = (6, 6, 6, 6, 6, 6, 6, 5, 5, 6)
"""Products of each category, in catalog order; what is left has none."""
GIVEN = """
Ada Ben Cleo Dan Eva Finn Gia Hugo Ida Jon Kim Leo Mia Ned Ola Pia
Quin Rosa Sam Tess Uma Vic Wren Yara Abel Bea Cal Dora Eli Faye Gus Hana
Ivo Jane Kai Luz Max Nora Otis Pam Ray Sia Tom Una Val Will Zoe José
"""
FAMILY = """
Abbott Brown Chen Diaz Evans O'Brien Fischer Garcia Hughes Ito Jones D'Angelo Khan Lee Moore Novak
Okafor Park Quist Reed Singh Torres Ueda Vance Walsh Xu Young Zeller Adler Boyd Cole Drake
Ellis Ford Grant Hale Irwin Joshi Kerr Lowe Mills Nash Owens Price Rossi Shaw Tran Webb
"""
WEIGHTS = {
    "region": (14, 12, 11, 10, 9, 8, 7, 6, 5, 3),
    "channel": (22, 18, 14, 10, 7, 6, 4, 5, 5, 4, 3, 2),
    "segment": (46, 20, 15, 8, 6, 5),
    "reason": (24, 15, 12, 28, 14, 7),
    "lines": (25, 30, 30, 15),
    "quantity": (60, 22, 10, 5, 3),
}
BULK = (0, 4, 2, 5, 1, 0)
"""In ten lines of a segment, those with two more units: segments differ in what an order is worth."""
DAY_S = 86_400

Words = NDArray[np.uint64]
Columns = dict[str, Any]


def draw(seed: int, stream: int, n: int) -> Words:
    """`n` 64-bit words of SplitMix64, from counter 0 of `stream`."""
    mask = 0xFFFFFFFFFFFFFFFF
    start = np.uint64((seed * 0x9E3779B97F4A7C15 + stream * 0xD1B54A32D192ED03) & mask)
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
    cumulated = np.cumsum(weights)
    return np.searchsorted(cumulated, below(words, int(cumulated[-1])), side="right").astype(np.int64)


def tables(seed: int, scale: float, catalog: Catalog) -> dict[str, pd.DataFrame]:
    """The five tables of the star schema as data frames, by name; money in whole cents (`*_cents`).

    `scale` 1 is about 200,000 order lines. `catalog` gives the values, the first day and today.
    """
    n_orders = max(round(ORDERS * scale), FEWEST_ORDERS)
    n_customers = max(round(CUSTOMERS * scale), FEWEST_CUSTOMERS)
    products = _products(catalog)
    orders = _orders(seed, catalog, n_orders, n_customers)
    lines = _lines(seed, catalog, orders, products)
    lines["net_cents"] = level_revenue(orders, lines, catalog)
    returns = _returns(seed, catalog, orders, lines, products)
    kept = {
        "customers": _customers(seed, catalog, n_customers),
        "products": {k: v for k, v in products.items() if not k.startswith("_")},
        "orders": _worded(orders, catalog, region="region", channel="channel"),
        "order_lines": lines,
        "returns": _worded(returns, catalog, reason="return_reason"),
    }
    return {name: pd.DataFrame(columns) for name, columns in kept.items()}


def _worded(columns: Columns, catalog: Catalog, **dimensions: str) -> Columns:
    """`columns` with codes (−1: null) turned into the values of `dimensions`."""
    words = {
        column: pd.Categorical.from_codes(columns[column], list(catalog.dimension(dimension).values))
        for column, dimension in dimensions.items()
    }
    return {**columns, **words}


def _customers(seed: int, catalog: Catalog, n: int) -> Columns:
    given_names, family_names = GIVEN.split(), FAMILY.split()
    given, family = below(draw(seed, 1, n), len(given_names)), below(draw(seed, 2, n), len(family_names))
    initial = below(draw(seed, 3, n), 26)
    names = [
        f"{given_names[g]} {chr(65 + i)}. {family_names[f]}"
        for g, i, f in zip(given, initial, family, strict=True)
    ]
    names[1] = names[0]  # two customers of one name
    names[7] = names[5] = names[3]  # and three
    names[9] = 'Nadia "Nan" O\'Hara'  # one with both kinds of quotes
    segment = pd.Categorical.from_codes(
        _segments(seed, n), list(catalog.dimension("customer_segment").values)
    )
    return {"customer_id": np.arange(FIRST_ID, FIRST_ID + n), "name": names, "segment": segment}


def _segments(seed: int, n: int) -> Ints:
    return weighted(draw(seed, 4, n), WEIGHTS["segment"])


def _products(catalog: Catalog) -> Columns:
    """The catalog's products in file order, with price, popularity and category code; no seed."""
    names = catalog.dimension("product").values
    codes = np.repeat(np.arange(len(CATEGORY_SIZES)), CATEGORY_SIZES)
    codes = np.concatenate([codes, np.full(len(names) - len(codes), -1)])
    return {
        "product_id": np.arange(1, len(names) + 1),
        "name": list(names),
        "category": pd.Categorical.from_codes(codes, list(catalog.dimension("category").values)),
        "_code": codes,
        "_price_cents": 400 + below(draw(7, 5, len(names)), 19_600),
        "_popularity": 6 + below(draw(7, 6, len(names)), 20),
    }


def _orders(seed: int, catalog: Catalog, n: int, n_customers: int) -> Columns:
    at = np.sort(np.concatenate([_times(seed, catalog, n), edges(catalog)]))
    n = len(at)
    status = np.where(below(draw(seed, 12, n), 100) < 6, "cancelled", "completed")
    counted = (status == "completed") & in_data(at, catalog)
    region = weighted(draw(seed, 9, n), WEIGHTS["region"])
    region[below(draw(seed, 10, n), 100) < 4] = -1
    channel = weighted(draw(seed, 11, n), WEIGHTS["channel"])
    return {
        "order_id": np.arange(1, n + 1),
        "customer_id": FIRST_ID + below(draw(seed, 8, n), n_customers),
        "ordered_at": at,
        "region": even_out(region, counted),
        "channel": even_out(channel, counted),
        "status": status,
    }


def _times(seed: int, catalog: Catalog, n: int) -> Times:
    """UTC times of ordinary orders: any second of any day, the empty month left out."""
    total = (catalog.today - catalog.first_day).days + 1
    days = [catalog.first_day + timedelta(i) for i in range(total)]
    days = [d for d in days if not EMPTY_MONTH[0] <= d < EMPTY_MONTH[1]]
    starts = np.array([utc(d, catalog.time_zone) for d in days], dtype="datetime64[s]")
    # the larger of two draws: business grows, so later days hold more orders
    at = np.maximum(below(draw(seed, 13, n), len(days)), below(draw(seed, 14, n), len(days)))
    second = below(draw(seed, 15, n), DAY_S - 3_600)  # a day of 23 hours must not run into the next one
    return starts[at] + second.astype("timedelta64[s]")


def _lines(seed: int, catalog: Catalog, orders: Columns, products: Columns) -> Columns:
    """One to four lines on each order; the ties in units are planted before the prices are set."""
    of_order = np.repeat(
        np.arange(len(orders["order_id"])),
        1 + weighted(draw(seed, 16, len(orders["order_id"])), WEIGHTS["lines"]),
    )
    n = len(of_order)
    segment = _segments(seed, orders["customer_id"].max())[orders["customer_id"][of_order] - FIRST_ID]
    bulk = below(draw(seed, 27, n), 10) < np.array(BULK)[segment]
    quantity = 1 + weighted(draw(seed, 18, n), WEIGHTS["quantity"]) + 2 * bulk
    counted = ((orders["status"] == "completed") & in_data(orders["ordered_at"], catalog))[of_order]
    drawn = weighted(draw(seed, 17, n), products["_popularity"])
    product = even_out(drawn, counted, quantity)
    discount = 5 * below(draw(seed, 19, n), 5)  # per cent
    discount[below(draw(seed, 20, n), 200) == 0] = 100  # given away: revenue 0, a ratio over it has no value
    price = products["_price_cents"][product] * quantity
    return {
        "line_id": np.arange(1, n + 1),
        "order_id": orders["order_id"][of_order],
        "product_id": products["product_id"][product],
        "quantity": quantity,
        "net_cents": price * (100 - discount) // 100,
        "cost_cents": price * (45 + below(draw(seed, 21, n), 30)) // 100,
    }


def _returns(seed: int, catalog: Catalog, orders: Columns, lines: Columns, products: Columns) -> Columns:
    """Units that came back: of some lines at once, of some in two parts, never from cancelled orders."""
    n = len(lines["line_id"])
    ordered, completed = (
        _per_line(orders, lines, "ordered_at"),
        _per_line(orders, lines, "status") == "completed",
    )
    at = ordered + (2 * DAY_S + below(draw(seed, 22, n), 40 * DAY_S)).astype("timedelta64[s]")
    odds = 40 + 20 * (products["_code"][lines["product_id"] - 1] % 7)  # per mille: categories differ
    back = completed & (below(draw(seed, 23, n), 1_000) < odds) & in_data(at, catalog)
    first = np.flatnonzero(back)
    part = 1 + below(draw(seed, 24, len(first)), 5) % lines["quantity"][first]
    rest = lines["quantity"][first] - part
    again = (rest > 0) & (below(draw(seed, 25, len(first)), 2) == 0)
    edge_lines, edge_times = edge_returns(ordered, completed & ~back, catalog)
    line = np.concatenate([first, first[again], edge_lines])
    returned = np.concatenate([at[first], at[first[again]] + np.timedelta64(30, "h"), edge_times])
    units = np.concatenate([part, rest[again], np.ones(len(edge_lines), dtype=np.int64)])
    order = np.lexsort((line, returned))
    kept = order[~between(returned[order], *EMPTY_MONTH, catalog)]
    line, units = line[kept], units[kept]
    return {
        "return_id": np.arange(1, len(kept) + 1),
        "line_id": lines["line_id"][line],
        "returned_at": returned[kept],
        "quantity": units,
        "refund_cents": lines["net_cents"][line] * units // lines["quantity"][line],
        "reason": weighted(draw(seed, 26, len(kept)), WEIGHTS["reason"]),
    }


def _per_line(orders: Columns, lines: Columns, column: str) -> Any:
    """A column of the orders, for each line; order ids are 1, 2, 3 …"""
    return orders[column][lines["order_id"] - 1]
