"""Open loop: requests start when the plan says so, however many are still unanswered.

Latency can be counted from the planned start as well as from the actual one (`analysis.latency`, `since`);
a client that comes late would otherwise hide the queue it caused (coordinated omission).
"""

import asyncio
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from nlqlib.analysis.latency import latency_summary
from nlqlib.load.arrivals import check_arrivals
from nlqlib.load.health import ClientWatch
from nlqlib.load.load_run import LoadRun, samples_since, since
from nlqlib.load.sampling import Sampler
from nlqlib.load.sending import Book, Counting, check_supply, crew, watching
from nlqlib.records import ChatRequest
from nlqlib.serving.client import Client


async def open_loop(
    client: Client,
    requests: Iterable[ChatRequest],
    arrivals_s: Sequence[float],
    *,
    sampler: Sampler | None = None,
    report: Counting | None = None,
) -> LoadRun:
    """Send one request at each of `arrivals_s` (seconds from the start, ascending; see `arrivals`).

    The run ends with the last answer. `planned_s` of each completion is its arrival. Raises `ValueError` for
    arrivals that cannot be kept, `LoadError` when requests run out, or the first 20 failed and none was
    answered.
    """
    plan = check_arrivals(arrivals_s)
    check_supply(requests, len(plan))
    watch, book = ClientWatch(client), Book(client, len(plan), report=report)
    origin_s = asyncio.get_running_loop().time()
    due = (
        (origin_s + at_s, request) for at_s, request in zip(plan, islice(requests, len(plan)), strict=False)
    )
    async with watching(watch, sampler) as samples, crew() as group:
        await _dispatch(group, book, due)
    completions = since(book.kept()[1], origin_s)
    for c in completions:
        if c.start_s is not None and c.planned_s is not None:
            watch.delays_s.append(max(0.0, c.start_s - c.planned_s))
    health = watch.health(book.peak_in_flight, latency_summary(completions).mean_s, None)
    return LoadRun(completions, None, origin_s, health, samples_since(samples, origin_s))


async def _dispatch(group: asyncio.TaskGroup, book: Book, due: Iterator[tuple[float, ChatRequest]]) -> None:
    """Start each request at its time, or at once when that has passed; never wait for an answer."""
    loop = asyncio.get_running_loop()
    for number, (at_s, request) in enumerate(due):
        while loop.time() < at_s:  # uvloop's timers are whole milliseconds and may come early
            await _sleep_until(loop, at_s)
        group.create_task(book.send(number, request, at_s), name=f"request {number}")


async def _sleep_until(loop: asyncio.AbstractEventLoop, at_s: float) -> None:
    """Wake at `at_s` itself: in virtual time a delay added to the clock would miss it by a rounding error."""
    woken = loop.create_future()
    timer = loop.call_at(at_s, _wake, woken)
    try:
        await woken
    finally:
        timer.cancel()


def _wake(woken: "asyncio.Future[None]") -> None:
    if not woken.done():
        woken.set_result(None)
