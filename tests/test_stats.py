"""Statistics against right values worked out by hand, published ones, and an independent computation."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sp

from nlqlib.analysis.stats import (
    bootstrap,
    cluster_bootstrap,
    cv,
    difference,
    holm,
    line,
    mcnemar,
    percentile,
    percentile_estimate,
    summary,
    t_interval,
    wilson,
)

numbers = st.floats(-1e6, 1e6, allow_nan=False).map(lambda v: round(v, 3))


def test_t_interval_of_three_repeats_is_wide():
    low, high = t_interval([6.85, 6.87, 6.89])
    assert (low, high) == pytest.approx((6.87 - 4.302653 * 0.02 / math.sqrt(3), 6.87 + 0.0496828), abs=1e-6)


def test_one_value_has_a_mean_but_no_spread_and_no_interval():
    s = summary([4.2])
    assert (s.n, s.mean, s.sd, s.cv, s.interval) == (1, 4.2, None, None, None)


def test_no_value_has_nothing():
    s = summary([])
    assert (s.n, s.mean, s.sd, s.cv, s.interval) == (0, None, None, None, None)
    assert percentile([], 95) is None


def test_cv_is_sample_deviation_over_mean():
    assert cv([6.85, 6.87, 6.89]) == pytest.approx(0.02 / 6.87)


def test_cv_of_values_around_zero_is_undefined():
    assert cv([-1.0, 1.0]) is None


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_what_is_not_finite_is_refused(bad):
    for f in (summary, cv, t_interval, lambda v: percentile(v, 50)):
        with pytest.raises(ValueError, match="NaN or an infinity"):
            f([1.0, bad])


def test_percentile_interpolates_linearly():
    assert percentile([0.5, 0.9, 1.3, 1.7, 2.1, 2.5, 2.9, 3.3], 99) == pytest.approx(3.272)


def test_percentile_outside_0_to_100_is_refused():
    with pytest.raises(ValueError, match="between 0 and 100"):
        percentile([1.0], 101)


@given(st.lists(numbers, min_size=1, max_size=50), st.floats(0, 100))
def test_a_percentile_lies_within_the_data(values, q):
    assert min(values) - 1e-6 <= percentile(values, q) <= max(values) + 1e-6


def test_bootstrap_repeats_with_its_seed_and_differs_with_another():
    values = np.random.default_rng(0).exponential(3.2, 150)
    first, again = (percentile_estimate(values, 95, seed=7) for _ in range(2))
    assert first == again
    assert first.interval != percentile_estimate(values, 95, seed=8).interval
    assert first.interval.low <= first.value <= first.interval.high


def test_bootstrap_interval_of_a_mean_is_close_to_the_t_interval():
    values = np.random.default_rng(1).normal(10, 2, 400)
    boot = bootstrap(values, lambda rows: rows.mean(1), seed=3)
    assert boot == pytest.approx(t_interval(values), abs=0.03)


def test_bootstrap_of_one_value_is_undefined():
    assert bootstrap([1.0], lambda rows: rows.mean(1), seed=1) is None


def test_cluster_bootstrap_is_wider_when_pairs_agree():
    pair_values = np.repeat(np.random.default_rng(2).integers(0, 2, 30), 2)
    clustered = cluster_bootstrap(pair_values, [i // 2 for i in range(60)], seed=5)
    single = cluster_bootstrap(pair_values, list(range(60)), seed=5)
    assert clustered.high - clustered.low > 1.25 * (single.high - single.low)


def test_one_cluster_has_no_interval():
    assert cluster_bootstrap([1.0, 0.0], ["a", "a"], seed=1) is None


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 20, 0.0, 0.1611), (20, 20, 0.8389, 1.0), (22, 60, 0.2562, 0.4932)],
)
def test_wilson_gives_published_values(k, n, low, high):
    assert wilson(k, n) == pytest.approx((low, high), abs=1e-4)


def test_wilson_of_nothing_is_refused():
    with pytest.raises(ValueError, match="n/a"):
        wilson(0, 0)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_encloses_the_share_mirrors_and_agrees_with_scipy(kn):
    k, n = kn
    low, high = wilson(k, n)
    assert 0 <= low <= k / n <= high <= 1
    mirrored = wilson(n - k, n)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((low, high), abs=1e-12)
    theirs = sp.binomtest(k, n).proportion_ci(method="wilson")
    assert (low, high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@pytest.mark.parametrize(("b", "c", "p"), [(0, 0, 1.0), (0, 5, 0.0625), (1, 9, 0.021484375), (5, 5, 1.0)])
def test_exact_mcnemar_is_a_sign_test_of_discordant_pairs(b, c, p):
    assert mcnemar(b, c) == pytest.approx(p) == mcnemar(c, b)


def test_holm_steps_down_and_keeps_the_order_given():
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx((0.03, 0.06, 0.06, 0.02))


def test_holm_of_nothing_is_nothing():
    assert holm([]) == ()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_holm_never_lowers_a_p_value_and_lies_below_bonferroni(p):
    for before, after in zip(p, holm(p), strict=True):
        assert before <= after <= min(1.0, before * len(p)) + 1e-12


def test_difference_has_the_interval_scipy_gives():
    a, b = [0.31, 0.312, 0.309], [6.85, 6.87, 6.9, 6.84]
    ours = difference(a, b)
    theirs = sp.ttest_ind(b, a, equal_var=False).confidence_interval()
    assert ours.value == pytest.approx(np.mean(b) - np.mean(a))
    assert ours.interval == pytest.approx((theirs.low, theirs.high))


def test_difference_of_single_values_has_no_interval():
    assert difference([1.0], [3.0]).interval is None
    assert difference([], [3.0]).value is None


def test_a_staircase_is_a_line_whose_slope_is_the_service_time():
    fit = line([1, 2, 3, 4], [3.2, 6.4, 9.6, 12.8])
    assert (fit.slope, fit.intercept, fit.r2) == pytest.approx((3.2, 0.0, 1.0), abs=1e-9)
    assert fit.slope_interval == pytest.approx((3.2, 3.2))


def test_slope_interval_agrees_with_scipy():
    x, y = [1, 2, 4, 8, 16], [3.6, 6.3, 12.8, 25.6, 50.9]
    ours, theirs = line(x, y), sp.linregress(x, y)
    half = theirs.stderr * sp.t.isf(0.025, 3)
    assert ours.slope_interval == pytest.approx((theirs.slope - half, theirs.slope + half))
    assert ours.r2 == pytest.approx(theirs.rvalue**2)


def test_a_flat_line_has_no_r2_and_two_points_no_interval():
    assert line([1, 2, 3], [5.0, 5.0, 5.0]).r2 is None
    assert line([1, 2], [1.0, 2.0]).slope_interval is None


def test_no_line_through_one_place():
    assert line([2, 2], [1.0, 3.0]) is None
