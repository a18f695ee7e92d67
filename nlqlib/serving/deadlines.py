"""Time limits of many requests on one timer.

`asyncio.timeout` gives every request a timer of its own, which costs a tenth of what sending it costs. All
requests of a client have the same limit, so they end in the order in which they began, and only the first is
waited for.
"""

import asyncio

EARLY_S = 0.0005
"""uvloop's clock has whole milliseconds: what is due within half of one is due."""


class Limit:
    """The limit of one request: `begin` and `end` are called by the task that waits for its answer."""

    __slots__ = ("_before", "_hurried", "_task", "_whole", "expired")

    def __init__(self, whole: "Deadlines", hurried: "Deadlines") -> None:
        self._whole, self._hurried = whole, hurried
        self._task: asyncio.Task[object] | None = None
        self._before = 0
        self.expired = False

    def begin(self) -> None:
        """From now on the running task is cancelled when its time is over."""
        self._task = asyncio.current_task()
        self._before = 0 if self._task is None else self._task.cancelling()
        self._whole.add(self)

    def hurry(self) -> None:
        """The shorter limit holds from now on; one that is over stays over."""
        if self._whole.discard(self):
            self._hurried.add(self)

    def end(self) -> bool:
        """Nothing is limited any more. Was it this limit alone that cancelled the task?"""
        if not self._whole.discard(self):
            self._hurried.discard(self)
        task, self._task = self._task, None
        return self.expired and task is not None and task.uncancel() <= self._before

    def expire(self) -> None:
        """The time is over: the task is cancelled."""
        self.expired = True
        if self._task is not None:
            self._task.cancel()


class Deadlines:
    """Limits of the same length on the timer of one `loop`."""

    def __init__(self, loop: asyncio.AbstractEventLoop, after_s: float) -> None:
        self.loop = loop
        self._after_s = after_s
        self._due: dict[Limit, float] = {}
        self._timer: asyncio.TimerHandle | None = None

    def add(self, limit: Limit) -> None:
        """`limit` expires unless it is discarded in time."""
        due_s = self.loop.time() + self._after_s
        self._due[limit] = due_s
        if self._timer is None:
            self._timer = self.loop.call_at(due_s, self._fire)

    def discard(self, limit: Limit) -> bool:
        """Forget `limit`; was it here? Without any the timer ends, so that an idle loop has nothing to do."""
        if self._due.pop(limit, None) is None:
            return False
        if not self._due and self._timer is not None:
            self._timer.cancel()
            self._timer = None
        return True

    def _fire(self) -> None:
        self._timer = None
        now_s = self.loop.time() + EARLY_S
        while self._due:
            limit, due_s = next(iter(self._due.items()))
            if due_s > now_s:
                self._timer = self.loop.call_at(due_s, self._fire)
                return
            del self._due[limit]
            limit.expire()
