"""Where an endpoint loses concurrency: a short sweep made for the diagnosis, and the diagnosis of it.

Every level begins with a burst, all N requests at once and no lead-in, since the way in which they come back
tells a limit from an engine that is exhausted. Levels are retained like any other point, with the waits that
the gateway's headers tell and the replicas that answered.
"""

import random
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

from nlqlib.analysis.diagnosis import Diagnosis, diagnose
from nlqlib.analysis.diagnosis_replicas import replicas_seen
from nlqlib.analysis.staircase import ControlledStaircase
from nlqlib.analysis.window import Scrape
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.accepted import accepted, noted
from nlqlib.experiments.questions import question_workload
from nlqlib.experiments.saved_levels import ONE_MODEL, completions_of, levels_of
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import (
    ANSWER_SD,
    ANSWER_TOKENS,
    QUICK_TOKENS,
    SET,
    Level,
    Words,
    offered,
    settled,
)
from nlqlib.experiments.sweep_result import Tag, measured
from nlqlib.experiments.sweep_workers import Offer, offer_by_workers
from nlqlib.load.closed_loop import LoadError, LoadRun, closed_loop, cycled
from nlqlib.load.pooled import Pooled
from nlqlib.load.sampling import Sampler
from nlqlib.records import ChatRequest, Completion, Json, Metric, Rule, Workload
from nlqlib.serving.client import Client, make_client
from nlqlib.serving.identity import identify
from nlqlib.serving.metrics import MetricsReader, metrics_reader
from nlqlib.serving.target import TargetError

NOTEBOOK = "diagnose"
MODULES = ("nlqlib.experiments.diagnose",)
GRID = (1, 2, 4, 8, 16, 32)
QUICK_GRID = (1, 2, 4, 8, 16)
LEAST, WAVES = 24, 7
"""Requests of a level, or for each in flight: its window then holds five latencies even behind a limit."""
QUICK_LEAST, QUICK_WAVES = 4, 3


@dataclass(frozen=True)
class Plan:
    """What a diagnosis sends."""

    concurrency: tuple[int, ...]
    requests: int = 0
    """Of each level; 0: by the profile."""
    words: Words = "synthetic"
    """Of the twin's answers."""
    pool: int | None = None
    """Most connections of the client, to show a client that is the limit; `None`: unlimited."""
    chats: tuple[ChatRequest, ...] = ()
    """The user's own workload; empty: the study's questions."""
    workload: Workload | None = None
    """Identity of `chats`."""
    seed: int = 0
    repeats: int = 0
    """Further measurements of every level, at most, while the verdict is undecided for noise."""
    workers: int = 1
    """Processes that offer a level, at most one for each request in flight; more need real time."""

    def sent(self, concurrency: int, quick: bool) -> int:
        """Requests of the level at `concurrency`, warming left out."""
        least, waves = (QUICK_LEAST, QUICK_WAVES) if quick else (LEAST, WAVES)
        return max(self.requests or max(least, waves * concurrency), concurrency)


def default_grid(study: Study) -> tuple[int, ...]:
    """The concurrencies of the study's profile."""
    return QUICK_GRID if study.quick else GRID


@dataclass(frozen=True)
class Swept:
    """The levels that were measured, and why one could not be."""

    records: tuple[Record, ...]
    lost: tuple[str, ...] = ()


def sweep(study: Study, plan: Plan, tell: Callable[[str], None] = lambda line: None) -> Swept:
    """Measure the levels of `plan` on `study`, ascending; each retained already, or measured now.

    Where noise leaves the verdict open, all levels are measured again in a shuffled order, up to
    `plan.repeats` times. A level at which nothing is answered, or at which the endpoint or its model is gone,
    ends the sweep and is named in `lost`; at the first level it raises `LoadError` or `TargetError`.
    """
    swept = _pass(study, plan, Swept(()), 0, tell)
    for repeat in range(1, plan.repeats + 1):
        if swept.lost or not verdict(swept).repeats_decide:
            break
        tell(f"noise leaves the verdict open: every level once more ({repeat} of at most {plan.repeats})")
        swept = _pass(study, plan, swept, repeat, tell)
    return swept


def _pass(study: Study, plan: Plan, swept: Swept, repeat: int, tell: Callable[[str], None]) -> Swept:
    """`swept` and one more measurement of every level, as far as the endpoint answers."""
    there = variant(study, replace(plan, seed=plan.seed + repeat))
    found = list(swept.records)
    order = pass_order(plan, repeat)
    for number, n in enumerate(order, start=1):
        sent = plan.sent(n, study.quick)
        tell(f"[{number}/{len(order)}] {n} in flight, {sent} requests")
        try:
            found.append(_level(there, plan, n, sent, repeat))
        except (LoadError, TargetError) as error:
            if not found:
                raise
            return Swept(tuple(found), (f"the level at {n} is left out: {error}",))
    return Swept(tuple(found))


def pass_order(plan: Plan, repeat: int) -> list[int]:
    """The concurrencies of one pass: first as planned, then shuffled, so that drift is no trend."""
    order = list(plan.concurrency)
    if repeat:
        random.Random(plan.seed + repeat).shuffle(order)
    return order


def verdict(swept: Swept, staircase: ControlledStaircase | None = None) -> Diagnosis:
    """The diagnosis of measured levels. Raises `ArtifactError` when their rows are missing or altered."""
    return of_records(swept.records, staircase, swept.lost)


def of_records(
    records: Sequence[Record], staircase: ControlledStaircase | None = None, lost: Iterable[str] = ()
) -> Diagnosis:
    """The diagnosis of retained points of one sweep, whoever measured them."""
    declared = next((r.server.engine_args for r in records if r.server), {})
    seqs = declared.get("max_num_seqs")
    known = seqs if isinstance(seqs, int) else None
    seen = [replicas_seen(completions_of(r), int(r.params["concurrency"])) for r in records]
    return diagnose(
        levels_of(records), staircase=staircase, max_num_seqs=known, lost=tuple(lost), replicas=seen
    )


def variant(study: Study, plan: Plan) -> Study:
    """On the twin, an engine with the words of the plan; elsewhere the study as it is."""
    if study.target.kind != "twin":
        return study
    synthetic = plan.words == "synthetic"
    drawn: Json = {"output_tokens": ANSWER_TOKENS, "output_sd": ANSWER_SD} if synthetic else {}
    return replace(study, target=study.target.engine(words=plan.words, seed=plan.seed, **drawn))


def requests_of(study: Study, plan: Plan) -> list[ChatRequest]:
    """What is sent, once: the user's chats, or the study's questions."""
    if plan.chats:
        return list(plan.chats)
    fixed = QUICK_TOKENS if study.quick and study.target.kind != "twin" else None
    return offered(study, Level(NOTEBOOK, 1, 1, output_tokens=fixed))


def level_spec(study: Study, plan: Plan, concurrency: int, repeat: int = 0) -> Spec:
    """The level at `concurrency` as it is planned; `study` is of the plan's variant."""
    asked, sent = requests_of(study, plan), plan.sent(concurrency, study.quick)
    params = {
        "sweep": NOTEBOOK,
        "concurrency": concurrency,
        "requests": sent,
        "repeat": repeat,
        "seed": plan.seed + repeat,
        "words": plan.words if study.target.kind == "twin" else "served",
        "pool": plan.pool,
        "contract": asked[0].contract.name,
        **({"workers": plan.workers} if plan.workers > 1 else {}),
    }
    workload = plan.workload or replace(question_workload(SET), seed=plan.seed + repeat)
    again = f"-r{repeat}" if repeat else ""
    name, every = f"{NOTEBOOK}-n{concurrency:02d}{again}", sent + min(sent, len(asked))
    return Spec(name, params, MODULES, workload, requests=every, concurrency=concurrency)


def _level(study: Study, plan: Plan, concurrency: int, sent: int, repeat: int) -> Record:
    asked = tuple(requests_of(study, plan))
    load = Offer(asked, min(sent, len(asked)), concurrency, sent, min(plan.workers, concurrency))
    spec = level_spec(study, plan, concurrency, repeat)
    return study.point(spec, lambda: _measured(study, plan, load))


def _measured(study: Study, plan: Plan, load: Offer) -> Measured:
    if plan.workers == 1:
        return study.measured(_measure(study, plan.pool, load))
    began = time.time()
    there = offer_by_workers(study, load)
    found = _level_of(study, there.run, there.before, there.after)
    found = replace(found, server=there.server, interval_s=(began, time.time()))
    return noted(found, there.asked, load.asked[0].contract.name)


async def _measure(study: Study, pool: int | None, load: Offer) -> Measured:
    server = await identify(study.target)
    async with _session(study, pool) as (client, reader):
        sent = await accepted(study, client, load.asked, load.warming)
        before = await settled(reader)
        sampler = Sampler(reader.sample) if reader else None
        asked = cycled(sent)
        run = await closed_loop(client, asked, load.concurrency, load.requests, sampler=sampler)
        after = await settled(reader)
    found = replace(_level_of(study, run, before, after), server=server)
    return noted(found, sent, load.asked[0].contract.name)


def _level_of(study: Study, run: LoadRun, before: Scrape | None, after: Scrape | None) -> Measured:
    tag = study.target.time_tag
    return told(measured(run, before, after, tag), run, tag)


@asynccontextmanager
async def _session(study: Study, pool: int | None) -> AsyncIterator[tuple[Client, MetricsReader | None]]:
    """The client, of at most `pool` connections, and the reader of `/metrics` where it is shown."""
    there = study.target.connection
    client = make_client(study.client, there.endpoint, app=there.app, ceiling=pool)
    if pool is not None and there.app is not None:
        client = Pooled(client, pool)
    reader = metrics_reader(there) if there.metrics_urls else None
    try:
        yield client, reader
    finally:
        await client.aclose()
        if reader:
            await reader.aclose()


def told(found: Measured, run: LoadRun, tag: Tag) -> Measured:
    """`found` with what the answers' headers say: waits at router and replica, and how many answered."""
    good = [c for c in run.completions if c.ok]
    used = [s.kv_usage for s in run.samples if s.kv_usage is not None]
    metrics = [
        _mean("router_queue", [c.router_queue_s for c in good], tag),
        _mean("replica_queue", [c.replica_queue_s for c in good], tag),
        _count(good, tag),
        Metric("kv_usage", "share", "max", max(used, default=None), len(used), tag),
    ]
    return replace(
        found,
        metrics=[*found.metrics, *metrics],
        validity=[*found.validity, _one_model(good)],
    )


def _one_model(good: Sequence[Completion]) -> Rule:
    """Whether all answers name one model, and which."""
    named = sorted({c.model for c in good if c.model})
    return Rule(ONE_MODEL, ", ".join(named) or None, None, len(named) == 1 if named else None)


def _mean(name: str, values: Sequence[float | None], tag: Tag) -> Metric:
    there = [v for v in values if v is not None]
    return Metric(name, "s", "mean", sum(there) / len(there) if there else None, len(there), tag)


def _count(good: Sequence[Completion], tag: Tag) -> Metric:
    names = {c.replica for c in good if c.replica}
    return Metric("replicas", "replicas", "seen", float(len(names)) if names else None, len(good), tag)
