"""A limit on what is in flight, with one FIFO queue in front of it: the whole of admission control.

Pure but for futures and timers of the running loop, so it holds in real and in virtual time. Invariants:
1. Order: whoever joins the queue first is admitted first; nobody passes a queue that is not empty.
2. Bound: never more than `limit` in flight; a slot given up goes to the head of the queue in the same step.
3. Conservation: arrived = admitted + rejected + timed out + left + waiting, admitted = finished + in flight.
"""

import asyncio
from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

WAIT_BOUNDS_S = (
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 320.0,
)  # fmt: skip
"""Upper bounds of the wait histogram, seconds: from a step of the loop to the article's slowest answers."""

ENDING = "it is ending"


class NotAdmitted(Exception):
    """The request ends here; `waited_s` is how long it queued, in seconds."""

    def __init__(self, reason: str, waited_s: float = 0.0) -> None:
        super().__init__(reason)
        self.waited_s = waited_s


class QueueFull(NotAdmitted):
    """As many wait as may wait."""


class WaitedTooLong(NotAdmitted):
    """The request queued for as long as it may."""


class Closed(NotAdmitted):
    """Nobody is admitted any more."""


class CallerGone(NotAdmitted):
    """Nobody waits for this answer any more."""


@dataclass
class Counts:
    """What became of the requests that arrived at one limit, since it was made."""

    arrived: int = 0
    admitted: int = 0
    rejected: int = 0
    """Found the queue full, or the limit closed."""
    timed_out: int = 0
    left: int = 0
    """Their callers went away while they queued."""
    finished: int = 0


class Waits:
    """Histogram of the waits of admitted requests, those that did not wait included."""

    def __init__(self) -> None:
        self.buckets = [0] * (len(WAIT_BOUNDS_S) + 1)
        """Per bucket, not cumulated; the last one is open."""
        self.sum_s = 0.0

    def add(self, waited_s: float) -> None:
        self.buckets[bisect_left(WAIT_BOUNDS_S, waited_s)] += 1
        self.sum_s += waited_s


class Limit:
    """At most `limit` in flight (`None`: any number, still counted), the others in order of arrival.

    `max_queue`: how many may wait, `None` for any number and 0 for none. `timeout_s`: how long each may.
    Raises `ValueError` for a limit below 1, a negative queue or a timeout that is not positive.
    """

    def __init__(
        self, limit: int | None = None, max_queue: int | None = None, timeout_s: float | None = None
    ) -> None:
        _check(limit, max_queue, timeout_s)
        self.limit = limit
        self.max_queue = max_queue
        self.timeout_s = timeout_s
        self.closed = False
        self.in_flight = 0
        self.peak_in_flight = 0
        self.peak_depth = 0
        self.counts = Counts()
        self.waits = Waits()
        self._queue: dict[asyncio.Future[float], float] = {}  # turn → since when; any place can be given up

    @property
    def depth(self) -> int:
        """Requests that wait now."""
        return len(self._queue)

    @property
    def load(self) -> int:
        """Requests that are here now, in flight or waiting."""
        return self.in_flight + self.depth

    async def enter(self, gone: Callable[[], "asyncio.Future[Any]"] | None = None) -> float:
        """Take a slot, waiting for it in order; the seconds waited. Whoever got one must `leave`.

        `gone` gives a future that is done when the caller has gone; it is asked for only if there is a wait.
        Raises `QueueFull`, `WaitedTooLong`, `CallerGone` or `Closed`, and then no slot is held.
        """
        self.counts.arrived += 1
        if self.closed:
            self.counts.rejected += 1
            raise Closed(ENDING)
        if self.limit is None or self.in_flight < self.limit:
            self._admit(0.0)
            return 0.0
        if self.max_queue is not None and self.depth >= self.max_queue:
            self.counts.rejected += 1
            raise QueueFull(f"{self.depth} wait, and no more may")
        return await self._wait(asyncio.get_running_loop(), gone)

    def leave(self) -> None:
        """Give the slot up: to the first that still waits, or back."""
        self.counts.finished += 1
        self.in_flight -= 1
        while self._queue:
            turn, since_s = next(iter(self._queue.items()))
            del self._queue[turn]
            if turn.cancelled():  # its task has not run yet and cannot take the slot
                self.counts.left += 1
                continue
            waited_s = turn.get_loop().time() - since_s
            self._admit(waited_s)
            turn.set_result(waited_s)
            return

    def close(self) -> None:
        """Turn away all who wait and all who come; those in flight stay."""
        self.closed = True
        for turn, since_s in self._queue.items():
            self.counts.rejected += 1
            _end(turn, Closed(ENDING, _since(turn, since_s)))
        self._queue.clear()

    async def _wait(
        self, loop: asyncio.AbstractEventLoop, gone: Callable[[], "asyncio.Future[Any]"] | None
    ) -> float:
        turn: asyncio.Future[float] = loop.create_future()
        self._queue[turn] = loop.time()
        self.peak_depth = max(self.peak_depth, self.depth)
        timer = None if self.timeout_s is None else loop.call_later(self.timeout_s, self._expire, turn)
        if gone is not None:
            gone().add_done_callback(lambda _: self._left(turn))
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._left(turn)
            elif turn.exception() is None:  # the slot had just been handed over
                self.leave()
            raise
        finally:
            if timer is not None:
                timer.cancel()

    def _admit(self, waited_s: float) -> None:
        self.counts.admitted += 1
        self.waits.add(waited_s)
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def _expire(self, turn: "asyncio.Future[float]") -> None:
        if (since_s := self._queue.pop(turn, None)) is not None:
            self.counts.timed_out += 1
            _end(turn, WaitedTooLong(f"no slot within {self.timeout_s:g} s", _since(turn, since_s)))

    def _left(self, turn: "asyncio.Future[float]") -> None:
        if (since_s := self._queue.pop(turn, None)) is not None:
            self.counts.left += 1
            _end(turn, CallerGone("the caller has gone", _since(turn, since_s)))


def _since(turn: "asyncio.Future[float]", since_s: float) -> float:
    return turn.get_loop().time() - since_s


def _end(turn: "asyncio.Future[float]", why: NotAdmitted) -> None:
    if not turn.done():  # a cancelled one ends by itself
        turn.set_exception(why)


def _check(limit: int | None, max_queue: int | None, timeout_s: float | None) -> None:
    if limit is not None and limit < 1:
        raise ValueError(f"a limit of {limit} would admit nobody: use 1 or more, or none for no limit")
    if max_queue is not None and max_queue < 0:
        raise ValueError(f"a queue cannot hold {max_queue}: use 0 or more, or none for no bound")
    if timeout_s is not None and not 0 < timeout_s < float("inf"):
        raise ValueError(
            f"a wait of {timeout_s} s cannot be a limit: use a positive number of seconds, or none"
        )
