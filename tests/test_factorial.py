"""The 2 × 2 factorial: effects by hand, a gate of two limits, intervals, and what is missing."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sp

from nlqlib.analysis.factorial import CELLS, contrasts, factorial
from nlqlib.analysis.stats import difference

AB = ("router", "replica")
LL, HL, LH, HH = CELLS


def test_main_effects_and_interaction_are_those_of_the_textbook() -> None:
    # ll 20, hl 40, lh 30, hh 52: A = (20 + 22) / 2, B = (10 + 12) / 2, AB = (22 − 20) / 2
    found = factorial({LL: [20], HL: [40], LH: [30], HH: [52]}, AB)
    assert [found.effect(n).value for n in ("router", "replica", "router × replica")] == [21, 11, 1]


def test_simple_effects_are_the_differences_of_two_cells() -> None:
    found = factorial({LL: [20], HL: [40], LH: [30], HH: [52]}, AB)
    assert {e.name: e.value for e in found.effects[3:]} == {
        "router, replica low": 20,
        "router, replica high": 22,
        "replica, router low": 10,
        "replica, router high": 12,
    }


def test_two_gates_in_a_row_are_all_interaction() -> None:
    # what passes is the smaller of two limits: either alone does nothing
    x = {LL: [0.31, 0.31], HL: [0.31, 0.31], LH: [0.31, 0.31], HH: [6.85, 6.89]}
    found = factorial(x, AB)
    for name in ("router", "replica", "router × replica"):
        assert found.effect(name).value == pytest.approx((6.87 - 0.31) / 2)
    assert found.effect("router, replica low").value == 0
    assert found.effect("router, replica high").value == pytest.approx(6.56)


def test_additive_factors_have_no_interaction() -> None:
    found = factorial({LL: [1, 1.1], HL: [3, 3.1], LH: [5, 5.1], HH: [7, 7.1]}, AB)
    assert found.effect("router × replica").value == pytest.approx(0)
    assert found.effect("router × replica").distinct is False
    assert found.effect("router").distinct is True


def test_an_interval_by_hand() -> None:
    # four cells of three, sd 1 in one and 0 in the others: se = 1 / (2 √3), two degrees of freedom
    found = factorial({LL: [0, 0, 0], HL: [0, 0, 0], LH: [0, 0, 0], HH: [9, 10, 11]}, AB).effect("router")
    half = float(sp.t.isf(0.025, 2)) / (2 * math.sqrt(3))
    assert found.interval == pytest.approx((5 - half, 5 + half))


def test_equal_spreads_have_the_degrees_of_freedom_of_all_cells() -> None:
    x = {cell: [m - 1, m, m + 1] for cell, m in zip(CELLS, (0, 1, 2, 9), strict=True)}
    found = factorial(x, AB).effect("router")
    half = float(sp.t.isf(0.025, 8)) * math.sqrt(4 * 1 / 4 / 3)
    assert found.interval is not None
    assert found.interval.high - found.value == pytest.approx(half)  # type: ignore[operator]


def test_a_simple_effect_has_the_interval_of_welch() -> None:
    x = {LL: [1.0, 1.2, 0.9], HL: [4.0, 5.5, 4.7], LH: [1.0, 1.0], HH: [2.0, 2.5]}
    found = factorial(x, AB).effect("router, replica low")
    by_welch = difference(x[LL], x[HL])
    assert found.value == pytest.approx(by_welch.value)
    assert found.interval == pytest.approx(by_welch.interval)


def test_cells_that_do_not_vary_give_an_interval_without_width() -> None:
    found = factorial({cell: [m, m] for cell, m in zip(CELLS, (1.0, 2.0, 3.0, 5.0), strict=True)}, AB)
    assert found.effect("router").interval == (1.5, 1.5)


def test_single_measurements_have_effects_without_intervals() -> None:
    found = factorial({LL: [1], HL: [2, 3], LH: [3], HH: [4]}, AB)
    assert found.effect("router").value is not None
    assert {e.interval for e in found.effects} == {None}
    assert found.effect("router").distinct is None


def test_a_missing_cell_takes_with_it_only_the_effects_that_need_it() -> None:
    found = factorial({LL: [1, 1], LH: [2, 2], HL: []}, AB)
    assert found.missing == (HL, HH)
    known = {e.name for e in found.effects if e.value is not None}
    assert known == {"replica, router low"}


def test_what_is_no_cell_is_refused() -> None:
    with pytest.raises(ValueError, match="a cell is one of"):
        factorial({("low", "middle"): [1]}, AB)  # type: ignore[dict-item]
    with pytest.raises(ValueError, match="two different factors"):
        factorial({LL: [1]}, ("router", "router"))


def test_what_is_not_finite_is_refused() -> None:
    with pytest.raises(ValueError, match="NaN"):
        factorial({LL: [float("nan")]}, AB)


values = st.lists(st.floats(-100, 100), min_size=2, max_size=5)


@given(st.tuples(values, values, values, values))
def test_the_effects_and_the_grand_mean_give_every_cell_back(four: tuple[list[float], ...]) -> None:
    found = factorial(dict(zip(CELLS, four, strict=True)), AB)
    means = [float(np.mean(v)) for v in four]
    main_a, main_b, both = (e.value or 0.0 for e in found.effects[:3])
    grand = sum(means) / 4
    for (a, b), mean in zip(CELLS, means, strict=True):
        sa, sb = (1 if s == "high" else -1 for s in (a, b))
        assert grand + (sa * main_a + sb * main_b + sa * sb * both) / 2 == pytest.approx(mean, abs=1e-9)


@given(st.tuples(values, values, values, values), st.floats(-50, 50), st.floats(0.1, 10))
def test_effects_ignore_an_offset_and_follow_the_unit(
    four: tuple[list[float], ...], offset: float, unit: float
) -> None:
    plain = factorial(dict(zip(CELLS, four, strict=True)), AB)
    moved = factorial({c: [unit * v + offset for v in vs] for c, vs in zip(CELLS, four, strict=True)}, AB)
    for a, b in zip(plain.effects, moved.effects, strict=True):
        assert b.value == pytest.approx(unit * (a.value or 0.0), abs=1e-6)


def test_coefficients_of_every_effect_sum_to_zero() -> None:
    assert all(sum(c.values()) == 0 for _, c in contrasts(AB))
