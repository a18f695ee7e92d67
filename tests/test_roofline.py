"""The roofline of decode: both roofs, the ridge, and where a step of the article's endpoint lies."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.analysis.roofline import DecodeStep, attainable, ceilings, place, ridge
from nlqlib.twin.datasheet import L4, QWEN25_3B

ALONE = DecodeStep(sequences=1, context_tokens=3_377, kv_tokens=3_377)


def test_one_sequence_on_an_l4_cannot_be_faster_than_its_weights_are_read() -> None:
    roofs = ceilings(DecodeStep(1, 0, 0), QWEN25_3B, L4)
    assert roofs.memory_s == pytest.approx(0.02057, rel=1e-3)
    assert roofs.compute_s == pytest.approx(2 * 3_085_938_688 / 121e12)
    assert (roofs.bound, roofs.step_s) == ("memory", roofs.memory_s)


def test_the_twin_pages_decode_floor_holds_with_a_context() -> None:
    # 20.57 ms of weights and 3,377 KV tokens of 36,864 bytes: 20.99 ms at 300 GB/s
    assert ceilings(ALONE, QWEN25_3B, L4).memory_s == pytest.approx(0.02099, rel=1e-3)


def test_the_articles_gap_uses_three_quarters_of_the_bandwidth() -> None:
    found = place(ALONE, QWEN25_3B, L4, 0.0272)
    assert found.bandwidth_share == pytest.approx(0.772, abs=0.002)
    assert found.compute_share < 0.005
    assert found.unexplained == pytest.approx(1 - found.bandwidth_share)


def test_tokens_per_second_grow_with_the_batch_under_the_memory_roof_only() -> None:
    one, many = (ceilings(DecodeStep(n, 0, 0), QWEN25_3B, L4) for n in (1, 32))
    assert many.memory_tokens_per_s == pytest.approx(32 * one.memory_tokens_per_s, rel=0.001)
    assert many.compute_tokens_per_s == pytest.approx(one.compute_tokens_per_s)


def test_a_batch_beyond_the_ridge_is_bound_by_arithmetic() -> None:
    assert ridge(L4) == pytest.approx(403.3, abs=0.1)
    assert ceilings(DecodeStep(300, 0, 0), QWEN25_3B, L4).bound == "memory"
    assert ceilings(DecodeStep(500, 0, 0), QWEN25_3B, L4).bound == "compute"


def test_both_roofs_meet_at_the_ridge() -> None:
    assert attainable(ridge(L4), L4) == pytest.approx(L4.flops)
    assert attainable(ridge(L4) / 2, L4) == pytest.approx(L4.flops / 2)
    assert attainable(10 * ridge(L4), L4) == L4.flops


def test_a_prefix_read_once_moves_less_than_one_read_by_each() -> None:
    once, each = DecodeStep(28, 94_000, 5_700), DecodeStep(28, 94_000, 94_000)
    assert once.intensity(QWEN25_3B) > each.intensity(QWEN25_3B)
    assert once.flops(QWEN25_3B) == each.flops(QWEN25_3B)
    saved = each.bytes_moved(QWEN25_3B) - once.bytes_moved(QWEN25_3B)
    assert saved == (94_000 - 5_700) * 36_864


def test_no_gap_and_no_sequence_are_refused() -> None:
    with pytest.raises(ValueError, match="leave the point out"):
        place(ALONE, QWEN25_3B, L4, 0)
    with pytest.raises(ValueError, match="decode step"):
        DecodeStep(0, 1, 1)


@given(n=st.integers(1, 512), context=st.integers(0, 4096), gap_s=st.floats(1e-4, 1))
def test_a_step_under_the_roof_is_slower_than_both(n: int, context: int, gap_s: float) -> None:
    step = DecodeStep(n, n * context, n * context)
    roofs, found = ceilings(step, QWEN25_3B, L4), place(step, QWEN25_3B, L4, gap_s)
    assert (gap_s >= roofs.step_s) == (found.unexplained >= 0)
    ceiling = attainable(found.intensity, L4)
    assert (found.flops_per_s <= ceiling * (1 + 1e-9)) == (gap_s >= roofs.step_s * (1 - 1e-9))
