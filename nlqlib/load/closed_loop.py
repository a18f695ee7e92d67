"""Closed loop: N requests in flight, and a finished one is replaced at once, whatever became of it.

N workers share one stream of requests; nothing else is created per request. The lead-in is the beginning of
the same stream, so it hands over to the measured part without draining.
"""

import asyncio
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import count, islice

from nlqlib.analysis.latency import latency_summary, steady_window
from nlqlib.analysis.stats import Interval
from nlqlib.load.errors import LoadError
from nlqlib.load.health import ClientHealth, ClientWatch
from nlqlib.load.load_run import LoadRun, samples_since, since
from nlqlib.load.sampling import Sampler
from nlqlib.load.sending import MIN_PATIENCE, Book, Counting, check_supply, crew, watching
from nlqlib.records import ChatRequest
from nlqlib.serving.client import Client

__all__ = ["ClientHealth", "LoadError", "LoadRun", "Sampler", "closed_loop", "cycled"]


async def closed_loop(
    client: Client,
    requests: Iterable[ChatRequest],
    concurrency: int,
    n: int,
    *,
    lead_in: int = 0,
    sampler: Sampler | None = None,
    report: Counting | None = None,
    give_up: Callable[[str | None], None] | None = None,
) -> LoadRun:
    """Send `n` measured requests, `concurrency` of them in flight, after `lead_in` unmeasured ones.

    `requests` are taken in their order (see `cycled`). `report.advance()` is called after each measured
    request. Failures are outcomes and are replaced like answers; but when the first max(3 · concurrency, 20)
    requests have all failed and none was answered, or the requests run out, `LoadError` is raised. With
    `give_up`, for a part of a load, that is called with the reason instead of raising in the first case, and
    with `None` when an answer comes after all. Cancelling ends every request.
    """
    _check(concurrency, n, lead_in)
    check_supply(requests, lead_in + n)
    watch = ClientWatch(client)
    book = Book(client, n, lead_in, max(3 * concurrency, MIN_PATIENCE), report, give_up)
    feed = enumerate(islice(requests, lead_in + n))
    started_s = asyncio.get_running_loop().time()
    async with watching(watch, sampler) as samples, crew() as group:
        for number in range(min(concurrency, lead_in + n)):
            group.create_task(_work(book, feed, watch), name=f"worker {number}")
    before, measured = book.kept()
    origin_s = measured[0].start_s if measured[0].start_s is not None else started_s
    completions = since(measured, origin_s)
    window = steady_window(completions, concurrency)
    in_loop_time = None if window is None else Interval(window.low + origin_s, window.high + origin_s)
    return LoadRun(
        completions,
        concurrency,
        origin_s,
        watch.health(book.peak_in_flight, latency_summary(completions).mean_s, in_loop_time),
        samples_since(samples, origin_s),
        since(before, origin_s),
        window,
    )


async def _work(book: Book, feed: Iterator[tuple[int, ChatRequest]], watch: ClientWatch) -> None:
    """One worker: its next request as soon as its last is over, until there is none left."""
    now, delays_s = asyncio.get_running_loop().time, watch.delays_s
    for number, request in feed:
        done = await book.send(number, request)
        if done.end_s is not None:
            delays_s.append(now() - done.end_s)


def cycled(requests: Sequence[ChatRequest], salt: str | None = None) -> Iterator[ChatRequest]:
    """`requests` over and over without end, in their order, with request ids that never repeat.

    `salt` becomes the request field `cache_salt` (vLLM): runs of different salts share no cached prefix.
    Raises `ValueError` of no requests.
    """
    if not requests:
        raise ValueError("there is no request to repeat: the workload is empty")
    salted = [r if salt is None else replace(r, extra={**r.extra, "cache_salt": salt}) for r in requests]
    return (_named(r, f"{r.request_id}#{i}") for i, r in _numbered(salted))


def _named(request: ChatRequest, request_id: str) -> ChatRequest:
    # As `replace` does, which takes 4 µs for so many fields: a tenth of what the whole request costs.
    named = object.__new__(ChatRequest)
    vars(named).update(vars(request), request_id=request_id)
    return named


def _numbered(requests: Sequence[ChatRequest]) -> Iterator[tuple[int, ChatRequest]]:
    return ((i, requests[i % len(requests)]) for i in count())


def _check(concurrency: int, n: int, lead_in: int) -> None:
    if concurrency < 1 or n < 1 or lead_in < 0:
        raise ValueError(
            "a closed loop needs a concurrency and a number of requests of at least 1 and a lead-in of at "
            f"least 0, not {concurrency}, {n} and {lead_in}"
        )
