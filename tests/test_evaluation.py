"""Shares carry their intervals, failures are no answers, and what is undefined has no value."""

from dataclasses import replace

import pytest

from nlqlib.analysis.evaluation import (
    Judged,
    against,
    clustered_interval,
    confusion,
    majority_baseline,
    pair_consistency,
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


def judged(name: str, right: bool, cluster: str = "") -> Judged:
    return replace(RIGHT, question_id=name, strict=right, cluster=cluster)


def test_a_pair_is_consistent_when_both_are_right_and_a_question_alone_is_no_pair() -> None:
    rows = [judged("a", True, "x"), judged("b", True, "x"), judged("c", True, "y"), judged("d", False, "y")]
    found = pair_consistency([*rows, judged("e", True, "z"), judged("f", True)])
    assert (found.k, found.n) == (1, 2)


def test_without_pairs_there_is_no_consistency() -> None:
    assert pair_consistency([judged("a", True), judged("b", True)]).value is None


def test_drawing_whole_pairs_widens_the_interval_of_answers_that_go_together() -> None:
    together = [judged(f"{c}{i}", c % 2 == 0, str(c)) for c in range(20) for i in range(2)]
    apart = [replace(row, cluster="") for row in together]
    wide, narrow = clustered_interval(together), clustered_interval(apart)
    assert wide is not None and narrow is not None
    assert wide.low <= 0.5 <= wide.high
    assert wide.high - wide.low > 1.2 * (narrow.high - narrow.low)
    assert clustered_interval(together) == wide, "the same seed draws the same"


def test_conditions_are_compared_question_by_question_with_holms_adjustment() -> None:
    reference = [judged(str(i), i < 2) for i in range(10)]
    better = [judged(str(i), i >= 1) for i in range(10)]
    found = {p.name: p for p in against(reference, {"better": better, "same": reference})}
    assert (found["better"].only_first, found["better"].only_second) == (1, 8)
    assert found["better"].p == pytest.approx(2 * 10 / 2**9)  # 9 discordant: 2·(C(9,0)+C(9,1))/2⁹
    assert found["better"].p_holm == pytest.approx(2 * found["better"].p)
    assert (found["same"].p, found["same"].p_holm) == (1.0, 1.0)


def test_a_comparison_leaves_out_what_one_of_the_two_did_not_answer() -> None:
    [found] = against([judged("q1", True), judged("q9", True)], {"x": [judged("q1", False), FAILED]})
    assert (found.n, found.only_first) == (1, 1)
    assert against([RIGHT], {}) == []
