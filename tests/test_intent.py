"""The wire schema, and the reading of an answer."""

import json
import re
from typing import Any

import pytest
from hypothesis import given, settings
from jsonschema import Draft202012Validator
from wire_intents import CATALOG, intent, random_intents, series, text, where, wire

from nlqlib.nlq.form import schema_problem
from nlqlib.nlq.intent import (
    BadJson,
    ContractViolation,
    Intent,
    SchemaViolation,
    check,
    intent_of,
    parse_intent,
)
from nlqlib.nlq.schema import PERIOD_PATTERN, wire_schema

SCHEMA = wire_schema(CATALOG)
GOOD_PERIODS = [
    "all",
    "2024",
    "2024-Q2",
    "2024-03",
    "2024-03-05",
    "2024-02-29",
    "2023-04-30",
    "2023-12-31",
    "2024..2025",
    "2024-Q2..2024-03-05",
    "this_month",
    "this_quarter",
    "this_year",
    "last_week",
    "last_month",
    "last_quarter",
    "last_year",
    "last_30_days",
    "last_4_weeks",
    "last_12_months",
]
BAD_PERIODS = [
    "ALL",
    "2023-2024",
    "24",
    "2024-Q5",
    "2024-13",
    "2024-00",
    "2024-02-30",
    "2023-02-29",
    "2024-04-31",
    "2024-3",
    "2024-03-00",
    "2024-03-32",
    "2024..",
    "..2024",
    "2024...2025",
    "this_week",
    "this_day",
    "last_0_days",
    "last_days",
    "last_5_years",
    "last_-1_days",
    "2024-Q2-01",
]
KEYS = ["evidence", "query_type", "metrics", "dimensions", "filters", "period", "grain", "sort", "limit"]


def parts(schema: Any) -> list[dict[str, Any]]:
    """Every object inside `schema`, itself included."""
    if isinstance(schema, list):
        return [part for item in schema for part in parts(item)]
    return [schema, *parts(list(schema.values()))] if isinstance(schema, dict) else []


# --- the schema


def test_schema_is_valid_and_its_keys_stand_in_wire_order():
    Draft202012Validator.check_schema(SCHEMA)
    assert list(SCHEMA["properties"]) == KEYS == SCHEMA["required"] == list(Intent.model_fields)


def test_every_object_of_the_schema_requires_all_its_keys_and_no_others():
    objects = [p for p in parts(SCHEMA) if p.get("type") == "object"]
    assert len(objects) == 5
    for part in objects:
        assert part["additionalProperties"] is False
        assert part["required"] == list(part["properties"])


def test_schema_holds_nothing_that_backends_reject_or_mishandle():
    banned = {"uniqueItems", "oneOf", "allOf", "$ref", "multipleOf", "contains", "format", "if", "not"}
    for part in parts(SCHEMA):
        assert not banned & set(part)
        assert part.get("enum") != []
        assert not ("pattern" in part and {"minLength", "maxLength"} & set(part))


def test_metrics_and_dimensions_are_enums_from_the_catalog():
    assert SCHEMA["properties"]["metrics"]["items"]["enum"] == list(CATALOG.metrics)
    assert SCHEMA["properties"]["dimensions"]["items"]["enum"] == list(CATALOG.dimensions)


@pytest.mark.parametrize("period", GOOD_PERIODS)
def test_period_pattern_takes(period: str):
    assert re.search(PERIOD_PATTERN, period)


@pytest.mark.parametrize("period", [*BAD_PERIODS, "", " 2024", "2024 ", "last month"])
def test_period_pattern_refuses(period: str):
    assert not re.search(PERIOD_PATTERN, period)


@settings(max_examples=150, deadline=None)
@given(random_intents())
def test_every_valid_intent_keeps_to_the_schema_and_survives_its_own_text(one: Intent):
    assert schema_problem(one.wire(), SCHEMA) is None
    assert parse_intent(one.text(), CATALOG) == one == parse_intent(one.text(indent=2), CATALOG)


def test_text_keeps_wire_order_and_is_compact_or_pretty():
    compact, pretty = intent().text(), intent().text(indent=2)
    assert list(json.loads(compact)) == KEYS
    assert compact.startswith('{"evidence":"by region","query_type":"breakdown","metrics":["revenue"],')
    assert pretty.startswith('{\n  "evidence": "by region",\n')


# --- reading an answer


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ("revenue by region", "not JSON"),
        ("", "not JSON"),
        (f"Here it is: {text()}", "not JSON"),
        (f"```json\n{text()}\n```", "not JSON"),
        (f"{text()} Hope this helps!", "Extra data"),
        (text()[:-5], "not JSON"),
        (text().replace("null", "NaN"), "NaN is no JSON number"),
        (text().replace('"limit": null', '"limit": 1e999'), "1e999 is no JSON number"),
        (text().replace('"limit": null', '"limit": null, "limit": 5'), "'limit' stands there twice"),
        (text(evidence="\ud800"), "surrogate"),
        ("[" * 100_000, "not JSON"),
        ('{"limit": ' + "9" * 5000 + "}", "not JSON"),
    ],
)
def test_what_is_not_one_json_document_is_bad_json(answer: str, said: str):
    with pytest.raises(BadJson, match=re.escape(said)):
        parse_intent(answer, CATALOG)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"colour": "red"}, "unknown key 'colour'"),
        ({"metrics": []}, "metrics"),
        ({"metrics": ["revenu"]}, "metrics.0: 'revenu' is not possible here; did you mean revenue"),
        ({"metrics": ["revenue", "orders", "units", "refunds"]}, "metrics"),
        ({"dimensions": ["region", "channel", "product"]}, "dimensions"),
        ({"dimensions": ["regions"]}, "did you mean region"),
        ({"evidence": "x" * 81}, "evidence"),
        ({"query_type": "ranking"}, "query_type: 'ranking' is not possible here"),
        ({"period": "2023-2024"}, "period: '2023-2024' does not have the form asked for; write all, 2024"),
        ({"limit": 0}, "limit: 0 is less than"),
        ({"limit": 1001}, "limit: 1001 is greater than"),
        ({"limit": "5"}, "limit: '5' is not of type 'integer'"),
        ({"limit": True}, "limit"),
        ({"sort": "desc"}, "sort: 'desc' is not of type 'object'"),
        ({"sort": {"by": "revenue"}}, "sort: 'direction' is a required property"),
        ({"sort": {"by": "revenue", "direction": "down"}}, "sort.direction: 'down' is not possible here"),
        ({"grain": "hour"}, "grain: 'hour' is not possible here"),
        ({"filters": [where("region", "gt", 3)]}, "filters.0.field: 'region' is not possible here"),
        ({"filters": [where("revenue", "in", 3)]}, "filters.0.field: 'revenue' is not possible here"),
        ({"filters": [where("region", "is_null", "West")]}, "filters.0.values"),
        ({"filters": [where("region", "in")]}, "filters.0.values: [] should be non-empty"),
        ({"filters": [where("revenue", "gt")]}, "filters.0.values"),
        ({"filters": [where("revenue", "gt", 1, 2)]}, "filters.0.values"),
        ({"filters": [where("revenue", "gt", "1")]}, "filters.0.values.0: '1' is not of type 'number'"),
        ({"filters": [where("revenue", "gt", True)]}, "filters.0.values.0"),
        ({"filters": [where("region", "in", *"abcdefghijklm")]}, "filters.0.values"),
        ({"filters": [where("region", "in", "West")] * 5}, "filters"),
    ],
)
def test_json_against_the_schema_is_a_schema_violation(changes: dict[str, Any], said: str):
    with pytest.raises(SchemaViolation, match=re.escape(said)):
        parse_intent(text(**changes), CATALOG)


def test_a_missing_key_is_a_schema_violation():
    document = wire()
    del document["sort"]
    with pytest.raises(SchemaViolation, match="'sort' is a required property"):
        intent_of(document, CATALOG)


def test_json_that_is_no_object_is_a_schema_violation():
    with pytest.raises(SchemaViolation, match="is not of type 'object'"):
        parse_intent("[1, 2]", CATALOG)


@pytest.mark.parametrize(
    ("changes", "rule", "said"),
    [
        ({"metrics": ["revenue", "revenue"]}, "duplicate", "revenue stands there twice"),
        ({"dimensions": ["region", "region"]}, "duplicate", "region stands there twice"),
        ({"grain": "month"}, "grain", "belongs to a time_series"),
        ({"query_type": "time_series", "dimensions": []}, "grain", "needs a grain"),
        (
            {"query_type": "time_series", "grain": "day", "dimensions": ["region", "channel"]},
            "dimensions",
            "at most one dimension",
        ),
        ({"filters": [where("region", "in", "Wset")]}, "value", "did you mean West"),
        (
            {"filters": [where("region", "in", "West'; DROP TABLE orders; --")]},
            "value",
            "region has no value",
        ),
        ({"filters": [where("region", "not_in", 7)]}, "value", "region has no value"),
        ({"dimensions": ["return_reason"]}, "reach", "revenue cannot be split or filtered by return_reason"),
        ({"filters": [where("return_reason", "in", "Late")]}, "reach", "only refunds can"),
        (
            {"metrics": ["refunds"], "dimensions": ["return_reason"], "filters": [where("orders", "gt", 3)]},
            "reach",
            "orders cannot be split or filtered by return_reason",
        ),
        ({"period": "2022"}, "period", "outside the data"),
        ({"period": "2025-07"}, "period", "outside the data"),
        ({"period": "2024-06..2024-01"}, "period", "ends before it begins"),
        ({"period": "2024\n"}, "period", "2024"),
        ({"sort": {"by": "channel", "direction": "asc"}}, "sort", "cannot sort by channel"),
    ],
)
def test_what_a_grammar_cannot_check_is_a_contract_violation(changes: dict[str, Any], rule: str, said: str):
    with pytest.raises(ContractViolation, match=re.escape(said)) as caught:
        parse_intent(text(**changes), CATALOG)
    assert caught.value.rule == rule


@pytest.mark.parametrize("bad", [{"metrics": ["x", "x"]}, {"grain": "month"}, {"colour": 1}, {"limit": 0}])
def test_every_error_is_one_line(bad: dict[str, Any]):
    with pytest.raises((SchemaViolation, ContractViolation)) as caught:
        parse_intent(text(**bad), CATALOG)
    assert "\n" not in str(caught.value)


def test_an_intent_made_in_code_is_checked_like_one_that_was_read():
    unknown = intent().model_copy(update={"metrics": ("sales",)})
    with pytest.raises(ContractViolation, match="unknown metric 'sales'"):
        check(unknown, CATALOG)
    mismatch = intent(filters=[where("region", "in", "West")]).filters[0].model_copy(update={"op": "gt"})
    with pytest.raises(ContractViolation, match="unknown metric 'region'"):
        check(intent().model_copy(update={"filters": (mismatch,)}), CATALOG)


def test_a_ranking_may_name_any_sort_column_because_only_its_direction_counts():
    ranking = intent(query_type="top_n_by_metric", sort={"by": "channel", "direction": "asc"})
    assert ranking.sort is not None and ranking.sort.direction == "asc"


def test_a_whole_number_with_a_point_is_a_limit():
    assert parse_intent(text().replace('"limit": null', '"limit": 5.0'), CATALOG).limit == 5


def test_values_of_the_warehouse_are_checked_once_the_catalog_knows_them():
    asked = {"dimensions": ["customer"], "filters": [where("customer", "in", 7)]}
    assert intent(**asked)
    with pytest.raises(ContractViolation, match="no customer with id 7"):
        intent_of(wire(**asked), CATALOG.with_values({"customer": {1: "Ada Brown"}}))


def test_an_intent_is_frozen_and_hashable():
    assert len({intent(), intent(), series()}) == 2
    with pytest.raises(ValueError, match="frozen"):
        intent().limit = 3  # type: ignore[misc]
