"""One FIFO limit: order, bound, conservation, and the waits it reports, all in virtual time."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.serving.admission import CallerGone, Closed, Limit, NotAdmitted, WaitedTooLong
from nlqlib.twin.clock import run_virtual

Story = list[tuple[str, int, float]]
"""What happened: `in`, `out` or the name of a refusal; to whom; when."""


def now() -> float:
    return asyncio.get_running_loop().time()


async def visit(limit: Limit, who: int, at_s: float, stay_s: float, story: Story) -> float | None:
    """One request: arrives at `at_s`, stays `stay_s` once admitted; the seconds it waited, if it was."""
    await asyncio.sleep(at_s - now())
    try:
        waited_s = await limit.enter()
    except NotAdmitted as why:
        story.append((type(why).__name__, who, now()))
        return None
    story.append(("in", who, now()))
    try:
        await asyncio.sleep(stay_s)
    finally:
        story.append(("out", who, now()))
        limit.leave()
    return waited_s


def run_all(limit: Limit, arrivals: list[tuple[float, float]]) -> tuple[list[float | None], Story]:
    """Waits and story of requests given as (arrival, stay), seconds."""
    story: Story = []

    async def main() -> list[float | None]:
        visits = [visit(limit, who, at, stay, story) for who, (at, stay) in enumerate(arrivals)]
        return await asyncio.gather(*visits)

    return run_virtual(main()), story


def conserved(limit: Limit) -> bool:
    """Invariant 3, at any moment."""
    c = limit.counts
    ended = c.admitted + c.rejected + c.timed_out + c.left
    return c.arrived == ended + limit.depth and c.admitted == c.finished + limit.in_flight


def test_eight_arrivals_every_tenth_of_a_second_at_a_serial_limit_of_half_a_second() -> None:
    waits, _ = run_all(Limit(1), [(0.1 * i, 0.5) for i in range(8)])
    assert waits == pytest.approx([0.4 * i for i in range(8)])
    responses = sorted(w + 0.5 for w in waits if w is not None)
    assert sum(responses) / 8 == pytest.approx(1.90)
    assert responses[-1] == pytest.approx(3.30)


def test_a_limit_of_four_lets_four_in_and_the_fifth_waits_for_the_first_to_leave() -> None:
    waits, _ = run_all(Limit(4), [(0.0, 1.0), (0.0, 2.0), (0.0, 3.0), (0.0, 4.0), (0.25, 1.0), (0.5, 1.0)])
    assert waits == [0, 0, 0, 0, 0.75, 1.5]


def test_no_limit_admits_all_and_counts_them() -> None:
    limit = Limit()
    waits, _ = run_all(limit, [(0.0, 1.0)] * 100)
    assert waits == [0.0] * 100
    assert (limit.peak_in_flight, limit.peak_depth, limit.counts.finished) == (100, 0, 100)


def test_a_newcomer_does_not_pass_the_queue_in_the_moment_a_slot_is_handed_over() -> None:
    limit, order = Limit(1), []

    async def main() -> None:
        await limit.enter()

        async def one(who: str) -> None:
            await limit.enter()
            order.append(who)
            limit.leave()

        first = asyncio.create_task(one("first"))
        await asyncio.sleep(0)
        limit.leave()  # `first` has the slot, and has not run yet
        assert limit.in_flight == 1
        await asyncio.gather(one("newcomer"), first)

    run_virtual(main())
    assert order == ["first", "newcomer"]


@pytest.mark.parametrize("max_queue, admitted", [(0, 1), (2, 3), (None, 5)])
def test_beyond_the_bound_of_the_queue_a_request_is_rejected_at_once(
    max_queue: int | None, admitted: int
) -> None:
    limit = Limit(1, max_queue)
    _, story = run_all(limit, [(0.0, 1.0)] * 5)
    assert [who for what, who, at in story if what == "QueueFull" and at == 0.0] == list(range(admitted, 5))
    assert (limit.counts.admitted, limit.counts.rejected) == (admitted, 5 - admitted)
    assert conserved(limit)


def test_a_wait_ends_at_the_timeout_and_says_how_long_it_was() -> None:
    limit = Limit(1, timeout_s=0.3)

    async def main() -> tuple[float, float]:
        await limit.enter()
        with pytest.raises(WaitedTooLong, match=r"0\.3 s") as caught:
            await limit.enter()
        return caught.value.waited_s, now()

    assert run_virtual(main()) == pytest.approx((0.3, 0.3))
    assert (limit.counts.timed_out, limit.depth, limit.in_flight) == (1, 0, 1)


def test_a_slot_that_comes_at_the_very_moment_of_the_timeout_is_not_lost() -> None:
    limit = Limit(1, timeout_s=1.0)
    run_all(limit, [(0.0, 1.0), (0.0, 1.0), (0.5, 1.0)])
    assert limit.in_flight == 0
    assert limit.counts.admitted + limit.counts.timed_out == 3
    assert conserved(limit)


def test_a_caller_who_goes_leaves_the_queue_and_those_behind_move_up() -> None:
    limit = Limit(1)

    async def main() -> tuple[float, float]:
        await limit.enter()
        gone = asyncio.get_running_loop().create_future()
        leaving = asyncio.create_task(limit.enter(lambda: gone))
        staying = asyncio.create_task(limit.enter())
        await asyncio.sleep(0.5)
        gone.set_result(None)
        with pytest.raises(CallerGone) as caught:
            await leaving
        assert (limit.depth, limit.in_flight) == (1, 1)
        limit.leave()
        return caught.value.waited_s, await staying

    assert run_virtual(main()) == (0.5, 0.5)
    assert (limit.counts.left, limit.counts.admitted) == (1, 2)


def test_a_caller_who_had_gone_before_the_wait_takes_no_slot() -> None:
    limit = Limit(1)

    async def main() -> None:
        await limit.enter()
        gone = asyncio.get_running_loop().create_future()
        gone.set_result(None)
        with pytest.raises(CallerGone):
            await limit.enter(lambda: gone)

    run_virtual(main())
    assert (limit.counts.left, limit.depth, limit.in_flight) == (1, 0, 1)


def test_whether_the_caller_is_there_is_not_asked_without_a_wait() -> None:
    def unasked() -> "asyncio.Future[None]":
        raise AssertionError("asked")

    assert run_virtual(Limit(1).enter(unasked)) == 0.0


async def _while_it_waits(limit: Limit, task: "asyncio.Task[float]") -> None:
    task.cancel()
    await asyncio.sleep(0)
    limit.leave()


async def _just_before_the_slot_comes(limit: Limit, task: "asyncio.Task[float]") -> None:
    task.cancel()
    limit.leave()


async def _just_after_the_slot_has_come(limit: Limit, task: "asyncio.Task[float]") -> None:
    limit.leave()
    task.cancel()


MOMENTS = (_while_it_waits, _just_before_the_slot_comes, _just_after_the_slot_has_come)
Moment = Callable[[Limit, "asyncio.Task[float]"], Awaitable[None]]


@pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.__name__.strip("_"))
def test_a_cancelled_request_takes_no_slot_with_it(moment: Moment) -> None:
    limit = Limit(1)

    async def main() -> None:
        await limit.enter()
        cancelled = asyncio.create_task(limit.enter())
        behind = asyncio.create_task(limit.enter())
        await asyncio.sleep(0)
        await moment(limit, cancelled)
        await behind
        assert cancelled.cancelled()
        assert (limit.in_flight, limit.depth) == (1, 0)
        limit.leave()

    run_virtual(main())
    assert limit.in_flight == 0
    assert conserved(limit)


def test_waits_fall_into_the_buckets_that_hold_them() -> None:
    limit = Limit(1)
    run_all(limit, [(0.0, 0.02), (0.0, 0.02), (0.0, 1.0)])
    assert limit.waits.sum_s == pytest.approx(0.06)
    assert sum(limit.waits.buckets) == 3
    assert (limit.waits.buckets[0], limit.waits.buckets[4], limit.waits.buckets[5]) == (1, 1, 1)


def test_a_closed_limit_turns_away_who_waits_and_who_comes_but_not_who_is_in() -> None:
    limit = Limit(1)

    async def main() -> float:
        await limit.enter()
        waiting = asyncio.create_task(limit.enter())
        await asyncio.sleep(0.5)
        limit.close()
        with pytest.raises(Closed):
            await limit.enter()
        with pytest.raises(Closed) as caught:
            await waiting
        assert (limit.in_flight, limit.depth, limit.counts.rejected) == (1, 0, 2)
        limit.leave()
        return caught.value.waited_s

    assert run_virtual(main()) == 0.5
    assert conserved(limit)


BAD = ({"limit": 0}, {"limit": -1}, {"max_queue": -1}, {"timeout_s": 0.0}, {"timeout_s": float("nan")})


@pytest.mark.parametrize("bad", BAD)
def test_settings_that_cannot_be_meant_are_refused(bad: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="use"):
        Limit(**bad)  # type: ignore[arg-type]


TICK = st.integers(0, 20).map(lambda n: n / 4)  # a coarse grid, so that many things happen at one moment
PATIENCE = st.one_of(st.none(), st.integers(1, 12).map(lambda n: n / 4))
REQUEST = st.tuples(TICK, TICK, PATIENCE, st.sampled_from(["goes", "is cancelled"]))


@settings(max_examples=150, deadline=None)
@given(
    requests=st.lists(REQUEST, min_size=1, max_size=30),
    limit=st.integers(1, 4),
    max_queue=st.one_of(st.none(), st.integers(0, 6)),
    timeout_s=PATIENCE,
)
def test_order_bound_and_conservation_hold_whatever_happens(
    requests: list[tuple[float, float, float | None, str]],
    limit: int,
    max_queue: int | None,
    timeout_s: float | None,
) -> None:
    here = Limit(limit, max_queue, timeout_s)
    joined: list[int] = []
    admitted: list[int] = []
    ends: list[int] = []

    async def work(who: int, stay_s: float, gone: "asyncio.Future[None]") -> None:
        if here.in_flight >= limit:
            joined.append(who)
        waited_s = await here.enter(lambda: gone)
        if waited_s or who in joined:
            admitted.append(who)
        assert timeout_s is None or waited_s <= timeout_s
        try:
            assert here.in_flight <= limit
            assert conserved(here)
            await asyncio.sleep(stay_s)
        finally:
            here.leave()
            assert conserved(here)

    async def one(who: int, at_s: float, stay_s: float, patience_s: float | None, how: str) -> None:
        await asyncio.sleep(at_s)
        gone = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(work(who, stay_s, gone))
        if patience_s is not None:
            end = task.cancel if how == "is cancelled" else (lambda: gone.done() or gone.set_result(None))
            asyncio.get_running_loop().call_later(patience_s, end)
        done, _ = await asyncio.wait([task])
        ends.append(who)
        assert done.pop().cancelled() or isinstance(task.exception(), NotAdmitted | None)

    async def main() -> None:
        await asyncio.gather(*(one(who, *request) for who, request in enumerate(requests)))

    run_virtual(main())
    assert sorted(ends) == list(range(len(requests)))
    assert (here.in_flight, here.depth) == (0, 0)
    assert conserved(here)
    assert here.peak_in_flight <= limit
    assert max_queue is None or here.peak_depth <= max_queue
    assert admitted == [who for who in joined if who in admitted]
