"""The cue grammar: what it reads in questions of ours, and that a reading does not hang on form."""

import json
from typing import Any

import pytest

from nlqlib import paths
from nlqlib.nlq import cues
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.equality import differences, strict_equal
from nlqlib.nlq.intent import Intent

QUESTIONS = paths.ROOT / "tests" / "data" / "cue_questions.jsonl"
CATALOG = load_catalog()


def rows(path: Any) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def golds(row: dict[str, Any]) -> list[Intent]:
    return [Intent.model_validate(gold) for gold in (row["gold"], *row["accept"])]


OWN = rows(QUESTIONS)
DEV = rows(paths.DATA / "questions" / "dev.jsonl")


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    names = {
        1001: "Ann Lee",
        1002: "Ann Lee",
        1003: "Bo O'Neil",
        1004: "Cy Diaz",
        1010: "Di Fox",
        1017: "Ed Ray",
    }
    return CATALOG.with_values({"customer": names})


@pytest.mark.parametrize("row", [*DEV, *OWN], ids=lambda row: row["id"])
def test_the_rules_alone_read_a_question_as_its_gold(row: dict[str, Any], catalog: Catalog):
    reading = cues.read(row["question"], catalog)
    assert reading.intent is not None, reading.problem
    right = any(strict_equal(reading.intent, gold, catalog) for gold in golds(row))
    assert right, (row["question"], differences(reading.intent, golds(row), catalog), reading.intent.text())


@pytest.mark.parametrize("row", DEV[:5], ids=lambda row: row["id"])
def test_a_wrong_intent_is_corrected_and_stays_so(row: dict[str, Any], catalog: Catalog):
    wrong = golds(row)[0].model_copy(update={"period": "2023-05", "limit": 77})
    once, decisions = cues.correct(row["question"], wrong, catalog)
    assert once is not None and strict_equal(once, golds(row)[0], catalog)
    assert {d.rule for d in decisions if d.action == "changed"} >= {"period", "limit"}
    assert cues.correct(row["question"], once, catalog)[0] == once


def test_a_right_intent_is_left_as_it_is(catalog: Catalog):
    gold = golds(DEV[0])[0]
    kept, decisions = cues.correct(DEV[0]["question"], gold, catalog)
    assert kept is gold and [d.action for d in decisions] == ["kept"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "?",
        "€",
        "SELECT * FROM orders",
        "Wie hoch war der Umsatz je Region?",
        "x" * 10_000,
        "\x00\ud7ff",
    ],
)
def test_what_says_nothing_leaves_the_model_s_intent(text: str, catalog: Catalog):
    gold = golds(DEV[0])[0]
    assert cues.correct(text, gold, catalog)[0] == gold
    assert cues.correct(text, None, catalog)[0] is None
