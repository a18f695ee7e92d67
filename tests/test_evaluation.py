"""Shares carry their intervals, failures are no answers, and what is undefined has no value."""

from dataclasses import replace

import pytest

from nlqlib.analysis.evaluation import (
    Judged,
    confusion,
    majority_baseline,
    scores,
    share,
    taxonomy,
)

RIGHT = Judged("q1", "ok", True, True, True, True, True, "breakdown", "breakdown")
WRONG_KIND = replace(
    RIGHT,
    question_id="q2",
    strict=False,
    kind=False,
    execution=False,
    raw_kind="top_n_by_metric",
    errors=("kind", "limit"),
)
PROSE = Judged(
    "q3", "constraint_not_applied", False, False, False, False, None, "time_series", None, ("invalid",)
)
FAILED = Judged("q4", "timeout", False, False, False, None, None, "breakdown", None)
ROWS = [RIGHT, WRONG_KIND, PROSE, FAILED]


def value(name: str) -> tuple[int, int]:
    found = next(s for s in scores(ROWS) if s.name == name)
    return found.k, found.n


def test_a_wilson_interval_is_the_published_one() -> None:
    # 15 of 20: (0.531, 0.888) by Wilson's formula with z = 1.96
    found = share("x", 15, 20)
    assert found.value == 0.75
    assert found.low == pytest.approx(0.5313, abs=5e-4)
    assert found.high == pytest.approx(0.8881, abs=5e-4)


def test_nothing_of_nothing_has_no_value() -> None:
    assert (share("x", 0, 0).value, share("x", 0, 0).low) == (None, None)


def test_a_failed_request_is_no_answer_and_an_unparseable_answer_is_wrong() -> None:
    assert value("schema compliance") == (2, 3)
    assert value("kind accuracy") == (1, 3)
    assert value("strict accuracy") == (1, 3)


def test_the_kind_an_answer_names_is_read_whatever_its_form() -> None:
    fenced = replace(PROSE, raw_kind="time_series")
    found = {s.name: s for s in scores([fenced])}
    assert (found["kind named right"].k, found["kind accuracy"].k) == (1, 0)


def test_sql_execution_is_judged_over_valid_intents_alone() -> None:
    assert value("SQL executes") == (2, 2)


def test_the_taxonomy_counts_each_field_of_each_answer() -> None:
    assert taxonomy(ROWS) == {"invalid": 1, "kind": 1, "limit": 1}


def test_the_confusion_names_answers_without_a_kind() -> None:
    assert confusion(ROWS) == {
        ("breakdown", "breakdown"): 1,
        ("breakdown", "top_n_by_metric"): 1,
        ("time_series", "none"): 1,
    }


def test_the_majority_class_is_a_baseline_over_answered_questions() -> None:
    found = majority_baseline(ROWS)
    assert (found.k, found.n) == (2, 3)
    assert majority_baseline([]).value is None
