"""What the rows of the SQL builder keep to on a drawn warehouse, and how it says what it computed."""

import pytest
from sql_world import SERIES, TOP, ask, by, query
from wire_intents import CATALOG, where

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.warehouse import Warehouse


def test_excluding_keeps_the_null_group_and_naming_does_not(catalog: Catalog, warehouse: Warehouse):
    kept = ask(catalog, warehouse, filters=[where("region", "not_in", "West")])
    named = ask(catalog, warehouse, filters=[where("region", "in", *CATALOG.dimension("region").values)])
    assert None in [row[0] for row in kept.rows] and "West" not in [row[0] for row in kept.rows]
    assert None not in [row[0] for row in named.rows] and len(named.rows) == 10


def test_groups_add_up_to_the_total_whatever_the_other_metrics_are(catalog: Catalog, warehouse: Warehouse):
    metrics = ["revenue", "refunds", "units"]
    total = ask(catalog, warehouse, metrics=metrics, dimensions=[]).rows[0]
    for name in (d for d in catalog.dimensions if d != "return_reason"):
        rows = ask(catalog, warehouse, metrics=metrics, dimensions=[name]).rows
        assert tuple(map(sum, zip(*(row[1:] for row in rows), strict=True))) == total
        assert len({row[0] for row in rows}) == len(rows)


def test_a_metric_is_the_same_alone_and_beside_others(catalog: Catalog, warehouse: Warehouse):
    alone = {m: dict(ask(catalog, warehouse, metrics=[m]).rows) for m in ("orders", "refunds", "revenue")}
    for region, *found in ask(catalog, warehouse, metrics=list(alone)).rows:
        assert found == [alone[m][region] for m in alone]


def test_a_series_is_complete_and_its_empty_month_the_lowest(catalog: Catalog, warehouse: Warehouse):
    months = ask(
        catalog, warehouse, **SERIES, metrics=["orders", "return_rate"], grain="month", period="2023"
    )
    assert [str(row[0]) for row in months.rows] == [f"2023-{m:02}-01" for m in range(1, 13)]
    assert months.rows[6][1:] == (0, None)
    lowest = {"metrics": ["orders"], "grain": "month", "sort": by("orders", "asc"), "limit": 1}
    assert str(ask(catalog, warehouse, **SERIES, **lowest).rows[0][0]) == "2023-07-01"


def test_every_group_of_a_series_has_every_bucket_once(catalog: Catalog, warehouse: Warehouse):
    split = {**SERIES, "dimensions": ["region"], "grain": "quarter"}
    rows = ask(catalog, warehouse, **split).rows
    assert len(rows) == 10 * 11 and len({row[:2] for row in rows}) == len(rows)


@pytest.mark.parametrize("rank", [3, 5, 10])
@pytest.mark.parametrize("direction", ["asc", "desc"])
def test_a_tie_is_reported_exactly_where_the_next_row_is_equal(
    rank: int, direction: str, catalog: Catalog, warehouse: Warehouse
):
    asked = {"metrics": ["orders"], "dimensions": ["channel"], "sort": by("orders", direction)}
    everyone = ask(catalog, warehouse, **asked).rows
    cut = ask(catalog, warehouse, **TOP, **asked, limit=rank)
    assert cut.rows == everyone[:rank]
    assert cut.tie_at_cut == (everyone[rank - 1][1] == everyone[rank][1])
    assert ("a tie at the cut" in cut.interpretation) == cut.tie_at_cut


def test_the_last_row_of_all_is_not_tied_with_what_is_not_there(catalog: Catalog, warehouse: Warehouse):
    assert not ask(catalog, warehouse, **TOP, limit=11).tie_at_cut
    assert not ask(catalog, warehouse, **TOP, limit=1000).tie_at_cut


def test_a_ranking_by_one_metric_heeds_only_the_direction_of_its_sort(catalog: Catalog, warehouse: Warehouse):
    plain = ask(catalog, warehouse, **TOP, sort=by("revenue", "asc"))
    for name in ("region", "orders", "channel"):
        assert ask(catalog, warehouse, **TOP, sort=by(name, "asc")).rows == plain.rows


def test_null_ratios_stand_last_in_both_directions(catalog: Catalog, warehouse: Warehouse):
    daily = {**SERIES, "metrics": ["return_rate"], "grain": "day", "period": "2023-06..2023-08"}
    for direction in ("asc", "desc"):
        rates = [r[1] for r in ask(catalog, warehouse, **daily, sort=by("return_rate", direction)).rows]
        known = [rate for rate in rates if rate is not None]
        assert rates[len(known) :] == [None] * (len(rates) - len(known)) and len(known) < len(rates)
        assert known == sorted(known, reverse=direction == "desc")


# --- the interpretation


def test_the_interpretation_says_in_words_what_was_computed(catalog: Catalog):
    asked = {
        "metrics": ["net_revenue"],
        "filters": [where("region", "not_in", "west"), where("net_revenue", "gte", 1500)],
        "period": "2024-Q4",
        "sort": by("net_revenue", "desc"),
        "limit": 3,
    }
    assert query(catalog, **TOP, **asked).interpretation == (
        "net revenue by region; region is not West; net revenue at least 1,500; "
        "2024-10-01 to 2024-12-31, America/New_York time; highest net revenue first; at most 3 rows"
    )


def test_the_interpretation_names_a_customer_beside_the_id(catalog: Catalog):
    name = catalog.dimension("customer").names[1003]
    words = query(catalog, filters=[where("customer", "in", 1003)]).interpretation
    assert f"customer is 1003 ({name})" in words
