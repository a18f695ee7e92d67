"""How well the rules alone read two sets of questions written from the contract before the rules were seen.

The misses of half A were shown to the grammar's author, those of half B never; both floors lie just below
what was reached when the sets were closed, so that neither can fall unnoticed.
"""

from typing import Any

import pytest
from test_cues import CATALOG, golds, rows

from nlqlib import paths
from nlqlib.nlq import cues
from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.equality import kind_equal, strict_equal
from nlqlib.nlq.intent import intent_of

FOLDER = paths.ROOT / "tests" / "data"
A, B = (rows(FOLDER / f"sealed_like_{half}.jsonl") for half in "ab")
FLOORS = {"a": (A, 0.98, 0.99), "b": (B, 0.935, 0.97)}


@pytest.fixture(scope="module")
def named() -> Catalog:
    """The catalog with the customers whose ids the questions name."""
    return CATALOG.with_values({"customer": {1017: "Ed Ray", 1042: "Fay Roe", 1043: "Gus Shaw"}})


def test_both_halves_are_large_and_share_no_question() -> None:
    assert min(len(A), len(B)) >= 120
    asked = [row["question"] for row in (*A, *B)]
    assert len(set(asked)) == len(asked)


def test_every_gold_is_a_valid_intent(named: Catalog) -> None:
    for row in (*A, *B):
        for gold in (row["gold"], *row["accept"]):
            assert intent_of(gold, named).wire() == gold, row["id"]


@pytest.mark.parametrize("half", FLOORS)
def test_the_rules_alone_stay_above_the_accuracy_they_reached(half: str, named: Catalog) -> None:
    questions, strict, kind = FLOORS[half]
    right = [_right(row, named) for row in questions]
    assert sum(s for s, _ in right) / len(right) >= strict
    assert sum(k for _, k in right) / len(right) >= kind


def _right(row: dict[str, Any], catalog: Catalog) -> tuple[bool, bool]:
    """Is the reading of `row` strictly right, and is its kind?"""
    found = cues.read(row["question"], catalog).intent
    if found is None:
        return False, False
    wanted = golds(row)
    return any(strict_equal(found, g, catalog) for g in wanted), any(kind_equal(found, g) for g in wanted)
