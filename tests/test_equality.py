"""Canonical form and strict equality."""

from datetime import date
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wire_intents import CATALOG, intent, random_intents, series, top, where

from nlqlib.nlq.equality import (
    canonical,
    differences,
    kind_equal,
    strict_equal,
)
from nlqlib.nlq.intent import ContractViolation, Intent, check, resolve_period

ALL_TIME = "2023-01-01..2025-06-15"


def same(one: Intent, other: Intent) -> bool:
    return strict_equal(one, other, CATALOG)


def by(column: str, direction: str = "desc") -> dict[str, str]:
    return {"by": column, "direction": direction}


# --- properties


@settings(max_examples=150, deadline=None)
@given(random_intents())
def test_the_canonical_form_is_a_valid_intent_and_its_own_canonical_form(one: Intent):
    form = canonical(one, CATALOG)
    check(form, CATALOG)
    assert canonical(form, CATALOG) == form


@settings(max_examples=100, deadline=None)
@given(random_intents(), random_intents())
def test_strict_equality_is_reflexive_symmetric_and_implies_the_same_kind(one: Intent, other: Intent):
    assert same(one, one)
    assert same(one, other) == same(other, one)
    assert kind_equal(one, other) or not same(one, other)


@settings(max_examples=150, deadline=None)
@given(random_intents(), st.randoms(use_true_random=False))
def test_order_of_metrics_dimensions_filters_and_values_does_not_matter(one: Intent, random: Any):
    def shuffled(items: Any) -> tuple[Any, ...]:
        return tuple(random.sample(items, len(items)))

    filters = tuple(f.model_copy(update={"values": shuffled(f.values)}) for f in one.filters)
    other = one.model_copy(
        update={
            "metrics": shuffled(one.metrics),
            "dimensions": shuffled(one.dimensions),
            "filters": shuffled(filters),
        }
    )
    assert same(one, other)


@settings(max_examples=100, deadline=None)
@given(random_intents(), st.text(max_size=80))
def test_evidence_does_not_matter(one: Intent, words: str):
    assert same(one, one.model_copy(update={"evidence": words}))


@settings(max_examples=100, deadline=None)
@given(random_intents())
def test_no_field_differs_between_an_intent_and_itself(one: Intent):
    assert differences(one, [one], CATALOG) == ()


# --- periods


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("all", ALL_TIME),
        ("this_year", "2025"),
        ("this_year", "2025-01-01..2025-06-15"),
        ("this_year", "2025-01..2025-06"),
        ("this_quarter", "2025-Q2"),
        ("this_month", "2025-06"),
        ("this_month", "last_15_days"),
        ("last_month", "2025-05"),
        ("last_month", "last_1_months"),
        ("last_quarter", "2025-Q1"),
        ("last_year", "2024"),
        ("last_week", "2025-06-02..2025-06-08"),
        ("last_7_days", "2025-06-09..2025-06-15"),
        ("2024", "2024-Q1..2024-Q4"),
        ("2024-Q2", "2024-04..2024-06"),
        ("2020..2024", "2023..2024"),
        ("2025-03..2026", "2025-03..2025-06-15"),
    ],
)
def test_a_period_equals_its_dates_clipped_to_the_data(one: str, other: str):
    assert same(intent(period=one), intent(period=other))


@pytest.mark.parametrize(
    ("one", "other"), [("this_month", "last_month"), ("last_7_days", "last_week"), ("2024", "2023..2024")]
)
def test_other_dates_are_another_period(one: str, other: str):
    assert not same(intent(period=one), intent(period=other))


def test_the_canonical_period_spells_its_dates():
    assert canonical(intent(period="2024-Q2"), CATALOG).period == "2024-04-01..2024-06-30"
    assert resolve_period("2024-Q2", CATALOG) == (date(2024, 4, 1), date(2024, 7, 1))


# --- values


@pytest.mark.parametrize("spelling", ["Top Shelf", "top shelf", "TOP-SHELF", " topshelf "])
def test_values_are_compared_as_the_catalog_resolves_them(spelling: str):
    one, other = (intent(filters=[where("category", "in", v)]) for v in ("Top Shelf", spelling))
    assert same(one, other)


def test_curly_quotes_and_possessives_do_not_matter():
    asked = [intent(filters=[where("category", "in", v)]) for v in ("Women's", "Women’s", "women")]
    assert same(asked[0], asked[1]) and same(asked[0], asked[2])


def test_a_value_named_twice_is_named_once():
    assert same(
        intent(filters=[where("region", "in", "West", "west")]),
        intent(filters=[where("region", "in", "West")]),
    )


def test_a_filter_that_stands_there_twice_counts_once():
    one = where("region", "in", "West")
    assert same(intent(filters=[one, one]), intent(filters=[one]))


def test_thresholds_are_compared_as_numbers():
    assert same(intent(filters=[where("revenue", "gt", 8)]), intent(filters=[where("revenue", "gt", 8.0)]))
    assert not same(intent(filters=[where("revenue", "gt", 8)]), intent(filters=[where("revenue", "gte", 8)]))


def test_a_customer_id_is_the_same_as_a_number_and_as_text():
    one, other = (intent(filters=[where("customer", "in", v)]) for v in (17, "17"))
    assert same(one, other)


def test_exclusion_is_not_inclusion():
    assert not same(
        intent(filters=[where("region", "in", "West")]), intent(filters=[where("region", "not_in", "West")])
    )


def test_an_unknown_value_has_no_canonical_form():
    lost = intent(filters=[where("region", "in", "West")])
    condition = lost.filters[0].model_copy(update={"values": ("Wets",)})
    with pytest.raises(ContractViolation, match="did you mean West"):
        canonical(lost.model_copy(update={"filters": (condition,)}), CATALOG)


# --- sort and limit


def test_in_a_ranking_a_null_limit_is_five_and_a_null_sort_descends():
    assert same(top(), top(limit=5, sort=by("revenue")))
    assert not same(top(), top(limit=10))
    assert not same(top(), top(sort=by("revenue", "asc")))


def test_in_a_ranking_by_one_metric_only_the_direction_of_sort_counts():
    assert same(top(sort=by("revenue")), top(sort=by("region")))
    assert same(top(sort=by("revenue")), top(sort=by("orders")))


def test_in_a_ranking_with_several_metrics_the_sorted_metric_counts_too():
    both = ["revenue", "orders"]
    assert not same(top(metrics=both, sort=by("revenue")), top(metrics=both, sort=by("orders")))
    assert same(top(metrics=both, sort=by("orders")), top(metrics=both[::-1], sort=by("orders")))


def test_in_a_breakdown_sort_and_limit_count_as_they_stand():
    assert not same(intent(), intent(sort=by("revenue")))
    assert not same(intent(sort=by("revenue")), intent(sort=by("region", "desc")))
    assert not same(intent(), intent(limit=5))


def test_a_ranking_is_no_sorted_and_cut_breakdown():
    assert not same(top(limit=5), intent(limit=5, sort=by("revenue")))


def test_grain_counts():
    assert not same(series(), series(grain="week"))
