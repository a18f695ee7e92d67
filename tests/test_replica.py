"""The engine in time: leaping equals stepping, whoever drives it and however often."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.twin.blocks import HashTable
from nlqlib.twin.drive import closed_loop, drain, open_loop
from nlqlib.twin.limits import EngineError, EngineLimits
from nlqlib.twin.replica import Event, Replica
from nlqlib.twin.scheduler import Scheduler
from nlqlib.twin.sequence import Sequence
from nlqlib.twin.step_time import StepTime

STEP = StepTime(
    fixed_s=0.01, weights_s=0.004, token_s=1e-5, sequence_s=1e-4, kv_logical_s=1e-7, kv_distinct_s=3e-8
)


def times(seq: Sequence) -> tuple[float, float, float]:
    found = seq.times()
    assert found is not None
    return found[1:]


def stepwise(scheduler: Scheduler, arrivals: list[tuple[float, Sequence]]) -> list[Sequence]:
    """The engine's loop as vLLM runs it, step by step: one batch in flight, or two with async scheduling."""
    todo, now, free = list(arrivals), 0.0, 0.0
    depth, flight = 2 if scheduler.limits.async_scheduling else 1, []
    while True:
        while todo and todo[0][0] <= now:
            at, seq = todo.pop(0)
            seq.arrival_s = at
            scheduler.add(seq)
        while len(flight) < depth and (batch := scheduler.plan()) is not None:
            for seq in batch.admitted:
                seq.scheduled_s = now if seq.scheduled_s is None else seq.scheduled_s
            free = max(free, now) + STEP.batch_s(batch)
            flight.append((free, batch))
        if flight:
            now, batch = flight.pop(0)
            while todo and todo[0][0] <= now:
                at, seq = todo.pop(0)
                seq.arrival_s = at
                scheduler.add(seq)
            for seq in batch.completed:
                seq.first_token_s = now if seq.first_token_s is None else seq.first_token_s
            for seq in batch.finishing:
                seq.last_token_s = now
            scheduler.finish(batch.finishing)
        elif todo:
            now = todo[0][0]
        else:
            return [seq for _, seq in arrivals]


workload = st.lists(
    st.tuples(st.floats(0, 0.6), st.integers(1, 60), st.integers(1, 40), st.integers(0, 2)),
    min_size=1,
    max_size=12,
)


def build(table: HashTable, requests) -> list[tuple[float, Sequence]]:
    made = []
    for i, (at, length, output, family) in enumerate(sorted(requests)):
        chain = table.chain([family] * length) if family else None
        made.append((at, Sequence(str(i), length, output, chain)))
    return made


@settings(max_examples=150, deadline=None)
@given(workload, st.integers(27, 60), st.integers(1, 6), st.booleans(), st.booleans(), st.booleans())
def test_leaping_equals_stepping(requests, blocks, seqs, asynchronous, caching, whole):
    limits = EngineLimits(
        blocks,
        block_size=4,
        max_num_batched_tokens=32,
        max_num_seqs=seqs,
        async_scheduling=asynchronous,
        enable_prefix_caching=caching,
        scheduler_reserve_full_isl=whole,
    )
    replica = Replica(limits, STEP)
    leapt = open_loop(replica, build(replica.scheduler.table, requests))
    scheduler = Scheduler(limits)
    stepped = stepwise(scheduler, build(scheduler.table, requests))
    for a, b in zip(leapt, stepped, strict=True):
        assert times(a) == pytest.approx(times(b), rel=1e-9)
        assert (a.cached_tokens, a.preemptions) == (b.cached_tokens, b.preemptions)
    counted = replica.scheduler
    assert (counted.queries, counted.hits) == (scheduler.queries, scheduler.hits)


@settings(max_examples=60, deadline=None)
@given(workload, st.lists(st.floats(0, 3), max_size=30), st.booleans(), st.booleans())
def test_the_times_do_not_depend_on_who_looks_when(requests, looks, asynchronous, watched):
    def run(looks: list[float]) -> list[tuple[float, float, float]]:
        limits = EngineLimits(
            40, block_size=4, max_num_batched_tokens=32, max_num_seqs=4, async_scheduling=asynchronous
        )
        replica = Replica(limits, STEP)
        made = build(replica.scheduler.table, requests)
        for _, seq in made:
            seq.watched = watched
        for at, seq in sorted([*made, *((t, None) for t in looks)], key=lambda x: x[0]):
            if seq is None:
                replica.advance(at)
                replica.settle(at)
            else:
                replica.submit(seq, at)
        drain(replica)
        return [times(seq) for _, seq in made]

    # looking exactly when something arrives decides a tie, so looks stay clear of arrivals
    ats = {at for at, *_ in requests}
    assert run([t for t in looks if t not in ats]) == run([])


# --- case 3 -----------------------------------------------------------------------------------------------


def test_eight_slots_of_ten_millisecond_steps_and_101_steps_per_request_give_7_92_requests_per_second():
    replica = Replica(EngineLimits(1000, max_num_seqs=8), StepTime(fixed_s=0.010))
    served = closed_loop(replica, lambda i: Sequence(str(i), 10, 101), 800, 8, 0.0, 0.0)
    # each request: one step for its prompt, which gives the first token, and 100 more
    assert 800 / served[-1][1] == pytest.approx(8 / 1.01, rel=1e-9)
    assert round(8 / 1.01, 2) == 7.92


# --- single requests --------------------------------------------------------------------------------------


def test_a_lone_request_is_scheduled_at_once_and_gets_a_token_per_step():
    replica = Replica(EngineLimits(100), StepTime(fixed_s=0.010))
    (seq,) = open_loop(replica, [(2.0, Sequence("a", 100, 5))])
    assert seq.times() == pytest.approx((2.0, 2.0, 2.01, 2.05))


def test_an_arrival_during_a_step_waits_for_its_end_and_one_step_more_when_planned_ahead():
    def first_token(asynchronous: bool) -> float:
        replica = Replica(EngineLimits(100, async_scheduling=asynchronous), StepTime(fixed_s=0.010))
        seqs = open_loop(replica, [(0.0, Sequence("a", 10, 50)), (0.105, Sequence("b", 10, 50))])
        return seqs[1].first_token_s

    assert first_token(False) == pytest.approx(0.12)  # step 11 runs until 0.11, b is in step 12
    assert first_token(True) == pytest.approx(0.13)  # step 12 was planned at 0.10


def test_a_watched_request_reports_every_token_once_and_in_order():
    replica = Replica(EngineLimits(100), StepTime(fixed_s=0.010))
    watched = Sequence("w", 10, 4, watched=True)
    replica.submit(watched, 0.0)
    replica.submit(Sequence("quiet", 10, 6), 0.0)
    events: list[Event] = []
    while (at := replica.next_event_s()) is not None:
        events += replica.advance(at)
    tokens = [(round(e.at_s, 3), e.tokens, e.finished) for e in events if e.sequence is watched]
    assert tokens == [(0.01, 1, False), (0.02, 2, False), (0.03, 3, False), (0.04, 4, True)]
    assert [e.tokens for e in events if e.sequence is not watched] == [6]


def test_a_watched_request_that_is_preempted_still_reports_each_token_once():
    limits = EngineLimits(8, block_size=4, max_num_batched_tokens=64, max_num_seqs=8)
    replica = Replica(limits, StepTime(fixed_s=0.010))
    seqs = [Sequence(n, 8, 14, watched=True) for n in ("old", "young")]
    for seq in seqs:
        replica.submit(seq, 0.0)
    events: list[Event] = []
    while (at := replica.next_event_s()) is not None:
        events += replica.advance(at)
    assert seqs[1].preemptions >= 1
    for seq in seqs:
        assert [e.tokens for e in events if e.sequence is seq] == list(range(1, 15))


def test_a_request_of_one_token_finishes_with_its_prompt():
    replica = Replica(EngineLimits(100), StepTime(fixed_s=0.010))
    (seq,) = open_loop(replica, [(0.0, Sequence("a", 10, 1))])
    assert seq.first_token_s == seq.last_token_s == pytest.approx(0.01)


def test_a_request_no_engine_could_finish_is_refused_at_the_door():
    replica = Replica(EngineLimits(10), StepTime(fixed_s=0.010))
    with pytest.raises(EngineError, match="exceed the window"):
        replica.submit(Sequence("a", 1000, 1), 0.0)
    assert replica.next_event_s() is None


# --- abort ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("at", [0.0, 0.005, 0.013, 0.2, 0.495])
def test_an_aborted_request_never_finishes_and_frees_its_blocks(asynchronous, at):
    limits = EngineLimits(100, async_scheduling=asynchronous)
    replica = Replica(limits, StepTime(fixed_s=0.010))
    gone, stays = Sequence("gone", 20, 50, watched=True), Sequence("stays", 20, 90)
    replica.submit(gone, 0.0)
    replica.submit(stays, 0.0)
    events = replica.advance(at)
    replica.abort(gone, at)
    replica.abort(gone, at)
    while (then := replica.next_event_s()) is not None:
        events += replica.advance(then)
    assert not any(e.sequence is gone and e.finished for e in events)
    assert [e.sequence for e in events if e.finished] == [stays]
    assert replica.scheduler.pool.used == 0
    assert (replica.counters.aborted, replica.counters.finished) == (1, 1)


def test_an_abort_after_the_end_changes_nothing():
    replica = Replica(EngineLimits(100), StepTime(fixed_s=0.010))
    (seq,) = open_loop(replica, [(0.0, Sequence("a", 10, 3))])
    replica.abort(seq, 5.0)
    assert replica.counters.aborted == 0 and replica.counters.finished == 1


# --- counters ---------------------------------------------------------------------------------------------


def test_counters_add_up_to_what_the_requests_saw():
    replica = Replica(EngineLimits(60, block_size=4, max_num_batched_tokens=32, max_num_seqs=6), STEP)
    seqs = open_loop(replica, [(0.03 * i, Sequence(str(i), 20 + i, 30 + i)) for i in range(12)])
    counters = replica.counters
    assert counters.finished == counters.time_to_first_token.count == 12
    assert counters.prompt_tokens == sum(s.prompt_tokens for s in seqs)
    assert counters.generation_tokens == sum(s.output_tokens for s in seqs)
    assert counters.inter_token_latency.count == sum(s.output_tokens - 1 for s in seqs)
    gaps = sum(s.last_token_s - s.first_token_s for s in seqs)
    assert counters.inter_token_latency.sum == pytest.approx(gaps)
    assert counters.phases["decode"].sum == pytest.approx(gaps)
    spans = [s.times() for s in seqs]
    assert counters.phases["queue"].sum == pytest.approx(sum(t[1] - t[0] for t in spans))
    assert counters.phases["prefill"].sum == pytest.approx(sum(t[2] - t[1] for t in spans))
    assert counters.phases["e2e"].sum == pytest.approx(sum(t[3] - t[0] for t in spans))
    assert counters.time_to_first_token.sum == pytest.approx(sum(t[2] - t[0] for t in spans))
    assert counters.time_per_output_token.count == 12


def test_ten_thousand_requests_are_all_in_the_histograms():
    replica = Replica(EngineLimits(1000, max_num_seqs=64), StepTime(fixed_s=0.010))
    closed_loop(replica, lambda i: Sequence(str(i), 5, 2 + i % 3), 10_000, 64)
    assert replica.counters.finished == replica.counters.phases["e2e"].count == 10_000
    assert replica.counters.time_per_output_token.count == 10_000


def test_gauges_read_in_the_middle_of_a_leap_are_those_of_that_moment():
    replica = Replica(EngineLimits(101), StepTime(fixed_s=0.010))
    replica.submit(Sequence("a", 160, 200), 0.0)
    replica.settle(0.405)  # the prompt and 39 tokens are computed, the 40th is being: 200 tokens
    assert replica.scheduler.pool.usage == pytest.approx(0.13)
    assert len(replica.scheduler.running) == 1
    assert replica.counters.generation_tokens == 40
    drain(replica)
    assert replica.scheduler.pool.used == 0


def test_a_histogram_counts_up_to_and_including_its_bounds():
    replica = Replica(EngineLimits(100), StepTime(fixed_s=0.010))
    open_loop(replica, [(0.0, Sequence("a", 10, 3))])
    histogram = replica.counters.inter_token_latency
    assert histogram.bounds[:2] == (0.01, 0.025)
    assert histogram.cumulative[1] == histogram.cumulative[-1] == 2
