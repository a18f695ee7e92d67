"""Closed loop: what must come out by arithmetic, what failures do, and what is left behind (nothing)."""

import asyncio
import gc
import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from fake_behaviours import MODEL, Behaviour, Faults, Hang, Raw, Say, Status, delta, error_object, stream
from fake_server import FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st
from load_world import QUESTIONS, STREAMED, closed, in_real_time, in_virtual_time

from nlqlib.analysis.latency import (
    ended_in,
    latency_summary,
    mean_in_flight,
    outcome_counts,
    peak_in_flight,
    spans,
    steady_window,
    throughput_run,
    throughput_window,
)
from nlqlib.analysis.stats import Interval
from nlqlib.load.closed_loop import LoadError, LoadRun, closed_loop, cycled
from nlqlib.load.quiet import quiet
from nlqlib.progress import PROGRESS, Progress
from nlqlib.serving.client import Client, Endpoint, EndpointError, make_client
from nlqlib.serving.gateway import Gateway
from nlqlib.serving.running import run
from nlqlib.twin.clock import VirtualLoop, run_virtual

SERIAL = Say(latency_s=3.2)


def broken(run: LoadRun) -> set[str]:
    return {rule.rule for rule in run.rules() if rule.ok is False}


@pytest.mark.parametrize("n", [1, 4, 32])
def test_a_serial_endpoint_of_3_2_s_gives_0_3125_requests_per_second_at_every_concurrency(n: int) -> None:
    found = in_virtual_time(closed(n, 160), FakeServer(SERIAL, slots=1))
    assert throughput_run(found.completions) == pytest.approx(0.3125)
    assert latency_summary(found.completions).p95_s == pytest.approx(3.2 * n)


def test_at_32_in_flight_a_serial_endpoint_has_a_p95_of_102_4_s() -> None:
    found = in_virtual_time(closed(32, 300), FakeServer(SERIAL, slots=1))
    assert latency_summary(found.completions).p95_s == pytest.approx(102.4)
    assert throughput_window(found.completions, found.window) == pytest.approx(0.3125)


def test_a_parallel_endpoint_of_half_a_second_gives_exactly_16_requests_per_second_at_8() -> None:
    found = in_virtual_time(closed(8, 80), FakeServer(Say(latency_s=0.5)))
    assert throughput_window(found.completions, found.window) == 16.0
    assert {c.e2e_s for c in found.completions} == {0.5}
    assert broken(found) == set()


def test_the_run_lies_below_the_window_by_what_ramp_and_drain_give() -> None:
    found = in_virtual_time(closed(32, 150), FakeServer(Say(latency_s=2.0)))
    assert throughput_run(found.completions) == 150 / 10  # four full waves and one of 22
    assert found.window == (0.0, 8.0)
    assert throughput_window(found.completions, found.window, min_latencies=0) == 128 / 8
    assert throughput_window(found.completions, found.window) is None  # four latencies show no steady state


def test_littles_law_holds_in_the_window() -> None:
    drawn = random.Random(7)
    varied = [Say(latency_s=drawn.uniform(0.5, 1.5)) for _ in range(2064)]
    found = in_virtual_time(closed(16, 2000, lead_in=64), FakeServer(varied))
    rate = throughput_window(found.completions, found.window)
    mean_s = latency_summary(found.completions, window=found.window).mean_s
    assert rate is not None and mean_s is not None
    assert rate * mean_s == pytest.approx(16, rel=0.005)


def test_a_finished_request_is_replaced_in_the_same_instant() -> None:
    found = in_virtual_time(closed(4, 40), FakeServer([Say(latency_s=0.1 * (1 + i % 3)) for i in range(40)]))
    ends = {c.end_s for c in found.completions}
    assert all(c.start_s in ends for c in found.completions[4:])
    assert mean_in_flight(spans(found.completions), found.window) == pytest.approx(4)


def test_the_reported_peak_is_the_servers_count() -> None:
    server = FakeServer(Say(latency_s=0.3), slots=5)
    found = in_virtual_time(closed(12, 100), server)
    assert (
        found.health.peak_in_flight == server.peak_in_flight == peak_in_flight(spans(found.completions)) == 12
    )
    assert server.in_flight == 0


def test_completions_come_in_order_of_their_start_counted_from_the_first() -> None:
    found = in_virtual_time(closed(3, 30), FakeServer([Say(latency_s=0.1 * (1 + i % 4)) for i in range(30)]))
    starts = [c.start_s for c in found.completions]
    assert starts[0] == 0.0 and starts == sorted(starts)  # type: ignore[type-var]
    assert [c.request_id for c in found.completions] == [f"q{i % 20}#{i}" for i in range(30)]


def test_the_lead_in_hands_over_without_draining() -> None:
    server = FakeServer([Say(latency_s=0.5 + 0.01 * (i % 7)) for i in range(200)])
    found = in_virtual_time(closed(8, 100, lead_in=30), server)
    assert (len(found.lead_in), len(found.completions), len(server.seen)) == (30, 100, 130)
    assert found.window is not None
    everything = spans(found.lead_in + found.completions)
    assert mean_in_flight(everything, Interval(0.0, found.window.high)) == pytest.approx(8)
    assert all(c.start_s is not None and c.start_s <= 0 for c in found.lead_in)
    assert found.origin_s > 0 and found.completions[0].start_s == 0.0


def test_the_window_is_cut_by_events_as_the_analysis_does() -> None:
    found = in_virtual_time(closed(8, 100), FakeServer(Say(latency_s=0.5)))
    assert found.window == steady_window(found.completions, 8) == (0.0, 6.0)
    assert len(ended_in(found.completions, found.window)) == 96


def test_fewer_requests_than_the_concurrency_have_no_window() -> None:
    found = in_virtual_time(closed(32, 5), FakeServer(Say(latency_s=1.0)))
    assert found.window is None and found.health.peak_in_flight == 5
    assert throughput_run(found.completions) == 5.0


@pytest.mark.parametrize("n", [1, 8, 48])
@pytest.mark.parametrize("slots", [None, 4])
def test_both_clients_agree(n: int, slots: int | None) -> None:
    behaviours = [Say(latency_s=0.5 + 0.05 * (i % 5)) for i in range(6 * n)]
    wire, other = (
        in_virtual_time(closed(n, 6 * n), FakeServer(behaviours, slots=slots), kind)  # type: ignore[arg-type]
        for kind in ("wire", "openai")
    )
    assert throughput_run(other.completions) == pytest.approx(throughput_run(wire.completions), rel=0.02)
    for q in ("mean_s", "p50_s", "p95_s"):
        mine, its = (getattr(latency_summary(r.completions), q) for r in (wire, other))
        assert its == pytest.approx(mine, rel=0.02)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 9),
    st.integers(1, 40),
    st.integers(0, 12),
    st.integers(0, 2**16),
    st.sampled_from([None, 3]),
)
def test_nothing_is_lost_and_never_more_than_n_are_in_flight(
    concurrency: int, n: int, lead_in: int, seed: int, slots: int | None
) -> None:
    drawn = random.Random(seed)
    says = [Say(latency_s=drawn.choice([0.1, 0.4, 1.0])) for _ in range(n + lead_in)]
    server = FakeServer(says, slots=slots, faults=Faults(share_503=0.1, seed=seed))
    found = in_virtual_time(closed(concurrency, n, lead_in=lead_in), server)
    ids = [c.request_id for c in found.lead_in + found.completions]
    assert ids == [f"q{i % 20}#{i}" for i in range(n + lead_in)]
    assert server.peak_in_flight == found.health.peak_in_flight == min(concurrency, n + lead_in)


# failures


def test_rejections_at_random_are_outcomes_and_are_replaced() -> None:
    server = FakeServer(Say(latency_s=0.5), faults=Faults(share_503=0.2, seed=3))
    found = in_virtual_time(closed(8, 200), server)
    rejected = sum(server.faults.of(i) is not None for i in range(200))
    assert outcome_counts(found.completions) == {"ok": 200 - rejected, "http_503": rejected}
    assert all(c.e2e_s is None for c in found.completions if not c.ok)
    assert found.window is not None
    seconds = found.window.high - found.window.low
    good = sum(c.ok for c in ended_in(found.completions, found.window))
    assert throughput_window(found.completions, found.window) == good / seconds
    assert broken(found) == {"failed requests / requests"}


def test_a_503_then_a_200_are_one_rejection_and_one_latency() -> None:
    found = in_virtual_time(closed(1, 2), FakeServer([Status(503, "", latency_s=9.0), Say(latency_s=0.5)]))
    assert outcome_counts(found.completions) == {"ok": 1, "http_503": 1}
    assert (latency_summary(found.completions).n, latency_summary(found.completions).max_s) == (1, 0.5)


def test_one_good_answer_of_four() -> None:
    behaviours: list[Behaviour] = [
        Say("yes"),
        Say(""),
        stream(delta(content="ye"), error_object(500, "engine died"), "[DONE]"),
        Status(400, error_object(400, "temperature must be positive")),
    ]
    found = in_virtual_time(closed(1, 4, STREAMED), FakeServer(behaviours))
    assert [c.outcome for c in found.completions] == ["ok", "empty", "mid_stream_error", "http_4xx"]
    assert latency_summary(found.completions).n == 1
    assert "engine died" in str(found.completions[2].error)
    assert "temperature must be positive" in str(found.completions[3].error)


@pytest.mark.parametrize(("concurrency", "stops_at"), [(1, 20), (32, 96)])
def test_a_run_that_only_fails_is_stopped_with_outcome_and_body(concurrency: int, stops_at: int) -> None:
    server = FakeServer(Status(503, error_object(503, "no replica is up")))
    with pytest.raises(
        LoadError, match=rf"{stops_at} requests all failed \(http_503 × {stops_at}\).*no replica is up"
    ):
        in_virtual_time(closed(concurrency, 10_000), server)
    assert len(server.seen) < stops_at + concurrency


@pytest.mark.parametrize("kind", ["wire", "openai"])
def test_refusals_that_overtake_the_first_answers_do_not_stop_the_run(kind: Any) -> None:
    """Four are worked on for three seconds, and meanwhile every other is refused at once."""
    gateway = Gateway(FakeServer(Say(latency_s=3.0)), router=4, max_queue=0)
    found = in_virtual_time(closed(8, 200), gateway, kind)
    assert outcome_counts(found.completions) == {"ok": 4, "http_429": 196}
    assert [c.outcome for c in found.completions[:4]] == ["ok"] * 4


def test_a_failure_still_on_its_way_might_have_been_an_answer() -> None:
    behaviours: list[Behaviour] = [Say(latency_s=9.0), *[Status(503, "")] * 99]
    found = in_virtual_time(closed(2, 100), FakeServer(behaviours))
    assert outcome_counts(found.completions) == {"ok": 1, "http_503": 99}
    with pytest.raises(LoadError, match=r"first 20 requests all failed \(http_503 × 20\)"):
        in_virtual_time(closed(2, 100), FakeServer([Status(503, "", latency_s=9.0), *behaviours[1:]]))


def test_one_answer_among_the_first_lets_the_run_go_on() -> None:
    failing: list[Behaviour] = [Status(503, "")] * 19
    found = in_virtual_time(closed(1, 60), FakeServer([*failing, Say("yes"), Status(503, "")]))
    assert outcome_counts(found.completions) == {"ok": 1, "http_503": 59}


def test_empty_answers_alone_stop_the_run() -> None:
    with pytest.raises(LoadError, match="empty × 20"):
        in_virtual_time(closed(2, 100), FakeServer(Say("")))


def test_answers_cut_at_their_fixed_length_are_answers() -> None:
    found = in_virtual_time(closed(2, 60), FakeServer(Say("a b", finish_reason="length", latency_s=0.1)))
    assert outcome_counts(found.completions) == {"length": 60}


def test_a_hanging_request_ends_by_its_timeout_and_is_replaced() -> None:
    server = FakeServer([Say(latency_s=1.0), Hang(), *[Say(latency_s=1.0)] * 40])
    found = in_virtual_time(closed(2, 30), server, timeout_s=10.0)
    assert outcome_counts(found.completions) == {"ok": 29, "timeout": 1}
    assert found.completions[1].end_s == 10.0
    assert any(c.start_s == 10.0 for c in found.completions)


def test_connections_closed_in_the_middle_of_a_stream_are_outcomes() -> None:
    cut = stream(delta(content="ye"), end="cut")
    behaviours = [cut if i % 4 == 3 else Say("yes", latency_s=0.05) for i in range(40)]
    found = in_real_time(closed(4, 40, cycled(STREAMED)), FakeServer(behaviours))
    assert Counter(c.outcome for c in found.completions) == {"ok": 30, "disconnected": 10}


def test_a_server_that_is_not_there_stops_the_run() -> None:
    async def main() -> LoadRun:
        client = make_client("wire", Endpoint("http://127.0.0.1:9/v1", MODEL))
        return await closed_loop(client, cycled(QUESTIONS), 4, 1000)

    with pytest.raises(LoadError, match=r"disconnected × 20.*connection refused"):
        asyncio.run(main())


# arguments


def test_too_few_requests_are_refused_before_the_first_is_sent() -> None:
    server = FakeServer()
    with pytest.raises(LoadError, match=r"21 requests are to be sent and only 20 are given.*cycled"):
        in_virtual_time(closed(2, 18, QUESTIONS, lead_in=3), server)
    assert server.seen == []


def test_a_generator_that_runs_out_is_an_error_too() -> None:
    with pytest.raises(LoadError, match="25 requests are to be sent and only 20 are given"):
        in_virtual_time(closed(2, 25, iter(QUESTIONS)), FakeServer())


@pytest.mark.parametrize(("concurrency", "n", "lead_in"), [(0, 1, 0), (1, 0, 0), (1, 1, -1)])
def test_impossible_numbers_are_refused(concurrency: int, n: int, lead_in: int) -> None:
    with pytest.raises(ValueError, match="closed loop needs"):
        in_virtual_time(closed(concurrency, n, lead_in=lead_in), FakeServer())


def test_cycling_repeats_the_requests_under_new_ids() -> None:
    endless = cycled(QUESTIONS)
    taken = [next(endless) for _ in range(50)]
    assert len({r.request_id for r in taken}) == 50
    assert all(r.messages is QUESTIONS[i % 20].messages for i, r in enumerate(taken))


def test_a_salt_is_sent_as_the_cache_salt_beside_the_other_fields() -> None:
    server = FakeServer()
    in_virtual_time(closed(2, 5, cycled(QUESTIONS, "cell-3")), server)
    assert {seen.body["cache_salt"] for seen in server.seen} == {"cell-3"}


def test_an_empty_workload_cannot_be_cycled() -> None:
    with pytest.raises(ValueError, match="workload is empty"):
        cycled([])


# what is left behind


@pytest.mark.parametrize("kind", ["wire", "openai"])
def test_cancelling_ends_every_request_and_leaves_no_task(kind: Any) -> None:
    server = FakeServer(Say(latency_s=100.0))

    async def main() -> None:
        client = make_client(kind, Endpoint("http://fake/v1", MODEL), app=server)
        load = asyncio.create_task(closed_loop(client, cycled(QUESTIONS), 8, 100))
        await asyncio.sleep(150)
        load.cancel()
        with pytest.raises(asyncio.CancelledError):
            await load
        await client.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main())
    assert (server.in_flight, server.disconnects, gc.isenabled()) == (0, 8, True)


def test_the_collector_is_off_while_requests_are_sent_and_on_again_afterwards() -> None:
    states: list[bool] = []

    class Asking(FakeServer):
        async def __call__(self, *call: Any) -> None:
            states.append(gc.isenabled())
            await super().__call__(*call)

    in_virtual_time(closed(2, 10), Asking())
    with pytest.raises(LoadError):
        in_virtual_time(closed(2, 100), Asking(Status(503, "")))
    assert set(states) == {False} and gc.isenabled() and gc.get_freeze_count() == 0


def test_a_collector_that_was_off_stays_off() -> None:
    gc.disable()
    try:
        with quiet():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_the_key_that_disappears_comes_out_as_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", "k")

    class Forgetful(FakeServer):
        async def __call__(self, *call: Any) -> None:
            await super().__call__(*call)
            if len(self.seen) == 5:
                monkeypatch.delenv("THE_KEY")

    with pytest.raises(EndpointError, match="THE_KEY is not set"):
        in_virtual_time(closed(2, 100), Forgetful(Say(latency_s=0.1)), api_key_env="THE_KEY")


def test_progress_counts_measured_requests_only(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lines = tmp_path / "lines"
    monkeypatch.setenv(PROGRESS, str(lines))
    with Progress(100, "concurrency 8") as bar:
        in_virtual_time(closed(8, 100, lead_in=16, report=bar), FakeServer(Say(latency_s=0.5)))
    shown = lines.read_text("utf-8").splitlines()
    assert shown[-1].startswith("[100/100] concurrency 8")
    assert len(shown) <= 3


# clocks


def test_an_endpoint_without_a_clock_has_outcomes_and_no_times() -> None:
    found = in_virtual_time(closed(4, 20), FakeServer(), clock=False)
    assert outcome_counts(found.completions) == {"ok": 20}
    assert found.window is None and found.completions[0].start_s is None


def test_virtual_time_knows_no_lag_and_no_processor() -> None:
    health = in_virtual_time(closed(4, 20), FakeServer(Say(latency_s=1.0))).health
    assert (health.loop_lag_p99_s, health.cpu_share, health.dispatch_delay_p99_s) == (None, None, None)
    assert health.pool_waits == 0


@pytest.mark.parametrize("kind", ["wire", "openai"])
def test_in_real_time_the_server_saw_what_is_reported(kind: Any) -> None:
    server = FakeServer(Say(latency_s=0.1))
    found = in_real_time(closed(12, 120, lead_in=12), server, kind)
    assert found.health.peak_in_flight == server.peak_in_flight == 12
    rate = throughput_window(found.completions, found.window)
    assert rate is not None and 40 <= rate <= 125
    assert found.health.loop_lag_p99_s is not None and found.health.cpu_share is not None


def test_it_runs_in_a_thread_of_its_own_as_a_notebook_runs_it() -> None:
    server = FakeServer(Say(latency_s=0.5))

    async def main() -> LoadRun:
        client = make_client("wire", Endpoint("http://fake/v1", MODEL), app=server)
        return await closed_loop(client, cycled(QUESTIONS), 8, 80)

    assert throughput_run(run(main(), VirtualLoop).completions) == 16.0


def test_raw_bytes_that_are_no_completion_stop_the_run() -> None:
    html = Raw((b"<html>login</html>",), content_type="text/html")
    with pytest.raises(LoadError, match=r"bad_response.*login"):
        in_virtual_time(closed(2, 100), FakeServer(html))


def test_a_client_belongs_to_the_loop() -> None:
    """The same client does two runs one after the other; waits and peaks are those of each run."""
    server = FakeServer(Say(latency_s=0.5))

    async def two(client: Client) -> LoadRun:
        first = await closed_loop(client, cycled(QUESTIONS), 8, 16)
        second = await closed_loop(client, cycled(QUESTIONS), 2, 16)
        assert (first.health.peak_in_flight, second.health.peak_in_flight) == (8, 2)
        return second

    assert in_virtual_time(two, server).completions[0].start_s == 0.0
