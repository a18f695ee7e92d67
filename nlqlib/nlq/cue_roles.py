"""The parts metrics play in any catalog: what counts events, what is the money, what a verb does.

Read from what a catalog declares of its metrics (unit, aggregate, fact, which way is good), so that rules
which need `the count` or `the money` name neither.
"""

import re
from collections.abc import Iterable, Iterator, Mapping

from nlqlib.nlq.catalog import Catalog, Metric

COUNTS = re.compile(r"\s*count\s*\(", re.IGNORECASE)
"""A measure that counts rows or distinct ids, and adds up nothing."""


def events(catalog: Catalog) -> str | None:
    """The first metric that counts events: orders, visits, loans."""
    return next((m.name for m in _plain(catalog) if m.unit == "count" and _counts(catalog, m)), None)


def money(catalog: Catalog) -> str | None:
    """The metric that is the money: the first amount that is good when high, else the first amount."""
    return _best([m for m in _plain(catalog) if m.unit == "money"])


def money_of(catalog: Catalog, metric: str | None) -> str | None:
    """The money of the same rows as `metric`: revenue beside units, refunds beside returned units."""
    if metric is None:
        return None
    rows = catalog.measures[catalog.metrics[metric].measures[0]].fact
    beside = [m for m in _plain(catalog) if m.unit == "money" and _fact(catalog, m) == rows]
    return _best(beside)


def done(catalog: Catalog, verb: str) -> str | None:
    """The count that `verb` does: orders of `order` and `ordered`, visits of `visiting`; not of `orders`."""
    stems = {verb, verb.removesuffix("ed"), verb.removesuffix("ing"), verb.removesuffix("d")}
    names = {f"{stem}s" for stem in stems}
    return next((m.name for m in _plain(catalog) if m.unit == "count" and m.name in names), None)


def roles(catalog: Catalog) -> Mapping[str, str | None]:
    """The metric of each part, by the name that `data/english.toml` has for it."""
    return {"events": events(catalog), "money": money(catalog)}


def _plain(catalog: Catalog) -> Iterator[Metric]:
    return (metric for metric in catalog.metrics.values() if metric.kind == "measure")


def _counts(catalog: Catalog, metric: Metric) -> bool:
    return COUNTS.match(catalog.measures[metric.measures[0]].value) is not None


def _fact(catalog: Catalog, metric: Metric) -> str:
    return catalog.measures[metric.measures[0]].fact


def _best(found: Iterable[Metric]) -> str | None:
    ordered = sorted(found, key=lambda metric: metric.good != "high")
    return ordered[0].name if ordered else None
