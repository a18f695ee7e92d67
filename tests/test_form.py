"""The outcome of an answer's form, under each kind of promise (cases 9 and 11 of the measuring rules)."""

import pytest
from wire_intents import CATALOG, text

from nlqlib.nlq.form import classify_answer
from nlqlib.nlq.schema import wire_schema
from nlqlib.records import UNCONSTRAINED, OutputContract

SCHEMA = wire_schema(CATALOG)
ASKED = OutputContract("structured_outputs", {"structured_outputs": {"json": SCHEMA}}, SCHEMA)
PROSE = "The revenue by region is as follows: North leads."


@pytest.mark.parametrize(
    ("answer", "finish_reason", "outcome"),
    [
        (text(), "stop", "ok"),
        (f"\n {text()} \n", "stop", "ok"),
        ("", "stop", "empty"),
        (None, "stop", "empty"),
        (" \n ", "stop", "empty"),
        (PROSE, "stop", "constraint_not_applied"),
        (f"```json\n{text()}\n```", "stop", "constraint_not_applied"),
        (f"Sure! {text()}", "stop", "constraint_not_applied"),
        (f"{text()}\nThis means revenue by region.", "stop", "constraint_not_applied"),
        ("SELECT 1", "stop", "constraint_not_applied"),
        ("42 regions", "stop", "constraint_not_applied"),
        (text()[:-2], "stop", "bad_json"),
        ("{evidence: 1}", "stop", "bad_json"),
        ("[1]", "stop", "schema_violation"),
        ('"revenue"', "stop", "schema_violation"),
        (text(limit=0), "stop", "schema_violation"),
        (text(extra=1), "stop", "schema_violation"),
        (text(metrics=["revenue", "revenue"]), "stop", "ok"),
        (text(), "length", "length"),
        (text()[:-2], "length", "length"),
        (PROSE, "length", "length"),
        ("", "length", "length"),
        (text(), None, "ok"),
    ],
)
def test_outcome_when_a_schema_was_asked_for(answer: str | None, finish_reason: str | None, outcome: str):
    found, reason = classify_answer(answer, finish_reason, ASKED)
    assert found == outcome
    assert (reason is None) == (outcome == "ok")


@pytest.mark.parametrize(
    ("answer", "finish_reason", "outcome"),
    [(PROSE, "stop", "ok"), (text()[:-2], "stop", "ok"), ("", "stop", "empty"), (PROSE, "length", "length")],
)
def test_outcome_when_no_form_was_promised(answer: str, finish_reason: str, outcome: str):
    assert classify_answer(answer, finish_reason, UNCONSTRAINED)[0] == outcome


def test_the_ignored_field_is_named():
    ignored = OutputContract("guided_json", {"guided_json": SCHEMA}, SCHEMA)
    outcome, reason = classify_answer(PROSE, "stop", ignored)
    assert outcome == "constraint_not_applied"
    assert reason is not None and reason.startswith("guided_json was ignored: 'The revenue by region")
