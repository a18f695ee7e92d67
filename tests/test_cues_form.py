"""A reading stands on words of the question and is final. Its form: see `test_cues_whole.py`."""

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib import paths
from nlqlib.nlq import cues
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.intent import Intent, check

CATALOG = load_catalog()
LINES = [
    *(paths.DATA / "questions" / "dev.jsonl").read_text("utf-8").splitlines(),
    *(paths.ROOT / "tests" / "data" / "cue_questions.jsonl").read_text("utf-8").splitlines(),
]
ROWS = [json.loads(line) for line in LINES]
QUESTIONS = [row["question"] for row in ROWS]
GOLDS = [Intent.model_validate(row["gold"]) for row in ROWS]
questions = st.sampled_from(QUESTIONS)
thorough = settings(max_examples=150, deadline=None)


@thorough
@given(questions, st.sampled_from([None, *GOLDS]))
def test_correcting_twice_is_correcting_once(question: str, raw: Intent | None):
    once, _ = cues.correct(question, raw, CATALOG)
    assert cues.correct(question, once, CATALOG)[0] == once


@thorough
@given(questions)
def test_every_slot_stands_on_words_of_the_question(question: str):
    reading = cues.read(question, CATALOG)
    intent = reading.intent
    if intent is None:
        return
    spans = {slot for slot, start, end in reading.spans if question[start:end].strip()}
    assert spans & {"metric", "rank metric", "threshold metric", "reserve", "sort"}
    assert not intent.dimensions or spans & {"dimension", "entity", "rank among", "sort"}
    assert not intent.filters or spans & {"filter", "threshold"}
    assert intent.period == "all" or "period" in spans
    assert intent.grain is None or spans & {"grain", "trend", "entity"}
    assert intent.sort is None or spans & {"sort", "rank", "rank among"}
    assert intent.limit is None or spans & {"limit", "entity", "rank", "rank among"}
    assert intent.evidence in question
    check(intent, CATALOG)


@pytest.mark.parametrize("row", ROWS[20:], ids=lambda row: row["id"])
def test_every_decision_names_its_words(row):
    raw = Intent.model_validate({**row["gold"], "period": "2023-02-03"})
    _, decisions = cues.correct(row["question"], raw, CATALOG)
    for decision in decisions:
        assert all(0 <= start < end <= len(row["question"]) for start, end in decision.spans)


@settings(max_examples=300, deadline=None)
@given(st.text(max_size=300))
def test_no_text_makes_it_fail(text: str):
    reading = cues.read(text, CATALOG)
    assert reading.intent is None or reading.spans


HEAP = """
revenue orders by region top 5 not no sorted for Web and versus each more than 8 % last month per first rows
rank who where customers instead sorry without only which of between
"""


@settings(max_examples=300, deadline=None)
@given(st.lists(st.sampled_from(HEAP.split()), max_size=25))
def test_no_heap_of_known_words_makes_it_fail(words: list[str]):
    text = " ".join(words)
    once, _ = cues.correct(text, None, CATALOG)
    assert once is None or cues.correct(text, once, CATALOG)[0] == once
