"""The question sets: every gold keeps to the contract, compiles and runs; dev is what it should be."""

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
from wire_intents import CATALOG

from nlqlib.nlq.catalog import Catalog, QuestionError, fold
from nlqlib.nlq.equality import execution_equal
from nlqlib.nlq.intent import intent_of
from nlqlib.nlq.prompt import examples
from nlqlib.nlq.sql import build, execute
from nlqlib.nlq.warehouse import Warehouse, open_warehouse
from nlqlib.paths import QUESTIONS
from nlqlib.tokens import encode

SETS = ("dev", "holdout", "adversarial")
SEEDS = (1, 2, 3)
FROZEN = re.findall(r"\| (\w+) \| `([0-9a-f]{64})` \| written", (QUESTIONS / "README.md").read_text("utf-8"))


def load(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (QUESTIONS / f"{name}.jsonl").read_text("utf-8").splitlines()]


DEV = load("dev")
by_question = pytest.mark.parametrize("question", DEV, ids=[q["id"] for q in DEV])


@pytest.fixture(scope="module", params=SEEDS, ids=lambda seed: f"seed {seed}")
def warehouse(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Warehouse]:
    """The whole warehouse of each seed: with fewer rows some groups would be empty by chance."""
    with open_warehouse(request.param, folder=tmp_path_factory.mktemp("warehouse")) as opened:
        yield opened


@pytest.fixture(scope="module")
def catalog(warehouse: Warehouse) -> Catalog:
    return warehouse.lookups(CATALOG)


def failing(questions: Iterable[dict[str, Any]], fails: Callable[[dict[str, Any]], bool]) -> list[str]:
    """The ids of the `questions` that `fails` names; never a word of them, nor of an error about them."""
    found = []
    for question in questions:
        try:
            wrong = fails(question)
        except QuestionError as error:
            found.append(f"{question['id']} ({type(error).__name__})")
        else:
            found += [question["id"]] if wrong else []
    return found


def refuse(ids: Iterable[str], what: str) -> None:
    """Fail with `ids` alone."""
    if listed := ", ".join(ids):
        pytest.fail(f"{what}: {listed}", pytrace=False)


def golds(question: dict[str, Any]) -> list[dict[str, Any]]:
    return [question["gold"], *question["accept"]]


@pytest.mark.parametrize("name", SETS)
def test_every_question_has_its_keys_and_an_id_of_its_own(name: str):
    questions = load(name)
    assert all(q.keys() == {"id", "question", "gold", "accept", "cluster", "slice"} for q in questions)
    assert len({q["id"] for q in questions}) == len(questions)


@pytest.mark.parametrize("name", SETS)
def test_every_gold_of_a_set_keeps_to_the_contract_runs_and_returns_rows(
    name: str, catalog: Catalog, warehouse: Warehouse
):
    def empty(question: dict[str, Any]) -> bool:
        found = [execute(build(intent_of(gold, catalog), catalog), warehouse) for gold in golds(question)]
        return not all(result.rows for result in found)

    refuse(failing(load(name), empty), "no rows")


def pairs(name: str) -> dict[str, list[dict[str, Any]]]:
    """The contrast pairs of a set, by cluster."""
    found: dict[str, list[dict[str, Any]]] = {}
    for question in (q for q in load(name) if q["slice"] == "contrast"):
        found.setdefault(question["cluster"], []).append(question)
    return found


@pytest.mark.parametrize(("name", "n"), [("dev", 3), ("holdout", 20)])
def test_the_two_questions_of_a_contrast_pair_are_answered_by_different_rows(
    name: str, n: int, catalog: Catalog, warehouse: Warehouse
):
    def alike(pair: dict[str, Any]) -> bool:
        one, other = (intent_of(q["gold"], catalog) for q in pair["questions"])
        rows, others = (execute(build(intent, catalog), warehouse) for intent in (one, other))
        return execution_equal(rows, others, other) or execution_equal(others, rows, one)

    both = [{"id": cluster, "questions": found} for cluster, found in pairs(name).items()]
    assert len(both) >= n and {len(pair["questions"]) for pair in both} == {2}
    refuse(failing(both, alike), "the same rows for both of a pair")


@by_question
def test_every_dev_gold_is_written_in_full_and_quotes_its_question(question: dict[str, Any]):
    intent = intent_of(question["gold"], CATALOG)
    assert intent.wire() == question["gold"] and list(intent.wire()) == list(question["gold"])
    assert intent.evidence and intent.evidence in question["question"]


def test_dev_holds_twenty_questions_of_all_kinds():
    kinds = Counter(q["gold"]["query_type"] for q in DEV)
    assert kinds == {"breakdown": 10, "top_n_by_metric": 7, "time_series": 3}


def test_dev_holds_contrast_pairs_of_another_kind_each():
    found = [{q["gold"]["query_type"] for q in pair} for pair in pairs("dev").values()]
    assert len(found) >= 3
    assert all(kinds == {"breakdown", "top_n_by_metric"} for kinds in found)


def test_dev_answers_average_100_to_135_tokens_pretty_and_60_to_80_compact():
    answers = [intent_of(q["gold"], CATALOG) for q in DEV]
    assert 100 <= sum(len(encode(a.text(indent=2))) for a in answers) / len(answers) <= 135
    assert 60 <= sum(len(encode(a.text())) for a in answers) / len(answers) <= 80


def test_no_dev_question_and_no_example_of_a_prompt_stands_in_another_set():
    own = {q["id"]: fold(q["question"]) for q in DEV}
    own |= {f"example {n}": fold(e.question) for n, e in enumerate(examples(), start=1)}
    twice = [name for name, asked in own.items() if list(own.values()).count(asked) > 1]
    others = {fold(q["question"]) for name in ("holdout", "adversarial") for q in load(name)}
    shared = [name for name, asked in own.items() if asked in others]  # never shows the other sets' words
    if twice or shared:
        pytest.fail(f"twice: {twice}; also in holdout or adversarial: {shared}", pytrace=False)


@pytest.mark.parametrize(("name", "written"), FROZEN)
def test_a_set_is_as_it_was_written_before_any_rule(name: str, written: str):
    assert hashlib.sha256((QUESTIONS / f"{name}.jsonl").read_bytes()).hexdigest() == written


def test_both_sealed_sets_have_a_recorded_hash():
    assert {name for name, _ in FROZEN} == {"holdout", "adversarial"}
