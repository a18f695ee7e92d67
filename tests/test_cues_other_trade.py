"""The grammar reads another trade from its catalog alone, and questions with names in them swapped."""

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
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


@pytest.mark.parametrize("row", rows(DATA / "cue_questions_library.jsonl"), ids=lambda row: row["question"])
def test_questions_of_a_library_need_no_code(row: Row, library: Catalog):
    assert_read(row["question"], row["gold"], library)


METRICS = {"revenue": "net revenue", "net revenue": "gross margin", "gross margin": "revenue"}
METRICS |= {"orders": "units", "units": "orders"}
DIMENSIONS = {"region": "channel", "channel": "customer segment", "customer segment": "category"}
DIMENSIONS |= {"category": "region"}
PLURALS = {"regions": "channels", "channels": "segments", "segments": "categories", "categories": "regions"}
PLURALS |= {"customer segments": "categories"}
PHRASES = re.compile("product categor|minus|less|Net ")
"""Words that make another name together with those around them."""


def swapped(row: Row, words: dict[str, str], field: str) -> tuple[str, Row] | None:
    """The question and its gold with another metric or dimension; `None` where it uses none of them."""
    question, gold = row["question"], json.dumps(row["gold"])
    names = {a.replace(" ", "_"): b.replace(" ", "_") for a, b in words.items() if a not in PLURALS}
    used = set(row["gold"][field]) | {f["field"] for f in row["gold"]["filters"]}
    if row["gold"]["filters"] or PHRASES.search(question) or not used <= set(names) or len(used) != 1:
        return None
    if not any(re.search(rf"\b{a}\b", question) for a in words):
        return None
    pattern = r"\b(" + "|".join(sorted(words, key=len, reverse=True)) + r")\b"
    other = re.sub(pattern, lambda m: words[m[0]], question)
    changed = re.sub(r'"(\w+)"', lambda m: f'"{names.get(m[1], m[1])}"', gold)
    return other, json.loads(changed)


def cases() -> Iterator[tuple[str, Row]]:
    known = [*rows(paths.DATA / "questions" / "dev.jsonl"), *rows(DATA / "cue_questions.jsonl")]
    for row in known:
        for words, field in ((METRICS, "metrics"), ({**DIMENSIONS, **PLURALS}, "dimensions")):
            case = swapped(row, words, field)
            if case is not None:
                yield case


CASES = list(cases())


@pytest.mark.parametrize(("question", "gold"), CASES, ids=[question for question, _ in CASES])
def test_other_metrics_and_dimensions_are_read_as_well(question: str, gold: Row):
    assert_read(question, gold, SHOP)
