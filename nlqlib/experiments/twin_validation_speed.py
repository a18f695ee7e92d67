"""How fast the twin is: its engine alone, and the whole client path in virtual time. One core.

Processor time of this process, best of several: nothing else runs here, and what other processes do to the
machine does not count. The article's dense sweep is 900 requests, about eleven minutes of real time.
"""

import time
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

from nlqlib.experiments.twin_validation_check import Check, at_least
from nlqlib.experiments.twin_validation_path import Way, length_of, level, warm_up, workload
from nlqlib.load.quiet import quiet
from nlqlib.serving.target import Target, open_target
from nlqlib.twin import model
from nlqlib.twin.drive import closed_loop
from nlqlib.twin.load import Load, lengths, prompts
from nlqlib.twin.load import warm_up as warm_replica
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence as Request

GROUP = "speed"
REPEATS = 3
DENSE = (1, 8, 16, 18, 24, 32)
SWEEP_REQUESTS = 150
"""Requests of each level, as in the article."""
PROMPTS = Load(32, 1, output_sd=0.0, outside_s=0.07)  # 20 prompts of 3,300 tokens, output 115
SHORT = replace(PROMPTS, prompt_tokens=100, shared_tokens=0)


@dataclass(frozen=True)
class Speed:
    """What a case came to, and what it must reach (`None`: shown only)."""

    name: str
    requests_per_s: float
    """Requests per second of processor time, or of wall time on a socket."""
    times_real: float | None
    """Simulated seconds per second of processor time; `None` in real time."""
    bound: float | None = None
    unit: str = "req/s"
    """What the bound is on: `req/s` or `× real time`."""

    @property
    def value(self) -> float:
        """What the bound is compared with."""
        return self.requests_per_s if self.unit == "req/s" or self.times_real is None else self.times_real

    @property
    def ok(self) -> bool:
        """Whether the bound is reached, or there is none."""
        return self.bound is None or self.value >= self.bound

    def check(self) -> Check:
        """The row of `validate-twin`; raises `ValueError` for a case without a bound."""
        if self.bound is None:
            raise ValueError(f"{self.name} has no bound")
        return at_least(GROUP, self.name, self.value, self.bound, self.unit)


@dataclass(frozen=True)
class EngineCase:
    """A load for the engine alone: no event loop and no HTTP."""

    name: str
    load: Load
    hashing: bool
    bound: float | None = None


@dataclass(frozen=True)
class PathCase:
    """The dense sweep by one way through the client."""

    name: str
    way: Way
    bound: float


ENGINE_CASES = (
    EngineCase("engine, KV hashing, 20 prompts of 3,300 tokens", PROMPTS, True, 20_000),
    EngineCase("engine, leaping, hashing off, prompts of 100", SHORT, False, 100_000),
    EngineCase("engine, hashing off, prompts of 3,300", PROMPTS, False),
    EngineCase("engine, KV hashing, output 115 ± 3", replace(PROMPTS, output_sd=3.0), True),
)
PATH_CASES = (
    PathCase("dense sweep, wire client, plain, sampling on", Way("wire", sampled=True), 1000),
    PathCase("dense sweep, wire client, streaming", Way("wire", stream=True), 50),
    PathCase("dense sweep, openai client", Way("openai"), 80),
)


@dataclass(frozen=True)
class Effort:
    """How much is run: the stated sizes, or less to try things out."""

    engine_requests: int = 20_000
    sweep_requests: int = SWEEP_REQUESTS
    levels: tuple[int, ...] = DENSE
    repeats: int = REPEATS


FULL = Effort()


def speeds(effort: Effort = FULL, tell: Callable[[str], None] = lambda line: None) -> list[Speed]:
    """Every case in this process, one after the other."""
    found = []
    for case in (*ENGINE_CASES, *PATH_CASES):
        tell(case.name)
        found.append(best([_once(case, effort) for _ in range(effort.repeats)]))
    return found


def _once(case: EngineCase | PathCase, effort: Effort) -> Speed:
    return _engine(case, effort) if isinstance(case, EngineCase) else _path(case, effort)


def best(found: Sequence[Speed]) -> Speed:
    """The fastest of repeated measurements: everything else on the machine can only slow one down."""
    return max(found, key=lambda speed: speed.value)


def checks(effort: Effort = FULL, tell: Callable[[str], None] = lambda line: None) -> list[Check]:
    """The rows of `validate-twin`."""
    return [speed.check() for speed in speeds(effort, tell) if speed.bound is not None]


def _engine(case: EngineCase, effort: Effort) -> Speed:
    twin, n = model.load(), effort.engine_requests
    load = replace(case.load, requests=n)
    limits = replace(twin.limits, enable_prefix_caching=case.hashing)
    table, chains = prompts(load, limits.block_size)  # the hash chains, memoised per prompt
    replica = Replica(limits, twin.step_time, table)
    start = warm_replica(replica, load, chains) if case.hashing else 0.0
    outputs, way = lengths(load), load.outside_s / 2

    def make(i: int) -> Request:
        return Request("", load.prompt_tokens, outputs[i], chains[i % len(chains)])

    with quiet():  # as every load is run: the collector would walk what the imports brought along
        began = time.process_time()
        served = closed_loop(replica, make, n, load.concurrency, way, way, start)
        _ = replica.counters.phases  # histograms are folded when read; that belongs to the cost
        spent = time.process_time() - began
    return Speed(case.name, n / spent, (served[-1][1] - start) / spent, case.bound)


def _path(case: PathCase, effort: Effort) -> Speed:
    with closing(open_target("twin").engine(twin=model.DEFAULT, words="synthetic")) as target:
        simulated, spent = target.run(_swept(target, case.way, effort))
    n = effort.sweep_requests * len(effort.levels)
    return Speed(case.name, n / spent, simulated / spent, case.bound, "× real time")


async def _swept(target: Target, way: Way, effort: Effort) -> tuple[float, float]:
    """Simulated seconds and processor seconds of all levels; warming up is outside both."""
    await warm_up(target)
    workload(way.stream)
    began = time.process_time()
    runs = [await level(target, n, effort.sweep_requests, way) for n in effort.levels]
    spent = time.process_time() - began
    return sum(length_of(run) for run in runs), spent
