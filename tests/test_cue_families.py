"""Families of questions with golds known by construction: every piece of a question says one slot.

A question is put together from a metric, a split or a ranking, conditions, a period and what people wrap
around it, in several orders and under several names. What each piece means is fixed beside it, so that the
gold of every combination is known without reading it.
"""

import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from nlqlib.nlq import cues
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.equality import strict_equal
from nlqlib.nlq.intent import Intent, Kind
from nlqlib.nlq.refusal import refusal

CATALOG = load_catalog()
SEED = 20250615
METRICS = {
    "revenue": "revenue|sales|turnover|takings",
    "orders": "orders|number of orders|order count|purchases",
    "units": "units|units sold|pieces sold",
    "average_order_value": "average order value|AOV|basket size|average basket size",
    "customers": "number of customers|customer count|shoppers|buyers",
    "gross_margin": "gross margin|profit|gross profit",
    "gross_margin_rate": "gross margin rate|margin percentage|profit margin",
    "refunds": "refunds|refund amount|money back",
    "return_rate": "return rate|returns rate|share of units returned",
    "net_revenue": "net revenue|sales after refunds|revenue net of refunds",
}
DIMENSIONS = {
    "region": ("region|territory|sales region", "regions|territories|sales regions"),
    "channel": ("channel|sales channel", "channels|sales channels"),
    "category": ("category|product category|department", "categories|product categories|departments"),
    "product": ("product|SKU|article", "products|SKUs|articles"),
    "customer_segment": (
        "segment|customer segment|customer type",
        "segments|customer segments|customer types",
    ),
}
VALUES = {
    "region": ["North", "Southwest", "Central", "Overseas"],
    "channel": ["Web", "Mobile App", "Marketplace", "Phone"],
    "category": ["Electronics", "Toys", "Top Shelf", "Women's"],
    "customer_segment": ["Corporate", "Small Business", "Education"],
}
PERIODS = {
    "in 2024": "2024",
    "last quarter": "last_quarter",
    "in March 2025": "2025-03",
    "for Q2 2024": "2024-Q2",
    "this year": "this_year",
    "in the last 6 months": "last_6_months",
    "between January and April 2024": "2024-01..2024-04",
    "since March 2024": "2024-03..2025-06-15",
}
BEFORE = [
    "",
    "Please show me ",
    "Could you tell me ",
    "I need ",
    "Hi team, for tomorrow's meeting I would like to see ",
    "Our CEO believes that the West is our best region. Please give me ",
    "Because our largest supplier asked for it, I need ",
    "Marketing says that Toys outsell everything. Show me ",
    "We want to reward our best people, so I need ",
    "First of all, give me ",
]
AFTER = [
    "",
    "?",
    ", please",
    ". Thanks!",
    ", because my boss asked for it",
    ", if that is not too much trouble",
]


@dataclass
class Said:
    """What is asked so far: the words, and the slots they fill."""

    core: str
    kind: Kind
    metric: str
    dimensions: list[str] = field(default_factory=list)
    filters: list[dict[str, Any]] = field(default_factory=list)
    period: str = "all"
    grain: str | None = None
    sort: tuple[str, str] | None = None
    limit: int | None = None

    def gold(self) -> Intent:
        """The intent by construction."""
        sort = {"by": self.sort[0], "direction": self.sort[1]} if self.sort else None
        return Intent.model_validate(
            {
                "evidence": "",
                "query_type": self.kind,
                "metrics": [self.metric],
                "dimensions": self.dimensions,
                "filters": self.filters,
                "period": self.period,
                "grain": self.grain,
                "sort": sort,
                "limit": self.limit,
            }
        )


class Maker:
    """Draws questions, the same ones on every run."""

    def __init__(self, seed: int) -> None:
        self.draw = random.Random(seed)

    def any(self, names: str) -> str:
        """One of several names joined by |."""
        return self.draw.choice(names.split("|"))

    def metric(self) -> tuple[str, str]:
        name = self.draw.choice(list(METRICS))
        return name, self.any(METRICS[name])

    def noun(self, plural: bool = False) -> tuple[str, str]:
        name = self.draw.choice(list(DIMENSIONS))
        return name, self.any(DIMENSIONS[name][plural])

    def split(self) -> Said:
        """`revenue by region`, sorted or capped or neither."""
        (metric, m), (dimension, d) = self.metric(), self.noun()
        form = self.draw.choice(["{m} by {d}", "{m} per {d}", "{m} for each {d}", "{m} broken down by {d}"])
        said = Said(form.format(m=m, d=d), "breakdown", metric, [dimension])
        order = self.draw.choice(["", "", "sort", "rows"])
        if order == "sort":
            words, direction = self.draw.choice(
                [
                    (", highest to lowest", "desc"),
                    (", smallest first", "asc"),
                    (" in descending order", "desc"),
                ]
            )
            said.core, said.sort = said.core + words, (metric, direction)
        if order == "rows":
            said.core, said.limit = said.core + self.draw.choice([", first 12 rows", ", at most 12 rows"]), 12
        return said

    def ranking(self) -> Said:
        """`top 3 products by revenue`, `which region has the fewest orders`."""
        metric, m = self.metric()
        form, plural, direction, limit = self.draw.choice(
            [
                ("the top 3 {d} by {m}", True, "desc", 3),
                ("the {d} with the highest {m}", True, "desc", 5),
                ("the {d} with the lowest {m}", False, "asc", 1),
                ("which {d} has the highest {m}", False, "desc", 1),
                ("which four {d} had the lowest {m}", True, "asc", 4),
                ("the {d} leading in {m}", True, "desc", 5),
                ("the bottom two {d} in terms of {m}", True, "asc", 2),
                ("the seven {d} with the biggest {m}", True, "desc", 7),
            ]
        )
        dimension, d = self.noun(plural)
        said = Said(form.format(d=d, m=m), "top_n_by_metric", metric, [dimension])
        said.sort, said.limit = (metric, direction), limit
        return said

    def series(self) -> Said:
        """`monthly revenue`, `orders over time by region`."""
        metric, m = self.metric()
        form, grain = self.draw.choice(
            [
                ("monthly {m}", "month"),
                ("{m} by week", "week"),
                ("{m} per quarter", "quarter"),
                ("{m} over time", "month"),
                ("the trend of {m}", "month"),
                ("{m} year by year", "year"),
            ]
        )
        said = Said(form.format(m=m), "time_series", metric, grain=grain)
        if self.draw.random() < 0.4:
            dimension, d = self.noun()
            said.core, said.dimensions = f"{said.core} for each {d}", [dimension]
        return said

    def threshold(self) -> Said:
        """`channels with more than 4,000 orders`."""
        dimension, d = self.noun(plural=True)
        words, op = self.draw.choice(
            [("more than", "gt"), ("at least", "gte"), ("fewer than", "lt"), ("no more than", "lte")]
        )
        metric, m = self.draw.choice([("orders", "orders"), ("units", "units"), ("customers", "customers")])
        said = Said(f"{d} with {words} 4,000 {m}", "breakdown", metric, [dimension])
        said.filters.append({"field": metric, "op": op, "values": [4000]})
        return said

    def versus(self) -> Said:
        """`revenue of Web versus Store`, `for Web and Store separately`."""
        metric, m = self.metric()
        dimension = self.draw.choice(list(VALUES))
        a, b = self.draw.sample(VALUES[dimension], 2)
        form = self.draw.choice(
            ["{m} for {a} versus {b}", "{m} of {a} and {b} separately", "{m}, {a} vs. {b}"]
        )
        said = Said(form.format(m=m, a=a, b=b), "breakdown", metric, [dimension])
        said.filters.append({"field": dimension, "op": "in", "values": [a, b]})
        return said

    def narrowed(self, said: Said) -> tuple[str, Said]:
        """The words of `said` with a condition and a period, before or behind."""
        pieces_before, pieces_behind = [], []
        used = {*said.dimensions, *(f["field"] for f in said.filters)}
        free = [name for name in VALUES if name not in used]
        if self.draw.random() < 0.5:
            name = self.draw.choice(free)
            value = self.draw.choice(VALUES[name])
            words, op = self.draw.choice(
                [("for {v}", "in"), ("for {v} only", "in"), ("excluding {v}", "not_in")]
            )
            pieces_behind.append(words.format(v=value))
            said.filters.append({"field": name, "op": op, "values": [value]})
        if self.draw.random() < 0.6:
            words, said.period = self.draw.choice(list(PERIODS.items()))
            behind = self.draw.random() < 0.7 or not words.startswith(("in ", "for ", "between ", "since "))
            (pieces_behind if behind else pieces_before).append(words)
        before = "".join(f"{words}, " for words in pieces_before)
        return f"{before}{said.core}{''.join(f' {words}' for words in pieces_behind)}", said


def family(name: str, n: int) -> list[tuple[str, Intent]]:
    """`n` questions of a family and their golds."""
    maker = Maker(SEED + sum(map(ord, name)))
    found = []
    for _ in range(n):
        words, said = maker.narrowed(getattr(maker, name)())
        question = maker.draw.choice(BEFORE) + words + maker.draw.choice(AFTER)
        found.append((question, said.gold()))
    return found


FAMILIES = ("split", "ranking", "series", "threshold", "versus")
FLOOR = 0.97
"""Share of each family that is read as it was meant; combinations that no person would say are among them."""


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_is_read_as_it_was_put_together(name: str) -> None:
    asked = family(name, 120)
    wrong = [(question, gold.text()) for question, gold in asked if not _right(question, gold)]
    assert len(wrong) <= (1 - FLOOR) * len(asked), wrong[:5]


@pytest.mark.parametrize("name", FAMILIES)
def test_no_question_of_a_family_is_refused(name: str) -> None:
    assert [q for q, _ in family(name, 60) if refusal(q, CATALOG)] == []


def _right(question: str, gold: Intent) -> bool:
    found = cues.read(question, CATALOG).intent
    return found is not None and strict_equal(found, gold, CATALOG)
