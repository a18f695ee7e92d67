"""The first burst in words: how far latency grew over it, beside what each explanation would give."""

import pytest

from nlqlib.analysis.diagnosis_burst import burst

SERVICE_S = 2.0


def behind(limit: int, n: int = 16) -> list[float]:
    """Completion times of `n` requests sent at once behind a limit, each served in `SERVICE_S`."""
    return [SERVICE_S * -(-i // limit) for i in range(1, n + 1)]


def test_one_at_a_time_latency_grows_by_twice_n_less_one_over_n_plus_one_of_its_mean() -> None:
    found = burst([behind(1)], None)
    assert found.verdict == "steps" and found.at_once == 1
    assert found.rise == pytest.approx(2 * 15 / 17)
    assert found.reason == (
        "16 requests sent at once ended in the order of sending, one after another: from first to last, "
        "latency grew by 1.76 × its mean (0 is all together, 1.76 one at a time)"
    )


def test_a_wider_limit_grows_less_and_says_how_many_come_first() -> None:
    found = burst([behind(4)], 4.0)
    assert "ended in the order of sending, the first 4 together: " in found.reason
    assert 0 < found.rise < 2 * 15 / 17 and f"grew by {found.rise:.2f} × its mean" in found.reason


def test_the_bounds_named_are_those_of_the_bursts_own_size() -> None:
    assert "(0 is all together, 1.56 one at a time)" in burst([behind(1, n=8)], None).reason


def test_all_at_once_ended_together() -> None:
    found = burst([[SERVICE_S] * 16], None)
    assert (found.verdict, found.reason) == ("together", "16 requests sent at once ended together")


def test_an_order_shuffled_on_the_way_shows_the_queue_by_its_spread() -> None:
    found = burst([behind(1)[::-1]], None)
    assert found.queued and found.reason.startswith(
        "16 requests sent at once ended further apart than lone answers differ, one after another: "
    )
