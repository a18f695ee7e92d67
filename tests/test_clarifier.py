"""The clarifier asks once, where rules and model differ in kind and the model is hardly surer; else never."""

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_intents import CATALOG, intent, random_intents, series, top

from nlqlib.nlq.belief import Belief
from nlqlib.nlq.clarifier import MARGIN_NATS, NEITHER, Clarification, chosen_by_gold, clarification

RULES, MODEL = intent(), top(limit=5)
unhurried = settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def believes(margin: float) -> Belief:
    """A model that takes a breakdown for a ranking, `margin` nats surer of it."""
    return Belief(
        "top_n_by_metric", {"top_n_by_metric": -0.5, "breakdown": -0.5 - margin, "time_series": -9.0}
    )


def asked(margin: float = 0.5) -> Clarification:
    found = clarification(RULES, MODEL, believes(margin), CATALOG)
    assert found is not None
    return found


def test_a_close_difference_in_kind_is_asked_with_both_readings_in_words() -> None:
    found = asked()
    assert [o.intent for o in found.options] == [RULES, MODEL]
    assert all(o.text.startswith("revenue by region; ") for o in found.options)
    assert found.reason == "the rules say breakdown, the model ranking, 0.5 nats apart"
    lines = found.text.splitlines()
    assert lines[0] == "What do you mean?" and lines[-1] == f"3. {NEITHER}"


def test_a_model_that_is_far_surer_is_not_asked_about() -> None:
    assert clarification(RULES, MODEL, believes(MARGIN_NATS + 0.1), CATALOG) is None
    assert clarification(RULES, MODEL, believes(MARGIN_NATS), CATALOG) is not None


def test_without_log_probabilities_every_difference_in_kind_is_a_small_one() -> None:
    found = clarification(RULES, MODEL, Belief("top_n_by_metric"), CATALOG)
    assert found is not None and "nats" not in found.reason
    assert clarification(RULES, MODEL, None, CATALOG) is not None


def test_where_both_agree_on_the_kind_nothing_is_asked() -> None:
    assert clarification(intent(), intent(period="2024"), believes(0.1), CATALOG) is None


@pytest.mark.parametrize(("rules", "model"), [(None, MODEL), (RULES, None), (None, None)])
def test_a_missing_reading_leaves_nothing_to_choose(rules: object, model: object) -> None:
    assert clarification(rules, model, None, CATALOG) is None  # type: ignore[arg-type]


def test_a_reading_that_cannot_be_answered_is_no_option() -> None:
    nothing_to_rank = top(dimensions=[])
    assert clarification(RULES, nothing_to_rank, None, CATALOG) is None


def test_two_readings_that_show_the_same_are_no_question() -> None:
    sorted_rows = intent(sort={"by": "revenue", "direction": "desc"}, limit=5)
    words = {o.text for o in asked().options}
    assert len(words) == 2
    found = clarification(sorted_rows, MODEL, None, CATALOG)
    assert found is None or len({o.text for o in found.options}) == 2


def test_the_gold_chooses_the_reading_that_means_it_whatever_its_spelling() -> None:
    assert chosen_by_gold(asked(), [intent(period="2023-01-01..2025-06-15")], CATALOG) == 0
    assert chosen_by_gold(asked(), [series(), top(limit=None)], CATALOG) == 1


def test_the_gold_that_is_neither_chooses_neither() -> None:
    assert chosen_by_gold(asked(), [intent(metrics=["orders"])], CATALOG) is None


@unhurried
@given(random_intents(), random_intents(), st.floats(0, 3))
def test_any_two_readings_give_a_question_of_two_answerable_options_or_none(
    rules: object, model: object, margin: float
) -> None:
    found = clarification(rules, model, believes(margin), CATALOG)  # type: ignore[arg-type]
    if found is not None:
        assert len({o.text for o in found.options}) == len(found.options) == 2
        assert chosen_by_gold(found, [found.options[1].intent], CATALOG) == 1
