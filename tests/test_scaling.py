"""Scaling against the article's rows, against curves made by the law itself, and against arithmetic."""

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.analysis.scaling import (
    UslFit,
    beyond,
    fit_usl,
    linear_bound,
    little,
    mean_below_p95,
    scaling_efficiency,
    throughput_at_one,
)

REGULAR = {1: 0.31, 8: 2.22, 16: 4.21, 24: 5.63, 32: 6.87}
"""The article's rows up to 32 without the one at 18, which lies 4 % under its neighbours' curve."""
DENSE = {**REGULAR, 18: 4.29}
BEYOND = {32: 6.63, 40: 6.94, 48: 6.93}


def law(x1, sigma, kappa):
    return UslFit(x1, sigma, kappa, None, None, 2, 32, 0.0)


def fitted(rows):
    return fit_usl(list(rows), list(rows.values()))


def test_usl_of_the_article_up_to_32():
    fit = fitted(REGULAR)
    assert fit.sigma == pytest.approx(0.012, abs=0.001)
    assert fit.kappa == pytest.approx(6e-5, abs=0.5e-5)
    assert fit.worst_error < 0.03


def test_the_row_at_18_alone_decides_whether_coherency_is_seen():
    fit = fitted(DENSE)
    assert (fit.kappa, fit.sigma) == (0.0, pytest.approx(0.0145, abs=1e-4))
    assert fit.kappa_interval.low == 0.0 < 6e-5 < fit.kappa_interval.high
    assert fit.peak is None


def test_above_32_the_plateau_of_the_article_is_a_cap_and_not_retrograde():
    above = beyond(fitted(REGULAR), list(BEYOND), list(BEYOND.values()))
    assert above.verdict == "capped"
    assert above.predicted == pytest.approx(8.68, abs=0.01)


@pytest.mark.parametrize(
    ("x", "verdict"),
    [((9.0, 7.0), "retrograde"), ((7.6, 8.68), "as predicted"), ((9.0, 12.0), "above the law")],
)
def test_other_ways_to_go_on_above_the_range(x, verdict):
    assert beyond(fitted(REGULAR), [40, 48], x).verdict == verdict


def test_nothing_above_the_range_is_no_statement():
    assert beyond(fitted(REGULAR), [16, 32], [4.0, 6.9]) is None


@given(st.floats(0.05, 50), st.floats(0, 0.3), st.floats(0, 0.01))
@settings(max_examples=50)
def test_the_fit_recovers_the_law_that_made_the_points(x1, sigma, kappa):
    n = [1, 2, 4, 8, 16, 32]
    fit = fit_usl(n, [law(x1, sigma, kappa).throughput(m) for m in n])
    assert (fit.sigma, fit.kappa) == pytest.approx((sigma, kappa), abs=1e-6)
    assert fit.x1 == pytest.approx(x1)


def test_superlinear_points_give_no_negative_coefficient():
    fit = fit_usl([1, 2, 4, 8], [1.0, 2.2, 4.6, 9.5])
    assert (fit.sigma, fit.kappa) == (0.0, 0.0)
    assert fit.concurrency_at(0.8) is None


def test_a_serial_endpoint_is_all_contention():
    fit = fit_usl([1, 2, 4, 8, 16, 32], [0.3125] * 6)
    assert (fit.sigma, fit.kappa) == pytest.approx((1.0, 0.0), abs=1e-9)
    assert fit.throughput(1000) == pytest.approx(0.3125)


def test_peak_is_where_the_law_turns_down():
    curve = law(1.0, 0.02, 0.0005)
    assert curve.peak == pytest.approx(math.sqrt(0.98 / 0.0005))
    assert curve.throughput(curve.peak) > max(curve.throughput(curve.peak + d) for d in (-2, 2))


@given(st.floats(0, 0.5), st.floats(0, 0.01), st.floats(0.05, 0.99))
def test_efficiency_can_be_turned_round(sigma, kappa, share):
    curve = law(1.0, sigma, kappa)
    n = curve.concurrency_at(share)
    if n is not None and n < 1e9:
        assert curve.efficiency(n) == pytest.approx(share, rel=1e-6)


def test_repeats_narrow_the_interval():
    once, n = fit_usl([1, 8, 16, 32], [1.0, 7.1, 12.8, 20.9]), [1, 8, 16, 32] * 4
    noise = [1 + 0.001 * (i % 3 - 1) for i in range(16)]
    often = fit_usl(n, [x * e for x, e in zip([1.0, 7.1, 12.8, 20.9] * 4, noise, strict=True)])
    assert (
        often.sigma_interval.high - often.sigma_interval.low
        < once.sigma_interval.high - once.sigma_interval.low
    )


def test_without_a_row_at_1_or_two_above_it_there_is_no_law():
    assert fit_usl([8, 16, 32], [2.0, 4.0, 6.0]) is None
    assert fit_usl([1, 8, 8], [0.3, 2.0, 2.1]) is None
    assert fit_usl([8, 16, 32], [2.22, 4.21, 6.87], x1=0.31).sigma > 0


def test_two_points_above_1_have_a_law_without_interval():
    assert fit_usl([1, 8, 16], [0.31, 2.22, 4.21]).sigma_interval is None


def test_failed_points_are_refused():
    with pytest.raises(ValueError, match="leave failed points out"):
        fit_usl([1, 2, 4], [0.3, 0.0, 1.1])


@pytest.mark.parametrize(("n", "share"), [(8, 0.895), (16, 0.849), (18, 0.769), (24, 0.757), (32, 0.693)])
def test_efficiency_of_the_article_by_its_own_formula(n, share):
    assert scaling_efficiency(n, DENSE[n], 0.31) == pytest.approx(share, abs=5e-4)


def test_efficiency_without_a_baseline_is_missing():
    assert scaling_efficiency(8, 2.2, None) is None
    assert throughput_at_one([2, 4], [1.0, 2.0]) is None
    assert throughput_at_one([1, 1, 4], [1.0, 2.0, 2.0]) == 1.5


def test_more_than_linear_breaks_the_bound():
    assert linear_bound({1: 0.31, 2: 0.7}).ok is False
    assert linear_bound(DENSE).ok is True
    assert linear_bound({2: 0.7}).ok is None


def test_little_holds_within_five_percent():
    assert little(32, 10.0, 3.2).ok is True
    assert little(32, 9.0, 3.2).ok is False
    assert little(32, None, 3.2).ok is None


@pytest.mark.parametrize(
    ("n", "x", "p95", "ok"),
    [
        (16, 4.21, 3.91, True),
        (16, 4.06, 3.80, False),
        (20, 4.64, 4.22, False),
        (24, 5.26, 4.30, False),
        (32, 6.87, 4.6, False),
    ],
)
def test_rows_of_the_article_whose_mean_latency_exceeds_their_p95(n, x, p95, ok):
    assert mean_below_p95(n, x, p95).ok is ok


def test_a_mean_that_cannot_be_formed_is_not_checked():
    assert mean_below_p95(16, None, 3.0).ok is None
    assert mean_below_p95(16, 4.0, None).ok is None
