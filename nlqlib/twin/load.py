"""A closed loop of synthetic requests on one replica, and the numbers a study would report of it. Pure."""

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from nlqlib.twin.blocks import Chain, HashTable
from nlqlib.twin.drive import Served, closed_loop
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence
from nlqlib.twin.step_time import StepTime


@dataclass(frozen=True)
class Load:
    """`requests` in all, `concurrency` in flight, over prompts that begin with the same `shared_tokens`."""

    concurrency: int
    requests: int
    prompt_tokens: int = 3300
    shared_tokens: int = 3270
    distinct: int = 20
    """Different prompts, cycled; 0: no two requests have the same."""
    output_tokens: float = 115.0
    output_sd: float = 3.0
    outside_s: float = 0.0
    """What a request spends outside the engine, half of it on either way."""
    frontend_s: float = 0.0
    """The part of that between HTTP server and engine: before the first token, so TTFT counts it."""
    apart_s: float = 0.0
    """Requests reach the engine at least this far apart, because its frontend reads one at a time. An idle
    engine then starts on the first alone, and requests of equal length do not stay in step."""
    warm: bool = True
    """Every distinct prompt (or the shared prefix) was served before, outside the measured run."""
    seed: int = 0


@dataclass(frozen=True)
class Summary:
    """Means over all requests of a run, in seconds; `None` where there is no such thing."""

    throughput_run: float
    """Requests per second from the first send to the last return, ramp and drain included."""
    p50_s: float
    p95_s: float
    queue_s: float
    prefill_s: float
    ttft_s: float
    """From arrival at the server to the first token."""
    itl_s: float | None
    """Mean gap between two tokens: decode time of all over gaps of all."""
    e2e_s: float
    """In the engine."""
    hit_rate: float | None


def lengths(load: Load) -> list[int]:
    """Output tokens of each request: normal around the mean, at least one."""
    drawn = np.random.default_rng(load.seed).normal(load.output_tokens, load.output_sd, load.requests)
    return [int(n) for n in np.maximum(1, np.rint(drawn))]


def simulate(limits: EngineLimits, step_time: StepTime, load: Load) -> Summary:
    """Run `load` on a fresh replica; raises `EngineError` if no such engine could serve it."""
    table, chains = prompts(load, limits.block_size)
    replica = Replica(limits, step_time, table)
    start = warm_up(replica, load, chains) if load.warm else 0.0
    before = replica.scheduler.queries, replica.scheduler.hits
    outputs = lengths(load)

    def make(i: int) -> Sequence:
        return Sequence(str(i), load.prompt_tokens, outputs[i], chains[i % len(chains)])

    way = load.outside_s / 2
    served = closed_loop(replica, make, load.requests, load.concurrency, way, way, start, load.apart_s)
    queries, hits = replica.scheduler.queries - before[0], replica.scheduler.hits - before[1]
    return _summary(load, served, start, hits / queries if queries else None)


def warm_up(replica: Replica, load: Load, chains: tuple[Chain, ...]) -> float:
    """Serve each distinct prompt once, or the shared prefix; returns when that is over."""
    for i, chain in enumerate(chains[: load.distinct]):
        replica.submit(Sequence(f"warm-{i}", load.prompt_tokens, 1, chain), 0.0)
    if not load.distinct and load.shared_tokens:
        shared = Chain(chains[0].ids[: load.shared_tokens // replica.limits.block_size])
        replica.submit(Sequence("warm", load.shared_tokens, 1, shared), 0.0)
    last = 0.0
    while (at := replica.next_event_s()) is not None:
        last = at
        replica.advance(at)
    return last


@lru_cache(maxsize=32)
def prompts(load: Load, block_size: int) -> tuple[HashTable, tuple[Chain, ...]]:
    """Hashes of the prompts of `load`, one per distinct prompt, and the table they are in."""
    table, own = HashTable(block_size), load.prompt_tokens - load.shared_tokens
    shared = list(range(load.shared_tokens))
    count = load.distinct or load.requests
    chains = [table.chain(shared + [-1 - i * own - j for j in range(own)]) for i in range(count)]
    return table, tuple(chains)


def _summary(load: Load, served: list[Served], start: float, hit_rate: float | None) -> Summary:
    times = np.array([seq.times() for _, _, seq in served], dtype=float)
    arrival, scheduled, first, last = times.T
    latency = np.array([back - sent for sent, back, _ in served])
    gaps = sum(seq.output_tokens - 1 for _, _, seq in served)
    return Summary(
        throughput_run=len(served) / (max(back for _, back, _ in served) - start),
        p50_s=float(np.percentile(latency, 50)),
        p95_s=float(np.percentile(latency, 95)),
        queue_s=float((scheduled - arrival).mean()),
        prefill_s=float((first - scheduled).mean()),
        ttft_s=float((first - arrival).mean()) + load.frontend_s,
        itl_s=float((last - first).sum() / gaps) if gaps else None,
        e2e_s=float((last - arrival).mean()),
        hit_rate=hit_rate,
    )
