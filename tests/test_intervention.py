"""What a correction did: every share over its own base, and n/a where there is none."""

from dataclasses import replace

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from nlqlib.analysis.intervention import (
    Change,
    category_recall,
    final_taxonomy,
    forced,
    harmed,
    helped,
    interventions,
    transitions,
)

unhurried = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])

KEPT_RIGHT = Change("q1", True, True, changed=False, executed=True)
HELPED = Change(
    "q2",
    False,
    True,
    changed=True,
    raw_errors=("false ranking", "kind", "limit"),
    fixable=True,
    executed=True,
)
MISSED = Change(
    "q3",
    False,
    False,
    changed=False,
    raw_errors=("kind",),
    final_errors=("kind",),
    fixable=True,
    executed=True,
)
HARMED = Change("q4", True, False, changed=True, final_errors=("kind",), executed=True)
WRONG_TO_WRONG = Change(
    "q5",
    False,
    False,
    changed=True,
    raw_errors=("false ranking", "kind", "metric"),
    final_errors=("metric",),
    executed=True,
)
SWAPPED = Change("q6", True, True, changed=True, executed=True)
REFUSED = Change("q7", False, False, True, ("invalid",), ("invalid",), refused=True)
UNSURE = Change("q8", True, True, changed=False, abstained=True, executed=True)
ALL = [KEPT_RIGHT, HELPED, MISSED, HARMED, WRONG_TO_WRONG, SWAPPED, REFUSED, UNSURE]

changes = st.builds(
    Change,
    st.text("abc", min_size=1),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.lists(st.sampled_from(["kind", "limit", "invalid"]), unique=True).map(tuple),
    st.lists(st.sampled_from(["kind", "limit", "invalid"]), unique=True).map(tuple),
    st.booleans(),
)


def k_of_n(share: object) -> tuple[int, int]:
    return share.k, share.n  # type: ignore[attr-defined]


def test_precision_counts_every_intervention_also_those_that_changed_nothing_for_the_better() -> None:
    found = interventions(ALL)
    assert found.interventions == 5
    assert k_of_n(found.precision) == (1, 5)


def test_harm_is_over_the_raw_answers_that_were_right() -> None:
    assert k_of_n(interventions(ALL).harm) == (1, 4)


def test_recall_is_over_all_wrong_answers_and_over_those_within_reach() -> None:
    found = interventions(ALL)
    assert k_of_n(found.recall) == (1, 4)
    assert k_of_n(found.fixable_recall) == (1, 2)


def test_a_change_between_two_wrong_answers_and_between_two_right_ones_is_counted() -> None:
    found = interventions(ALL)
    assert (found.wrong_to_wrong, found.right_to_right) == (2, 1)


def test_abstaining_and_refusing_are_shares_of_all_answered_questions() -> None:
    found = interventions(ALL)
    assert k_of_n(found.abstained) == (1, 8)
    assert k_of_n(found.refused) == (1, 8)
    assert k_of_n(found.asked) == (0, 8)


def test_a_category_is_recalled_where_its_error_is_gone_even_if_others_stay() -> None:
    found = category_recall(ALL)
    assert list(found) == ["false ranking", "kind", "metric", "limit", "invalid"]
    assert k_of_n(found["false ranking"]) == (2, 2)
    assert k_of_n(found["kind"]) == (2, 3)
    assert k_of_n(found["metric"]) == (0, 1)


def test_a_refusal_recalls_no_category() -> None:
    gone = replace(REFUSED, final_errors=())
    assert k_of_n(category_recall([gone])["invalid"]) == (0, 1)


def test_nothing_of_nothing_has_no_value() -> None:
    none = interventions([])
    shares = (none.precision, none.harm, none.recall, none.fixable_recall, none.abstained)
    assert all(s.value is None and s.n == 0 for s in shares)
    assert none.categories == {}
    quiet = interventions([KEPT_RIGHT])
    assert quiet.precision.value is None and quiet.recall.value is None
    assert quiet.harm.value == 0.0


def test_the_taxonomy_names_harm_misses_and_the_builder() -> None:
    broken = Change("q9", True, True, changed=False, executed=False)
    assert final_taxonomy([*ALL, broken]) == {
        "kind": 2,
        "builder": 1,
        "guard harm": 1,
        "guard miss": 1,
        "invalid": 1,
        "metric": 1,
    }


def test_the_forced_accuracy_leaves_out_what_asking_brought() -> None:
    asked = Change("q9", False, True, changed=True, asked=True, forced_right=False)
    assert k_of_n(forced([asked, HELPED])) == (1, 2)
    assert k_of_n(interventions([asked, HELPED]).asked) == (1, 2)


def test_transitions_cover_every_question() -> None:
    assert transitions(ALL) == {
        "right → right": 3,
        "wrong → right": 1,
        "wrong → wrong": 3,
        "right → wrong": 1,
    }


@unhurried
@given(st.lists(changes, max_size=30))
def test_the_counts_always_add_up(rows: list[Change]) -> None:
    found = interventions(rows)
    # a right answer that turned wrong without a change cannot be, but the counts must not depend on it
    silent = sum(harmed(c) and not c.changed for c in rows)
    parts = found.precision.k + found.harm.k - silent + found.wrong_to_wrong + found.right_to_right
    assert parts == found.interventions == found.precision.n
    assert found.recall.n + found.harm.n == found.answered == len(rows)
    assert sum(transitions(rows).values()) == len(rows)
    assert not any(helped(c) and harmed(c) for c in rows)
