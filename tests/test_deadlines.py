"""Many limits on one timer: each request is cancelled when its own time is over, and by nothing else."""

import asyncio

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.serving.deadlines import Deadlines, Limit
from nlqlib.twin.clock import VirtualLoop


async def waited(
    whole: Deadlines, tail: Deadlines, needs_s: float, after_s: float = 0.0
) -> tuple[bool, float]:
    """Was a wait of `needs_s` seconds, begun after `after_s`, cut by its limit, and how long was it?"""
    loop = asyncio.get_running_loop()
    await asyncio.sleep(after_s)
    limit, begin_s = Limit(whole, tail), loop.time()
    limit.begin()
    try:
        await asyncio.sleep(needs_s)
    except asyncio.CancelledError:
        if not limit.end():
            raise
    finally:
        limit.end()
    return limit.expired, loop.time() - begin_s


def run(coroutine):  # type: ignore[no-untyped-def]
    loop = VirtualLoop()
    try:
        return loop.run_until_complete(coroutine)
    finally:
        loop.close()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=12))
def test_each_wait_ends_by_itself_or_at_its_own_limit(waits: list[tuple[int, int]]) -> None:
    async def main() -> list[tuple[bool, float]]:
        loop = asyncio.get_running_loop()
        whole, tail = Deadlines(loop, 10.5), Deadlines(loop, 0.1)
        return await asyncio.gather(*(waited(whole, tail, needs, after) for after, needs in waits))

    for (_, needs), (cut, took) in zip(waits, run(main()), strict=True):
        assert cut is (needs > 10.5) and took == pytest.approx(min(needs, 10.5), abs=0.001)


def test_a_hurried_limit_is_the_shorter_one_from_then_on() -> None:
    async def main() -> tuple[bool, float]:
        loop = asyncio.get_running_loop()
        limit, begin_s = Limit(Deadlines(loop, 10.0), Deadlines(loop, 0.1)), loop.time()
        limit.begin()
        loop.call_later(2.0, limit.hurry)
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(30)
        return limit.end(), loop.time() - begin_s

    assert run(main()) == (True, pytest.approx(2.1, abs=0.001))


def test_a_limit_that_is_over_cannot_be_hurried() -> None:
    async def main() -> bool:
        loop = asyncio.get_running_loop()
        whole, tail = Deadlines(loop, 1.0), Deadlines(loop, 0.1)
        limit = Limit(whole, tail)
        limit.begin()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.sleep(5)
        limit.hurry()
        limit.end()
        await asyncio.sleep(5)  # nothing cancels it any more
        return limit.expired

    assert run(main()) is True


def test_who_is_cancelled_from_outside_was_not_cut_by_its_limit() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(waited(Deadlines(loop, 10.0), Deadlines(loop, 0.1), 5.0))
        loop.call_later(1.0, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert loop.time() == pytest.approx(1.0, abs=0.001)

    run(main())


def test_a_cancellation_from_outside_at_the_very_moment_is_not_swallowed() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        task = asyncio.ensure_future(waited(Deadlines(loop, 1.0), Deadlines(loop, 0.1), 5.0))
        await asyncio.sleep(0)
        loop.call_at(1.0, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task

    run(main())


def test_a_loop_without_requests_has_no_timer() -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        whole = Deadlines(loop, 600.0)
        for _ in range(3):
            assert await waited(whole, Deadlines(loop, 0.1), 1.0) == (False, pytest.approx(1.0))
            assert whole._timer is None
        assert loop.time() == pytest.approx(3.0)

    run(main())
