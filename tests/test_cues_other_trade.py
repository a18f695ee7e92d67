"""The grammar reads another trade from its catalog alone, and questions with the next names in them."""

import json
from pathlib import Path
from typing import Any

import pytest
from cue_swaps import swapped
from library_catalog import LIBRARY

from nlqlib import paths
from nlqlib.nlq import cues
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.equality import differences, strict_equal
from nlqlib.nlq.intent import Intent

SHOP = load_catalog()
DATA = paths.ROOT / "tests" / "data"
Row = dict[str, Any]


def rows(path: Path) -> list[Row]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path = tmp_path_factory.mktemp("library") / "catalog.toml"
    path.write_text(LIBRARY, "utf-8")
    return load_catalog(path)


def assert_read(question: str, gold: Row, catalog: Catalog) -> None:
    reading = cues.read(question, catalog)
    wanted = Intent.model_validate(gold)
    assert reading.intent is not None, (question, reading.problem)
    assert strict_equal(reading.intent, wanted, catalog), (
        question,
        differences(reading.intent, [wanted], catalog),
        reading.intent.text(),
    )


def read_right(question: str, gold: Row, catalog: Catalog) -> bool:
    read = cues.read(question, catalog).intent
    return read is not None and strict_equal(read, Intent.model_validate(gold), catalog)


@pytest.mark.parametrize("row", rows(DATA / "cue_questions_library.jsonl"), ids=lambda row: row["question"])
def test_questions_of_a_library_need_no_code(row: Row, library: Catalog):
    assert_read(row["question"], row["gold"], library)


DEV = rows(paths.DATA / "questions" / "dev.jsonl")
ONCE = [other for row in DEV if (other := swapped(row))]
TWICE = [other for row in ONCE if (other := swapped(row))]


def test_nearly_all_development_questions_can_be_asked_with_other_names():
    assert len(ONCE) >= 18
    assert len(TWICE) >= 15
    assert sum(bool(row["gold"]["filters"]) for row in ONCE) >= 10
    assert sum(len(row["gold"]["metrics"]) > 1 for row in ONCE) >= 5


@pytest.mark.parametrize("row", [*ONCE, *TWICE], ids=lambda row: row["question"])
def test_development_questions_with_other_names_are_read_as_well(row: Row):
    assert_read(row["question"], row["gold"], SHOP)


NAMED = SHOP.with_values(
    {"customer": {1001: "Ann Lee", 1003: "Bo Roy", 1004: "Cy Diaz", 1010: "Di Fox", 1017: "Ed Ray"}}
)


def reached(row: Row) -> bool:
    """Does the next metric still know the dimensions of the question?"""
    used = {*row["gold"]["dimensions"], *(f["field"] for f in row["gold"]["filters"])} & set(SHOP.dimensions)
    return all(SHOP.reaches(metric, name) for metric in row["gold"]["metrics"] for name in used)


OTHERS = (swapped(row) for row in rows(DATA / "cue_questions.jsonl"))
OWN = [other for other in OTHERS if other and reached(other)]


def test_questions_of_ours_are_no_phrases_learnt_by_heart():
    right = [row for row in OWN if read_right(row["question"], row["gold"], NAMED)]
    assert len(OWN) >= 700
    assert len(right) >= 0.98 * len(OWN), [row["question"] for row in OWN if row not in right]
