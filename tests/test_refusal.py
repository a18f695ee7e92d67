"""A question for what the catalog does not have is refused with close names; others are left alone."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from refusal_questions import ALLOWED, REFUSED
from wire_intents import CATALOG, intent, top

from nlqlib.nlq.catalog import QuestionError
from nlqlib.nlq.correction import CORRECTIONS, Heard, changed, correct, majority
from nlqlib.nlq.intent import check
from nlqlib.nlq.refusal import Refusal, refusal, unexplained
from nlqlib.paths import QUESTIONS

unhurried = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def refused(question: str) -> Refusal:
    found = refusal(question, CATALOG)
    assert found is not None, question
    return found


@pytest.mark.parametrize("question", REFUSED, ids=lambda q: repr(q[:40]))
def test_what_the_catalog_does_not_have_is_refused_by_name(question: str) -> None:
    found = refused(question)
    assert REFUSED[question] in found.reason and "\n" not in found.reason


@pytest.mark.parametrize("question", ALLOWED)
def test_what_it_has_is_not_refused_whatever_stands_around_it(question: str) -> None:
    assert refusal(question, CATALOG) is None


def test_no_development_question_is_refused() -> None:
    import json

    rows = (QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()
    assert [q for row in rows if refusal(q := json.loads(row)["question"], CATALOG)] == []


def test_the_words_that_are_not_known_are_pointed_at() -> None:
    question = "Revenue in Atlantis in 2024"
    [(start, end)] = refused(question).spans
    assert question[start:end] == "Atlantis"


def test_a_question_without_a_metric_that_may_be_meant_is_left_to_the_model() -> None:
    assert refusal("How did we do in the South last month?", CATALOG) is None


def test_a_word_that_stands_nowhere_in_particular_is_only_named() -> None:
    question = "revenue by region, gimme"
    assert refusal(question, CATALOG) is None
    assert unexplained(question, CATALOG) == ("gimme",)


@unhurried
@given(st.text(max_size=200))
def test_any_text_is_refused_in_one_line_or_let_through(text: str) -> None:
    found = refusal(text, CATALOG)
    if found is not None:
        assert found.reason and "\n" not in found.reason
        assert all(0 <= start < end <= len(text) for start, end in found.spans)


# --- corrections by name ---


@pytest.mark.parametrize("name", ["cues", "planner", "clarifier", "rules_only"])
def test_a_refused_question_has_no_final_answer_and_says_what_was_refused(name: str) -> None:
    found = correct(name, "profit per employee", Heard(intent()), CATALOG)
    assert found.final is None and found.refused is not None and "employee" in found.refused
    assert [d.rule for d in found.decisions] == ["refused"] and not found.abstained


@pytest.mark.parametrize("name", ["none", "guardrail"])
def test_the_raw_model_and_the_articles_guardrail_refuse_nothing(name: str) -> None:
    found = correct(name, "profit per employee", Heard(intent()), CATALOG)
    assert found.final == intent() and found.refused is None


def test_rules_alone_never_see_what_the_model_said() -> None:
    found = correct("rules_only", "orders by channel", Heard(top(limit=3)), CATALOG)
    assert found.final == correct("rules_only", "orders by channel", Heard(None), CATALOG).final
    assert found.final is not None and found.final.metrics == ("orders",)


def test_the_majority_answer_is_the_same_valid_breakdown_for_every_question() -> None:
    check(majority(CATALOG), CATALOG)
    for question in ("top 5 products by revenue", "", "who?"):
        found = correct("majority", question, Heard(top()), CATALOG)
        assert found.final == majority(CATALOG) and found.final.query_type == "breakdown"


def test_the_rules_abstain_where_they_do_not_understand_and_keep_the_models_answer() -> None:
    found = correct("cues", "How did we do in the South last month?", Heard(intent()), CATALOG)
    assert found.final == intent() and found.abstained and found.refused is None


def test_another_spelling_of_the_same_meaning_is_no_change() -> None:
    raw = intent(period="2023-01-01..2025-06-15")
    found = correct("cues", "revenue by region", Heard(raw), CATALOG)
    assert not changed(raw, found, CATALOG)
    assert changed(None, found, CATALOG)
    assert changed(top(), found, CATALOG)


def test_an_unknown_correction_is_refused_with_those_that_exist() -> None:
    with pytest.raises(QuestionError, match="unknown correction 'magic': there are none, guardrail, cues"):
        correct("magic", "revenue", Heard(None), CATALOG)


@pytest.mark.parametrize("name", CORRECTIONS)
@pytest.mark.parametrize("question", ["", "?", "x" * 5_000, "売上", "<|im_end|>", "a. b! c? d; e"])
def test_no_correction_raises_for_any_question(name: str, question: str) -> None:
    correct(name, question, Heard(None), CATALOG)
    correct(name, question, Heard(top()), CATALOG)
