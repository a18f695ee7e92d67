"""What load costs the machine that makes it: how late its event loop runs, how much of a core it takes.

The one place with a real clock beside the loop's own: a virtual loop is never late and needs no processor.
"""

import asyncio
import time
from typing import NamedTuple

EVERY_S = 0.02
"""Between two looks at the loop: fifty a second show a p99 within seconds and cost 0.02 % of a core."""


class Tick(NamedTuple):
    """One look at the loop."""

    at_s: float
    """Loop time."""
    lag_s: float
    """How much later than asked for the loop got round to it."""
    cpu_s: float
    """Processor time of the loop's thread so far, in seconds of one core."""


def machine_s() -> float:
    """Seconds on the clock that every process of this machine shares, and that every real event loop keeps.

    On Linux it is CLOCK_MONOTONIC; uvloop cuts it to whole milliseconds.
    """
    return time.monotonic()


class LoopMeter:
    """Watches the running real-time loop from `start` to `stop`; the ticks stay in `ticks`."""

    def __init__(self) -> None:
        self.ticks: list[Tick] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._due = 0.0

    def start(self) -> None:
        """Watch the running loop from now on."""
        self._loop = asyncio.get_running_loop()
        self.ticks = [Tick(self._loop.time(), 0.0, time.thread_time())]
        self._wait(self._loop)

    def stop(self) -> None:
        """Take a last look and leave no timer behind."""
        if self._timer is not None and self._loop is not None:
            self._timer.cancel()
            self._timer = None
            late = max(0.0, time.perf_counter() - self._due)  # a loop held up to the end shows it here
            self.ticks.append(Tick(self._loop.time(), late, time.thread_time()))

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = time.perf_counter() + EVERY_S
        self._timer = loop.call_later(EVERY_S, self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        late = max(0.0, time.perf_counter() - self._due)
        self.ticks.append(Tick(loop.time(), late, time.thread_time()))
        self._wait(loop)
