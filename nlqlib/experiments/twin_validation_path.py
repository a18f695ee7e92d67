"""The twin under load by the whole client path: client, closed loop, HTTP interface, in process.

The clock is the target's: on the twin a virtual one, so that hours of load take seconds.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import islice

from nlqlib.experiments.conditions import CONDITIONS, requests
from nlqlib.experiments.questions import load_questions
from nlqlib.load.closed_loop import LoadRun, closed_loop, cycled
from nlqlib.load.sampling import Sampler
from nlqlib.nlq.catalog import load_catalog
from nlqlib.records import ChatRequest
from nlqlib.serving.client import ClientKind
from nlqlib.serving.metrics import metrics_reader
from nlqlib.serving.target import Target

WARM_UP = 20
"""Requests before a measured run: each development question once, so that its prefix is cached."""


@dataclass(frozen=True)
class Way:
    """How requests are sent."""

    client: ClientKind = "wire"
    stream: bool = False
    sampled: bool = False
    """Running and waiting are read four times a second meanwhile."""


@cache
def workload(stream: bool = False) -> tuple[ChatRequest, ...]:
    """The 20 development questions as the baseline asks them; built once, as before any run."""
    asked = requests(load_questions("dev"), CONDITIONS["baseline"], load_catalog())
    return tuple(replace(request, stream=stream) for request in asked)


def endless(stream: bool = False) -> Iterator[ChatRequest]:
    """The workload over and over, each request with an id of its own."""
    return cycled(workload(stream))


async def warm_up(target: Target) -> None:
    """Serve each development question once, and let all of them end."""
    client = target.client("wire")
    try:
        await closed_loop(client, islice(endless(), WARM_UP), WARM_UP, WARM_UP)
    finally:
        await client.aclose()


async def level(target: Target, concurrency: int, n: int, way: Way) -> LoadRun:
    """`n` requests with `concurrency` in flight, ramp and drain included, on an engine that is warm."""
    client = target.client(way.client)
    reader = metrics_reader(target.connection)
    sampler = Sampler(reader.sample) if way.sampled else None
    try:
        return await closed_loop(client, endless(way.stream), concurrency, n, sampler=sampler)
    finally:
        await client.aclose()
        await reader.aclose()


def good(run: LoadRun) -> bool:
    """Whether every request of `run` ended well."""
    return all(c.ok for c in run.completions)


def length_of(run: LoadRun) -> float:
    """Seconds of the run's own clock, from the first start to the last end."""
    ends = [c.end_s for c in run.completions if c.end_s is not None]
    return max(ends, default=0.0)


def output_tokens(runs: Sequence[LoadRun]) -> list[int]:
    """Output tokens of every answered request."""
    return [c.output_tokens for run in runs for c in run.completions if c.output_tokens is not None]
