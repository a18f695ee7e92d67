"""Prefix-cache tokens, planned and counted: the twin's block rules against the engine's own counters.

A few prompts are sent one after the other, and one pair at the same time. The twin's scheduler, with the
engine's block size and limits, says how many prompt tokens each must look up and find; `/metrics` says how
many it did. Both are whole numbers of tokens, so they are equal or they are not.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

import pandas as pd

from nlqlib import tokens
from nlqlib.analysis.window import Window, window
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.calibration import engine_of, seed_of
from nlqlib.experiments.probes import Probe, ProbeError, prompts
from nlqlib.experiments.study import Spec, Study
from nlqlib.records import ChatRequest, Json
from nlqlib.serving.client import Client
from nlqlib.serving.identity import identify
from nlqlib.serving.metrics import MetricsReader, metrics_reader
from nlqlib.twin.blocks import HashTable
from nlqlib.twin.drive import drain
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence as InEngine
from nlqlib.twin.step_time import StepTime

MODULES = ("nlqlib.experiments.block_accounting", "nlqlib.twin.app")
OUTPUT_TOKENS = 2
EXACT = 1024
"""A multiple of every block size in use: of a prompt that long the last block is computed again."""


@dataclass(frozen=True)
class Case:
    """Requests sent at the same time."""

    name: str
    requests: tuple[ChatRequest, ...]


SPEC = Spec("block-accounting", {"output_tokens": OUTPUT_TOKENS}, MODULES, requests=8)


def cases(seed: int) -> tuple[Case, ...]:
    """The sequence of requests, cold prompts first; prompts of one `seed` are like no other's."""
    odd = _prompt("odd", 1000, seed)
    exact = _prompt("exact", EXACT, seed)
    half = Probe("half", "judge", 1000, 512, 1, 2, OUTPUT_TOKENS)
    first, second = prompts(half, seed)
    pair = _prompt("pair", 1000, seed)
    return (
        Case("cold prompt of 1,000", (odd,)),
        Case("the same again", (odd,)),
        Case(f"cold prompt of {EXACT:,}", (exact,)),
        Case("the same again, to the block", (exact,)),
        Case("cold, shared beginning of 512", (first,)),
        Case("another with that beginning", (second,)),
        Case("two cold and identical at once", (pair, replace(pair, request_id="pair again"))),
    )


def _prompt(name: str, length: int, seed: int) -> ChatRequest:
    return prompts(Probe(name, "judge", length, 0, 1, 1, OUTPUT_TOKENS), seed)[0]


def planned(sequence: Sequence[Case], limits: EngineLimits) -> list[tuple[int, int]]:
    """Prompt tokens looked up and found, case by case, by the twin's scheduler with these limits."""
    table = HashTable(limits.block_size)
    replica = Replica(limits, StepTime(fixed_s=1.0), table)
    counted, now = [], 0.0
    for case in sequence:
        before = replica.scheduler.queries, replica.scheduler.hits
        for request in case.requests:
            ids = tokens.encode(tokens.chat_text(request.messages))
            replica.submit(InEngine(request.request_id, len(ids), OUTPUT_TOKENS, table.chain(ids)), now)
        drain(replica)
        now += 100.0
        queries, hits = replica.scheduler.queries, replica.scheduler.hits
        counted.append((queries - before[0], hits - before[1]))
    return counted


def at(study: Study) -> Study:
    """`study` where it is measured: these prompts mean nothing, so on the twin lengths are drawn."""
    twin = study.target.kind == "twin"
    return replace(study, target=study.target.engine(words="synthetic")) if twin else study


def record(study: Study) -> Record:
    """Planned and counted tokens of every case, as a retained point."""
    there = at(study)

    def measure() -> Measured:
        sequence = cases(seed_of(there.target))
        server = there.run(identify(there.target))
        plans = planned(sequence, engine_of(there.target, server).limits)
        seen = there.run(_count(there, sequence))
        rows: list[Json] = [
            {
                "case": case.name,
                "planned_queries": queries,
                "planned_hits": hits,
                "measured_queries": _whole(counted.queries),
                "measured_hits": _whole(counted.hits),
            }
            for case, (queries, hits), counted in zip(sequence, plans, seen, strict=True)
        ]
        sent = sum(len(case.requests) for case in sequence)
        return Measured(server=server, requests={"total": sent, "ok": sent}, results={"rows": rows})

    return there.point(SPEC, measure)


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)


async def _count(study: Study, sequence: Sequence[Case]) -> list[Window]:
    there = study.target.connection
    client = study.target.client("wire")
    reader = metrics_reader(there)
    try:
        return [await _counted(client, reader, case) for case in sequence]
    finally:
        await client.aclose()
        await reader.aclose()


async def _counted(client: Client, reader: MetricsReader, case: Case) -> Window:
    before = await reader.scrape()
    done = await asyncio.gather(*(client.complete(request) for request in case.requests))
    failed = next((c for c in done if not c.ok), None)
    if failed is not None:
        raise ProbeError(f"{case.name}: {failed.outcome}: {failed.error}")
    return window(before, await reader.scrape())


def table(found: Record) -> pd.DataFrame:
    """One row for each case: prompt tokens looked up and found, planned and counted."""
    rows = pd.DataFrame(found.results["rows"]).set_index("case")
    rows["equal"] = [
        "not observable here" if pd.isna(m) else "yes" if (p, q) == (m, n) else "NO"
        for p, q, m, n in zip(
            rows.planned_hits, rows.planned_queries, rows.measured_hits, rows.measured_queries, strict=True
        )
    ]
    return rows.rename(columns=lambda name: name.replace("_", " "))


def sentence(found: Record) -> str:
    """How many cases agree."""
    equal = table(found)["equal"]
    if (equal == "not observable here").all():
        return "The endpoint shows no prefix-cache counters: the block rules cannot be checked here."
    return (
        f"{(equal == 'yes').sum()} of {len(equal)} cases: prompt tokens looked up and found are exactly "
        "those that the block rules of the twin say."
    )
