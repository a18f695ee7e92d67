"""The judgements in this repository: of answers that are retained, once each, and alike on both targets."""

from collections import Counter

import pytest

from nlqlib import paths
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Record

PAGE = "13_heldout_semantics"


def retained(target: str) -> list[Record]:
    folder = paths.ARTIFACTS / target / PAGE
    return [load_record(p) for p in sorted(folder.glob("*-????????.json"))]


def judgements(target: str) -> list[Record]:
    """The judgements of a model's answers."""
    return [r for r in retained(target) if "answers" in r.params]


@pytest.mark.parametrize("target", ["twin", "local"])
def test_every_judgement_is_of_answers_that_are_retained(target: str) -> None:
    kept = {r.body["samples"]["sha256"] for r in retained(target) if r.body["point"].startswith("answers-")}
    of = {r.path.name: r.params["answers"] for r in judgements(target)}
    assert {name for name, answers in of.items() if answers is not None and answers not in kept} == set()


@pytest.mark.parametrize("target", ["twin", "local"])
def test_every_condition_is_judged_once(target: str) -> None:
    settings = Counter(
        (r.body["point"], r.params["profile"], r.params["concurrency"]) for r in judgements(target)
    )
    assert [point for point, n in settings.items() if n > 1] == []


def test_both_targets_report_the_same_of_the_same_rules() -> None:
    """They rest on one run of the real engine; times are each target's own."""
    real, twin = ({r.body["point"]: r for r in judgements(t)} for t in ("local", "twin"))
    alike = [p for p in real if p in twin and _rules(real[p]) == _rules(twin[p])]
    assert {p for p in alike if _meaning(real[p]) != _meaning(twin[p])} == set()


def _rules(record: Record) -> object:
    return record.body["provenance"]["source"]


def _meaning(record: Record) -> object:
    return {k: v for k, v in record.results["report"].items() if k != "serving"}


def test_no_share_of_the_twins_answers_is_called_measured() -> None:
    told = {m.tag for r in judgements("twin") if r.params["prompt"] for m in r.metrics if m.value is not None}
    assert "measured" not in told
