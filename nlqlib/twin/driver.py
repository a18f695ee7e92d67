"""One replica under the running event loop, in virtual or in real time: requests in, tokens out.

A request enters the engine `before_s` after it was handed over, and what the engine says is heard `after_s`
later: the way in and out; two enter at least `apart_s` apart. Engine time goes on where it was when another
loop takes over.
"""

import asyncio

from nlqlib.twin.replica import Event, Replica
from nlqlib.twin.sequence import Sequence


class Ticket:
    """One request in the engine, as its caller waits for it."""

    __slots__ = ("_entering", "_woken", "finished", "reason", "sequence", "tokens")

    def __init__(self, sequence: Sequence, reason: str) -> None:
        self.sequence = sequence
        self.reason = reason
        """The finish reason, once it has finished."""
        self.tokens = 0
        """Output tokens heard so far (all of them at once when nobody watches)."""
        self.finished = False
        self._woken: asyncio.Future[None] | None = None
        self._entering: asyncio.TimerHandle | None = None

    async def news(self) -> None:
        """Wait until more tokens are heard."""
        self._woken = asyncio.get_running_loop().create_future()
        try:
            await self._woken
        finally:
            self._woken = None

    def hear(self, tokens: int, finished: bool) -> None:
        """`tokens` in all are out."""
        self.tokens, self.finished = tokens, finished
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)


class Driver:
    """Keeps one timer for the replica's next event."""

    def __init__(
        self, replica: Replica, before_s: float = 0.0, after_s: float = 0.0, apart_s: float = 0.0
    ) -> None:
        self.replica = replica
        self.finished: dict[str, int] = {}
        """Requests that ended, by finish reason."""
        self._before_s, self._after_s, self._apart_s = before_s, after_s, apart_s
        self._free_s = 0.0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._offset_s = 0.0
        self._last_s = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._due_s = 0.0
        self._inside: set[Ticket] = set()

    def enter(self, ticket: Ticket) -> None:
        """Send the ticket's sequence on its way; raises `EngineError` if no engine could finish it."""
        loop = self._attach()
        self.replica.limits.check(ticket.sequence.prompt_tokens, ticket.sequence.output_tokens)
        ticket.sequence.payload = ticket
        self._inside.add(ticket)
        if self._before_s or self._apart_s:
            ticket._entering = loop.call_at(self._entry_s(loop.time()), self._submit, ticket)
        else:
            self._submit(ticket)

    def _entry_s(self, now_s: float) -> float:
        """When a request handed over `now_s` enters; the frontend is free for the next `apart_s` later."""
        at_s = now_s + self._before_s
        if self._apart_s:
            at_s = max(at_s, self._free_s)
            self._free_s = at_s + self._apart_s
        return at_s

    def leave(self, ticket: Ticket) -> None:
        """The caller is gone; nothing happens if the request has ended."""
        self._attach()
        if ticket._entering is not None:
            ticket._entering.cancel()
        if ticket in self._inside:
            self._inside.discard(ticket)
            self._count("abort")
            self.replica.abort(ticket.sequence, self.now())
            self._arm()

    def settle(self) -> None:
        """Bring gauges and counters to the present."""
        self._attach()
        self.replica.settle(self.now())
        self._arm()

    def now(self) -> float:
        """Seconds of the engine's clock."""
        self._last_s = max(self._last_s, self._attach().time() + self._offset_s)
        return self._last_s

    def _attach(self) -> asyncio.AbstractEventLoop:
        loop = asyncio.get_running_loop()
        if loop is not self._loop:
            self._loop, self._timer, self._free_s = loop, None, 0.0
            self._offset_s = max(0.0, self._last_s - loop.time())
            lost, self._inside = self._inside, set()
            for ticket in lost:  # their loop is over, and with it whoever waited
                self.replica.abort(ticket.sequence, self._last_s)
        return loop

    def _submit(self, ticket: Ticket) -> None:
        ticket._entering = None
        self.replica.submit(ticket.sequence, self.now())
        self._arm()

    def _arm(self) -> None:
        at = self.replica.next_event_s()
        if at is None:
            return
        assert self._loop is not None
        if self._timer is not None:
            if self._due_s <= at:
                return
            self._timer.cancel()
        self._due_s = at
        self._timer = self._loop.call_at(at - self._offset_s, self._advance)

    def _advance(self) -> None:
        self._timer = None
        self._last_s = max(self.now(), self._due_s)  # a timer may fire a rounding error early
        events = self.replica.advance(self._last_s)
        if events:
            for event in events:
                if event.finished:
                    ticket = event.sequence.payload
                    self._inside.discard(ticket)
                    self._count(ticket.reason)
            if self._after_s:
                assert self._loop is not None
                heard = events[-1].at_s - self._offset_s + self._after_s
                self._loop.call_at(heard, _hear, events)
            else:
                _hear(events)
        self._arm()

    def _count(self, reason: str) -> None:
        self.finished[reason] = self.finished.get(reason, 0) + 1


def _hear(events: list[Event]) -> None:
    for event in events:
        event.sequence.payload.hear(event.tokens, event.finished)
