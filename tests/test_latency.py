"""Latency and throughput against hand arithmetic: a FIFO queue, a closed loop, and the written cases."""

import heapq

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.analysis.latency import (
    after_first_round,
    count_inside,
    ended_in,
    goodput,
    in_flight_rule,
    itl_s,
    latencies,
    latency_summary,
    mean_in_flight,
    outcome_counts,
    peak_in_flight,
    spans,
    steady_window,
    throughput_run,
    throughput_window,
    tpot_s,
    window_rule,
)
from nlqlib.analysis.scaling import little
from nlqlib.analysis.stats import Interval
from nlqlib.records import Completion


def answer(start, end, outcome="ok", planned=None, **more):
    return Completion(f"r{start}", outcome, start_s=start, end_s=end, planned_s=planned, **more)


def fifo(arrivals, service_s, servers=1):
    """Completions of a queue with `servers` equal servers, sent when planned."""
    free, rows = [0.0] * servers, []
    for at in arrivals:
        end = max(at, heapq.heappop(free)) + service_s
        heapq.heappush(free, end)
        rows.append(answer(at, end, planned=at))
    return rows


def closed_loop(n, requests, service_s, servers):
    """`n` clients that send again at once, before `servers` equal servers; `service_s` may be drawn anew."""
    free, ready, rows = [0.0] * servers, [0.0] * n, []
    for _ in range(requests):
        at = heapq.heappop(ready)
        end = max(at, heapq.heappop(free)) + (service_s() if callable(service_s) else service_s)
        heapq.heappush(free, end)
        heapq.heappush(ready, end)
        rows.append(answer(at, end))
    return rows


def test_case_1_eight_arrivals_before_one_server():
    s = latency_summary(fifo([0.1 * i for i in range(8)], 0.5))
    assert (s.mean_s, s.max_s, s.p99_s) == pytest.approx((1.90, 3.30, 3.272))


@pytest.mark.parametrize(
    ("intervals", "peak"),
    [
        ([(0, 1), (1, 2)], 1),
        ([(0, 1.5), (1, 2)], 2),
        ([(0, 0.3), (0.3, 0.6), (0.7, 0.9)], 1),
        ([], 0),
        ([(1, 1)], 0),
    ],
)
def test_case_2_peak_in_flight(intervals, peak):
    assert peak_in_flight(intervals) == peak
    assert peak_in_flight(iter(intervals)) == peak


def test_case_9_one_good_answer_of_four():
    rows = [
        answer(0, 2.0),
        answer(0, 1, "empty"),
        answer(0, 0.4, "mid_stream_error"),
        answer(0, 0.1, "http_4xx"),
    ]
    s = latency_summary(rows)
    assert (s.n, s.mean_s, s.p95_s) == (1, 2.0, 2.0)
    assert outcome_counts(rows) == {"ok": 1, "empty": 1, "http_4xx": 1, "mid_stream_error": 1}


def test_case_10_a_rejection_gives_no_latency_sample():
    s = latency_summary([answer(0, 0.01, "http_503"), answer(0.02, 3.02)])
    assert (s.n, s.p50_s) == (1, pytest.approx(3.0))


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16, 32])
def test_case_12_a_serial_endpoint_is_flat_at_every_concurrency(n):
    rows = closed_loop(n, 300, 3.2, servers=1)
    window = steady_window(rows, n)
    assert throughput_run(rows) == pytest.approx(0.3125)
    assert throughput_window(rows, window) == pytest.approx(0.3125)
    assert latency_summary(rows).p95_s == pytest.approx(3.2 * n)


def test_no_good_answer_has_no_latency():
    s = latency_summary([answer(0, 1, "timeout")])
    assert (s.n, s.mean_s, s.p95_s, s.max_s) == (0, None, None, None)


def test_latency_counts_from_the_planned_send_where_asked():
    late = [answer(5.0, 6.0, planned=1.0)]
    assert latencies(late).tolist() == [1.0]
    assert latencies(late, since="planned").tolist() == [5.0]
    assert latencies([answer(5.0, 6.0)], since="planned").tolist() == []


def test_mean_in_flight_weighs_by_time():
    assert mean_in_flight([(0, 1), (0, 3)]) == pytest.approx(4 / 3)
    assert mean_in_flight([(0, 1), (0, 3)], Interval(1, 3)) == pytest.approx(1.0)
    assert mean_in_flight([]) is None
    assert mean_in_flight([(0, 1)], Interval(2, 2)) is None


def test_the_drain_lowers_the_run_but_not_the_window():
    rows = closed_loop(32, 150, 4.0, servers=32)
    window = steady_window(rows, 32)
    assert throughput_run(rows) == pytest.approx(150 / 20.0)  # five waves, the last of 22
    assert window == Interval(0.0, 16.0)
    assert throughput_window(rows, window, min_latencies=4) == pytest.approx(8.0)


def test_a_window_shorter_than_five_latencies_has_no_steady_throughput():
    rows = closed_loop(32, 150, 4.0, servers=32)
    window = steady_window(rows, 32)
    assert throughput_window(rows, window) is None
    assert window_rule(rows, window).ok is False
    assert window_rule(rows, window).value == pytest.approx(4.0)


@pytest.mark.parametrize(("n", "servers"), [(28, 28), (28, 4), (28, 1), (1, 1), (8, 5)])
@pytest.mark.parametrize("beyond", [0, 1, 3, 7, 13, 27])
def test_the_steady_throughput_is_exact_wherever_its_window_ends(n, servers, beyond):
    rounds = 6 if n == servers else 8
    rows = closed_loop(n, rounds * n + beyond, 4.0, servers)
    assert throughput_window(rows, steady_window(rows, n)) == pytest.approx(min(n, servers) / 4.0)


def test_the_steady_throughput_of_varied_lengths_is_not_biased_in_a_short_window():
    """170 requests, 28 in flight, latencies of 4 ± 0.4 s each: 7 req/s; a count of ends finds 6.3."""
    found, counted = [], []
    for seed in range(200):
        lasting = iter(np.random.default_rng(seed).gamma(100, 0.04, 170)).__next__
        rows = closed_loop(28, 170, lasting, servers=28)
        window = steady_window(rows, 28)
        assert 5 < window_rule(rows, window).value < 6
        found.append(throughput_window(rows, window))
        counted.append(len(ended_in(rows, window)) / (window.high - window.low))
    assert np.mean(found) == pytest.approx(7.0, rel=0.01)
    assert np.mean(counted) == pytest.approx(6.3, rel=0.03)


def test_an_answer_cut_by_an_edge_counts_by_the_part_of_its_time_inside():
    rows = np.array([(0.0, 2.0), (1.0, 1.0), (3.0, 5.0), (3.5, 4.0), (4.0, 4.0)])
    assert count_inside(rows, Interval(1.0, 4.0)) == pytest.approx(0.5 + 1 + 0.5 + 1 + 0)


@pytest.mark.parametrize("n", [9, 10, 28])
def test_refusals_end_no_first_round(n):
    """A queue of 8 before one server of 1 s; who finds it full is refused after 50 ms: 1 answer a second."""
    free, queue, ready, rows, served = 0.0, [], [0.0] * n, [], 0
    while served < 80:
        at = heapq.heappop(ready)
        queue = [end for end in queue if end > at]
        good = len(queue) < 8
        end = max(at, free) + 1.0 if good else at + 0.05
        free, queue, served = (end, [*queue, end], served + 1) if good else (free, queue, served)
        rows.append(answer(at, end, "ok" if good else "http_503"))
        heapq.heappush(ready, end)
    assert throughput_window(rows, steady_window(rows, n)) == pytest.approx(1.0, rel=0.005)


def test_what_hung_at_first_leaves_too_little_for_a_steady_throughput():
    rows = [*(answer(0, 60) for _ in range(28)), *(answer(60 + i / 10, 62 + i / 10) for i in range(32))]
    window = steady_window(rows, 28)
    assert window is not None and throughput_window(rows, window, min_latencies=1.9) is None


def test_a_window_that_its_first_round_fills_has_no_steady_throughput():
    rows = [answer(0, 1), answer(1, 2), answer(0, 9)]
    assert after_first_round(rows, Interval(0, 9)) == Interval(2.0, 9.0)
    assert after_first_round(rows, Interval(0, 2)) is None
    assert throughput_window(rows, Interval(0, 2), min_latencies=0.1) is None


def test_no_more_requests_than_clients_have_no_steady_part():
    rows = closed_loop(8, 8, 1.0, servers=8)
    assert steady_window(rows, 8) is None
    assert throughput_window(rows, None) is None
    assert in_flight_rule(rows, 8, None).ok is None


def test_in_flight_below_95_percent_of_n_is_invalid():
    full = closed_loop(4, 40, 1.0, servers=2)
    assert in_flight_rule(full, 4, steady_window(full, 4)).ok is True
    gaps = [answer(i, i + 0.9) for i in range(40)]
    rule = in_flight_rule(gaps, 1, Interval(0, 39))
    assert (rule.ok, rule.value) == (False, pytest.approx(0.9))


@given(st.integers(1, 12), st.integers(1, 12), st.floats(0.1, 5.0))
def test_little_holds_in_the_window_of_a_closed_loop(n, servers, service_s):
    rows = closed_loop(n, 40 * n, service_s, servers)
    window = steady_window(rows, n)
    mean = latency_summary(rows, window=window).mean_s
    assert mean_in_flight(spans(rows), window) == pytest.approx(n)
    assert little(n, throughput_window(rows, window), mean).ok is True


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), min_size=1, max_size=30))
def test_peak_agrees_with_counting_at_every_start(rows):
    intervals = [(a, a + d) for a, d in rows]
    counted = max(sum(s <= t < e for s, e in intervals) for t, _ in intervals)
    assert peak_in_flight(intervals) == counted
    assert mean_in_flight(intervals) <= counted + 1e-9


def test_failures_take_time_but_are_no_throughput():
    rows = [answer(0, 2), answer(0, 4, "timeout")]
    assert throughput_run(rows) == pytest.approx(0.25)
    assert throughput_run([answer(0, 4, "timeout")]) == 0.0
    assert throughput_run([]) is None
    assert throughput_run([Completion("x", "disconnected")]) is None


def test_goodput_counts_answers_within_the_objective():
    rows = [answer(0, 2), answer(0, 4), answer(0, 5, "timeout")]
    assert goodput(rows, 3.0) == pytest.approx(0.2)
    assert goodput(rows, 1.0) == 0.0
    assert goodput([], 1.0) is None


def test_tpot_uses_the_token_count_of_usage():
    c = answer(0, 4.0, first_token_s=0.5, token_times_s=(0.5, 1.5, 3.5), output_tokens=13)
    assert tpot_s(c) == pytest.approx(0.25)


@pytest.mark.parametrize("n", [None, 1])
def test_tpot_needs_two_counted_tokens(n):
    assert tpot_s(answer(0, 4.0, first_token_s=0.5, token_times_s=(0.5,), output_tokens=n)) is None


def test_itl_is_the_gap_between_tokens_and_missing_where_chunks_carried_several():
    one_each = answer(0, 4.0, first_token_s=1.0, token_times_s=(1.0, 1.25, 1.75), output_tokens=4)
    assert itl_s(one_each).tolist() == [0.25, 0.5]
    merged = answer(0, 4.0, first_token_s=1.0, token_times_s=(1.0, 1.25, 1.75), output_tokens=9)
    assert itl_s(merged) is None
    assert itl_s(answer(0, 4.0, "timeout", token_times_s=(1.0, 2.0))) is None


def test_a_request_that_ends_before_it_starts_is_refused():
    with pytest.raises(ValueError, match="ends before it starts"):
        spans([answer(2.0, 1.0)])


def test_spans_come_in_order_of_start():
    assert np.array_equal(spans([answer(2, 3), answer(0, 9)]), [[0, 9], [2, 3]])
