"""What a schema becomes when only minified JSON is let through."""

import json
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from wire_intents import CATALOG, random_intents, text, where, wire

from nlqlib.nlq.compact_grammar import (
    GUIDANCE_FLAG,
    MAX_DIGITS,
    SERVER_FLAG,
    UnsupportedSchema,
    as_ebnf,
    compact_contracts,
    compact_ebnf,
    compact_guidance,
    compact_regex,
)
from nlqlib.nlq.form import read_json, schema_problem
from nlqlib.nlq.intent import Intent, wire_schema
from nlqlib.records import ChatRequest

SCHEMA = wire_schema(CATALOG)
EXPRESSION = re.compile(compact_regex(SCHEMA))


def minified(document: Any) -> str:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)


def matches(schema: dict[str, Any], document: str) -> bool:
    return re.fullmatch(compact_regex(schema), document) is not None


@given(random_intents())
@settings(max_examples=60, deadline=None)
def test_every_valid_intent_is_let_through_minified_and_not_pretty(intent: Intent):
    values = [str(v) for f in intent.filters for v in f.values if isinstance(v, float)]
    assume(all(len(v) <= MAX_DIGITS and "e" not in v for v in values))  # a question's own numbers are short
    assert EXPRESSION.fullmatch(intent.text())
    assert not EXPRESSION.fullmatch(intent.text(indent=2))
    assert not EXPRESSION.fullmatch(json.dumps(intent.wire(), ensure_ascii=False))


@pytest.mark.parametrize(
    "broken",
    [
        wire(period="2024-13"),
        wire(metrics=[]),
        wire(metrics=["profit"]),
        wire(limit=1001),
        wire(limit=0),
        wire(query_type="ranking"),
        wire(filters=[where("region", "gt", 5)]),
        wire(filters=[where("region", "is_null", "West")]),
        wire(evidence="x" * 81),
        {**wire(), "extra": 1},
        {k: v for k, v in wire().items() if k != "limit"},
    ],
)
def test_what_breaks_the_schema_is_not_let_through(broken: dict[str, Any]):
    assert schema_problem(broken, SCHEMA)
    assert not EXPRESSION.fullmatch(minified(broken))


def test_keys_come_in_the_order_of_the_schema():
    assert not EXPRESSION.fullmatch(minified(dict(reversed(wire().items()))))


@pytest.mark.parametrize("evidence", ['say "top"', "back\\slash", "tab\t", "Women's café", "%", "{}[]"])
def test_strings_may_hold_anything_that_json_can_write(evidence: str):
    document = minified(wire(evidence=evidence))
    assert EXPRESSION.fullmatch(document) and read_json(document)["evidence"] == evidence


@given(st.text(max_size=60))
def test_whatever_string_is_let_through_is_json(said: str):
    if re.fullmatch(compact_regex({"type": "string"}), f'"{said}"'):
        assert isinstance(json.loads(f'"{said}"'), str)


@pytest.mark.parametrize("number", ["0", "-1", "0.08", "1000", "12.50"])
def test_numbers_are_plain_decimals(number: str):
    assert matches({"type": "number"}, number)


@pytest.mark.parametrize("number", ["01", "1.", ".5", "+1", "1e5", "NaN", "1" * 16])
def test_no_other_numbers_are_let_through(number: str):
    assert not matches({"type": "number"}, number)


@pytest.mark.parametrize(
    ("low", "high", "counts"),
    [(0, 0, {0}), (0, 1, {0, 1}), (0, 3, {0, 1, 2, 3}), (1, 1, {1}), (1, 3, {1, 2, 3}), (2, 3, {2, 3})],
)
def test_a_list_has_as_many_items_as_the_schema_allows(low: int, high: int, counts: set[int]):
    schema = {"type": "array", "items": {"type": "null"}, "minItems": low, "maxItems": high}
    assert {n for n in range(6) if matches(schema, minified([None] * n))} == counts


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "array", "items": {"type": "null"}},
        {"type": "object", "properties": {"a": {"type": "null"}}, "required": []},
        {"type": "integer", "minimum": 1, "maximum": 42},
        {"type": "boolean"},
    ],
)
def test_a_schema_that_no_expression_is_written_for_is_refused(schema: dict[str, Any]):
    with pytest.raises(UnsupportedSchema):
        compact_regex(schema)


def test_the_grammar_has_one_rule_for_each_key_and_quotes_what_is_literal():
    schema = {
        "type": "object",
        "properties": {"kind": {"type": "string", "enum": ["a b"]}, "n": {"anyOf": [{"type": "null"}]}},
        "required": ["kind", "n"],
    }
    assert compact_ebnf(schema).splitlines() == [
        'root ::= "{" "\\"kind\\":" kind_value "," "\\"n\\":" n_value "}"',
        'kind_value ::= ( "\\"a b\\"" )',
        'n_value ::= ( "null" )',
    ]


@pytest.mark.parametrize(
    ("expression", "rule"),
    [
        (r"\[(a,?)?\]", '"[" ( "a" ","? )? "]"'),
        (r"(19|20)[0-9]{2}", '( "19" | "20" ) [0-9]{2}'),
        (r"ab*c", '"a" "b"* "c"'),
        (r"\.\.", '"." "."'),
    ],
)
def test_an_expression_becomes_a_rule_with_the_same_operators(expression: str, rule: str):
    assert as_ebnf(expression) == rule


def test_the_grammar_refuses_what_is_no_object():
    with pytest.raises(UnsupportedSchema):
        compact_ebnf({"type": "null"})


def test_guidance_is_asked_for_by_the_schema_itself():
    assert compact_guidance(SCHEMA) == {**SCHEMA, "x-guidance": {"whitespace_flexible": False}}


def test_every_compact_contract_promises_the_same_schema():
    made = compact_contracts(SCHEMA)
    names = ["compact_guidance", "compact_regex", "compact_grammar", "compact_flag", "guidance_flag"]
    assert list(made) == names
    assert all(c.schema == SCHEMA for c in made.values())
    assert {name: c.engine for name, c in made.items() if c.engine} == {
        "compact_flag": SERVER_FLAG,
        "guidance_flag": GUIDANCE_FLAG,
    }


def test_server_flags_of_a_contract_are_no_part_of_the_request():
    flagged = compact_contracts(SCHEMA)["compact_flag"]
    body = ChatRequest("r", (), contract=flagged).body("m")
    assert body["structured_outputs"] == {"json": SCHEMA} and not set(SERVER_FLAG) & set(body)


def test_the_pretty_example_is_no_minified_text():
    assert not EXPRESSION.fullmatch(text())
