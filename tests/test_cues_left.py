"""Every number, date, value and metric of a question lands in the intent, or is told as left over."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib import paths
from nlqlib.nlq import cues
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.equality import strict_equal
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.refusal import refusal, unexplained

CATALOG = load_catalog()
DEV = [json.loads(line) for line in (paths.DATA / "questions" / "dev.jsonl").read_text("utf-8").splitlines()]
OWN = [
    json.loads(line)
    for line in (paths.ROOT / "tests" / "data" / "cue_questions.jsonl").read_text("utf-8").splitlines()
]
thorough = settings(max_examples=200, deadline=None)


def left(question: str) -> tuple[str, ...]:
    return tuple(word for word, _, _ in cues.read(question, CATALOG).left)


@pytest.mark.parametrize(
    ("question", "words"),
    [
        ("top 5 regions by revenue", ()),
        ("revenue by region above 1000", ()),
        ("7 orders by region", ("7",)),
        ("revenue by region in 2024, 15%", ("15%",)),
        ("top 5 products by revenue 12", ("12",)),
        ("the top 3 of 8 regions by orders 9", ("8", "9")),
        ("not the top 5, just revenue by region", ()),
        ("top 5, no, top 10 products by units", ()),
        ("the two channels Web and Store: revenue by channel", ()),
        ("revenue by region in 2023 and 2024", ()),
        ("rank all 10 regions by revenue", ()),
    ],
)
def test_what_finds_no_place_is_left_and_told(question: str, words: tuple[str, ...]) -> None:
    assert left(question) == words
    assert cues.read(question, CATALOG).sure is (not words)
    assert set(words) <= set(unexplained(question, CATALOG))


@pytest.mark.parametrize("row", DEV, ids=lambda row: row["id"])
def test_nothing_of_a_development_question_is_left(row: dict[str, Any]) -> None:
    assert left(row["question"]) == () and cues.read(row["question"], CATALOG).sure


def test_what_is_left_stands_where_it_says() -> None:
    question = "7 orders by region"
    assert [question[start:end] for _, start, end in cues.read(question, CATALOG).left] == ["7"]


@pytest.mark.parametrize("question", ["orders by region over $500", "customers by channel below 8 percent"])
def test_a_condition_that_fits_no_metric_is_refused_by_name(question: str) -> None:
    found = refusal(question, CATALOG)
    assert found is not None and "fits no metric that is named" in found.reason
    [(start, end)] = found.spans
    assert question[start:end] in ("$500", "8 percent") and question[start:end] in found.reason


@thorough
@given(
    st.sampled_from(["revenue", "orders", "refunds", "return rate"]),
    st.sampled_from(["region", "channel", "category"]),
    st.integers(11, 999),
    st.sampled_from(["{q} {n}", "{n} {q}", "{q} with {n}", "{q}, about {n}", "{q} over {n}", "top {n} {q}"]),
)
def test_a_number_is_in_the_intent_or_left(metric: str, dimension: str, number: int, form: str) -> None:
    question = form.format(q=f"{metric} by {dimension}", n=number)
    reading = cues.read(question, CATALOG)
    if reading.intent is None:
        return
    told = {value for f in reading.intent.filters for value in f.values} | {reading.intent.limit}
    assert {number, number / 100} & told or str(number) in left(question)


VALUES = [v for d in ("region", "channel", "customer_segment") for v in CATALOG.dimensions[d].values]


@thorough
@given(
    st.sampled_from(["revenue", "orders", "units"]),
    st.lists(st.sampled_from(VALUES), max_size=3, unique=True),
)
def test_a_value_is_in_the_intent_or_left(metric: str, values: list[str]) -> None:
    question = f"{metric} by month for {' and '.join(values)}" if values else f"{metric} by month"
    reading = cues.read(question, CATALOG)
    if reading.intent is None:
        return
    told = {value for f in reading.intent.filters for value in f.values} | set(left(question))
    assert set(values) <= told


@pytest.mark.parametrize("row", OWN[::7], ids=lambda row: row["id"])
def test_a_reading_that_is_right_leaves_nothing_that_counts(row: dict[str, Any]) -> None:
    reading = cues.read(row["question"], CATALOG)
    gold = Intent.model_validate(row["gold"])
    if reading.intent is not None and strict_equal(reading.intent, gold, CATALOG):
        assert all(not word.startswith(("$", "€")) for word, _, _ in reading.left)
