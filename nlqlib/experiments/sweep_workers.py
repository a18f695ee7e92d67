"""A closed loop offered by several processes, with the server watched meanwhile: for loads beyond one core.

The processes run in real time and reach the endpoint over a socket, so the twin is served first (`serve
twin`) and given by its address.
"""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace

from nlqlib.analysis.samples import Sample
from nlqlib.analysis.window import Scrape
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.accepted import accepted, noted
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import Level, level_spec, offered, session, settled
from nlqlib.experiments.sweep_result import measured
from nlqlib.load.load_run import LoadRun, samples_since
from nlqlib.load.processes import closed_loop_in_processes
from nlqlib.load.sampling import Sampler
from nlqlib.records import ChatRequest, ServerIdentity
from nlqlib.serving.identity import identify
from nlqlib.serving.metrics import metrics_reader
from nlqlib.serving.target import TargetError

MODULES = ("nlqlib.experiments.sweep_workers",)
LOOK_S = 0.05
"""How soon the watching ends after the load."""


@dataclass(frozen=True)
class SharedLevel(Level):
    """One concurrency, shared evenly by several processes."""

    workers: int = 2

    @property
    def point(self) -> str:
        """`sweep-n08-w2`, `sweep-n08-r1-w2`."""
        return f"{super().point}-w{self.workers}"


@dataclass(frozen=True)
class Offer:
    """What the processes send together."""

    asked: tuple[ChatRequest, ...]
    """Cycled through."""
    warming: int
    """How many of them are sent beforehand, one after another, from this process."""
    concurrency: int
    requests: int
    workers: int


@dataclass(frozen=True)
class Answered:
    """What became of an `Offer`."""

    server: ServerIdentity
    run: LoadRun
    """Merged, with the samples of the server."""
    before: Scrape | None
    after: Scrape | None
    asked: tuple[ChatRequest, ...]
    """As the endpoint takes them, see `accepted`."""


def shared(level: Level, workers: int) -> SharedLevel:
    """`level` offered by `workers` processes, or by fewer where fewer requests are in flight."""
    return SharedLevel(**vars(level), workers=min(workers, level.concurrency))


def shared_spec(level: SharedLevel) -> Spec:
    """The point that `level` becomes."""
    return replace(level_spec(level), modules=MODULES)


def measure_shared(study: Study, level: SharedLevel) -> Record:
    """One level, retained already or measured now. Raises `TargetError` on the twin, which has no socket."""
    return study.point(shared_spec(level), lambda: _measured(study, level))


def _measured(study: Study, level: SharedLevel) -> Measured:
    began = time.time()
    asked = tuple(offered(study, level))
    warming = shared_spec(level).requests - level.requests
    load = Offer(asked, warming, level.concurrency, level.requests, level.workers)
    there = offer_by_workers(study, load)
    found = measured(there.run, there.before, there.after, study.target.time_tag)
    results = {"clock": study.target.clock, "workers": level.workers}
    found = replace(found, server=there.server, results=results, interval_s=(began, time.time()))
    return noted(found, there.asked, study.contract)


def offer_by_workers(study: Study, load: Offer) -> Answered:
    """What several processes were answered together, and the server's own account of it.

    Raises `TargetError` for a target in virtual time, `LoadError` as the closed loop does, and `WorkerError`
    when a process ends early.
    """
    if study.target.clock == "virtual":
        raise TargetError("worker processes need real time: run `serve twin`, and give its address")
    server, before, asked = study.run(_before(study, load))
    with _sampled(study) as samples:
        run = closed_loop_in_processes(
            study.target.connection.endpoint,
            asked,
            load.concurrency,
            load.requests,
            load.workers,
            kind=study.client,
        )
    after = study.run(_scraped(study))
    run = replace(run, samples=samples_since(samples, run.origin_s))
    return Answered(server, run, before, after, asked)


async def _before(study: Study, load: Offer) -> tuple[ServerIdentity, Scrape | None, tuple[ChatRequest, ...]]:
    server = await identify(study.target)
    async with session(study.target, study.client) as (client, reader):
        asked = await accepted(study, client, load.asked, load.warming)
        return server, await settled(reader), tuple(asked)


async def _scraped(study: Study) -> Scrape | None:
    async with session(study.target, study.client) as (_, reader):
        return await settled(reader)


@contextmanager
def _sampled(study: Study) -> Iterator[list[Sample]]:
    """The server's gauges while the block runs; they are there when it ends. None without `/metrics`."""
    samples: list[Sample] = []
    ended = threading.Event()
    if not study.target.connection.metrics_urls:
        yield samples
        return
    with ThreadPoolExecutor(1, "sampler") as pool:
        watching = pool.submit(study.run, _watch(study, ended))
        try:
            yield samples
        finally:
            ended.set()
        samples += watching.result()


async def _watch(study: Study, ended: threading.Event) -> Sequence[Sample]:
    reader = metrics_reader(study.target.connection)
    sampler = Sampler(reader.sample)
    sampler.start()
    try:
        while not ended.is_set():
            await asyncio.sleep(LOOK_S)
        return await sampler.stop()
    finally:
        await reader.aclose()
