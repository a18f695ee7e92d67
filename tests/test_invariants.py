"""The numbered invariants of the twin's engine (listed in `nlqlib/twin/replica.py`), each over random
workloads.
"""

import asyncio
import json
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.twin.clock import run_virtual
from nlqlib.twin.drive import closed_loop, drain, open_loop
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.load import Load, simulate
from nlqlib.twin.model import load as load_twin
from nlqlib.twin.replica import Event, Replica
from nlqlib.twin.scenario import from_json, run
from nlqlib.twin.sequence import ABORTED, DONE, Batch, Sequence
from nlqlib.twin.step_time import StepTime

STEP = StepTime(fixed_s=0.008, token_s=5e-5, sequence_s=2e-4, kv_logical_s=1e-7, kv_distinct_s=1e-7)


@dataclass(frozen=True)
class Job:
    at: float
    family: int
    prompt: int
    output: int
    leaves_after: float | None


jobs = st.lists(
    st.builds(
        Job,
        at=st.floats(0, 1),
        family=st.integers(0, 2),
        prompt=st.integers(1, 70),
        output=st.integers(1, 50),
        leaves_after=st.none() | st.floats(0, 2),
    ),
    min_size=1,
    max_size=15,
)
engines = st.builds(
    EngineLimits,
    num_gpu_blocks=st.integers(32, 70),
    block_size=st.just(4),
    max_num_batched_tokens=st.integers(8, 64),
    max_num_seqs=st.integers(1, 8),
    enable_prefix_caching=st.booleans(),
    async_scheduling=st.booleans(),
    scheduler_reserve_full_isl=st.booleans(),
    reuse_unhashed_first=st.booleans(),
    watermark=st.sampled_from([0.0, 0.05]),
)


class Watched(Replica):
    """A replica whose every planned step is looked at."""

    def __init__(self, limits: EngineLimits) -> None:
        super().__init__(limits, STEP)
        self.batches: list[Batch] = []
        plan = self.scheduler.plan

        def spied() -> Batch | None:
            batch = plan()
            self.look()
            if batch is not None:
                self.batches.append(batch)
                assert batch.tokens <= limits.max_num_batched_tokens  # 5
            return batch

        self.scheduler.plan = spied  # type: ignore[method-assign]

    def look(self) -> None:
        scheduler = self.scheduler
        assert len(scheduler.running) <= self.limits.max_num_seqs  # 4
        assert 0 <= scheduler.pool.free <= self.limits.num_gpu_blocks - 1  # 6
        if scheduler.pool.caching:
            held = int(np.count_nonzero(scheduler.pool._ref[1:]))
            assert held == scheduler.pool.used


def drive(replica: Replica, work: list[Job]) -> tuple[list[Sequence], list[Event]]:
    """All jobs at their times, leaving when they leave; every event until nothing is left."""
    table = replica.scheduler.table
    seqs, actions = [], []
    for i, job in enumerate(work):
        chain = table.chain([job.family] * job.prompt) if job.family else None
        seq = Sequence(str(i), job.prompt, job.output, chain, watched=i % 2 == 0)
        seqs.append(seq)
        actions.append((job.at, 0, i, seq))
        if job.leaves_after is not None:
            actions.append((job.at + job.leaves_after, 1, i, seq))
    events: list[Event] = []
    for at, leaves, _, seq in sorted(actions, key=lambda a: a[:3]):
        events += replica.advance(at)
        (replica.abort if leaves else replica.submit)(seq, at)
    while (at := replica.next_event_s()) is not None:
        events += replica.advance(at)
    return seqs, events


@settings(max_examples=120, deadline=None)
@given(engines, jobs)
def test_1_every_request_ends_exactly_once(limits, work):
    replica = Watched(limits)
    seqs, events = drive(replica, work)
    finished = [e.sequence for e in events if e.finished]
    assert len(finished) == len(set(finished)) == replica.counters.finished
    assert all(s.state in (DONE, ABORTED) for s in seqs)
    aborted = [s for s in seqs if s.state == ABORTED]
    assert set(finished).isdisjoint(aborted) and len(finished) + len(aborted) == len(seqs)
    assert replica.counters.aborted == len(aborted)
    for seq in finished:
        tokens = [e.tokens for e in events if e.sequence is seq]
        assert tokens == (list(range(1, seq.output_tokens + 1)) if seq.watched else [seq.output_tokens])


@settings(max_examples=120, deadline=None)
@given(engines, jobs)
def test_2_no_event_comes_before_its_cause(limits, work):
    seqs, events = drive(Watched(limits), work)
    assert [e.at_s for e in events] == sorted(e.at_s for e in events)
    for seq in seqs:
        if (times := seq.times()) is not None:
            arrival, scheduled, first, last = times
            assert arrival <= scheduled < first <= last
            assert (first == last) == (seq.output_tokens == 1)


@settings(max_examples=120, deadline=None)
@given(engines, jobs, st.integers(0, 14), st.integers(1, 20))
def test_3_output_length_shows_in_nothing_before_the_last_token(limits, work, which, more):
    which %= len(work)
    work = [Job(j.at, j.family, j.prompt, j.output, None) for j in work]
    longer = list(work)
    longer[which] = Job(
        work[which].at, work[which].family, work[which].prompt, work[which].output + more, None
    )
    short, _ = drive(Replica(limits, STEP), work)
    long, _ = drive(Replica(limits, STEP), longer)
    until = short[which].last_token_s
    if limits.async_scheduling:  # a step planned ahead knows which last tokens max_tokens makes certain
        until -= 2 * max(STEP.features_s(64, 8, 4000, 4000), 0.0)
    for a, b in zip(short, long, strict=True):
        for name in ("scheduled_s", "first_token_s", "last_token_s"):
            if getattr(a, name) < until - 1e-9:
                assert getattr(b, name) == pytest.approx(getattr(a, name), rel=1e-9)


@settings(max_examples=120, deadline=None)
@given(engines, jobs)
def test_4_5_6_running_tokens_and_blocks_stay_within_their_limits(limits, work):
    replica = Watched(limits)
    drive(replica, work)
    assert replica.batches
    assert replica.scheduler.pool.used == 0 and replica.scheduler.pool.saved == 0
    assert not replica.scheduler.running and not replica.scheduler.waiting
    assert replica.scheduler.decode.size == 0 and replica.scheduler.partial is None


@settings(max_examples=120, deadline=None)
@given(engines, jobs)
def test_7_a_hit_never_exceeds_what_somebody_computed_before(limits, work):
    replica = Watched(limits)
    drive(replica, work)
    computed: dict[int, int] = {}
    seqs = {str(i): job for i, job in enumerate(work)}
    for batch in replica.batches:
        for seq, start, tokens in batch.chunks:
            family = seqs[seq.request_id].family
            length = seq.prompt_tokens + seq.generated
            first_chunk = seq in batch.admitted
            if first_chunk and not seq.preemptions:
                assert start <= (seq.prompt_tokens - 1) // 4 * 4
                assert start <= (computed.get(family, 0) if family else 0)
            assert start + tokens <= max(length, seq.prompt_tokens + seq.output_tokens)
            computed[family] = max(computed.get(family, 0), start + tokens)


@pytest.mark.parametrize("concurrency", [1, 5, 16, 32])
def test_8_littles_law_holds_in_every_window_of_a_closed_loop(concurrency):
    twin = load_twin()
    replica = Replica(twin.limits, twin.step_time)
    lengths = np.random.default_rng(3).normal(115, 3, 40 * concurrency).round().astype(int).tolist()
    served = closed_loop(
        replica, lambda i: Sequence(str(i), 300, lengths[i]), len(lengths), concurrency, 0.035, 0.035
    )
    started = sorted(sent for sent, _, _ in served)[len(served) - concurrency]
    edges = np.linspace(10.0, started, 7)
    for a, b in pairwise(edges):
        in_flight = sum(max(0.0, min(back, b) - max(sent, a)) for sent, back, _ in served) / (b - a)
        assert in_flight == pytest.approx(concurrency, rel=1e-9)
    whole = [(sent, back) for sent, back, _ in served if 10.0 <= back <= started]
    rate, residence = len(whole) / (started - 10.0), np.mean([back - sent for sent, back in whole])
    assert rate * residence == pytest.approx(concurrency, rel=0.03)


@pytest.mark.parametrize("concurrency", [8, 32])
def test_8_ramp_and_drain_lower_the_throughput_of_a_run_by_what_arithmetic_gives(concurrency):
    twin = load_twin()
    short, long = (
        simulate(twin.limits, twin.step_time, Load(concurrency, n, output_sd=0.0, outside_s=0.07))
        for n in (150, 3000)
    )
    # whole waves of equal requests: 150 need ⌈150/N⌉ of them, the last one not full
    waves = -(-150 // concurrency)
    expected = 150 / (waves * concurrency)
    assert short.throughput_run / long.throughput_run == pytest.approx(expected, rel=0.02)


@pytest.mark.parametrize("asynchronous", [False, True])
def test_9_virtual_and_real_time_give_the_same_token_schedule(asynchronous):
    limits = EngineLimits(
        60, block_size=4, max_num_batched_tokens=32, max_num_seqs=4, async_scheduling=asynchronous
    )
    arrivals = [(0.013 * i, 20 + 7 * i, 5 + 3 * i) for i in range(6)]

    async def serve() -> list[tuple[int, float, int, bool]]:
        """Waits for the loop's clock, late as a real one is; arrivals carry their planned time."""
        loop, replica, told = asyncio.get_running_loop(), Replica(limits, STEP), []
        zero, todo = loop.time(), list(arrivals)
        while True:
            at = replica.next_event_s()
            ats = [t for t in (at, todo[0][0] if todo else None) if t is not None]
            if not ats:
                return told
            await asyncio.sleep(max(0.0, zero + min(ats) - loop.time()))
            until = min(loop.time() - zero, todo[0][0]) if todo else loop.time() - zero
            while todo and todo[0][0] <= loop.time() - zero:
                until, prompt, output = todo.pop(0)
                replica.submit(Sequence(str(len(todo)), prompt, output, watched=True), until)
            told += [(e.sequence.request_id, e.at_s, e.tokens, e.finished) for e in replica.advance(until)]

    assert asyncio.run(serve()) == run_virtual(serve())


def test_10_the_same_seed_gives_the_same_bytes_and_another_seed_does_not():
    def result(seed: int) -> str:
        random = np.random.default_rng(seed)
        requests = [
            {
                "arrival_s": float(random.uniform(0, 5)),
                "prompt_token_ids": [int(random.integers(3))] * int(random.integers(1, 200)),
                "output_tokens": int(random.integers(1, 60)),
            }
            for _ in range(80)
        ]
        engine = {"num_gpu_blocks": 60, "max_num_seqs": 8, "vllm_version": "0.19"}
        scenario = from_json({"engine": engine, "step_time": {"twin": "l4-qwen2.5-3b"}, "requests": requests})
        return json.dumps(run(scenario).to_json())

    assert result(1) == result(1) != result(2)


def test_a_request_that_needs_every_block_runs_when_it_is_alone():
    limits = EngineLimits(11, block_size=4, max_num_batched_tokens=16, max_num_seqs=4)
    replica = Replica(limits, STEP)
    seqs = open_loop(replica, [(0.0, Sequence("all", 30, 10)), (0.0, Sequence("too", 30, 10))])
    assert all(s.state == DONE for s in seqs)
    drain(replica)
    assert replica.scheduler.pool.used == 0
