"""Open loop: starts keep to their plan whatever the endpoint does, and latency can be counted from it."""

import asyncio
import time
from typing import Any

import numpy as np
import pytest
from fake_behaviours import MODEL, Faults, Hang, Say, Status
from fake_server import FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st
from load_world import QUESTIONS, closed, in_real_time, in_virtual_time, opened

from nlqlib.analysis.latency import latencies, latency_summary, outcome_counts, peak_in_flight, spans
from nlqlib.load.arrivals import constant, poisson
from nlqlib.load.closed_loop import LoadError, cycled
from nlqlib.load.open_loop import open_loop
from nlqlib.load.sampling import Sampler
from nlqlib.serving.client import Client, Endpoint, make_client
from nlqlib.twin.clock import run_virtual


def test_eight_arrivals_at_one_server_queue_up_as_computed_by_hand() -> None:
    found = in_virtual_time(opened(constant(10.0, 8)), FakeServer(Say(latency_s=0.5), slots=1))
    summary = latency_summary(found.completions)
    assert summary.mean_s == pytest.approx(1.90)
    assert summary.max_s == pytest.approx(3.30)
    assert summary.p99_s == pytest.approx(3.272)


def test_starts_do_not_wait_for_answers() -> None:
    server = FakeServer(Say(latency_s=100.0))
    found = in_virtual_time(opened(constant(10.0, 50)), server)
    assert [c.start_s for c in found.completions] == [c.planned_s for c in found.completions]
    assert found.health.peak_in_flight == server.peak_in_flight == 50
    assert found.concurrency is None and found.window is None


def test_the_reported_peak_is_that_of_the_intervals() -> None:
    plan = poisson(20.0, 300, np.random.default_rng(5))
    found = in_virtual_time(opened(plan), FakeServer(Say(latency_s=0.37)))
    assert found.health.peak_in_flight == peak_in_flight(spans(found.completions))


@settings(max_examples=20, deadline=None)
@given(st.lists(st.floats(0, 50), min_size=1, max_size=40))
def test_every_arrival_is_kept_to_the_instant_in_virtual_time(times: list[float]) -> None:
    plan = sorted(times)

    async def late(client: Client) -> Any:
        await asyncio.sleep(1 / 3)  # an origin that is not zero
        return await open_loop(client, cycled(QUESTIONS), plan)

    found = in_virtual_time(late, FakeServer(Say(latency_s=1.0)))
    assert [c.planned_s for c in found.completions] == pytest.approx(plan)
    assert all(c.start_s == c.planned_s for c in found.completions)
    assert [c.request_id for c in found.completions] == [f"q{i % 20}#{i}" for i in range(len(plan))]


def test_a_client_that_comes_late_shows_it_from_the_planned_start_only() -> None:
    """Coordinated omission: the loop stands still for 0.3 s while five requests are due."""

    async def load(client: Client) -> Any:
        asyncio.get_running_loop().call_later(0.05, time.sleep, 0.3)
        return await open_loop(client, cycled(QUESTIONS), [0.1 + 0.02 * i for i in range(10)])

    found = in_real_time(load, FakeServer(Say(latency_s=0.01)))
    planned, actual = latencies(found.completions, "planned"), latencies(found.completions)
    assert planned.max() > 0.2 > actual.max()
    assert found.health.dispatch_delay_p99_s == pytest.approx(planned.max() - actual.max(), abs=0.1)
    assert "client: dispatch delay p99 (s)" in {r.rule for r in found.rules() if r.ok is False}


def test_in_real_time_no_request_starts_before_its_time() -> None:
    found = in_real_time(opened(constant(100.0, 60)), FakeServer(Say(latency_s=0.02)))
    delays = [c.start_s - c.planned_s for c in found.completions]  # type: ignore[operator]
    assert min(delays) >= 0


def test_failures_are_outcomes() -> None:
    server = FakeServer(
        [Say(latency_s=0.5), Hang(), *[Say(latency_s=0.5)] * 50], faults=Faults(share_503=0.2)
    )
    found = in_virtual_time(opened(constant(4.0, 50)), server, timeout_s=3.0)
    rejected = sum(server.faults.of(i) is not None for i in range(50))
    hung = server.faults.of(1) is None
    assert outcome_counts(found.completions) == {
        "ok": 50 - rejected - hung,
        "http_503": rejected,
        "timeout": hung,
    }


def test_an_endpoint_that_only_refuses_stops_the_run() -> None:
    server = FakeServer(Status(503, "closed"))
    with pytest.raises(LoadError, match=r"first 20 requests all failed.*closed"):
        in_virtual_time(opened(constant(1.0, 1000)), server)
    assert len(server.seen) == 20


def test_refusals_that_overtake_the_first_answer_do_not_stop_the_run() -> None:
    found = in_virtual_time(
        opened(constant(100.0, 60)), FakeServer([Say(latency_s=3.0), *[Status(503, "")] * 59])
    )
    assert outcome_counts(found.completions) == {"ok": 1, "http_503": 59}


def test_too_few_requests_are_refused_before_or_at_the_end() -> None:
    async def with_list(client: Client) -> Any:
        return await open_loop(client, QUESTIONS, constant(1.0, 21))

    async def with_iterator(client: Client) -> Any:
        return await open_loop(client, iter(QUESTIONS), constant(1.0, 21))

    for load in (with_list, with_iterator):
        with pytest.raises(LoadError, match="21 requests are to be sent and only 20 are given"):
            in_virtual_time(load, FakeServer())


def test_a_plan_that_runs_backwards_is_refused() -> None:
    with pytest.raises(ValueError, match="ascending"):
        in_virtual_time(opened([1.0, 0.5]), FakeServer())


def test_samples_and_times_count_from_the_start_of_the_plan() -> None:
    server = FakeServer(Say(latency_s=1.0))

    async def read() -> Any:
        from nlqlib.analysis.samples import Sample

        return Sample(asyncio.get_running_loop().time(), server.in_flight, 0)

    found = in_virtual_time(opened(constant(2.0, 10), sampler=Sampler(read)), server)
    assert found.samples[0].at_s == 0.25 and found.completions[0].start_s == 0.0
    assert max(s.running or 0 for s in found.samples) == 2


def test_cancelling_ends_requests_and_plan() -> None:
    server = FakeServer(Say(latency_s=100.0))

    async def main() -> None:
        client = make_client("wire", Endpoint("http://fake/v1", MODEL), app=server)
        load = asyncio.create_task(open_loop(client, cycled(QUESTIONS), constant(1.0, 1000)))
        await asyncio.sleep(9.5)
        load.cancel()
        with pytest.raises(asyncio.CancelledError):
            await load
        await client.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}

    run_virtual(main())
    assert (server.in_flight, server.disconnects) == (0, 10)


def test_both_loops_see_the_same_service_time() -> None:
    server = FakeServer(Say(latency_s=0.5))
    apart = latency_summary(in_virtual_time(opened(constant(1.0, 20)), server).completions)
    alone = latency_summary(in_virtual_time(closed(1, 20), server).completions)
    assert apart.mean_s == pytest.approx(alone.mean_s)
