"""Results of the tiny warehouse, added up by hand; the arithmetic stands beside each."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from tiny_warehouse import tiny_warehouse
from wire_intents import CATALOG, where, wire

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.sql import Result, build, execute
from nlqlib.nlq.warehouse import Warehouse


@dataclass(frozen=True)
class World:
    """The tiny warehouse, and the catalog that knows its customers."""

    warehouse: Warehouse
    catalog: Catalog

    def ask(self, metrics: str, by: str = "", *filters: dict[str, Any], **more: Any) -> Result:
        """The answer to `metrics` by the dimensions `by`, both as words."""
        given = wire(metrics=metrics.split(), dimensions=by.split(), filters=list(filters), **more)
        return execute(build(Intent.model_validate(given), self.catalog), self.warehouse)

    def rows(self, *args: Any, **more: Any) -> list[tuple[Any, ...]]:
        """Rows alone; money as `Decimal`, ratios to nine digits."""
        return [tuple(map(_rounded, row)) for row in self.ask(*args, **more).rows]


def _rounded(value: Any) -> Any:
    return round(value, 9) if isinstance(value, float) else value


@pytest.fixture(scope="module")
def tiny() -> Iterator[World]:
    with tiny_warehouse() as warehouse:
        yield World(warehouse, warehouse.lookups(CATALOG))


def test_totals_leave_cancelled_orders_out_and_count_no_line_twice(tiny: World) -> None:
    # revenue 40+15 +20 +45 +50 +30+15 +80 +100 +60 +15+20; ten orders less the cancelled one;
    # units 2+1 +1 +3 +1 +2+1 +4 +2 +1 +1+1
    assert tiny.rows("revenue orders units") == [(Decimal("490.00"), 9, 20)]


def test_a_return_of_a_line_is_not_multiplied_by_the_lines_of_its_order(tiny: World) -> None:
    # customers 1, 2, 3; cost 25+10+12.50+30+50+18+10+50+90+33+9+12.50 = 350, margin 490-350;
    # refunds 20+18+30+15+20+60
    assert tiny.rows("customers gross_margin refunds") == [(3, Decimal("140.00"), Decimal("163.00"))]


def test_ratios_are_sums_over_sums(tiny: World) -> None:
    # 490/9, 140/490, (1+1+2+1+1+1)/20
    metrics = "average_order_value gross_margin_rate return_rate"
    assert tiny.rows(metrics) == [(54.444444444, 0.285714286, 0.35)]


def test_a_null_region_is_one_group_and_stands_last(tiny: World) -> None:
    # East 45+80; South 60; West 40+15 +20 +100 +15+20; none recorded 50 +30+15
    east, south, west, none = (Decimal(n) for n in (125, 60, 210, 95))
    assert tiny.rows("revenue", "region") == [("East", east), ("South", south), ("West", west), (None, none)]


def test_null_regions_of_orders_and_returns_meet_in_one_row(tiny: World) -> None:
    # refunds: East 30+20, South 60, West 20+18, none 15; orders 2, 1, 4, 2
    assert tiny.rows("refunds orders", "region") == [
        ("East", Decimal(50), 2),
        ("South", Decimal(60), 1),
        ("West", Decimal(38), 4),
        (None, Decimal(15), 2),
    ]


def test_orders_split_by_category_count_where_one_line_matches(tiny: World) -> None:
    # Home on orders 1, 2, 7, 9, 10: 40+20+80+60+20 = 220; Toys on 1, 3, 6: 75; Electronics on 6, 10: 45;
    # no category on 4, 8 (both by customer 1): 150
    assert tiny.rows("orders average_order_value customers", "category") == [
        ("Electronics", 2, 22.5, 2),
        ("Home", 5, 44.0, 3),
        ("Toys", 3, 25.0, 3),
        (None, 2, 75.0, 1),
    ]


def test_two_returns_on_one_line_are_two_units_back(tiny: World) -> None:
    # Knife 1/1; Gift Card 0/3; Kite 2/(1+3+1); Throw (1+1+1)/(2+1+4+1); Hub 1/(2+1)
    assert tiny.rows("return_rate", "product") == [
        ("Chef's Knife", 1.0),
        ("Gift Card", 0.0),
        ("Kite", 0.4),
        ("Linen Throw", 0.375),
        ("USB-C Hub", 0.333333333),
    ]


def test_refunds_by_reason(tiny: World) -> None:
    # Damaged 20+30+60
    assert tiny.rows("refunds", "return_reason") == [
        ("Changed Mind", Decimal(20)),
        ("Damaged", Decimal(110)),
        ("Defective", Decimal(15)),
        ("Late", Decimal(18)),
    ]


def test_a_month_is_local_not_utc(tiny: World) -> None:
    # orders 1 and 2: 55+20; order 2 was on 1 February in UTC
    assert tiny.rows("revenue orders", period="2024-01") == [(Decimal(75), 2)]


def test_a_year_ends_at_local_midnight(tiny: World) -> None:
    # all but order 10 (35); order 9 was placed on 1 January 2025 in UTC
    assert tiny.rows("revenue orders", period="2024") == [(Decimal(455), 8)]


def test_a_late_evening_belongs_to_today(tiny: World) -> None:
    # order 10: 15+20, on 16 June in UTC
    assert tiny.rows("revenue orders", period="this_month") == [(Decimal(35), 1)]


def test_months_of_a_series_are_local_in_winter_and_in_summer(tiny: World) -> None:
    # January 55+20, February 45+50, March 45, April 80 (1 May in UTC), May 100
    given = tiny.rows("revenue", query_type="time_series", grain="month", period="2024-01..2024-05")
    months = [(date(2024, m, 1), Decimal(n)) for m, n in enumerate((75, 95, 45, 80, 100), 1)]
    assert given == months


def test_sales_and_refunds_of_a_quarter_each_have_their_own_time(tiny: World) -> None:
    # first quarter 75+95+45 - (20+18+30+15), the last on 31 March only locally; second 180 - 20
    given = tiny.rows("net_revenue", query_type="time_series", grain="quarter", period="2024-01..2024-06")
    assert given == [(date(2024, 1, 1), Decimal(132)), (date(2024, 4, 1), Decimal(160))]


def test_each_group_of_a_series_is_there_once_in_every_bucket(tiny: World) -> None:
    # January: order 1 on the Web, 2 in a store; February: orders 3 and 4 on the Web, none in a store
    given = tiny.rows(
        "revenue", "channel", query_type="time_series", grain="month", period="2024-01..2024-02"
    )
    january, february = date(2024, 1, 1), date(2024, 2, 1)
    assert given == [
        (january, "Store", Decimal(20)),
        (january, "Web", Decimal(55)),
        (february, "Store", Decimal(0)),
        (february, "Web", Decimal(95)),
    ]


def test_a_quarter_in_which_nothing_happened_is_listed_with_zero_and_without_a_rate(tiny: World) -> None:
    # 2024: 75+95+45, 80+100, nothing, 60 (order 9, on 31 December only locally)
    given = tiny.rows("revenue average_order_value", query_type="time_series", grain="quarter", period="2024")
    quarters = [date(2024, m, 1) for m in (1, 4, 7, 10)]
    money = [Decimal(n) for n in (215, 180, 0, 60)]
    # orders: 1, 2, 3, 4, 6; 7, 8; none; 9
    assert given == list(zip(quarters, money, (43.0, 90.0, None, 60.0), strict=True))


def test_weeks_begin_on_monday(tiny: World) -> None:
    # order 2 on Wednesday 31 January, order 3 on Thursday 1 February: one week, from 29 January
    given = tiny.rows("orders", query_type="time_series", grain="week", period="2024-01-31..2024-02-01")
    assert given == [(date(2024, 1, 29), 2)]


def test_a_ranking_takes_the_first_n(tiny: World) -> None:
    # West 210, East 125, then 95: no tie
    given = tiny.ask("revenue", "region", query_type="top_n_by_metric", limit=2)
    assert given.rows == (("West", Decimal(210)), ("East", Decimal(125)))
    assert not given.tie_at_cut


def test_a_tie_at_the_cut_is_reported_and_broken_by_the_key(tiny: World) -> None:
    # customer 1: 55+50+100+35 = 240; 2: 20+45+60 = 125; 3: 45+80 = 125
    given = tiny.ask("revenue", "customer", query_type="top_n_by_metric", limit=2)
    assert given.rows == ((1, Decimal(240)), (2, Decimal(125)))
    assert given.tie_at_cut


def test_the_lowest_rank_first_when_asked(tiny: World) -> None:
    # South 1, then East and none recorded with 2 each, of which the null stands last
    sort = {"by": "orders", "direction": "asc"}
    given = tiny.ask("orders", "region", query_type="top_n_by_metric", sort=sort, limit=2)
    assert given.rows == (("South", 1), ("East", 2))
    assert given.tie_at_cut


def test_an_exclusion_keeps_what_has_no_region(tiny: World) -> None:
    given = tiny.rows("revenue", "region", where("region", "not_in", "West"))
    assert given == [("East", Decimal(125)), ("South", Decimal(60)), (None, Decimal(95))]


def test_orders_without_a_region_alone(tiny: World) -> None:
    # order 4: 50 on the Web; order 6: 30+15 by phone
    given = tiny.rows("revenue", "channel", where("region", "is_null"))
    assert given == [("Phone", Decimal(45)), ("Web", Decimal(50))]


def test_a_threshold_is_met_by_sums_and_not_by_lines(tiny: World) -> None:
    # Home 220, none 150; Toys has 75 exactly, Electronics 45
    above = tiny.rows("revenue", "category", where("revenue", "gt", 75))
    assert above == [("Home", Decimal(220)), (None, Decimal(150))]
    assert len(tiny.rows("revenue", "category", where("revenue", "gte", 75))) == 3


def test_one_of_two_customers_with_one_name_by_id_and_another_by_name(tiny: World) -> None:
    # customer 3: 45+80 on orders 3 and 7, not the cancelled one; customer 2: 20+45+60 on 2, 6 and 9
    assert tiny.rows("revenue orders", "", where("customer", "in", "Bo O’Neil")) == [(Decimal(125), 2)]
    assert tiny.rows("revenue orders", "", where("customer", "in", 2)) == [(Decimal(125), 3)]


def test_combinations_of_two_dimensions(tiny: World) -> None:
    assert tiny.rows("orders", "region channel") == [
        ("East", "Web", 2),  # 3, 7
        ("South", "Store", 1),  # 9
        ("West", "Store", 1),  # 2
        ("West", "Web", 3),  # 1, 8, 10
        (None, "Phone", 1),  # 6
        (None, "Web", 1),  # 4
    ]


def test_a_filter_on_category_takes_only_the_matching_lines(tiny: World) -> None:
    # Toys: lines 2 and 4 (15+45, orders 1 and 3, Consumer), line 8 (15, order 6, Corporate)
    toys = where("category", "in", "toys")
    given = tiny.rows("revenue orders", "customer_segment", toys)
    assert given == [("Consumer", Decimal(60), 2), ("Corporate", Decimal(15), 1)]


def test_an_order_with_two_matching_lines_counts_once(tiny: World) -> None:
    # Home 220 and Toys 75 on orders 1 (two lines), 2, 3, 6, 7, 9, 10; 295/7
    either = where("category", "in", "Home", "Toys")
    assert tiny.rows("revenue orders average_order_value", "", either) == [(Decimal(295), 7, 42.142857143)]


def test_refunds_without_sales_leave_a_group_with_zero_and_without_a_rate(tiny: World) -> None:
    # January 2025: nothing sold; line 11 came back
    given = tiny.rows("refunds net_revenue return_rate", "region", period="2025-01")
    assert given == [("South", Decimal(60), Decimal(-60), None)]


def test_a_total_over_nothing_is_one_row_of_zero_and_null(tiny: World) -> None:
    assert tiny.rows("revenue orders average_order_value", period="2023") == [(Decimal(0), 0, None)]


def test_a_split_of_nothing_has_no_rows(tiny: World) -> None:
    assert tiny.rows("revenue", "region", period="2023") == []


def test_money_is_exact_counts_are_whole_ratios_are_floats(tiny: World) -> None:
    row = tiny.ask("revenue orders return_rate").rows[0]
    assert [type(value) for value in row] == [Decimal, int, float]
