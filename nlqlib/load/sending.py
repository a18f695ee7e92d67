"""What the closed and the open loop share while a load runs: sending, counting, watching, giving up.

When a request is due is theirs alone.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Sequence, Sized
from contextlib import asynccontextmanager
from typing import Protocol

from nlqlib.analysis.samples import Sample
from nlqlib.load.errors import LoadError
from nlqlib.load.health import ClientWatch
from nlqlib.load.quiet import quiet
from nlqlib.load.sampling import Sampler
from nlqlib.records import COMPLETED, ChatRequest, Completion
from nlqlib.serving.client import Client
from nlqlib.twin.clock import is_virtual

MIN_PATIENCE = 20
"""The first requests by number; when all of them have failed and nothing was answered, a run is given up."""


class Counting(Protocol):
    """What is told of each measured request, such as a progress bar."""

    def advance(self) -> None: ...


class Book:
    """Sends requests through one client and keeps what comes back, by the request's number."""

    def __init__(
        self,
        client: Client,
        n: int,
        lead_in: int = 0,
        patience: int = MIN_PATIENCE,
        report: Counting | None = None,
        give_up: Callable[[str | None], None] | None = None,
    ) -> None:
        self._give_up = give_up or raise_load_error
        self._given_up = False
        self._complete = client.complete
        self._lead_in = lead_in
        self._patience = patience
        self._report = report
        self._in_flight = 0
        self.peak_in_flight = 0
        self._kept: list[Completion | None] = [None] * (lead_in + n)
        self._failures: list[Completion] | None = []  # of the first `patience` ones, until the first answer

    async def send(self, number: int, request: ChatRequest, planned_s: float | None = None) -> Completion:
        """Request `number`, to its end. Gives up, usually by `LoadError`, when the first ones all failed."""
        self._in_flight += 1
        if self._in_flight > self.peak_in_flight:
            self.peak_in_flight = self._in_flight
        completion = await self._complete(request, planned_s)
        self._in_flight -= 1
        self._kept[number] = completion
        if self._failures is not None:
            self._judge(self._failures, number, completion)
        elif self._given_up and completion.outcome in COMPLETED:
            self._given_up = False
            self._give_up(None)
        if self._report is not None and number >= self._lead_in:
            self._report.advance()
        return completion

    def _judge(self, failures: list[Completion], number: int, completion: Completion) -> None:
        # a refusal is back at once and an answer takes its time, so whoever ends first says nothing
        if completion.outcome in COMPLETED:
            self._failures = None
        elif number < self._patience:
            failures.append(completion)
            if len(failures) == self._patience:
                self._failures, self._given_up = None, True
                self._give_up(hopeless(failures))

    def kept(self) -> tuple[list[Completion], list[Completion]]:
        """The lead-in and the measured completions. Raises `LoadError` if the requests ran out."""
        there = [completion for completion in self._kept if completion is not None]
        if len(there) < len(self._kept):
            raise LoadError(too_few(len(there), len(self._kept)))
        return there[: self._lead_in], there[self._lead_in :]


def raise_load_error(why: str | None) -> None:
    """How a load gives up that nobody shares: it ends. Raises `LoadError`."""
    raise LoadError(why)


def hopeless(failures: Sequence[Completion]) -> str:
    """Why a run that only failed is not carried on: how it failed, and what the endpoint said last."""
    counts = ", ".join(f"{name} × {n}" for name, n in Counter(c.outcome for c in failures).most_common())
    said = failures[-1].error or failures[-1].text or "nothing"
    return (
        f"the first {len(failures)} requests all failed ({counts}), so the run was stopped. The last one "
        f"said: {said}. Send a single request, or read the server's log, before the next try"
    )


def too_few(given: int, needed: int) -> str:
    """What to do about requests that do not last."""
    return f"{needed} requests are to be sent and only {given} are given: repeat them with `cycled`"


def check_supply(requests: Iterable[ChatRequest], needed: int) -> None:
    """Raise `LoadError` before the first is sent, where it can be known that `requests` are too few."""
    if isinstance(requests, Sized) and len(requests) < needed:
        raise LoadError(too_few(len(requests), needed))


@asynccontextmanager
async def watching(watch: ClientWatch, sampler: Sampler | None) -> AsyncIterator[list[Sample]]:
    """A quiet interpreter, a watched client, a sampled server; the samples are there when the block ends."""
    samples: list[Sample] = []
    with quiet(collect=not is_virtual(asyncio.get_running_loop())):
        watch.start()
        if sampler is not None:
            sampler.start()
        try:
            yield samples
        finally:
            watch.stop()
            if sampler is not None:
                samples += await sampler.stop()


@asynccontextmanager
async def crew() -> AsyncIterator[asyncio.TaskGroup]:
    """A task group whose first failure comes out as itself; when it ends, so has every task in it."""
    try:
        async with asyncio.TaskGroup() as group:
            yield group
    except BaseExceptionGroup as failures:
        raise failures.exceptions[0] from None
