"""The planner: names linked without a model, a kind with log-probabilities, slots that nobody can invent."""

import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator
from wire_intents import CATALOG, intent, random_intents

from nlqlib.nlq.belief import LABELS
from nlqlib.nlq.catalog import QuestionError
from nlqlib.nlq.intent import intent_of
from nlqlib.nlq.linking import Links, link, numbers
from nlqlib.nlq.planner import (
    kind_request,
    read_slots,
    slot_schema,
    slots_request,
)
from nlqlib.paths import QUESTIONS
from nlqlib.records import Completion
from nlqlib.tokens import count_chat

DEV = [json.loads(line) for line in (QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()]
unhurried = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
every_dev_question = pytest.mark.parametrize("row", DEV, ids=[q["id"] for q in DEV])


def said(text: str) -> Completion:
    return Completion("q", "ok", text, "stop")


def allows(schema: dict[str, Any], document: Any) -> bool:
    return bool(Draft202012Validator(schema).is_valid(document))


# --- linking ---


@pytest.mark.parametrize(
    ("question", "metrics", "dimensions", "values"),
    [
        ("net revenue by region", ["net_revenue"], ["region"], {}),
        ("Sales in the WEST", ["revenue"], [], {"region": ["West"]}),
        ("profit for Women’s and men's", ["gross_margin"], [], {"category": ["Women's", "Men's"]}),
        ("top-line of the Top Shelf category", ["revenue"], ["category"], {"category": ["Top Shelf"]}),
        ("items sold through pop ups", ["units"], [], {"channel": ["Pop-up"]}),
        ("how are you?", [], [], {}),
    ],
)
def test_names_are_linked_longest_first_whatever_their_spelling(
    question: str, metrics: list[str], dimensions: list[str], values: dict[str, list[str]]
) -> None:
    found = link(question, CATALOG)
    assert list(found.metrics) == metrics and list(found.dimensions) == dimensions
    assert {f: list(v) for f, v in found.named.items()} == values


def test_a_name_within_a_longer_name_is_not_linked() -> None:
    assert link("revenue from Northeast", CATALOG).named == {"region": ("Northeast",)}
    assert link("gross margin rate", CATALOG).metrics == ("gross_margin_rate",)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("more than 1,200.50", (1200.5,)),
        ("over 8%", (8.0, 0.08)),
        ("above 5k orders", (5000.0,)),
        ("the three best", (3.0,)),
        ("a dozen in 2024", (12.0, 2024.0)),
        ("no number", ()),
        ("SKU4711 and v2.5", ()),
    ],
)
def test_numbers_are_read_in_digits_and_in_words(text: str, found: tuple[float, ...]) -> None:
    assert numbers(text) == found


@unhurried
@given(st.text(max_size=200))
def test_any_text_can_be_linked(text: str) -> None:
    found = link(text, CATALOG)
    assert set(found.metrics) <= set(CATALOG.metrics)
    assert all(v in CATALOG.dimension(f).values for f, vs in found.named.items() for v in vs)


# --- the kind ---


@every_dev_question
def test_the_two_prompts_are_short_and_share_their_beginning(row: dict[str, Any]) -> None:
    asked = kind_request(row["question"], CATALOG)
    assert count_chat(asked.messages) < 450
    filling = slots_request(row["question"], row["gold"]["query_type"], CATALOG)
    assert count_chat(filling.messages) < 1_700
    assert asked.messages[0] == kind_request("revenue", CATALOG).messages[0]
    assert filling.messages[0] == slots_request("revenue", "time_series", CATALOG).messages[0]


def test_the_kind_is_asked_for_as_a_choice_with_log_probabilities() -> None:
    body = kind_request("revenue by region", CATALOG).body("m")
    assert body["structured_outputs"] == {"choice": ["breakdown", "ranking", "series"]}
    assert body["logprobs"] is True and body["top_logprobs"] == 20


@pytest.mark.parametrize("style", ["response_format", "unconstrained"])
def test_an_endpoint_without_vllms_fields_is_asked_in_its_own_way(style: str) -> None:
    for asked in (
        kind_request("revenue by region", CATALOG, style),
        slots_request("revenue by region", "breakdown", CATALOG, style),
    ):
        body = asked.body("m")
        assert "structured_outputs" not in body
        assert ("response_format" in body) == (style == "response_format")


# --- the slots ---


@every_dev_question
def test_the_schema_of_the_right_kind_lets_every_gold_through(row: dict[str, Any]) -> None:
    gold = row["gold"]
    schema = slot_schema(gold["query_type"], link(row["question"], CATALOG), CATALOG)
    assert allows(schema, {slot: gold[slot] for slot in schema["properties"]})


def test_a_slot_cannot_hold_what_the_question_does_not_name() -> None:
    schema = slot_schema("breakdown", link("revenue by region in the West above 8%", CATALOG), CATALOG)
    good = {"metrics": ["revenue"], "dimensions": ["region"], "period": "all", "sort": None, "limit": None}
    west = {"field": "region", "op": "in", "values": ["West"]}
    assert allows(schema, good | {"filters": [west]})
    assert not allows(schema, good | {"filters": [west | {"values": ["East"]}]})
    assert not allows(schema, good | {"filters": [], "dimensions": ["channel"]})
    assert not allows(schema, good | {"filters": [], "limit": 10})
    assert not allows(schema, good | {"filters": [{"field": "revenue", "op": "gt", "values": [7]}]})


def test_a_ranking_has_a_thing_to_rank_a_direction_and_a_limit() -> None:
    schema = slot_schema("top_n_by_metric", link("best 3 channels by units", CATALOG), CATALOG)
    slots = {"metrics": ["units"], "dimensions": ["channel"], "filters": [], "period": "all"}
    sort = {"by": "units", "direction": "desc"}
    assert allows(schema, slots | {"sort": sort, "limit": 3})
    assert not allows(schema, slots | {"sort": None, "limit": 3})
    assert not allows(schema, slots | {"sort": sort, "limit": None})
    assert not allows(schema, slots | {"sort": sort, "limit": 3, "dimensions": []})


@pytest.mark.parametrize(
    ("question", "limits"),
    [
        ("which channel has the best margin", [1]),
        ("channels with the best margin", [5]),
        ("the 3 best channels in 2024", [3, 5]),
        ("best margin on Web", [1, 5]),
    ],
)
def test_a_ranking_without_a_number_is_cut_as_its_noun_says(question: str, limits: list[int]) -> None:
    schema = slot_schema("top_n_by_metric", link(question, CATALOG), CATALOG)
    assert schema["properties"]["limit"]["enum"] == limits


def test_a_breakdown_without_a_number_has_no_limit() -> None:
    schema = slot_schema("breakdown", link("revenue by region in 2024", CATALOG), CATALOG)
    assert schema["properties"]["limit"] == {"type": "null"}


def fields(question: str) -> set[tuple[str, str]]:
    """The (field, op) pairs that filters may have."""
    items = slot_schema("breakdown", link(question, CATALOG), CATALOG)["properties"]["filters"]["items"]
    forms = [form["properties"] for form in items.get("anyOf", ())]
    return {(f, op) for form in forms for f in form["field"]["enum"] for op in form["op"]["enum"]}


def test_a_condition_needs_a_word_for_it() -> None:
    assert fields("revenue by region for Web in 2024") == {("channel", "in")}
    assert fields("revenue by channel without Web") == {("channel", "in"), ("channel", "not_in")}
    assert ("region", "is_null") in fields("orders where no region was recorded")
    assert ("units", "gt") in fields("regions with more than 100 units")
    assert ("units", "lt") in fields("regions with units < 100")
    assert fields("units by region in 2024") == set()


def test_values_split_only_where_they_stand_side_by_side() -> None:
    def possible(question: str) -> list[str]:
        slots = slot_schema("breakdown", link(question, CATALOG), CATALOG)["properties"]
        return list(slots["dimensions"]["items"].get("enum", []))

    assert possible("revenue on Web and Phone") == []
    assert possible("revenue, Web versus Phone") == ["channel"]
    assert possible("revenue by region on Web") == ["region"]


def test_a_series_has_a_grain_and_one_dimension_at_most() -> None:
    schema = slot_schema("time_series", link("orders by region and channel per week", CATALOG), CATALOG)
    slots = {"metrics": ["orders"], "filters": [], "period": "all", "sort": None, "limit": None}
    assert allows(schema, slots | {"dimensions": ["region"], "grain": "week"})
    assert not allows(schema, slots | {"dimensions": ["region", "channel"], "grain": "week"})
    assert not allows(schema, slots | {"dimensions": [], "grain": None})


def test_where_nothing_is_linked_every_metric_is_possible_and_no_dimension() -> None:
    schema = slot_schema("breakdown", Links(), CATALOG)
    assert schema["properties"]["metrics"]["items"]["enum"] == list(CATALOG.metrics)
    assert schema["properties"]["dimensions"]["maxItems"] == 0
    assert schema["properties"]["filters"]["maxItems"] == 0


def enums(schema: Any) -> list[list[Any]]:
    """Every enum anywhere in `schema`."""
    if isinstance(schema, list):
        return [e for part in schema for e in enums(part)]
    if not isinstance(schema, dict):
        return []
    own = [schema["enum"]] if "enum" in schema else []
    return own + [e for part in schema.values() for e in enums(part)]


@unhurried
@given(st.text(max_size=80), st.sampled_from(list(LABELS.values())))
def test_no_schema_has_an_empty_enum_which_backends_reject(text: str, kind: Any) -> None:
    schema = slot_schema(kind, link(text, CATALOG), CATALOG)
    Draft202012Validator.check_schema(schema)
    assert all(enums(schema))


@unhurried
@given(random_intents())
def test_filled_slots_become_the_intent_they_say(wanted: Any) -> None:
    document = {k: v for k, v in wanted.wire().items() if k not in ("evidence", "query_type")}
    if wanted.query_type != "time_series":
        del document["grain"]
    found, reason = read_slots(said(json.dumps(document)), wanted.query_type, CATALOG)
    assert reason is None
    assert found == intent_of(wanted.wire() | {"evidence": ""}, CATALOG)


@pytest.mark.parametrize("text", ["", "North leads", "[]", "{}", '{"metrics": ["profit"]}'])
def test_slots_that_cannot_be_read_are_no_intent_and_say_why(text: str) -> None:
    found, reason = read_slots(said(text), "breakdown", CATALOG)
    assert found is None and reason


@pytest.mark.parametrize("question", ["", "x" * 5_000])
def test_a_hopeless_question_is_refused_before_anything_is_sent(question: str) -> None:
    with pytest.raises(QuestionError):
        kind_request(question, CATALOG)


def test_a_plain_intent_is_read() -> None:
    text = json.dumps(
        {"metrics": ["revenue"], "dimensions": ["region"], "filters": [], "period": "all"}
        | {"sort": None, "limit": None}
    )
    assert read_slots(said(text), "breakdown", CATALOG)[0] == intent(evidence="")
