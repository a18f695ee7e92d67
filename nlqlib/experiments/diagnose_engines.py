"""Engines of the world that the diagnosis is tried in: slots, shared speed, prompts in turn. Plain seconds.

An engine has `submit`, `next_s` and `advance`, and says how many requests run and wait in it.
"""

from collections import deque
from collections.abc import Callable
from heapq import heappop, heappush
from typing import Protocol

import numpy as np


class Engine(Protocol):
    """What serves requests, known by their numbers."""

    def submit(self, i: int, now: float) -> None:
        """Request `i` comes in."""

    def next_s(self) -> float | None:
        """When something happens next; `None`: nothing will."""

    def advance(self, now: float) -> list[int]:
        """The requests that are done by `now`."""

    def running(self) -> int:
        """Requests it works on."""

    def waiting(self) -> int:
        """Requests in its own queue."""


class Slots:
    """An engine with `seqs` slots; each request takes `service(i)` seconds, however many run."""

    def __init__(self, service: Callable[[int], float], seqs: int = 10**9) -> None:
        self.service, self.seqs = service, seqs
        self.busy: list[tuple[float, int]] = []
        self.queue: deque[int] = deque()

    def submit(self, i: int, now: float) -> None:
        self.queue.append(i)
        self._fill(now)

    def _fill(self, now: float) -> None:
        while self.queue and len(self.busy) < self.seqs:
            i = self.queue.popleft()
            heappush(self.busy, (now + self.service(i), i))

    def next_s(self) -> float | None:
        return self.busy[0][0] if self.busy else None

    def advance(self, now: float) -> list[int]:
        done = []
        while self.busy and self.busy[0][0] <= now:
            at, i = heappop(self.busy)
            done.append(i)
            self._fill(at)
        return done

    def running(self) -> int:
        return len(self.busy)

    def waiting(self) -> int:
        return len(self.queue)


class Shared:
    """An engine that runs all it is given: of m requests each advances at 1 / slow(m)."""

    def __init__(
        self, service: Callable[[int], float], slow: Callable[[int], float], seqs: int = 10**9
    ) -> None:
        self.service, self.slow, self.seqs = service, slow, seqs
        self.left: dict[int, float] = {}
        self.queue: deque[int] = deque()
        self.now = 0.0

    def _run(self, now: float) -> None:
        if self.left:
            done = (now - self.now) / self.slow(len(self.left))
            self.left = {i: work - done for i, work in self.left.items()}
        self.now = now

    def submit(self, i: int, now: float) -> None:
        self._run(now)
        self.queue.append(i)
        self._fill()

    def _fill(self) -> None:
        while self.queue and len(self.left) < self.seqs:
            i = self.queue.popleft()
            self.left[i] = self.service(i)

    def next_s(self) -> float | None:
        return self.now + min(self.left.values()) * self.slow(len(self.left)) if self.left else None

    def advance(self, now: float) -> list[int]:
        self._run(now)
        done = [i for i, work in self.left.items() if work <= 1e-9]
        for i in done:
            del self.left[i]
        self._fill()
        return done

    def running(self) -> int:
        return len(self.left)

    def waiting(self) -> int:
        return len(self.queue)


class Prefilled:
    """One prompt at a time takes `prefill` seconds, then decoding takes `decode(i)`, all together."""

    def __init__(self, prefill: float, decode: Callable[[int], float]) -> None:
        self.first, self.second = Slots(lambda i: prefill, 1), Slots(decode)

    def submit(self, i: int, now: float) -> None:
        self.first.submit(i, now)

    def next_s(self) -> float | None:
        return min((t for e in (self.first, self.second) if (t := e.next_s()) is not None), default=None)

    def advance(self, now: float) -> list[int]:
        for i in self.first.advance(now):
            self.second.submit(i, now)
        return self.second.advance(now)

    def running(self) -> int:
        return self.first.running() + self.second.running()

    def waiting(self) -> int:
        return self.first.waiting()


def constant(seconds: float) -> Callable[[int], float]:
    return lambda i: seconds


def varied(mean: float, spread: float, seed: int = 0) -> Callable[[int], float]:
    """Log-normal service times of a relative standard deviation `spread`."""
    sigma = np.sqrt(np.log(1 + spread**2))
    drawn = np.random.default_rng(seed).lognormal(np.log(mean) - sigma**2 / 2, sigma, 5000)
    return lambda i: float(drawn[i % 5000])
