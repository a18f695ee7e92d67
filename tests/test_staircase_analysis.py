"""The staircase of independent processes: times from queues that are run, verdicts by their physics."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_world import Shared, Site, Slots, constant, offer, varied

from nlqlib.analysis.staircase import ProcessTimes, Staircase, controlled, staircase

SERVICE = 3.2


def released(site: Site, k: int, skew_s: float = 0.0, seed: int = 0) -> list[ProcessTimes]:
    """`k` requests at once through `site`; clocks and starts differ by up to `skew_s`."""
    late = np.random.default_rng(seed).uniform(0, skew_s, k)
    done = offer(site, k, k).completions
    return [ProcessTimes(0.0, d, (c.end_s or 0.0) + d) for c, d in zip(done, late, strict=True)]


def through(limit: int | None, k: int) -> Staircase:
    site = Site(lambda: Slots(constant(SERVICE)), router=limit, network_s=0.0)
    return staircase(released(site, k), SERVICE)


def test_one_at_a_time_is_a_staircase_of_one_two_three_service_times() -> None:
    found = through(1, 8)
    assert found.verdict == "serial" and found.admitted == 1
    assert found.completions_s == pytest.approx([SERVICE * i for i in range(1, 9)])
    assert found.slope_share == pytest.approx(1.0) and found.r2 == pytest.approx(1.0)
    assert found.slope_interval == pytest.approx((SERVICE, SERVICE))


def test_without_a_limit_all_end_together() -> None:
    found = through(None, 8)
    assert found.verdict == "parallel" and found.admitted is None
    assert found.slope_share == pytest.approx(0.0, abs=1e-9)


@given(k=st.integers(2, 5), waves=st.integers(2, 4))
def test_a_limit_of_k_is_steps_of_k(k: int, waves: int) -> None:
    found = through(k, k * waves)
    assert found.verdict == "limited" and found.admitted == k


@given(service=st.floats(0.2, 30), k=st.integers(4, 16), seed=st.integers(0, 1000))
def test_differing_answers_do_not_hide_that_one_is_served_at_once(service: float, k: int, seed: int) -> None:
    site = Site(lambda: Slots(varied(service, 0.15, seed)), router=1, network_s=0.0)
    assert staircase(released(site, k, 0.1 * service, seed), service).verdict in ("serial", "refused")
    even = Site(lambda: Slots(varied(service, 0.03, seed)), router=1, network_s=0.0)
    assert staircase(released(even, k, 0.1 * service, seed), service).verdict == "serial"


def test_differing_answers_alone_are_no_staircase() -> None:
    site = Site(lambda: Slots(varied(SERVICE, 0.1, 3)), network_s=0.0)
    assert staircase(released(site, 8), SERVICE).verdict == "parallel"


LENGTHS = (75, 78, 94, 98, 116, 116, 193, 254)
"""Output tokens of eight answers of one real run."""


def answered(at_once: int, lengths: tuple[int, ...] = LENGTHS, told: bool = True) -> Staircase:
    """Answers of `lengths` at 28 ms per token from a server that takes `at_once` at a time, in order."""
    free, out = [0.0] * at_once, []
    for n in lengths:
        free[free.index(min(free))] = end_s = min(free) + 0.028 * n
        out.append(ProcessTimes(0.0, 0.0, end_s, n if told else None))
    return staircase(out, 0.028 * 115)


def test_answers_of_very_different_lengths_that_run_together_are_parallel() -> None:
    found = answered(8)
    assert found.verdict == "parallel" and "lengths differ 3.4 times" in found.reason
    assert answered(8, told=False).verdict == "limited", "what it would say without the lengths"


def test_different_lengths_do_not_hide_that_one_is_served_at_once_and_no_other_step_is_read_off() -> None:
    assert answered(1).verdict in ("serial", "refused")
    for limit in (2, 4):
        found = answered(limit)
        assert found.verdict == "refused" and "answers of one length" in found.reason
    assert answered(2, (115,) * 8).verdict == "limited"


def test_an_engine_that_slows_all_of_them_alike_is_parallel_and_says_how_slow() -> None:
    site = Site(lambda: Shared(constant(SERVICE), lambda m: m), network_s=0.0)
    found = staircase(released(site, 8), SERVICE)
    assert found.verdict == "parallel" and "8.0 times as slow" in found.reason


def test_a_server_shared_unevenly_is_refused_not_called_serial() -> None:
    site = Site(lambda: Shared(varied(SERVICE, 0.6, 1), lambda m: m), network_s=0.0)
    found = staircase(released(site, 8), SERVICE)
    assert found.verdict == "refused" and "shared" in found.reason


def test_releases_too_far_apart_are_refused_with_their_share() -> None:
    found = staircase([ProcessTimes(0.0, i * 0.2, i * 0.2 + 1.0) for i in range(8)], 1.0)
    assert found.verdict == "refused" and "140%" in found.reason
    assert found.skew_s == pytest.approx(1.4) and found.skew_share == pytest.approx(1.4)


def test_a_skew_within_the_bound_is_recorded_and_allowed() -> None:
    site = Site(lambda: Slots(constant(SERVICE)), router=1, network_s=0.0)
    found = staircase(released(site, 6, skew_s=0.3), SERVICE)
    assert found.verdict == "serial" and 0 < found.skew_share < 0.1


def test_a_failed_process_leaves_a_gap_and_no_verdict() -> None:
    times = released(Site(lambda: Slots(constant(1.0)), router=1), 6)
    found = staircase([replace(times[0], end_s=None), *times[1:]], 1.0)
    assert found.verdict == "refused" and "1 of 6 requests failed" in found.reason


def test_three_processes_are_too_few() -> None:
    assert staircase(released(Site(lambda: Slots(constant(1.0)), router=1), 3), 1.0).verdict == "refused"
    assert staircase([], 1.0).verdict == "refused"


def test_without_a_lone_request_the_first_completion_is_the_service_time() -> None:
    found = staircase(released(Site(lambda: Slots(constant(2.0)), router=1, network_s=0.0), 5))
    assert found.service_s == 2.0 and found.verdict == "serial"


def test_times_that_cannot_be_are_refused_with_the_reason() -> None:
    with pytest.raises(ValueError, match="clocks disagree"):
        staircase([ProcessTimes(0.0, 1.0, 0.5)] * 4)
    with pytest.raises(ValueError, match="service time of 0"):
        staircase(released(Site(lambda: Slots(constant(1.0))), 4), 0.0)


def test_with_both_controls_right_the_endpoint_keeps_its_verdict() -> None:
    found = controlled(through(1, 8), through(None, 8), through(1, 8))
    assert found.controls_hold and found.verdict == "serial"


@pytest.mark.parametrize(
    ("parallel", "serial"), [(1, 1), (None, None), (4, 1), (None, 4)], ids=["p", "s", "p-steps", "s-steps"]
)
def test_a_misjudged_control_makes_the_verdict_void(parallel: int | None, serial: int | None) -> None:
    found = controlled(through(1, 8), through(parallel, 8), through(serial, 8))
    assert found.verdict == "refused" and "void" in found.reason and not found.controls_hold
