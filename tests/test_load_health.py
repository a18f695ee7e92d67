"""The client as a suspect: what makes it the limit is recognised from the rules."""

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from fake_behaviours import Say
from fake_server import FakeServer
from load_world import QUESTIONS, closed, in_real_time

from nlqlib.analysis.latency import throughput_window
from nlqlib.analysis.stats import Interval
from nlqlib.cpu_clock import LoopMeter, Tick
from nlqlib.load.closed_loop import closed_loop, cycled
from nlqlib.load.health import ClientHealth, client_limits, cpu_share, inside
from nlqlib.serving.client import Client

WELL = ClientHealth(32, 32, 0, 0.001, 0.2, 0.001, None, 1.0)


def limits(health: ClientHealth, concurrency: int = 32) -> list[str]:
    return [rule.rule for rule in client_limits(health.rules(concurrency))]


def test_a_client_at_ease_limits_nothing() -> None:
    assert limits(WELL) == []
    assert all(rule.ok for rule in WELL.rules(32))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"pool_ceiling": 63}, "connection pool / N"),
        ({"pool_waits": 1}, "requests that waited for a connection"),
        ({"loop_lag_p99_s": 0.051}, "event-loop lag p99 (s)"),
        ({"cpu_share": 0.91}, "share of a core"),
        ({"dispatch_delay_p99_s": 0.051}, "dispatch delay p99 (s)"),
    ],
)
def test_each_finding_alone_is_named(change: dict[str, Any], named: str) -> None:
    assert limits(replace(WELL, **change)) == [f"client: {named}"]


def test_a_pool_of_twice_the_concurrency_is_enough() -> None:
    assert limits(replace(WELL, pool_ceiling=64)) == []


def test_delays_are_held_against_the_latency_and_never_below_20_milliseconds() -> None:
    late = replace(WELL, loop_lag_p99_s=0.03)
    assert limits(late) == []
    assert limits(replace(late, latency_s=0.1)) == ["client: event-loop lag p99 (s)"]
    assert limits(replace(WELL, loop_lag_p99_s=0.019, latency_s=0.001)) == []
    assert limits(replace(late, latency_s=None)) == ["client: event-loop lag p99 (s)"]


def test_what_was_not_seen_is_neither_good_nor_bad() -> None:
    blind = ClientHealth(4, 4, None)
    assert limits(blind) == []
    assert [rule.ok for rule in blind.rules(4)] == [True, None, None, None, None]


def test_a_pool_of_8_is_found_at_32_in_flight() -> None:
    found = in_real_time(closed(32, 200), FakeServer(Say(latency_s=0.1)), ceiling=8)
    assert found.health.peak_connections == 8
    named = {rule.rule for rule in client_limits(found.rules())}
    assert {"client: connection pool / N", "client: requests that waited for a connection"} <= named
    rate = throughput_window(found.completions, found.window)
    assert rate is not None and rate <= 80


def test_a_loop_that_is_held_up_is_found() -> None:
    async def load(client: Client) -> Any:
        loop = asyncio.get_running_loop()

        def hold() -> None:
            time.sleep(0.06)
            loop.call_later(0.1, hold)

        loop.call_later(0.1, hold)
        return await closed_loop(client, cycled(QUESTIONS), 4, 60)

    found = in_real_time(load, FakeServer(Say(latency_s=0.05)))
    assert "client: event-loop lag p99 (s)" in {rule.rule for rule in client_limits(found.rules())}
    assert found.health.loop_lag_p99_s == pytest.approx(0.06, abs=0.03)


def test_a_busy_loop_takes_its_core() -> None:
    async def main() -> float | None:
        meter = LoopMeter()
        meter.start()
        until = time.monotonic() + 0.3
        while time.monotonic() < until:
            await asyncio.sleep(0)
        meter.stop()
        return cpu_share(meter.ticks)

    share = asyncio.run(main())
    assert share is not None and 0.3 < share <= 1.05


def test_an_idle_loop_takes_hardly_any() -> None:
    async def main() -> LoopMeter:
        meter = LoopMeter()
        meter.start()
        await asyncio.sleep(0.3)
        meter.stop()
        return meter

    meter = asyncio.run(main())
    share = cpu_share(meter.ticks)
    assert share is not None and share < 0.1
    assert 5 <= len(meter.ticks) <= 17


def test_the_share_of_a_core_is_that_of_the_window() -> None:
    ticks = [Tick(0.0, 0.0, 0.0), Tick(1.0, 0.0, 1.0), Tick(2.0, 0.0, 1.1), Tick(3.0, 0.0, 1.2)]
    assert cpu_share(ticks) == pytest.approx(0.4)
    assert cpu_share(inside(ticks, Interval(1.0, 3.0))) == pytest.approx(0.1)
    assert inside(ticks, Interval(1.1, 1.9)) == ticks
    assert cpu_share(ticks[:1]) is None
