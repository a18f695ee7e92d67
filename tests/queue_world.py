"""A small discrete-event world for the diagnosis: clients, pool, router, replicas, engines. No loop, seconds.

`offer` runs a closed loop through it and returns the completions and what a scraper would have sampled.
Limits are FIFO queues, engines are objects with `submit`, `next_s` and `advance`.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import count

import numpy as np

from nlqlib.analysis.diagnosis_levels import SweepLevel, level
from nlqlib.records import Completion
from nlqlib.twin import model
from nlqlib.twin.load import Load, prompts
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence


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


class Twin:
    """The L4 twin's scheduler and step times; output lengths are drawn, 115 ± `sd` tokens."""

    def __init__(self, max_num_seqs: int = 32, sd: float = 3.0, seed: int = 0) -> None:
        twin = model.load()
        limits = twin.limits.__class__(**{**vars(twin.limits), "max_num_seqs": max_num_seqs})
        table, self.chains = prompts(Load(1, 1), limits.block_size)
        self.replica = Replica(limits, twin.step_time, table)
        self.rng, self.sd = np.random.default_rng(seed), sd
        self.index: dict[Sequence, int] = {}

    def submit(self, i: int, now: float) -> None:
        tokens = max(1, round(self.rng.normal(115, self.sd)))
        seq = Sequence(str(i), 3300, tokens, self.chains[i % len(self.chains)])
        self.index[seq] = i
        self.replica.submit(seq, now)

    def next_s(self) -> float | None:
        return self.replica.next_event_s()

    def advance(self, now: float) -> list[int]:
        return [self.index.pop(event.sequence) for event in self.replica.advance(now) if event.finished]

    def running(self) -> int:
        return len(self.replica.scheduler.running)

    def waiting(self) -> int:
        return len(self.replica.scheduler.waiting)


Engine = Slots | Shared | Prefilled | Twin


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
        self.sent = 0
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
        if full or self.rng.random() < self.site.failing:
            self.later(now + self.site.network_s / 2, lambda at: self.end(i, at, "http_503"))
        elif self.router.enter(i, now):
            self.route(i, now)

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
        )


GRID = (1, 2, 4, 8, 16, 32)


def sweep(site: Site, grid: tuple[int, ...] = GRID, waves: int = 7) -> list[SweepLevel]:
    """A level for each concurrency, with everything that can be seen in this world."""
    rows = []
    for n in grid:
        found = offer(site, n, max(24, waves * n))
        row = level(found.completions, n, running=found.running, waiting=found.waiting)
        rows.append(replace(row, pool_waits=found.pool_waits, pool_ceiling=site.pool))
    return rows


def without_headers(row: SweepLevel) -> SweepLevel:
    return replace(row, router_queue_s=None, replica_queue_s=None, replicas=None)


def from_outside(row: SweepLevel) -> SweepLevel:
    """Headers stripped and no `/metrics`."""
    unseen = dict.fromkeys(("running_mean", "running_max", "waiting_mean", "waiting_max"))
    return replace(without_headers(row), **unseen)


def of_the_curve(row: SweepLevel) -> SweepLevel:
    """Not even the burst: what a published table shows."""
    return replace(from_outside(row), burst_s=())


def constant(seconds: float) -> Callable[[int], float]:
    return lambda i: seconds


def varied(mean: float, spread: float, seed: int = 0) -> Callable[[int], float]:
    """Log-normal service times of a relative standard deviation `spread`."""
    sigma = np.sqrt(np.log(1 + spread**2))
    drawn = np.random.default_rng(seed).lognormal(np.log(mean) - sigma**2 / 2, sigma, 5000)
    return lambda i: float(drawn[i % 5000])
