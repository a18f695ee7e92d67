"""The SQL builder: the contract's twelve examples, one safe SELECT, and every refusal in one line."""

import re
from typing import Any

import duckdb
import pytest
from sql_world import SERIES, TOP, ask, by, query
from wire_intents import where, wire

from nlqlib.nlq.catalog import AmbiguousValue, Catalog, QuestionError, UnknownName, UnknownValue
from nlqlib.nlq.intent import intent_of
from nlqlib.nlq.periods import ImpossiblePeriod
from nlqlib.nlq.sql import Query, Unreachable, build, execute
from nlqlib.nlq.warehouse import TooLarge, TooSlow, Warehouse

EXAMPLES = {
    "revenue by region": {},
    "top regions by revenue": {**TOP, "sort": by("revenue", "desc"), "limit": 5},
    "Which region has the fewest orders?": {
        **TOP,
        "metrics": ["orders"],
        "sort": by("orders", "asc"),
        "limit": 1,
    },
    "revenue by region, descending": {"sort": by("revenue", "desc")},
    "first ten rows of revenue by product": {"dimensions": ["product"], "limit": 10},
    "top-line revenue by region": {},
    "regions leading in revenue": {**TOP, "sort": by("revenue", "desc"), "limit": 5},
    "weekly refunds since January 2025": {
        **SERIES,
        "metrics": ["refunds"],
        "period": "2025-01..2025-06-15",
        "grain": "week",
    },
    "categories where more than 8% of units come back": {
        "metrics": ["return_rate"],
        "dimensions": ["category"],
        "filters": [where("return_rate", "gt", 0.08)],
    },
    "average order value and orders, Consumer versus Corporate customers": {
        "metrics": ["average_order_value", "orders"],
        "dimensions": ["customer_segment"],
        "filters": [where("customer_segment", "in", "Consumer", "Corporate")],
    },
    "revenue by channel for the Top Shelf category": {
        "dimensions": ["channel"],
        "filters": [where("category", "in", "Top Shelf")],
    },
    "net revenue outside the West in Q4 2024 by region": {
        "metrics": ["net_revenue"],
        "filters": [where("region", "not_in", "West")],
        "period": "2024-Q4",
    },
}
ROWS = dict(zip(EXAMPLES, (11, 5, 1, 11, 10, 11, 5, 24, None, 2, 12, 10), strict=True))


@pytest.mark.parametrize("question", EXAMPLES)
def test_an_example_of_the_contract_compiles_and_runs(question: str, catalog: Catalog, warehouse: Warehouse):
    checked = intent_of(wire(**EXAMPLES[question]), catalog)
    result = execute(build(checked, catalog), warehouse)
    assert result.rows and (ROWS[question] is None or len(result.rows) == ROWS[question])
    assert all(len(row) == len(result.columns) for row in result.rows)


def test_columns_are_time_dimensions_and_metrics_in_that_order_with_units(catalog: Catalog):
    metrics = ["revenue", "orders", "return_rate"]
    found = query(catalog, **SERIES | {"dimensions": ["region"]}, metrics=metrics, grain="month").columns
    assert [(c.name, c.unit) for c in found] == [
        ("month", "month"),
        ("region", None),
        ("revenue", "money"),
        ("orders", "count"),
        ("return_rate", "ratio"),
    ]


# --- one safe SELECT


@pytest.mark.parametrize("question", EXAMPLES)
def test_a_query_is_one_select_whose_values_are_all_bound(question: str, catalog: Catalog):
    built = query(catalog, **EXAMPLES[question])
    (statement,) = duckdb.extract_statements(built.sql)
    assert statement.type == duckdb.StatementType.SELECT
    assert built.sql.count("?") == len(built.params)
    written = set(re.findall(r"'([^']*)'", built.sql))
    assert written <= {"cancelled", "America/New_York", "UTC", "week"}


NASTY = ("'; DROP TABLE orders; --", '" OR 1=1 --', "West' OR 'x'='x", "?", "\x00", "West\n; SELECT 1")


@pytest.mark.parametrize("text", NASTY)
@pytest.mark.parametrize("op", ["in", "not_in"])
def test_an_injection_in_a_value_is_an_unknown_value(text: str, op: str, catalog: Catalog):
    with pytest.raises(UnknownValue, match=r"^region has no value [^\n]+$"):
        query(catalog, filters=[where("region", op, text)])


def test_a_value_with_quotes_is_found_as_itself(catalog: Catalog, warehouse: Warehouse):
    for product in ('15" Monitor Arm', "Chef's Knife"):
        chosen = {"dimensions": ["product"], "filters": [where("product", "in", product)]}
        assert [row[0] for row in ask(catalog, warehouse, **chosen).rows] == [product]


def test_a_value_named_twice_in_two_spellings_is_bound_once(catalog: Catalog):
    assert query(catalog, filters=[where("region", "in", "west", "West", "WEST ")]).params[2:] == ("West",)


# --- refusals, each in one line


REFUSED: dict[str, tuple[type[QuestionError], str, dict[str, Any]]] = {
    "unknown metric": (UnknownName, "unknown metric 'profits'; ", {"metrics": ["profits"]}),
    "unknown dimension": (UnknownName, "did you mean region", {"dimensions": ["regions"]}),
    "unknown filter field": (
        UnknownName,
        "unknown dimension 'shop'",
        {"filters": [where("shop", "in", "x")]},
    ),
    "unknown threshold": (UnknownName, "unknown metric 'region'", {"filters": [where("region", "gt", 1)]}),
    "metric as a dimension": (UnknownName, "unknown dimension", {"filters": [where("revenue", "in", "1")]}),
    "unknown value": (UnknownValue, "did you mean West", {"filters": [where("region", "in", "Wst")]}),
    "unreachable split": (
        Unreachable,
        "revenue cannot be split or filtered by return_reason; only refunds can",
        {"dimensions": ["return_reason"]},
    ),
    "unreachable filter": (
        Unreachable,
        "orders cannot be split or filtered by return_reason",
        {"metrics": ["refunds", "orders"], "filters": [where("return_reason", "in", "Late")]},
    ),
    "unreachable threshold": (
        Unreachable,
        "units cannot be split or filtered by return_reason",
        {
            "metrics": ["refunds"],
            "dimensions": ["return_reason"],
            "filters": [where("units", "gt", 1)],
        },
    ),
    "unreachable sort": (
        Unreachable,
        "net_revenue cannot be split",
        {"metrics": ["refunds"], "dimensions": ["return_reason"], "sort": by("net_revenue", "asc")},
    ),
    "impossible period": (ImpossiblePeriod, "no calendar has 2024-02-30", {"period": "2024-02-30"}),
    "period before the data": (ImpossiblePeriod, "outside the data", {"period": "1999"}),
    "period in the future": (ImpossiblePeriod, "outside the data", {"period": "2025-07..2025-08"}),
    "ranking of nothing": (QuestionError, "a ranking needs a dimension", {**TOP, "dimensions": []}),
    "shared customer name": (
        AmbiguousValue,
        r"2 customers are called '.*': name one by id \(1001, 1002\)",
        {"filters": [where("customer", "in", "SHARED")]},
    ),
    "unknown customer": (UnknownValue, "no customer with id 1", {"filters": [where("customer", "in", 1)]}),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_computed_is_refused_in_one_line(case: str, catalog: Catalog):
    kind, told, changes = REFUSED[case]
    shared = catalog.dimension("customer").names[1001]
    filters = [
        {**f, "values": [shared if v == "SHARED" else v for v in f["values"]]}
        for f in changes.get("filters", [])
    ]
    with pytest.raises(kind, match=told) as caught:
        query(catalog, **{**changes, "filters": filters})
    assert isinstance(caught.value, QuestionError) and "\n" not in str(caught.value)


def test_sorting_by_what_is_not_there_is_refused(catalog: Catalog):
    with pytest.raises(QuestionError, match="cannot sort by channel: the answer is not split by it"):
        query(catalog, sort=by("channel", "asc"))


def test_a_series_of_too_many_rows_is_refused_not_cut(catalog: Catalog, warehouse: Warehouse):
    with pytest.raises(TooLarge, match="more than 10,000 rows: add a limit or a filter"):
        ask(catalog, warehouse, **SERIES | {"dimensions": ["product"]}, grain="day")


def test_a_query_past_its_time_is_one_line(warehouse: Warehouse):
    hurried = Warehouse(warehouse.connection, timeout_s=0.1)
    endless = "SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b"
    with pytest.raises(TooSlow, match=r"^the query took longer than 0\.1 s: ask for a shorter period$"):
        execute(Query(endless, (), (), ""), hurried)
