"""A small discrete-event world to try the diagnosis in: clients, pool, router, replicas, engines. No loop.

`offer` runs a closed loop through it and returns the completions and what a scraper would have sampled.
Limits are FIFO queues. Times are seconds of that world; nothing here is measured.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count

import numpy as np

from nlqlib.analysis.diagnosis_levels import SweepLevel, level
from nlqlib.experiments.diagnose_engines import Engine
from nlqlib.records import Completion


class Gate:
    """At most `limit` inside, the others in order of arrival."""

    def __init__(self, limit: int | None) -> None:
        self.limit, self.inside, self.queue = limit, 0, deque[int]()
        self.came: dict[int, float] = {}
        self.waited: dict[int, float] = {}

    def enter(self, i: int, now: float) -> bool:
        self.came[i] = now
        if self.limit is not None and (self.inside >= self.limit or self.queue):
            self.queue.append(i)
            return False
        self.inside += 1
        self.waited[i] = 0.0
        return True

    def leave(self, now: float) -> int | None:
        """Give up a place; the request that gets it."""
        if not self.queue:
            self.inside -= 1
            return None
        i = self.queue.popleft()
        self.waited[i] = now - self.came[i]
        return i


@dataclass
class Site:
    """An endpoint and the client in front of it."""

    engine: Callable[[], Engine]
    pool: int | None = None
    router: int | None = None
    replica: int | None = None
    replicas: int = 1
    network_s: float = 0.05
    failing: float = 0.0
    """Share of requests that end in a 503 at once, after the network."""
    rejecting: int | None = None
    """More than so many inside the endpoint: 503."""
    rate: float | None = None
    """More than so many in a second: 429. What was not used is kept for one second."""
    seed: int = 0


@dataclass
class Offered:
    """What one level left behind."""

    completions: list[Completion]
    running: list[float] = field(default_factory=list)
    waiting: list[float] = field(default_factory=list)
    pool_waits: int = 0


def offer(site: Site, concurrency: int, n: int, every_s: float = 0.25) -> Offered:
    """`concurrency` clients send `n` requests in all, each its next one when its last returned."""
    return _Run(site, concurrency, n, every_s).go()


class _Run:
    def __init__(self, site: Site, concurrency: int, n: int, every_s: float) -> None:
        self.site, self.n, self.concurrency, self.every_s = site, n, concurrency, every_s
        self.rng = np.random.default_rng(site.seed + 1000 * concurrency)
        self.pool, self.router = Gate(site.pool), Gate(site.router)
        self.gates = [Gate(site.replica) for _ in range(site.replicas)]
        self.engines = [site.engine() for _ in range(site.replicas)]
        self.at: dict[int, int] = {}
        self.started: dict[int, float] = {}
        self.ended: dict[int, tuple[float, str]] = {}
        self.events: list[tuple[float, int, Callable[[float], None]]] = []
        self.order = count()
        self.sent, self.allowed, self.filled_s = 0, site.rate or 0.0, 0.0
        self.offered = Offered([])

    def later(self, at: float, what: Callable[[float], None]) -> None:
        heappush(self.events, (at, next(self.order), what))

    def go(self) -> Offered:
        for _ in range(min(self.concurrency, self.n)):
            self.start(0.0)
        self.later(self.every_s / 2, self.sample)
        while len(self.ended) < self.n:
            engine_s = min((t for e in self.engines if (t := e.next_s()) is not None), default=float("inf"))
            event_s = self.events[0][0] if self.events else float("inf")
            if event_s <= engine_s:
                at, _, what = heappop(self.events)
                what(at)
                continue
            for r, engine in enumerate(self.engines):
                if engine.next_s() == engine_s:
                    for i in engine.advance(engine_s):
                        self.left(i, r, engine_s)
        self.offered.completions = [self.completion(i) for i in range(self.n)]
        return self.offered

    def start(self, now: float) -> None:
        if self.sent == self.n:
            return
        i, self.sent = self.sent, self.sent + 1
        self.started[i] = now
        if self.pool.enter(i, now):
            self.travel(i, now)
        else:
            self.offered.pool_waits += 1

    def travel(self, i: int, now: float) -> None:
        self.later(now + self.site.network_s / 2, lambda at: self.arrive(i, at))

    def arrive(self, i: int, now: float) -> None:
        inside = self.router.inside + len(self.router.queue)
        full = self.site.rejecting is not None and inside >= self.site.rejecting
        if not self.allows(now):
            self.later(now + self.site.network_s / 2, lambda at: self.end(i, at, "http_429"))
        elif full or self.rng.random() < self.site.failing:
            self.later(now + self.site.network_s / 2, lambda at: self.end(i, at, "http_503"))
        elif self.router.enter(i, now):
            self.route(i, now)

    def allows(self, now: float) -> bool:
        """The rate limiter: a bucket of one second's requests, from which every one let in takes one."""
        rate = self.site.rate
        if rate is None:
            return True
        self.allowed = min(rate, self.allowed + rate * (now - self.filled_s))
        self.filled_s = now
        if self.allowed < 1.0 - 1e-9:
            return False
        self.allowed -= 1.0
        return True

    def route(self, i: int, now: float) -> None:
        r = min(range(len(self.gates)), key=lambda g: self.gates[g].inside + len(self.gates[g].queue))
        self.at[i] = r
        if self.gates[r].enter(i, now):
            self.engines[r].submit(i, now)

    def left(self, i: int, r: int, now: float) -> None:
        if (following := self.gates[r].leave(now)) is not None:
            self.engines[r].submit(following, now)
        if (following := self.router.leave(now)) is not None:
            self.route(following, now)
        self.later(now + self.site.network_s / 2, lambda at: self.end(i, at, "ok"))

    def end(self, i: int, now: float, outcome: str) -> None:
        self.ended[i] = now, outcome
        if (following := self.pool.leave(now)) is not None:
            self.travel(following, now)
        self.start(now)

    def sample(self, now: float) -> None:
        self.offered.running.append(float(sum(e.running() for e in self.engines)))
        self.offered.waiting.append(float(sum(e.waiting() for e in self.engines)))
        self.later(now + self.every_s, self.sample)

    def completion(self, i: int) -> Completion:
        end_s, outcome = self.ended[i]
        good = outcome == "ok"
        return Completion(
            request_id=str(i),
            outcome=outcome,  # type: ignore[arg-type]
            start_s=self.started[i],
            end_s=end_s,
            output_tokens=115 if good else None,
            router_queue_s=self.router.waited[i] if good else None,
            replica_queue_s=self.gates[self.at[i]].waited[i] if good else None,
            replica=f"replica-{self.at[i]}" if good else None,
            retry_after_s=1.0 if outcome == "http_429" else None,
        )


GRID = (1, 2, 4, 8, 16, 32)
LEAST, WAVES = 24, 7
"""Requests of a level, or for each in flight, as `diagnose` sends them."""


def sweep(
    site: Site, grid: tuple[int, ...] = GRID, at: Callable[[Site, int], Site] = lambda site, n: site
) -> list[SweepLevel]:
    """A level for each concurrency, with everything that can be seen in this world.

    `at(site, n)` is what the site has become by the level at n, for a world that drifts.
    """
    rows = []
    for n in grid:
        found = offer(at(site, n), n, max(LEAST, WAVES * n))
        row = level(found.completions, n, running=found.running, waiting=found.waiting)
        rows.append(replace(row, pool_waits=found.pool_waits, pool_ceiling=site.pool))
    return rows


HEADERS = ("router_queue_s", "replica_queue_s", "past_router", "past_replica", "replicas")
"""Fields of a level that only the gateway's headers tell."""
METRICS = (
    *("running_mean", "running_max", "waiting_mean", "waiting_max", "running_samples"),
    *("engine_queue_s", "kv_usage", "replica_count"),
)
"""Fields that only `/metrics` tell."""


def without_headers(row: SweepLevel) -> SweepLevel:
    """`row` of a gateway that tells nothing of its waits."""
    return replace(row, **dict.fromkeys(HEADERS))  # type: ignore[arg-type]


def from_outside(row: SweepLevel) -> SweepLevel:
    """Headers stripped and no `/metrics`."""
    return replace(row, **dict.fromkeys((*HEADERS, *METRICS)))  # type: ignore[arg-type]


def of_the_curve(row: SweepLevel) -> SweepLevel:
    """Not even the burst: what a published table shows."""
    return replace(from_outside(row), burst_s=())
