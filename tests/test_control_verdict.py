"""Verdicts: three regions, two kinds of interval, and a scale on which appearing from nothing has a size."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.analysis.stats import Interval
from nlqlib.experiments.control_data import Direction
from nlqlib.experiments.control_verdict import (
    CONFIRMED,
    COUNTS,
    ONCE,
    PAIRED,
    REJECTED,
    REPEATS,
    Change,
    Side,
    change,
    judge,
    newcombe,
    of_row,
    paired,
)

unhurried = settings(deadline=None)  # other processes may hold the machine
positive = st.floats(0.01, 1e4)
directions: tuple[Direction, ...] = ("up", "down", "same")


def repeats(*values: float) -> Side:
    return Side(values)


def counted(k: int, n: int) -> Side:
    return Side((k / n,), n)


def test_twice_as_much_is_half_of_the_larger_and_from_nothing_is_all_of_it() -> None:
    assert change(repeats(2), repeats(4)).share == 0.5
    assert change(repeats(4), repeats(2)).share == -0.5
    assert change(repeats(0), repeats(0.2)).share == 1
    assert change(repeats(0.2), repeats(0)).share == -1
    assert change(repeats(0), repeats(0)).share == 0


def test_repeats_get_welchs_interval_on_the_same_scale() -> None:
    found = change(repeats(1.0, 1.1, 0.9), repeats(2.0, 2.1, 1.9))
    assert found.method == REPEATS and found.by == pytest.approx(1.0)
    assert found.interval is not None and found.share_interval is not None
    assert found.interval.low == pytest.approx(1 - 2.776 * (0.01 / 3 * 2) ** 0.5, abs=1e-3)
    assert found.share_interval.low == pytest.approx(found.interval.low / 2)


def test_shares_get_newcombes_interval() -> None:
    # Newcombe 1998, table II, method 10: 56/70 against 48/80 is 0.2000, 0.0524 to 0.3339
    low, high = newcombe(counted(48, 80), counted(56, 70))
    assert (low, high) == (pytest.approx(0.0524, abs=1e-4), pytest.approx(0.3339, abs=1e-4))
    assert change(counted(48, 80), counted(56, 70)).method == COUNTS


def test_one_run_on_a_side_has_no_interval_and_says_so() -> None:
    found = change(repeats(1.0), repeats(2.0, 2.1))
    assert found.interval is None and found.share_interval is None and found.method == ONCE
    assert judge(found, "up", 0.2) == ("confirmed once", ONCE)
    told, why = judge(found, "down", 0.2)
    assert told == "rejected once" and ONCE in why


@unhurried
@given(before=positive, after=positive, least=st.floats(0.01, 0.9), direction=st.sampled_from(directions))
def test_one_run_of_each_side_never_gets_the_verdict_that_repeats_get(
    before: float, after: float, least: float, direction: Direction
) -> None:
    verdict, why = judge(change(repeats(before), repeats(after)), direction, least)
    assert verdict in (REJECTED[1], CONFIRMED[1]) and ONCE in why


def test_repeats_without_spread_have_an_interval_without_width() -> None:
    found = change(repeats(2, 2), repeats(4, 4))
    assert found.share_interval == Interval(0.5, 0.5)
    assert change(repeats(0, 0), repeats(0, 0)).share_interval == Interval(0, 0)


@pytest.mark.parametrize(
    ("before", "after", "direction", "least", "verdict"),
    [
        ((1.0, 1.1, 0.9), (2.0, 2.1, 1.9), "up", 0.2, "confirmed"),
        ((1.0, 1.1, 0.9), (2.0, 2.1, 1.9), "down", 0.2, "rejected"),
        ((1.0, 1.1, 0.9), (2.0, 2.1, 1.9), "same", 0.1, "rejected"),
        ((2.0, 2.1, 1.9), (1.0, 1.1, 0.9), "down", 0.2, "confirmed"),
        ((1.0, 1.001, 0.999), (1.0, 1.001, 0.999), "same", 0.1, "confirmed"),
        ((1.0, 1.001, 0.999), (1.05, 1.051, 1.049), "up", 0.2, "rejected"),
        ((1.0, 2.0), (1.5, 2.5), "up", 0.2, "undecided"),
        ((1.0, 2.0), (1.5, 2.5), "same", 0.2, "undecided"),
    ],
)
def test_a_prediction_is_confirmed_inside_rejected_outside_and_undecided_in_between(
    before: tuple[float, ...], after: tuple[float, ...], direction: Direction, least: float, verdict: str
) -> None:
    found, why = judge(change(Side(before), Side(after)), direction, least)
    assert found == verdict
    assert verdict == "confirmed" or why


def test_a_rejection_says_how_it_came_out_instead() -> None:
    other = judge(change(repeats(4, 4), repeats(2, 2)), "up", 0.2)[1]
    little = judge(change(repeats(1, 1), repeats(1.05, 1.05)), "up", 0.2)[1]
    moved = judge(change(repeats(1, 1), repeats(2, 2)), "same", 0.1)[1]
    assert "other way (-50%)" in other and "less than foretold" in little and "more than 10%" in moved


@unhurried
@given(before=positive, after=positive, least=st.floats(0.01, 0.9))
def test_up_and_down_are_mirror_images(before: float, after: float, least: float) -> None:
    there, back = change(repeats(before), repeats(after)), change(repeats(after), repeats(before))
    assert judge(there, "up", least)[0] == judge(back, "down", least)[0]
    assert judge(there, "same", least)[0] == judge(back, "same", least)[0]


@unhurried
@given(before=positive, after=positive, half=positive, least=st.floats(0.01, 0.9))
def test_a_change_is_never_confirmed_in_two_directions(
    before: float, after: float, half: float, least: float
) -> None:
    by = after - before
    seen = Change(before, after, Interval(by - half, by + half), REPEATS)
    assert sum(judge(seen, d, least)[0] == "confirmed" for d in directions) <= 1


@unhurried
@given(values=st.lists(positive, min_size=2, max_size=5), unit=st.floats(0.001, 1000))
def test_a_verdict_does_not_depend_on_the_unit(values: list[float], unit: float) -> None:
    small = change(Side((1.0, 1.2)), Side(tuple(values)))
    scaled = change(Side((unit, 1.2 * unit)), Side(tuple(unit * v for v in values)))
    assert small.share == pytest.approx(scaled.share)


def test_a_row_is_rejected_by_any_of_its_predictions() -> None:
    assert of_row(["confirmed", "rejected", "not observable here"]) == "rejected"
    assert of_row(["not observable here", "confirmed"]) == "confirmed"
    assert of_row(["holds by construction", "not observable here"]) == "holds by construction"
    assert of_row(["confirmed", "rejected once"]) == "rejected once"
    assert of_row(["undecided", "holds by construction", "confirmed once"]) == "confirmed once"
    assert of_row(["not observable here", "holds by construction", "undecided"]) == "undecided"
    assert of_row([]) == "not observable here"


def test_the_same_questions_judged_twice_are_compared_pairwise() -> None:
    # Bonett and Price 2012: p12 = 9/27, p21 = 3/27 of 25 pairs with 8 and 2 discordant ones
    before = [False] * 8 + [True] * 2 + [True] * 15
    after = [True] * 8 + [False] * 2 + [True] * 15
    found = paired(before, after)
    half = 1.96 * ((12 / 27 - (6 / 27) ** 2) / 27) ** 0.5
    assert found.method == PAIRED and found.by == pytest.approx(6 / 25)
    assert found.interval == (pytest.approx(6 / 27 - half, abs=1e-4), pytest.approx(6 / 27 + half, abs=1e-4))


def test_pairs_none_of_which_changed_still_leave_room() -> None:
    found = paired([True] * 6 + [False] * 14, [True] * 6 + [False] * 14)
    assert found.by == 0 and found.interval is not None
    assert found.interval.low < -0.1 and found.interval.high > 0.1
    assert judge(found, "up", 0.05)[0] == "undecided"
