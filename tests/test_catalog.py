"""The catalog: names, values and reach, as the contract lists them, and files that contradict themselves."""

from datetime import date
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib import paths
from nlqlib.nlq.catalog import (
    AmbiguousValue,
    CatalogError,
    QuestionError,
    UnknownName,
    UnknownValue,
    fold,
    load_catalog,
)

CATALOG = load_catalog()
KNOWING = CATALOG.with_values({"customer": {7: "Ann Lee", 8: "Ann Lee", 9: "Bo O'Neil", 10: "José Díaz"}})
UNITS = {
    "revenue": ("money", "high"),
    "orders": ("count", "high"),
    "units": ("count", "high"),
    "average_order_value": ("money", "high"),
    "customers": ("count", "high"),
    "gross_margin": ("money", "high"),
    "gross_margin_rate": ("ratio", "high"),
    "refunds": ("money", "low"),
    "return_rate": ("ratio", "low"),
    "net_revenue": ("money", "high"),
}
SIZES = {
    "region": 10,
    "channel": 12,
    "category": 10,
    "product": 60,
    "customer_segment": 6,
    "customer": 0,
    "return_reason": 6,
}


def test_the_metrics_are_those_of_the_contract_with_unit_and_good_direction():
    assert {m.name: (m.unit, m.good) for m in CATALOG.metrics.values()} == UNITS


def test_the_dimensions_are_those_of_the_contract_with_as_many_values():
    assert {d.name: len(d.values) for d in CATALOG.dimensions.values()} == SIZES
    assert [d.name for d in CATALOG.dimensions.values() if d.nullable] == ["region", "category"]


def test_the_days_are_those_of_the_contract():
    assert (CATALOG.today, CATALOG.first_day) == (date(2025, 6, 15), date(2023, 1, 1))
    assert (CATALOG.week_start, CATALOG.first_weekday, CATALOG.time_zone) == ("Monday", 0, "America/New_York")


@pytest.mark.parametrize("metric", CATALOG.metrics)
@pytest.mark.parametrize("dimension", CATALOG.dimensions)
def test_every_metric_reaches_every_dimension_but_the_return_reason(metric: str, dimension: str):
    assert CATALOG.reaches(metric, dimension) == (dimension != "return_reason" or metric == "refunds")


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("sales", "revenue"),
        ("AOV", "average_order_value"),
        ("basket size", "average_order_value"),
        ("buyers", "customers"),
        ("shoppers", "customers"),
        ("items", "units"),
        ("pieces", "units"),
        ("profit", "gross_margin"),
        ("margin percentage", "gross_margin_rate"),
        ("money back", "refunds"),
        ("sales after refunds", "net_revenue"),
        ("segment", "customer_segment"),
        ("customer type", "customer_segment"),
        ("item", "product"),
        ("SKU", "product"),
    ],
)
def test_the_plain_words_of_the_contract_are_synonyms(word: str, name: str):
    entry = CATALOG.metrics.get(name) or CATALOG.dimensions[name]
    assert word in entry.synonyms


def test_no_synonym_means_two_metrics_or_two_dimensions():
    for entries in (CATALOG.metrics.values(), CATALOG.dimensions.values()):
        words = [fold(w) for e in entries for w in {fold(e.name), *map(fold, e.synonyms)}]
        assert len(words) == len(set(words))


def test_every_entry_is_described_in_one_clear_line():
    entries = [*CATALOG.metrics.values(), *CATALOG.dimensions.values()]
    assert all(e.synonyms and 10 < len(e.description) < 100 and "\n" not in e.description for e in entries)


# --- names


def test_a_name_that_is_nearly_right_is_answered_with_the_right_one():
    with pytest.raises(UnknownName, match=r"unknown metric 'revenues'; did you mean revenue, net_revenue"):
        CATALOG.metric("revenues")
    with pytest.raises(UnknownName, match=r"unknown dimension 'regin'; did you mean region"):
        CATALOG.dimension("regin")


def test_a_name_that_is_like_nothing_is_answered_with_all_there_are():
    with pytest.raises(UnknownName, match=r"there are region, channel, category, product"):
        CATALOG.dimension("zzz")


# --- values


@pytest.mark.parametrize(
    ("dimension", "text", "value"),
    [
        ("region", "west", "West"),
        ("region", " WEST ", "West"),
        ("region", "north-east", "Northeast"),
        ("channel", "mobile app", "Mobile App"),
        ("channel", "MobileApp", "Mobile App"),
        ("channel", "popup", "Pop-up"),
        ("channel", "pop up", "Pop-up"),
        ("category", "Women’s", "Women's"),
        ("category", "womens", "Women's"),
        ("category", "women", "Women's"),
        ("category", "top-shelf", "Top Shelf"),
        ("product", "chef‘s knife", "Chef's Knife"),
        ("product", "usb c hub", "USB-C Hub"),
        ("product", '15" monitor arm', '15" Monitor Arm'),
        ("product", "15” Monitor Arm", '15" Monitor Arm'),
        ("customer_segment", "small-business", "Small Business"),
        ("return_reason", "changed mind", "Changed Mind"),
    ],
)
def test_case_spacing_punctuation_curly_quotes_and_possessives_do_not_matter(
    dimension: str, text: str, value: str
):
    assert CATALOG.resolve(dimension, text) == value


@pytest.mark.parametrize("dimension", [d for d in CATALOG.dimensions.values() if d.values])
def test_every_value_means_itself_in_any_case(dimension):
    for value in dimension.values:
        for text in (value, value.upper(), value.lower(), f"“{value}”"):
            assert CATALOG.resolve(dimension.name, text) == value


def test_an_unknown_value_is_answered_with_close_ones():
    with pytest.raises(UnknownValue, match=r"region has no value 'Wset'; did you mean West"):
        CATALOG.resolve("region", "Wset")


@given(st.text(max_size=80))
def test_whatever_is_asked_for_is_a_value_or_one_line_of_explanation(text: str):
    try:
        assert CATALOG.resolve("channel", text) in CATALOG.dimensions["channel"].values
    except QuestionError as error:
        assert "\n" not in str(error) and len(str(error)) < 300


def test_a_value_of_ten_thousand_characters_is_not_quoted_in_full():
    with pytest.raises(UnknownValue) as caught:
        CATALOG.resolve("product", "'; DROP TABLE orders; --" * 400)
    assert len(str(caught.value)) < 400


def test_a_percent_sign_is_a_word():
    assert fold("margin %") == fold("margin percent") != fold("margin")


@given(st.text())
def test_folding_twice_is_folding_once(text: str):
    assert fold(fold(text)) == fold(text)


# --- values that live in the warehouse


@pytest.mark.parametrize(
    ("asked", "id_"), [("Bo O’Neil", 9), ("bo oneil", 9), ("jose diaz", 10), (7, 7), ("8", 8), ("#8", 8)]
)
def test_a_customer_is_found_by_id_or_by_a_name_of_its_own(asked: str | int, id_: int):
    assert KNOWING.resolve("customer", asked) == id_


def test_a_shared_customer_name_is_refused_with_the_ids():
    with pytest.raises(AmbiguousValue, match=r"2 customers are called 'ann lee': name one by id \(7, 8\)"):
        KNOWING.resolve("customer", "ann lee")


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (11, "there is no customer with id 11"),
        ("Anne Lee", "did you mean Ann Lee"),
        ("9" * 5000, "there is no customer called '9999"),
        ("٩", "there is no customer called"),
    ],
)
def test_a_customer_that_does_not_exist_is_refused(asked: str | int, told: str):
    with pytest.raises(UnknownValue, match=told):
        KNOWING.resolve("customer", asked)


def test_without_a_warehouse_no_customer_is_known_and_the_error_says_how():
    with pytest.raises(UnknownValue, match=r"take the catalog from Warehouse\.lookups"):
        CATALOG.resolve("customer", 7)


# --- files that contradict themselves


def changed(tmp_path: Path, old: str, new: str) -> Path:
    text = paths.CATALOG.read_text("utf-8")
    assert old in text
    path = tmp_path / "catalog.toml"
    path.write_text(text.replace(old, new, 1), "utf-8")
    return path


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ('measure = "revenue"', 'measure = "revenu"', "metric revenue refers to .* revenu$"),
        ('ratio = ["revenue", "orders"]', 'ratio = ["revenue"]', "average_order_value: a ratio is written"),
        ('measure = "orders"', "", "orders needs exactly one of measure, difference, ratio"),
        ('fact = "return", value = "sum(r.q', 'fact = "line2", value = "sum(r.q', "returned_units .* line2"),
        ('finer = "line"', 'finer = "lines"', "fact order refers to .* lines"),
        ('region = "o.region"', 'regio = "o.region"', "fact line refers to .* regio"),
        ('unit = "money"', 'unit = "dollars"', "metric revenue refers to .* dollars"),
        ('unit = "money"', 'units = "money"', "metric revenue .* units"),
        ('time = "o.ordered_at"', "", "fact line: missing .*time"),
        ('week_start = "Monday"', 'week_start = "monday"', "week_start"),
        ("today = 2025-06-15", "", "the catalog: missing .*today"),
        ('"North", "South"', '"North", "north", "South"', "values of region must differ, .*: north"),
        ("[dimensions.region]", "[dimensions.month]", "fact line|month"),
    ],
)
def test_a_catalog_that_contradicts_itself_says_where(tmp_path: Path, old: str, new: str, told: str):
    with pytest.raises(CatalogError, match=told):
        load_catalog(changed(tmp_path, old, new))
