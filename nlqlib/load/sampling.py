"""The gauges of the server while it is loaded: requests running and waiting, read four times a second.

Times are loop time. A slow read delays the next one and never meets it: missed turns are left out.
"""

import asyncio
from collections.abc import Awaitable, Callable

from nlqlib.analysis.samples import Sample

EVERY_S = 0.25
"""Between two reads: a queue that stands for a second is seen, and a filtered scrape costs 0.07 ms."""


class Sampler:
    """Calls `read` every `every_s` seconds of loop time between `start` and `stop`; may be used again.

    A read that fails with an `OSError` (timeouts among them) is a sample without values and with its problem:
    what could not be observed is missing, and the load goes on. Raises `ValueError` for a step that is not
    positive.
    """

    def __init__(self, read: Callable[[], Awaitable[Sample]], every_s: float = EVERY_S) -> None:
        if not 0 < every_s < float("inf"):
            raise ValueError(f"a sampler needs a positive step in seconds, not {every_s}")
        self.every_s = every_s
        self._read = read
        self._samples: list[Sample] = []
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin on the running loop; the first read comes one step from now, when there is load to see."""
        if self._task is not None:
            raise RuntimeError("this sampler is at work already: give each run its own, or stop it first")
        self._samples = []
        self._task = asyncio.get_running_loop().create_task(self._go_on(), name="sampler")

    async def stop(self) -> tuple[Sample, ...]:
        """End, giving up a read in progress, and return the samples; raises what ended the reading early."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            (ended,) = await asyncio.gather(task, return_exceptions=True)
            if isinstance(ended, Exception):
                raise ended
        return tuple(self._samples)

    async def _go_on(self) -> None:
        loop = asyncio.get_running_loop()
        started, turn = loop.time(), 0
        while True:
            turn = max(turn, int((loop.time() - started) / self.every_s)) + 1
            await asyncio.sleep(started + turn * self.every_s - loop.time())
            try:
                self._samples.append(await self._read())
            except OSError as failure:
                problem = f"the read failed ({type(failure).__name__})"
                self._samples.append(Sample(loop.time(), None, None, problem))
