"""Execution equality, comparison with several golds, and the error taxonomy."""

from decimal import Decimal
from typing import Any

import pytest
from wire_intents import CATALOG, intent, series, top, where

from nlqlib.nlq.equality import Equality, compare, differences, execution_equal
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.sql import Column, Result


def by(column: str, direction: str = "desc") -> dict[str, str]:
    return {"by": column, "direction": direction}


def result(columns: str, *rows: tuple[Any, ...], tie: bool = False) -> Result:
    return Result(tuple(Column(c, None) for c in columns.split()), rows, "", (), "", tie)


NORTH, EAST, WEST = ("North", Decimal("9.00")), ("East", Decimal("5.00")), ("West", Decimal("5.00"))


def test_rows_without_an_order_are_a_bag():
    gold = result("region revenue", NORTH, EAST)
    assert execution_equal(result("region revenue", EAST, NORTH), gold, intent())
    assert not execution_equal(result("region revenue", NORTH, NORTH), gold, intent())
    assert not execution_equal(result("region revenue", NORTH), gold, intent())


def test_columns_match_by_name_whatever_their_order():
    gold = result("region revenue", NORTH)
    assert execution_equal(result("revenue region", NORTH[::-1]), gold, intent())
    assert not execution_equal(result("region net_revenue", NORTH), gold, intent())
    assert not execution_equal(result("region revenue orders", (*NORTH, 1)), gold, intent())


def test_order_counts_where_it_was_asked_for():
    gold = result("region revenue", NORTH, EAST)
    turned = result("region revenue", EAST, NORTH)
    assert not execution_equal(turned, gold, intent(sort=by("revenue")))
    assert not execution_equal(turned, gold, top())


def test_rows_may_swap_within_a_tie():
    gold = result("region revenue", NORTH, EAST, WEST)
    swapped = result("region revenue", NORTH, WEST, EAST)
    assert execution_equal(swapped, gold, intent(sort=by("revenue")))
    assert execution_equal(swapped, gold, top())


def test_any_row_of_a_tie_at_the_cut_will_do_and_no_other():
    gold = result("region revenue", NORTH, EAST, tie=True)
    assert execution_equal(result("region revenue", NORTH, WEST, tie=True), gold, top(limit=2))
    assert not execution_equal(result("region revenue", ("South", 9), WEST), gold, top(limit=2))
    whole = result("region revenue", NORTH, EAST)
    assert not execution_equal(result("region revenue", NORTH, WEST), whole, top(limit=2))


def test_an_order_by_what_is_not_shown_is_the_order_of_the_rows():
    gold, asked = result("region revenue", NORTH, EAST), intent(sort=by("orders"))
    assert execution_equal(gold, gold, asked)
    assert not execution_equal(result("region revenue", EAST, NORTH), gold, asked)


def test_numbers_are_equal_across_types_and_last_bits_but_not_across_cents():
    gold = result("return_rate", (0.1 + 0.2,), (Decimal("1234567890.12"),), (None,))
    assert execution_equal(result("return_rate", (0.3,), (1234567890.12,), (None,)), gold, intent())
    assert not execution_equal(result("return_rate", (0.3,), (1234567890.13,), (None,)), gold, intent())
    assert not execution_equal(result("return_rate", (0.3,), (1234567890.12,), (0,)), gold, intent())


# --- against golds


def rows_of(one: Intent) -> Result | None:
    return None if one.limit == 999 else result("region revenue", NORTH, EAST)


def test_any_gold_that_is_met_is_enough():
    assert compare(intent(limit=3), [intent(), intent(limit=3)], CATALOG).strict
    assert compare(top(), [intent(), top(limit=9)], CATALOG) == Equality(False, True, None)


def test_without_an_intent_everything_is_wrong():
    assert compare(None, [intent()], CATALOG, rows_of) == Equality(False, False, False)
    assert differences(None, [intent()], CATALOG) == ("invalid",)


def test_the_same_rows_by_another_intent_are_equal_in_execution_only():
    assert compare(intent(limit=11), [intent()], CATALOG, rows_of) == Equality(False, True, True)


def test_an_answer_that_cannot_be_executed_has_no_rows_to_be_right():
    assert compare(intent(limit=999), [intent()], CATALOG, rows_of).execution is False


def test_a_gold_that_cannot_be_executed_cannot_be_compared_with():
    assert compare(intent(), [intent(limit=999)], CATALOG, rows_of).execution is None


@pytest.mark.parametrize(
    ("given", "words"),
    [
        (top(limit=10), ("kind", "sort", "limit")),
        (intent(metrics=["orders"]), ("metric",)),
        (intent(dimensions=[]), ("dimension",)),
        (intent(filters=[where("region", "in", "West")]), ("filter",)),
        (intent(period="2024"), ("period",)),
        (series(dimensions=["region"]), ("kind", "grain")),
        (intent(sort=by("revenue"), limit=3), ("sort", "limit")),
    ],
)
def test_the_taxonomy_names_the_fields_that_differ(given: Intent, words: tuple[str, ...]):
    assert differences(given, [intent()], CATALOG) == words


def test_a_percentage_taken_for_a_ratio_is_an_error_of_unit():
    gold, given = (intent(filters=[where("return_rate", "gt", v)]) for v in (0.08, 8))
    assert differences(given, [gold], CATALOG) == ("unit",)
    money, more = (intent(filters=[where("revenue", "gt", v)]) for v in (8, 800))
    assert differences(more, [money], CATALOG) == ("filter",)


def test_the_taxonomy_looks_at_the_nearest_gold():
    assert differences(top(limit=3), [intent(), top()], CATALOG) == ("limit",)
