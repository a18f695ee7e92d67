"""An arm: a level of a closed loop under one variation, with everything that can be seen of it kept.

What a level of a sweep is, and besides: the terms of its latency with their closure, the client's own view of
the first token where it streams, KV usage through the run, the GPUs, and the engine's estimates of its work.
"""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager, closing, nullcontext
from dataclasses import asdict, dataclass, replace

from nlqlib.analysis.samples import GpuSample, Sample
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments import sweep
from nlqlib.experiments.accepted import accepted, noted
from nlqlib.experiments.arm_result import observed
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import Level, level_spec, offered, session, settled
from nlqlib.load.closed_loop import closed_loop, cycled
from nlqlib.load.sampling import Sampler
from nlqlib.progress import progress
from nlqlib.records import ChatRequest
from nlqlib.serving.client import Client
from nlqlib.serving.identity import identify
from nlqlib.serving.metrics import MetricsReader
from nlqlib.serving.telemetry import Telemetry, gpu_telemetry

MODULES = ("nlqlib.experiments.arm",)


@dataclass(frozen=True)
class Arm(Level):
    """A level and what is different about it."""

    stream: bool = False
    router: int | None = None
    replica: int | None = None
    """Limits of a gateway of ours in front of the engine; `None` of both: no gateway."""
    unshared: bool = False
    """Every request has a cache salt of its own, so that no block serves two; nothing is warmed up."""
    num_blocks: int | None = None
    """KV blocks of the engine (the twin only); `None`: as it is."""

    @property
    def limited(self) -> bool:
        return self.router is not None or self.replica is not None


def arm(level: Level, **varied: object) -> Arm:
    """`level` with the given fields of an `Arm` set."""
    return Arm(**asdict(level) | varied)


def at(study: Study, wanted: Arm) -> Study:
    """`study` on the variant of its target that `wanted` asks for."""
    there = sweep.at(study, wanted)
    if wanted.num_blocks is not None:
        there = replace(there, target=there.target.engine(num_gpu_blocks=wanted.num_blocks))
    if wanted.limited:
        there = replace(there, target=there.target.limited(router=wanted.router, replica=wanted.replica))
    return there


def spec(wanted: Arm) -> Spec:
    """The point that `wanted` becomes."""
    plain = level_spec(wanted)
    sent = wanted.requests if wanted.unshared else plain.requests
    return replace(plain, modules=MODULES, requests=sent)


def measure(study: Study, wanted: Sequence[Arm]) -> list[Record]:
    """The arms in their order: each retained already, or measured now."""
    with progress(len(wanted), "arm") as bar:
        found = []
        for one in wanted:
            found.append(_record(study, one))
            bar.advance(one.point)
        return found


def points(study: Study, wanted: Iterable[Arm]) -> list[tuple[Study, Spec]]:
    """Every arm as a point, each with the study of its variant: for the plan."""
    return [(at(study, one), spec(one)) for one in wanted]


def _record(study: Study, wanted: Arm) -> Record:
    there = at(study, wanted)
    with closing(there.target) if wanted.limited else nullcontext():
        return there.point(spec(wanted), lambda: there.measured(_measure(there, wanted)))


async def _measure(study: Study, wanted: Arm) -> Measured:
    server = await identify(study.target)
    gpus: list[GpuSample] = []
    async with _session(study) as (client, reader, telemetry):
        asked = [replace(r, stream=wanted.stream) for r in offered(study, wanted)]
        asked = await accepted(study, client, asked, spec(wanted).requests - wanted.requests)
        before = await settled(reader)
        sampler = Sampler(_both(reader, telemetry, gpus))
        offer = _salted(study, asked) if wanted.unshared else cycled(asked)
        run = await closed_loop(client, offer, wanted.concurrency, wanted.requests, sampler=sampler)
        after = await settled(reader)
    ours = study.target.kind != "url" and not wanted.limited
    found = observed(run, before, after, gpus, study.target.time_tag, no_gateway=ours)
    found = replace(found, server=server, results={**found.results, "clock": study.target.clock})
    return noted(found, asked, study.contract)


@asynccontextmanager
async def _session(study: Study) -> AsyncIterator[tuple[Client, MetricsReader | None, Telemetry]]:
    """The client, the metrics' reader where there is something to read, and the GPUs' telemetry."""
    telemetry = gpu_telemetry(study.target)
    try:
        async with session(study.target, study.client) as (client, reader):
            yield client, reader, telemetry
    finally:
        await telemetry.aclose()


def _both(
    reader: MetricsReader | None, telemetry: Telemetry, gpus: list[GpuSample]
) -> Callable[[], Awaitable[Sample]]:
    """Reads the engine's gauges, and the GPUs beside them into `gpus`."""

    async def read() -> Sample:
        gpus.append(await telemetry.sample())
        if reader is None:
            return Sample(gpus[-1].at_s, None, None, "no metrics URL is known: set METRICS_URL")
        return await reader.sample()

    return read


def _salted(study: Study, asked: Sequence[ChatRequest]) -> Iterator[ChatRequest]:
    """`asked` without end, each under a salt that nobody used before; on the twin the same every time."""
    run = "twin" if study.target.kind == "twin" else uuid.uuid4().hex
    return (replace(r, extra={**r.extra, "cache_salt": f"{run}-{i}"}) for i, r in enumerate(cycled(asked)))
