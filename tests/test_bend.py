"""Knee and saturation: found where made, absent where there is none, and honest where the data cannot say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.analysis.bend import Level, knee, knee_shift, saturation
from nlqlib.analysis.stats import Interval

ARTICLE = [
    (1, 0.31),
    (8, 2.22),
    (12, 3.19),
    (16, 4.21),
    (16, 4.06),
    (18, 4.29),
    (20, 4.64),
    (24, 5.63),
    (24, 5.26),
    (32, 6.87),
]


def test_the_article_up_to_32_bends_where_it_says():
    found = knee(*zip(*ARTICLE, strict=True))
    assert found.status == "knee"
    assert found.interval.low <= 16 <= found.interval.high
    assert found.slope_after < found.slope_before


def test_rows_beyond_32_move_the_break_to_the_end_of_scaling():
    found = knee(*zip(*[*ARTICLE, (32, 6.63), (40, 6.94), (48, 6.93)], strict=True))
    assert 26 < found.at < 33


@given(st.integers(4, 24), st.floats(0.1, 10), st.floats(0, 0.5), st.integers(0, 2**32 - 1))
@settings(max_examples=40, deadline=None)
def test_a_bend_that_was_put_in_is_found_within_its_interval(at, slope, ratio, seed):
    n = np.repeat([1, 2, 4, 8, 12, 16, 20, 24, 28, 32], 3).astype(float)
    x = slope * np.minimum(n, at) + slope * ratio * np.maximum(0, n - at)
    x *= 1 + 0.002 * np.random.default_rng(seed).standard_normal(len(n))
    found = knee(n, x)
    assert found.status == "knee"
    assert found.at == pytest.approx(at, abs=1.5)


def test_linear_growth_has_no_knee():
    n = np.repeat([1, 2, 4, 8, 16, 32], 3)
    x = 0.3 * n * (1 + 0.01 * np.random.default_rng(4).standard_normal(len(n)))
    assert knee(n, x).status == "no knee"
    assert knee(n, 0.3 * n).status == "no knee"


def test_flat_throughput_has_no_knee_and_says_why():
    found = knee([1, 2, 4, 8, 16, 32], [0.31, 0.312, 0.311, 0.31, 0.309, 0.311])
    assert (found.status, found.at, found.interval) == ("no knee", None, None)
    assert "does not rise" in found.reason


@pytest.mark.parametrize("x", [[1, 2, 4, 8, 4, 1], [1, 2, 4, 4.1, 2, 1]])
def test_throughput_that_rises_and_falls_again_is_not_said_not_to_rise(x):
    assert "does not rise" not in knee([1, 2, 4, 8, 16, 32], x).reason


def test_throughput_that_only_falls_does_not_rise():
    assert "does not rise" in knee([1, 2, 4, 8, 16, 32], [4, 2, 1.5, 1, 0.7, 0.5]).reason


def test_an_endpoint_that_admits_four_bends_at_four():
    found = knee([1, 2, 4, 8, 16, 32], [0.3125, 0.625, 1.25, 1.25, 1.25, 1.25])
    assert found.status == "knee"
    assert found.at == pytest.approx(4, abs=0.1)


def test_four_concurrencies_cannot_tell():
    found = knee([1, 8, 16, 32] * 3, [0.3, 2.2, 4.2, 6.9] * 3)
    assert found.status == "cannot tell"
    assert "needs 5" in found.reason


# ---- two knees -------------------------------------------------------------------------------------------

LOADS = np.repeat([1, 2, 4, 8, 16], 2).astype(float)


def bent(at, spread=0.0, seed=0):
    """Two runs of five levels, with a bend and a relative spread."""
    x = 0.2 * np.minimum(LOADS, at) + 0.02 * np.maximum(0, LOADS - at)
    return LOADS, x * (1 + spread * np.random.default_rng(seed).standard_normal(len(LOADS)))


def test_two_sweeps_of_one_bend_show_no_shift():
    found = knee_shift(bent(4, 0.01, 1), bent(4, 0.01, 2))
    assert found.value == pytest.approx(0, abs=1)
    assert found.interval.low < 0 < found.interval.high


def test_a_knee_that_moved_is_found_within_the_interval_of_the_difference():
    found = knee_shift(bent(3, 0.01, 1), bent(6, 0.01, 2))
    assert 0 < found.interval.low <= found.value <= found.interval.high
    assert found.value == pytest.approx(3, abs=1)


def test_both_sweeps_make_the_interval_wide():
    """The second's own interval counts: with a noisy one a shift hides that exact ones show."""
    exact, noisy = (knee_shift(bent(4), bent(5, spread, 3)).interval for spread in (0.0, 0.08))
    assert exact.low == pytest.approx(exact.high)
    assert noisy.high - noisy.low > 1


def test_a_sweep_without_a_knee_has_no_shift():
    assert knee_shift(bent(4), (LOADS, 0.3 * LOADS)).value is None
    assert knee_shift(([1, 2], [1, 2]), bent(4)).interval is None


def test_the_same_seed_gives_the_same_interval():
    pair = bent(3, 0.02, 1), bent(6, 0.02, 2)
    assert knee_shift(*pair, seed=5) == knee_shift(*pair, seed=5)


def test_of_ten_pairs_of_sweeps_in_which_nothing_moved_few_are_said_to_move():
    """About nine in ten hold; here the noise grows with the load, which the residuals do not know."""
    pairs = [(bent(5, 0.02, 2 * s), bent(5, 0.02, 2 * s + 1)) for s in range(10)]
    found = [knee_shift(*pair, seed=s).interval for s, pair in enumerate(pairs)]
    assert sum(not i.low <= 0 <= i.high for i in found) <= 2


def levels(*rows):
    return [
        Level(n, x, None if half is None else Interval(x - half, x + half), p95) for n, x, half, p95 in rows
    ]


def test_saturation_is_the_first_level_that_no_later_one_beats():
    found = saturation(levels((32, 6.63, 0.05, 5.16), (40, 6.94, 0.05, 8.54), (48, 6.93, 0.05, 8.67)))
    assert (found.status, found.at) == ("saturated", 40)


def test_a_wider_interval_moves_saturation_to_32():
    assert saturation(levels((32, 6.63, 0.4, 5.16), (40, 6.94, 0.4, 8.54), (48, 6.93, 0.4, 8.67))).at == 32


def test_order_of_the_levels_does_not_matter():
    rows = levels((48, 6.93, 0.05, 8.67), (32, 6.63, 0.05, 5.16), (40, 6.94, 0.05, 8.54))
    assert saturation(rows).at == 40


def test_growing_throughput_is_not_saturated():
    assert saturation(levels((8, 2.2, 0.05, 3.6), (16, 4.2, 0.05, 3.9))).status == "not reached"


def test_a_plateau_whose_latency_falls_is_not_saturation():
    assert saturation(levels((8, 4.2, 0.1, 3.9), (16, 4.2, 0.1, 3.6))).status == "not reached"


def test_levels_measured_once_cannot_tell():
    found = saturation(levels((32, 6.63, None, 5.16), (40, 6.94, None, 8.54)))
    assert (found.status, found.at) == ("cannot tell", None)
    assert "at least three times" in found.reason


def test_one_level_cannot_tell():
    assert saturation(levels((32, 6.63, 0.1, 5.16))).status == "cannot tell"
