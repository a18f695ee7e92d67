"""An alternative text states the figure's main number, or that there is none to see."""

import pytest

from nlqlib.plots_alt import MIN_ALT_CHARS, problem, states_a_number

WHAT = "Throughput over concurrency on target l4-qwen2.5-3b (measured)."


@pytest.mark.parametrize(
    "number", ["It bends at 14.8 in flight.", "It changes by −7%.", "Limit: $0.893.", "(0.41 to 0.62)"]
)
def test_a_number_is_the_figures_main_number(number: str) -> None:
    assert problem(f"{WHAT} {number}") is None


@pytest.mark.parametrize("name", ["", "It shows p95.", "A Qwen2.5-3B.", "A 3B model.", "95 % intervals."])
def test_a_digit_in_a_name_or_the_width_of_an_interval_is_none(name: str) -> None:
    assert not states_a_number(f"{WHAT} {name}")
    assert "main number" in (problem(f"{WHAT} {name}") or "")


@pytest.mark.parametrize(
    "unseen", ["The queue is not observable here.", "No level was measured.", "Nothing to compare was found."]
)
def test_a_figure_without_a_number_says_that_nothing_was_seen(unseen: str) -> None:
    assert problem(f"{WHAT} {unseen}") is None


def test_a_text_too_short_to_say_what_is_drawn_is_told_by_how_much() -> None:
    assert f"at least {MIN_ALT_CHARS}" in (problem("  9 of 10 \n were right ") or "")
