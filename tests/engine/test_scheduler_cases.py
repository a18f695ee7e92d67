"""The twin's scheduler against the real one, step by step and token by token (cases 4 and 5 of its model).

The engine logs every step: how many prompt tokens and how many generated ones it holds. The twin plans the
same requests with the same limits. It runs in an engine of its own, started with that log switched on.
"""

import asyncio
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import pytest

from nlqlib import tokens
from nlqlib.analysis.window import window
from nlqlib.experiments.block_accounting import cases, planned
from nlqlib.experiments.calibration import engine_of
from nlqlib.experiments.probes import Probe, prompts
from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.engine_state import running
from nlqlib.serving.identity import identify
from nlqlib.serving.metrics import metrics_reader
from nlqlib.serving.target import Target, open_target
from nlqlib.twin.blocks import HashTable
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.scheduler import Scheduler
from nlqlib.twin.sequence import Sequence

STEP = re.compile(
    r"Iteration\(\d+\): \d+ context requests, (\d+) context tokens, \d+ generation requests, (\d+)"
)
BUDGET = 512
"""A quarter of the default: the same arithmetic in a quarter of the time."""
SEED = 20261130


class Step(NamedTuple):
    """What one engine step computed."""

    prompt_tokens: int
    generated_tokens: int


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    base = open_target("local", progress=tell)
    opened = base.engine(enable_logging_iteration_details=True)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def limits(target: Target) -> EngineLimits:
    return engine_of(target, target.run(identify(target))).limits


def send(target: Target, requests: list[ChatRequest], gap_s: float = 0.0) -> list[Completion]:
    async def go() -> list[Completion]:
        client = target.client("wire")
        try:
            sent = []
            for request in requests:
                sent.append(asyncio.create_task(client.complete(request)))
                await asyncio.sleep(gap_s)
            return list(await asyncio.gather(*sent))
        finally:
            await client.aclose()

    return target.run(go())


def logged() -> list[Step]:
    """Every step that the engine has logged so far."""
    engine = running()
    assert engine is not None
    return [Step(int(a), int(b)) for a, b in STEP.findall(engine.log.read_text("utf-8", "replace"))]


def steps_of_the_twin(limits: EngineLimits, lengths: list[tuple[int, int]]) -> list[Step]:
    """The steps for requests of (prompt, output) tokens; the second comes while the first step runs."""
    scheduler = Scheduler(limits, HashTable(limits.block_size))
    waiting = [Sequence(str(i), prompt, output) for i, (prompt, output) in enumerate(lengths)]
    scheduler.add(waiting.pop(0))
    found = []
    while (batch := scheduler.plan()) is not None:
        found.append(Step(sum(c.tokens for c in batch.chunks), batch.decodes))
        scheduler.finish(batch.finishing)
        while waiting:
            scheduler.add(waiting.pop(0))
    return found


def test_two_cold_prompts_share_the_budget_step_by_step(target: Target, limits: EngineLimits) -> None:
    two = prompts(Probe("budget", "judge", 3300, 0, 1, 2, 3), SEED)
    send(target, [replace(two[0], messages=({"role": "user", "content": "hi"},))])
    before = len(logged())
    done = send(target, two, gap_s=0.3)
    assert all(c.ok and c.output_tokens == 3 for c in done), [c.error for c in done]
    prefill = [Step(2048, 0), Step(1252 + 796, 0), Step(2047, 1), Step(457, 1)]
    expected = [*prefill, Step(0, 1), Step(0, 1)]
    assert limits.max_num_batched_tokens == 2048
    assert steps_of_the_twin(limits, [(3300, 3), (3300, 3)]) == expected
    assert logged()[before:] == expected


def test_prefix_cache_counters_are_the_planned_ones_to_the_token(
    target: Target, limits: EngineLimits
) -> None:
    sequence = cases(SEED)

    async def count() -> list[tuple[int | None, int | None]]:
        reader, client = metrics_reader(target.connection), target.client("wire")
        found = []
        try:
            for case in sequence:
                before = await reader.scrape()
                done = await asyncio.gather(*(client.complete(r) for r in case.requests))
                assert all(c.ok for c in done), [c.error for c in done]
                seen = window(before, await reader.scrape())
                found.append((seen.queries, seen.hits))
        finally:
            await reader.aclose()
            await client.aclose()
        return found  # type: ignore[return-value]

    assert target.run(count()) == planned(sequence, limits)


def test_the_window_of_prompts_is_counted_alike(target: Target) -> None:
    request = prompts(Probe("length", "judge", 300, 0, 1, 1, 2), SEED)[0]
    [done] = send(target, [request])
    assert done.prompt_tokens == tokens.count_chat(request.messages) == 300
