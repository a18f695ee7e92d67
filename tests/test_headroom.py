"""Headroom: tails of few answers by order statistics, limits built on them, and how a window is divided."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats as sp

from nlqlib.analysis.headroom import MARGIN, Budget, Cut, clamped, recommended, tail
from nlqlib.analysis.stats import wilson


def test_of_few_answers_p999_has_no_upper_end_and_says_how_many_it_needs() -> None:
    found = tail([float(n) for n in range(101, 201)])
    assert (found.n, found.longest, found.high) == (100, 200.0, None)
    assert found.needed == math.ceil(math.log(0.025) / math.log(0.999)) == 3688
    assert found.supported == pytest.approx(0.025 ** (1 / 100))
    assert found.base == 200


def test_an_upper_end_appears_with_the_answer_that_allows_it() -> None:
    assert tail([1.0] * 3687).high is None
    assert tail([1.0] * 3688).high == 1.0
    assert tail([1.0] * 2, quantile=0.1).high == 1.0  # 0.1² is below 2.5 %


def test_the_interval_of_a_median_is_the_textbooks() -> None:
    """n = 10: the second and the ninth value hold the median with 97.9 % (sign test)."""
    found = tail([float(n) for n in range(1, 11)], quantile=0.5)
    assert (found.low, found.value, found.high) == (2.0, 5.5, 9.0)


def test_without_answers_nothing_is_known() -> None:
    found = tail([], cut=3)
    assert (found.value, found.low, found.high, found.longest, found.supported) == (None,) * 5
    assert recommended(found) is None


@given(n=st.integers(1, 400), q=st.floats(0.01, 0.99), confidence=st.floats(0.5, 0.99))
def test_both_ends_are_as_rare_as_promised_and_the_next_ones_are_not(
    n: int, q: float, confidence: float
) -> None:
    found = tail([float(i) for i in range(1, n + 1)], quantile=q, confidence=confidence)
    side = (1 - confidence) / 2
    low, high = int(found.low or 0), int(found.high or n + 1)
    assert sp.binom.cdf(low - 1, n, q) <= side < sp.binom.cdf(low, n, q) + 1e-12
    assert high > n or sp.binom.sf(high - 1, n, q) <= side
    assert sp.binom.sf(high - 2, n, q) > side - 1e-12


@given(st.lists(st.integers(1, 2000), min_size=1, max_size=60))
def test_the_order_of_answers_does_not_matter_and_the_longest_always_fits(lengths: list[int]) -> None:
    found = tail(lengths)
    assert found == tail(lengths[::-1])
    limit = recommended(found)
    assert limit is not None and limit >= max(lengths) and limit % 16 == 0


@pytest.mark.parametrize(
    ("longest", "margin", "limit"),
    [(128, 0.25, 160), (102.4, 0.25, 128), (100, 0.0, 112), (96, 0.0, 96), (231, MARGIN, 304)],
)
def test_a_limit_is_the_tail_and_its_margin_up_to_the_next_block(
    longest: float, margin: float, limit: int
) -> None:
    assert recommended(tail([1, longest]), margin) == limit


@pytest.mark.parametrize("wrong", [{"margin": -0.1}, {"step": 0}])
def test_a_margin_or_a_step_that_cannot_be_is_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="at least"):
        recommended(tail([1]), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize(("quantile", "confidence"), [(0, 0.9), (1, 0.9), (0.5, 0), (0.5, 1)])
def test_a_quantile_and_a_confidence_are_shares(quantile: float, confidence: float) -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        tail([1], 0, quantile, confidence)


def test_what_nobody_knows_widens_the_interval_to_both_ends() -> None:
    """125 answers, of which 6 were cut at 256: what 512 cuts lies between 0 and 6 of them."""
    found = Cut(125, 0, 6)
    assert found.interval is not None and found.most == 6
    assert found.interval.low == 0.0
    assert found.interval.high == pytest.approx(wilson(6, 125).high) == pytest.approx(0.1003, abs=0.0005)


@given(n=st.integers(1, 200), data=st.data())
def test_an_interval_with_unknown_answers_holds_that_of_every_way_they_could_have_gone(
    n: int, data: st.DataObject
) -> None:
    least = data.draw(st.integers(0, n))
    unknown = data.draw(st.integers(0, n - least))
    wide = Cut(n, least, unknown).interval
    each = wilson(least + data.draw(st.integers(0, unknown)), n)
    assert wide is not None and wide.low <= each.low and each.high <= wide.high


def test_of_no_answers_no_share_is_known() -> None:
    assert Cut(0, 0).interval is None


def test_the_articles_budget() -> None:
    """A prompt of about 3,300 tokens and max_tokens 256 in a window of 4,096."""
    found = Budget(4096, 3300, 256)
    assert (found.left, found.fits, found.room_for(20)) == (540, True, 27)
    too_large = Budget(4096, 3600, 512)
    assert (too_large.left, too_large.fits, too_large.room_for(1)) == (-16, False, 0)
    assert Budget(4096, 3584, 512).fits


def test_a_piece_without_tokens_is_refused() -> None:
    with pytest.raises(ValueError, match="tokens"):
        Budget(4096, 3300, 256).room_for(0)


@pytest.mark.parametrize(
    ("reason", "prompt", "output", "window", "found"),
    [
        ("length", 4090, 6, 4096, True),  # as measured on vLLM 0.32
        ("length", 4000, 64, 4096, False),  # cut at max_tokens
        ("stop", 4090, 6, 4096, False),
        ("length", 4090, 5, 4096, False),  # cut early, but not by the window
        ("length", 4090, 6, None, None),
        ("length", None, 6, 4096, None),
        ("length", 4090, None, 4096, None),
    ],
)
def test_clamping_is_an_early_cut_where_prompt_and_answer_fill_the_window(
    reason: str, prompt: int | None, output: int | None, window: int | None, found: bool | None
) -> None:
    assert clamped(reason, prompt, output, 64, window) is found
