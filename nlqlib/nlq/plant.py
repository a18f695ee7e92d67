"""Traps planted among drawn rows: a month without orders, times at the edges of days, ties at the usual cuts.

The ties hold over the whole period: orders by region and by channel, units by product, revenue by customer,
each at ranks 3, 5 and 10, highest first.
"""

from collections.abc import Mapping
from datetime import UTC, date, datetime
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np
from numpy.typing import NDArray

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.periods import DAY, utc

EMPTY_MONTH = (date(2023, 7, 1), date(2023, 8, 1))
TIED_RANKS = (3, 5, 10)
EDGES_LOCAL = (
    "2023-06-30T23:59:59",  # already the empty month in UTC
    "2023-08-01T00:00:00",
    "2023-12-31T23:59:59",
    "2024-01-01T00:00:00",
    "2024-02-29T19:30:00",  # already March in UTC
    "2024-03-10T01:59:59",  # the second before the clocks go forward
    "2024-03-10T03:00:00",
    "2024-11-03T01:30:00",  # an hour that happens twice
    "2024-12-31T18:59:59",  # the last second of the UTC year
    "2024-12-31T19:00:00",
    "2025-01-06T00:00:00",  # a Monday
    "2025-03-31T23:59:59",
    "2025-04-01T00:00:00",
)

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Times = NDArray[np.datetime64]


def between(at: Times, start: date, end: date, catalog: Catalog) -> Bools:
    """Which UTC times lie in the half-open local days from `start` to `end`."""
    first, last = (np.datetime64(utc(day, catalog.time_zone), "s") for day in (start, end))
    return (at >= first) & (at < last)


def in_data(at: Times, catalog: Catalog) -> Bools:
    """Which UTC times lie between the first day and today, both included."""
    return between(at, catalog.first_day, catalog.today + DAY, catalog)


def edges(catalog: Catalog) -> Times:
    """UTC times at the edges of local and UTC days, and on both sides of both ends of the data."""
    zone = ZoneInfo(catalog.time_zone)
    local = [datetime.fromisoformat(text).replace(tzinfo=zone) for text in EDGES_LOCAL]
    twice = [t.replace(fold=1) for t in local if t.replace(fold=1).utcoffset() != t.utcoffset()]
    inside = [t.astimezone(UTC).replace(tzinfo=None) for t in local + twice]
    ends = [utc(day, catalog.time_zone) for day in (catalog.first_day, catalog.today + DAY)]
    second = np.timedelta64(1, "s")
    at_ends = np.array(ends, dtype="datetime64[s]")
    return np.concatenate([np.array(inside, dtype="datetime64[s]"), at_ends, at_ends - second])


def edge_returns(ordered: Times, free: Bools, catalog: Catalog) -> tuple[Ints, Times]:
    """Lines to be returned at the edges: the last `free` one ordered five days before; lines run in time."""
    lines, times = [], []
    taken = ~free
    for at in edges(catalog):
        before = np.flatnonzero(~taken[: np.searchsorted(ordered, at - np.timedelta64(5, "D"))])
        if len(before):
            taken[before[-1]] = True
            lines.append(before[-1])
            times.append(at)
    return np.array(lines, dtype=np.int64), np.array(times, dtype="datetime64[s]")


def even_out(codes: Ints, counted: Bools, units: Ints | None = None) -> Ints:
    """`codes` (−1: null) with ties planted: at each tied rank the surplus over the next moves to the first.

    What ties is the sum of `units` (`None`: the number) over rows that are `counted`.
    """
    out, each = codes.copy(), np.ones_like(codes) if units is None else units
    totals = np.bincount(codes[counted] + 1, weights=each[counted]).astype(np.int64)
    by_rank = np.argsort(-totals, kind="stable") - 1
    for rank in (r for r in TIED_RANKS if r < len(by_rank)):
        high, low = by_rank[rank - 1], by_rank[rank]
        surplus = totals[high + 1] - totals[low + 1]
        single = np.flatnonzero(counted & (codes == high) & (each == 1))
        spread = np.arange(surplus) * len(single) // max(surplus, 1)  # over all times, not only the first
        out[single[spread]] = by_rank[0]
    return out


def level_revenue(orders: Mapping[str, Any], lines: Mapping[str, Any], catalog: Catalog) -> Ints:
    """The lines' net cents with ties planted in revenue by customer: the lower of two catches up."""
    net: Ints = lines["net_cents"].copy()
    order = lines["order_id"] - 1
    counted = (orders["status"][order] == "completed") & in_data(orders["ordered_at"][order], catalog)
    ids, customer = np.unique(orders["customer_id"][order], return_inverse=True)
    totals = np.bincount(customer[counted], weights=net[counted], minlength=len(ids)).astype(np.int64)
    by_rank = np.argsort(-totals, kind="stable")
    for rank in TIED_RANKS:
        high, low = by_rank[rank - 1], by_rank[rank]
        paid = np.flatnonzero(counted & (customer == low) & (net > 0))
        share, left = divmod(totals[high] - totals[low], len(paid))
        net[paid] += share
        net[paid[0]] += left
    return net
