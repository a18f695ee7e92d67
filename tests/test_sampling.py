"""Reading gauges beside a load: on a grid of loop time, one at a time, and gone when the load is."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from fake_behaviours import Say, Status
from fake_server import FakeServer
from load_world import closed, in_real_time, in_virtual_time

from nlqlib.analysis.samples import Sample
from nlqlib.load.closed_loop import LoadError
from nlqlib.load.sampling import Sampler
from nlqlib.twin.clock import run_virtual

Read = Callable[[], Awaitable[Sample]]


def reading(server: FakeServer, limit: int = 4, takes_s: float = 0.0) -> Read:
    """What an engine of `limit` slots says of itself, `takes_s` after it was asked."""

    async def read() -> Sample:
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(takes_s)
        return Sample(now, min(server.in_flight, limit), max(0, server.in_flight - limit))

    return read


def collect(read: Read, seconds: float, every_s: float = 0.25) -> tuple[Sample, ...]:
    async def main() -> tuple[Sample, ...]:
        sampler = Sampler(read, every_s)
        sampler.start()
        await asyncio.sleep(seconds)
        samples = await sampler.stop()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return samples

    return run_virtual(main())


def test_it_reads_every_quarter_of_a_second_of_loop_time() -> None:
    samples = collect(reading(FakeServer()), 10.1)
    assert [s.at_s for s in samples] == pytest.approx([0.25 * i for i in range(1, 41)])


def test_a_slow_read_skips_turns_and_never_meets_itself() -> None:
    at_work = worst = 0

    async def read() -> Sample:
        nonlocal at_work, worst
        at_work += 1
        worst = max(worst, at_work)
        now = asyncio.get_running_loop().time()
        await asyncio.sleep(0.6)
        at_work -= 1
        return Sample(now, 1, 0)

    samples = collect(read, 5.0)
    assert worst == 1
    assert [s.at_s for s in samples] == pytest.approx([0.25, 1.0, 1.75, 2.5, 3.25, 4.0])


def test_a_read_that_hangs_is_given_up_at_the_end() -> None:
    async def read() -> Sample:
        await asyncio.Event().wait()
        return Sample(0.0, 1, 0)

    assert collect(read, 5.0) == ()


def test_a_read_that_fails_is_a_sample_without_values_and_the_next_is_tried() -> None:
    asked = 0

    async def read() -> Sample:
        nonlocal asked
        asked += 1
        if asked % 2:
            raise TimeoutError("no answer")
        return Sample(asyncio.get_running_loop().time(), 3, 1)

    samples = collect(read, 1.1)
    assert [(s.running, s.waiting) for s in samples] == [(None, None), (3, 1)] * 2
    assert samples[0].problem == "the read failed (TimeoutError)"


def test_a_mistake_in_the_read_comes_out_at_the_end() -> None:
    async def read() -> Sample:
        raise KeyError("running")

    with pytest.raises(KeyError, match="running"):
        collect(read, 1.0)


@pytest.mark.parametrize("every_s", [0.0, -1.0, float("nan"), float("inf")])
def test_a_step_must_be_positive(every_s: float) -> None:
    with pytest.raises(ValueError, match="positive step"):
        Sampler(reading(FakeServer()), every_s)


def test_one_sampler_cannot_serve_two_runs_at_once() -> None:
    async def main() -> None:
        sampler = Sampler(reading(FakeServer()))
        sampler.start()
        with pytest.raises(RuntimeError, match="at work already"):
            sampler.start()
        await sampler.stop()

    run_virtual(main())


def test_a_loop_takes_it_along_and_counts_its_times_from_the_first_measured_start() -> None:
    server = FakeServer(Say(latency_s=0.97))
    sampler = Sampler(reading(server))
    found = in_virtual_time(closed(6, 60, lead_in=18, sampler=sampler), server)
    assert found.origin_s == pytest.approx(3 * 0.97)
    assert [s.at_s for s in found.samples][:2] == pytest.approx([0.09, 0.34])  # 3.0 s and 3.25 s
    assert {(s.running, s.waiting) for s in found.samples} == {(4, 2)}


def test_a_run_that_fails_ends_its_sampler_and_so_can_the_next_use_it() -> None:
    refusing, serving = FakeServer(Status(503, "", latency_s=1.0)), FakeServer(Say(latency_s=1.0))
    sampler = Sampler(reading(serving))
    with pytest.raises(LoadError):
        in_virtual_time(closed(2, 100, sampler=sampler), refusing)
    assert len(in_virtual_time(closed(2, 10, sampler=sampler), serving).samples) >= 19


@pytest.mark.parametrize("takes_s", [0.0, 0.03])
def test_in_real_time_it_keeps_its_grid(takes_s: float) -> None:
    server = FakeServer(Say(latency_s=0.2))
    sampler = Sampler(reading(server, takes_s=takes_s), 0.1)
    found: Any = in_real_time(closed(3, 18, sampler=sampler), server)
    off = [min(s.at_s % 0.1, 0.1 - s.at_s % 0.1) for s in found.samples]
    assert 8 <= len(found.samples) <= 13 and sorted(off)[len(off) // 2] < 0.02
