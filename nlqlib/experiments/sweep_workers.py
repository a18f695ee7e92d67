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
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import Level, level_spec, offered, session, settled, warm
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
    warming: tuple[ChatRequest, ...]
    """Sent beforehand, one after another, from this process."""
    concurrency: int
    requests: int
    workers: int


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
    load = Offer(asked, asked[:warming], level.concurrency, level.requests, level.workers)
    server, run, before, after = offer_by_workers(study, load)
    found = measured(run, before, after, study.target.time_tag)
    results = {"clock": study.target.clock, "workers": level.workers}
    return replace(found, server=server, results=results, interval_s=(began, time.time()))


def offer_by_workers(
    study: Study, load: Offer
) -> tuple[ServerIdentity, LoadRun, Scrape | None, Scrape | None]:
    """Who serves, the merged run with the samples of the server, and the scrapes before and after.

    Raises `TargetError` for a target in virtual time, `LoadError` as the closed loop does, and `WorkerError`
    when a process ends early.
    """
    if study.target.clock == "virtual":
        raise TargetError("worker processes need real time: run `serve twin`, and give its address")
    server, before = study.run(_before(study, load.warming))
    with _sampled(study) as samples:
        run = closed_loop_in_processes(
            study.target.connection.endpoint,
            load.asked,
            load.concurrency,
            load.requests,
            load.workers,
            kind=study.client,
        )
    after = study.run(_scraped(study))
    return server, replace(run, samples=samples_since(samples, run.origin_s)), before, after


async def _before(study: Study, warming: Sequence[ChatRequest]) -> tuple[ServerIdentity, Scrape | None]:
    server = await identify(study.target)
    async with session(study.target, study.client) as (client, reader):
        await warm(client, warming)
        return server, await settled(reader)


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
