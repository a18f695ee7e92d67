"""A fixed list of requests, a few in flight at a time: for evaluations, where no load is measured."""

import asyncio
from collections.abc import Sequence
from typing import Protocol

from nlqlib.progress import progress
from nlqlib.records import ChatRequest, Completion

RATE_LIMIT_WAITS_S = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
"""Pauses after an HTTP 429: a hosted model's rate limit is waited out, and the wait is recorded. Where the
answer says how long to wait, and that is longer, its word is taken."""


class Completes(Protocol):
    """Anything that completes a request: a client, or one that stands before a client."""

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion: ...

    async def aclose(self) -> None: ...


async def complete_all(
    client: Completes, requests: Sequence[ChatRequest], concurrency: int, what: str
) -> tuple[list[Completion], float]:
    """The completions of `requests` in their order, and the seconds spent waiting for rate limits.

    At most `concurrency` are in flight. Failures are outcomes; only 429 is tried again. Raises `ValueError`
    for a concurrency below 1: nothing would ever be sent.
    """
    if concurrency < 1:
        raise ValueError(f"concurrency {concurrency} must be at least 1")
    slots = asyncio.Semaphore(concurrency)
    waited = 0.0

    async def one(request: ChatRequest) -> Completion:
        nonlocal waited
        async with slots:
            done = await client.complete(request)
            for pause in RATE_LIMIT_WAITS_S:
                if done.outcome != "http_429":
                    break
                pause_s = max(pause, done.retry_after_s or 0.0)
                waited += pause_s
                await asyncio.sleep(pause_s)
                done = await client.complete(request)
            bar.advance(request.request_id)
            return done

    with progress(len(requests), what) as bar:
        return list(await asyncio.gather(*(one(r) for r in requests))), waited
