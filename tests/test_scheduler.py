"""The scheduler against stated cases, and against a plain engine that follows vLLM's rules token by token."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_engine import PlainEngine, Request

from nlqlib.twin.limits import EngineError, EngineLimits, version_defaults
from nlqlib.twin.scheduler import Scheduler
from nlqlib.twin.sequence import DONE, Batch, Sequence


def chunks(batch: Batch) -> dict[str, int]:
    return {c.sequence.request_id: c.tokens for c in batch.chunks}


def step(scheduler: Scheduler) -> Batch | None:
    batch = scheduler.plan()
    if batch is not None:
        scheduler.finish(batch.finishing)
    return batch


def run_dry(scheduler: Scheduler) -> None:
    while step(scheduler) is not None:
        pass


def prompt(scheduler: Scheduler, name: str, tokens: list[int], output: int = 1) -> Sequence:
    return Sequence(name, len(tokens), output, scheduler.table.chain(tokens))


# --- case 4 -----------------------------------------------------------------------------------------------


def test_two_cold_3300_token_prompts_share_the_budget_of_2048():
    scheduler = Scheduler(EngineLimits(1000))
    scheduler.add(Sequence("A", 3300, 10))
    scheduler.add(Sequence("B", 3300, 10))
    first, second, third, fourth = (step(scheduler) for _ in range(4))
    assert chunks(first) == {"A": 2048} and first.decodes == 0
    assert chunks(second) == {"A": 1252, "B": 796} and second.decodes == 0
    assert chunks(third) == {"B": 2047} and third.decodes == 1
    assert chunks(fourth) == {"B": 457} and fourth.decodes == 1


# --- case 5 -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("length", "hits", "computed"), [(3300, 3296, 4), (3296, 3280, 16)])
def test_the_repeat_of_a_prompt_hits_all_full_blocks_but_computes_its_last_token(length, hits, computed):
    scheduler = Scheduler(EngineLimits(1000))
    tokens = list(range(length))
    scheduler.add(prompt(scheduler, "first", tokens))
    run_dry(scheduler)
    again = prompt(scheduler, "again", tokens)
    scheduler.add(again)
    assert chunks(step(scheduler)) == {"again": computed}
    assert again.cached_tokens == hits
    assert (scheduler.queries, scheduler.hits) == (2 * length, hits)


def test_of_two_cold_identical_prompts_in_one_step_the_second_hits_992():
    scheduler = Scheduler(EngineLimits(1000, max_num_batched_tokens=2048))
    first, second = (prompt(scheduler, name, list(range(1000)), 5) for name in "ab")
    scheduler.add(first)
    scheduler.add(second)
    assert chunks(step(scheduler)) == {"a": 1000, "b": 8}
    assert (first.cached_tokens, second.cached_tokens) == (0, 992)


# --- single rules -----------------------------------------------------------------------------------------


def test_no_more_than_max_num_seqs_run():
    scheduler = Scheduler(EngineLimits(100, max_num_seqs=3))
    for i in range(5):
        scheduler.add(Sequence(str(i), 10, 5))
    assert list(chunks(step(scheduler))) == ["0", "1", "2"]
    assert len(scheduler.running) == 3 and len(scheduler.waiting) == 2


def test_the_first_come_is_first_served_even_if_a_later_prompt_would_fit():
    scheduler = Scheduler(EngineLimits(11, block_size=4, max_num_batched_tokens=64, max_num_seqs=8))
    scheduler.add(Sequence("runs", 24, 8))
    step(scheduler)
    scheduler.add(Sequence("long", 20, 4))
    scheduler.add(Sequence("short", 2, 4))
    assert step(scheduler).chunks == []


def test_preemption_takes_the_tail_and_puts_it_at_the_head_of_the_queue():
    scheduler = Scheduler(EngineLimits(6, block_size=4, max_num_batched_tokens=64, max_num_seqs=8))
    for name in ("old", "young"):
        scheduler.add(Sequence(name, 8, 8))
    scheduler.add(Sequence("late", 8, 8))
    admitted = step(scheduler)
    assert list(chunks(admitted)) == ["old", "young"]
    preempting = step(scheduler)
    assert [s.request_id for s in preempting.preempted] == ["young"]
    assert [s.request_id for s in scheduler.waiting] == ["young", "late"]
    assert preempting.decodes == 1 and preempting.chunks == []
    assert scheduler.preemptions == 1


def test_a_preempted_request_finds_its_own_blocks_again():
    scheduler = Scheduler(EngineLimits(7, block_size=4, max_num_batched_tokens=64, max_num_seqs=8))
    old, young = Sequence("old", 12, 4), Sequence("young", 8, 6)
    scheduler.add(old)
    scheduler.add(young)
    found = None
    while (batch := step(scheduler)) is not None:
        for chunk in batch.chunks:
            if chunk.sequence is young and young.preemptions:
                found = chunk.start
    assert young.preemptions == 1 and found is not None and found > 0
    assert young.cached_tokens == 0
    assert young.state == DONE


def test_an_engine_that_reserves_the_whole_prompt_waits_where_another_admits_the_first_chunk():
    def admitted(reserve: bool) -> list[str]:
        limits = EngineLimits(
            11, block_size=4, max_num_batched_tokens=16, max_num_seqs=8, scheduler_reserve_full_isl=reserve
        )
        scheduler = Scheduler(limits)
        scheduler.add(Sequence("runs", 12, 4))
        step(scheduler)
        scheduler.add(Sequence("long", 32, 2))
        return list(chunks(step(scheduler)))

    assert admitted(False) == ["long"]
    assert admitted(True) == []


def test_a_watermark_keeps_blocks_free_beside_others_but_never_stops_the_only_request():
    limits = EngineLimits(11, block_size=4, max_num_batched_tokens=64, max_num_seqs=8, watermark=0.5)
    scheduler = Scheduler(limits)
    scheduler.add(Sequence("large", 24, 4))
    assert chunks(step(scheduler)) == {"large": 24}
    scheduler.add(Sequence("small", 4, 4))
    assert chunks(step(scheduler)) == {}


def test_a_blocked_head_counts_a_lookup_in_every_step_or_only_at_admission():
    def queries(at_admission: bool) -> int:
        limits = EngineLimits(
            8, block_size=4, max_num_batched_tokens=64, max_num_seqs=8, count_at_admission=at_admission
        )
        scheduler = Scheduler(limits)
        scheduler.add(Sequence("runs", 20, 4))
        step(scheduler)
        scheduler.add(Sequence("blocked", 12, 4))
        for _ in range(3):
            step(scheduler)
        return scheduler.queries

    assert queries(at_admission=True) == 20
    assert queries(at_admission=False) == 20 + 3 * 12


def test_without_prefix_caching_nothing_is_looked_up():
    scheduler = Scheduler(EngineLimits(1000, enable_prefix_caching=False))
    for name in "ab":
        scheduler.add(prompt(scheduler, name, list(range(100))))
    assert chunks(step(scheduler)) == {"a": 100, "b": 100}
    assert (scheduler.queries, scheduler.hits) == (0, 0)


def test_generated_tokens_of_known_content_are_found_by_the_next_turn():
    scheduler = Scheduler(EngineLimits(100, block_size=4, max_num_batched_tokens=64, max_num_seqs=8))
    turn = list(range(20))
    scheduler.add(Sequence("one", 10, 10, scheduler.table.chain(turn)))
    run_dry(scheduler)
    following = prompt(scheduler, "two", [*turn, 90, 91])
    scheduler.add(following)
    step(scheduler)
    assert following.cached_tokens == 16  # the last generated token was never computed: 19 tokens, 4 blocks


def test_an_aborted_request_leaves_no_trace():
    scheduler = Scheduler(EngineLimits(100, max_num_seqs=2))
    running, partial, waiting = Sequence("r", 20, 50), Sequence("p", 2040, 50), Sequence("w", 20, 50)
    scheduler = Scheduler(EngineLimits(400, max_num_seqs=2))
    for seq in (running, partial, waiting):
        scheduler.add(seq)
    step(scheduler)
    assert scheduler.partial is partial
    for seq in (running, partial, waiting):
        scheduler.abort(seq)
        scheduler.abort(seq)
    assert scheduler.pool.used == 0 and not scheduler.running and not scheduler.waiting
    assert scheduler.plan() is None


def test_extending_a_run_equals_planning_its_steps_one_by_one():
    def outcome(leap: bool) -> tuple[list[str], int, int, int]:
        scheduler = Scheduler(EngineLimits(300))
        for i in range(6):
            scheduler.add(Sequence(str(i), 100 + 37 * i, 40 + 11 * i))
        ended: list[str] = []
        while (batch := scheduler.plan()) is not None:
            finishing = batch.finishing
            if leap and not batch.chunks and not finishing:
                finishing = scheduler.extend(scheduler.extension())
            scheduler.finish(finishing)
            ended += [s.request_id for s in finishing]
        return ended, scheduler.decode.steps, scheduler.pool.free, scheduler.preemptions

    assert outcome(True)[0] == outcome(False)[0]
    assert outcome(True)[2:] == outcome(False)[2:]


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"num_gpu_blocks": 0}, "at least 1"),
        ({"num_gpu_blocks": 1}, "reserved"),
        ({"num_gpu_blocks": 10**12}, "more than any device"),
        ({"num_gpu_blocks": 9, "max_num_batched_tokens": 16, "max_num_seqs": 32}, "every running sequence"),
        ({"num_gpu_blocks": 9, "watermark": 1.0}, "watermark"),
        ({"num_gpu_blocks": 9, "max_model_len": 1}, "max_model_len"),
        ({"num_gpu_blocks": 9000, "enable_chunked_prefill": False}, "chunked prefill"),
    ],
)
def test_settings_no_engine_could_run_with_are_refused(settings, says):
    with pytest.raises(EngineError, match=says):
        EngineLimits(**settings)


@pytest.mark.parametrize(
    ("prompt_tokens", "output_tokens", "says"),
    [
        (4000, 97, "exceed the window of 4096"),
        (0, 5, "at least one"),
        (5, 0, "at least one"),
        (3000, 700, "blocks"),
    ],
)
def test_a_request_the_engine_could_never_finish_is_refused(prompt_tokens, output_tokens, says):
    scheduler = Scheduler(EngineLimits(200, max_model_len=4096))
    with pytest.raises(EngineError, match=says):
        scheduler.add(Sequence("x", prompt_tokens, output_tokens))


def test_flags_follow_the_version():
    assert version_defaults("0.12.0") == {
        "async_scheduling": False,
        "scheduler_reserve_full_isl": False,
        "count_at_admission": False,
        "reuse_unhashed_first": False,
    }
    assert (
        version_defaults("0.19")["scheduler_reserve_full_isl"]
        and version_defaults("v0.32.0")["count_at_admission"]
    )
    with pytest.raises(EngineError, match="of the form"):
        version_defaults("latest")


# --- against the plain engine -----------------------------------------------------------------------------

arrivals = st.lists(
    st.tuples(st.integers(0, 12), st.integers(0, 2), st.integers(1, 40), st.integers(1, 30), st.booleans()),
    min_size=1,
    max_size=12,
)


@settings(max_examples=150, deadline=None)
@given(
    arrivals,
    st.integers(19, 40),
    st.integers(8, 30),
    st.integers(1, 8),
    st.booleans(),
    st.booleans(),
    st.sampled_from([0.0, 0.1]),
    st.booleans(),
)
def test_every_step_is_the_plain_engines(requests, blocks, budget, seqs, whole, unhashed, watermark, every):
    limits = EngineLimits(
        blocks,
        block_size=4,
        max_num_batched_tokens=budget,
        max_num_seqs=seqs,
        scheduler_reserve_full_isl=whole,
        reuse_unhashed_first=unhashed,
        watermark=watermark,
        count_at_admission=not every,
    )
    scheduler = Scheduler(limits)
    plain = PlainEngine(blocks, 4, budget, seqs, whole, unhashed, watermark, every)
    todo = []
    for number, (at, family, length, output, known) in enumerate(requests):
        tokens = [family] * length
        generated = [1000 + family] * output if known else [(number, i) for i in range(output)]
        chain = scheduler.table.chain(tokens + generated if known else tokens)
        todo.append(
            (at, Sequence(str(number), length, output, chain), Request(str(number), tokens, generated))
        )
    todo.sort(key=lambda t: t[0])
    ours, theirs = {}, {}
    for now in range(2000):
        while todo and todo[0][0] <= now:
            _, seq, request = todo.pop(0)
            scheduler.add(seq)
            plain.waiting.append(request)
            ours[seq.request_id], theirs[seq.request_id] = seq, request
        expected, preempted = plain.plan()
        batch = scheduler.plan()
        if batch is None:
            assert expected == {}
        else:
            assert chunks(batch) == {n: k for n, k in expected.items() if n in chunks(batch)}
            assert batch.decodes == len(expected) - len(batch.chunks)
            assert batch.tokens == sum(expected.values()) <= budget
            assert [s.request_id for s in batch.preempted] == preempted
            assert sorted(s.request_id for s in batch.finishing) == sorted(plain.finish())
            scheduler.finish(batch.finishing)
        assert [s.request_id for s in scheduler.running] == [r.name for r in plain.running]
        assert [s.request_id for s in scheduler.waiting] == [r.name for r in plain.waiting]
        assert scheduler.pool.free == len(plain.queue)
        assert (scheduler.queries, scheduler.hits) == (plain.queries, plain.hits)
        if not todo and not plain.running and not plain.waiting:
            break
    assert not plain.waiting
    for name, seq in ours.items():
        assert (seq.cached_tokens, seq.preemptions) == (theirs[name].cached, theirs[name].preemptions)
