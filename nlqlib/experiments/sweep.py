"""One measured level of a closed loop, as a retained point: what every sweep is made of.

A level warms the prefix first (each of its prompts once, one token of answer, outside the measurement),
scrapes the server, offers `requests` requests with `concurrency` in flight, and scrapes again.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from typing import Literal

from nlqlib.analysis.window import Scrape
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.accepted import accepted, noted
from nlqlib.experiments.conditions import CONDITIONS, requests
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep_result import measured
from nlqlib.load.closed_loop import closed_loop, cycled
from nlqlib.load.sampling import Sampler
from nlqlib.progress import progress
from nlqlib.records import ChatRequest, Json
from nlqlib.serving.client import Client, ClientKind
from nlqlib.serving.identity import identify
from nlqlib.serving.metrics import MetricsReader, metrics_reader
from nlqlib.serving.target import Target

MODULES = ("nlqlib.experiments.sweep",)
SET = "dev"
FULL_REQUESTS, FULL_WAVES = 150, 20
"""The article's 150 requests, and at least 20 for each in flight: ramp and drain are then a twentieth."""
QUICK_REQUESTS, QUICK_WAVES = 4, 2
QUICK_TOKENS = 16
"""Answers of a quick run on a real engine are cut to this length by `ignore_eos`, which is declared."""
ANSWER_TOKENS, ANSWER_SD = 115, 3
"""Answers of the article: about 115 tokens; the spread is the twin document's."""
SETTLE_S = 0.25
"""Engines count a request just after its answer: as long as the gauges' own step is plenty."""

Words = Literal["synthetic", "recordings", "served"]


@dataclass(frozen=True)
class Level:
    """One concurrency to be measured once."""

    sweep: str
    """Names the points: `dense`, `repeated` …"""
    concurrency: int
    requests: int
    repeat: int = 0
    seed: int = 0
    words: Words = "served"
    """On the twin drawn lengths or recorded answers; elsewhere what the model serves."""
    output_tokens: int | None = None
    """Every answer is exactly that long (`ignore_eos`); `None`: it ends where the model ends it."""

    @property
    def point(self) -> str:
        """`dense-n08`, `repeated-n16-r2`."""
        return f"{self.sweep}-n{self.concurrency:02d}" + (f"-r{self.repeat}" if self.repeat else "")


def levels(
    study: Study,
    sweep: str,
    concurrency: Iterable[int],
    *,
    n: int = 0,
    repeats: int = 0,
    seed: int = 0,
    words: Words = "synthetic",
) -> list[Level]:
    """The levels of a sweep on `study`; each `repeats` times in one shuffled order, or once when 0.

    `n`: requests of each level; 0: `planned_requests`. The order and the seeds follow from `seed`.
    """
    on_twin = study.target.kind == "twin"
    fixed = QUICK_TOKENS if study.quick and not on_twin else None
    found = [
        Level(sweep, k, n or planned_requests(study, k), r, seed + r, words if on_twin else "served", fixed)
        for r in (range(1, repeats + 1) if repeats else (0,))
        for k in concurrency
    ]
    if repeats:
        random.Random(seed).shuffle(found)
    return found


def planned_requests(study: Study, concurrency: int) -> int:
    """How many requests a level sends under the study's profile."""
    least, waves = (QUICK_REQUESTS, QUICK_WAVES) if study.quick else (FULL_REQUESTS, FULL_WAVES)
    return max(least, waves * concurrency)


def at(study: Study, level: Level) -> Study:
    """`study` on the variant of its target that `level` asks for: on the twin a fresh engine of its own."""
    if study.target.kind != "twin":
        return study
    drawn = {"output_tokens": ANSWER_TOKENS, "output_sd": ANSWER_SD} if level.words == "synthetic" else {}
    return replace(study, target=study.target.engine(words=level.words, seed=level.seed, **drawn))


def level_spec(level: Level) -> Spec:
    """The point that `level` becomes."""
    workload = replace(question_workload(SET), seed=level.seed)
    sent = level.requests + _warming(level)
    return Spec(level.point, asdict(level), MODULES, workload, requests=sent, concurrency=level.concurrency)


def _warming(level: Level) -> int:
    """Prompts sent beforehand: all of them, or in a quick run one, since only their last block differs."""
    return 1 if level.output_tokens is not None else min(level.requests, question_workload(SET).n)


def sweep(study: Study, wanted: Sequence[Level]) -> list[Record]:
    """The levels in their order: each retained already, or measured now."""
    with progress(len(wanted), "concurrency") as bar:
        return [_counted(study, level, bar.advance) for level in wanted]


def _counted(study: Study, level: Level, advance: Callable[[str], None]) -> Record:
    found = measure_level(study, level)
    advance(str(level.concurrency))
    return found


def measure_level(study: Study, level: Level) -> Record:
    """One level, retained already or measured now."""
    there = at(study, level)
    return there.point(level_spec(level), lambda: there.measured(_measure(there, level)))


async def _measure(study: Study, level: Level) -> Measured:
    server = await identify(study.target)
    async with session(study.target, study.client) as (client, reader):
        asked = await accepted(study, client, offered(study, level), _warming(level))
        before = await settled(reader)
        sampler = Sampler(reader.sample) if reader else None
        run = await closed_loop(client, cycled(asked), level.concurrency, level.requests, sampler=sampler)
        after = await settled(reader)
    found = measured(run, before, after, study.target.time_tag)
    return noted(replace(found, server=server, results={"clock": study.target.clock}), asked, study.contract)


async def settled(reader: MetricsReader | None) -> Scrape | None:
    """The metrics once the engine has counted the last answer, a moment after it was sent."""
    if reader is None:
        return None
    await asyncio.sleep(SETTLE_S)
    return await reader.scrape()


@asynccontextmanager
async def session(target: Target, kind: ClientKind) -> AsyncIterator[tuple[Client, MetricsReader | None]]:
    """The client and, where the target shows `/metrics`, their reader."""
    client = target.client(kind)
    there = target.connection
    reader = metrics_reader(there) if there.metrics_urls else None
    try:
        yield client, reader
    finally:
        await client.aclose()
        if reader:
            await reader.aclose()


def offered(study: Study, level: Level) -> list[ChatRequest]:
    """The requests of `level`, one for each question of the set: the article's workload."""
    how = replace(CONDITIONS["baseline"], contract=study.contract)
    found = requests(load_questions(SET), how, study.catalog)
    if level.output_tokens is None:
        return found
    return [replace(r, max_tokens=level.output_tokens, extra=IGNORE_EOS) for r in found]


IGNORE_EOS: Json = {"ignore_eos": True}
