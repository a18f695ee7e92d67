"""Step times: the formula on stated numbers, and what is refused."""

import pytest

from nlqlib.twin.limits import EngineError, EngineLimits
from nlqlib.twin.scheduler import Scheduler
from nlqlib.twin.sequence import Sequence
from nlqlib.twin.step_time import StepTime, from_json

GRAPHS = (1, 2, 4, 8, 16, 24, 32)


def test_a_step_pays_for_weights_or_arithmetic_whichever_is_larger():
    step_time = StepTime(weights_s=0.020, token_s=0.0001)
    assert step_time.features_s(tokens=32, sequences=32, logical=0, distinct=0) == pytest.approx(0.020)
    assert step_time.features_s(tokens=2048, sequences=1, logical=0, distinct=0) == pytest.approx(0.2048)


def test_every_coefficient_adds_its_feature():
    step_time = StepTime(
        fixed_s=1.0, sequence_s=0.1, kv_logical_s=1e-3, kv_distinct_s=1e-4, attention_s=1e-6, mixed_s=0.5
    )
    seconds = step_time.features_s(tokens=9, sequences=2, logical=300, distinct=200, pairs=1000.0, mixed=True)
    assert seconds == pytest.approx(1.0 + 0.2 + 0.3 + 0.02 + 0.001 + 0.5)


@pytest.mark.parametrize(("sequences", "runs_as"), [(1, 1), (3, 4), (17, 24), (24, 24), (33, 33)])
def test_a_batch_is_padded_to_the_next_captured_graph(sequences, runs_as):
    assert StepTime(graph_sizes=GRAPHS).padded(sequences) == runs_as


def test_eighteen_sequences_cost_what_twenty_four_cost_in_padding_alone():
    step_time = StepTime(padded_s=0.001, graph_sizes=GRAPHS)
    assert step_time.features_s(18, 18, 0, 0) == step_time.features_s(24, 24, 0, 0)
    assert step_time.features_s(16, 16, 0, 0) < step_time.features_s(18, 18, 0, 0)


def test_a_shared_prefix_is_read_once_or_by_everyone():
    scheduler = Scheduler(EngineLimits(1000))
    tokens = list(range(1600))
    for name in "abc":
        scheduler.add(Sequence(name, 1600, 9, scheduler.table.chain(tokens)))
    scheduler.plan()
    batch = scheduler.plan()
    logical = 3 * 1601
    assert batch.context == logical
    assert StepTime(kv_logical_s=1.0).batch_s(batch) == pytest.approx(logical)
    assert StepTime(kv_distinct_s=1.0).batch_s(batch) == pytest.approx(logical - 2 * 99 * 16)


def test_prompt_tokens_attend_to_what_comes_before_them():
    scheduler = Scheduler(EngineLimits(1000, max_num_batched_tokens=100))
    scheduler.add(Sequence("a", 200, 9))
    first, second = scheduler.plan(), scheduler.plan()
    per_pair = StepTime(attention_s=1.0)
    assert per_pair.batch_s(first) == 100 * 101 / 2
    assert per_pair.batch_s(first) + per_pair.batch_s(second) == 200 * 201 / 2


def test_decode_steps_grow_by_one_token_per_sequence():
    step_time = StepTime(fixed_s=0.01, kv_logical_s=2e-6, kv_distinct_s=1e-6)
    grown = step_time.features_s(5, 5, 105, 65) - step_time.features_s(5, 5, 100, 60)
    assert step_time.growth_s(5) == pytest.approx(grown)


@pytest.mark.parametrize("value", [-1.0, float("nan"), float("inf")])
def test_a_coefficient_must_be_finite_and_not_negative(value):
    with pytest.raises(EngineError, match="fixed_s"):
        StepTime(fixed_s=value)


def test_graph_sizes_must_ascend():
    with pytest.raises(EngineError, match="ascending"):
        StepTime(graph_sizes=(1, 4, 2))


def test_stored_coefficients_come_back_and_an_unknown_one_is_refused():
    assert from_json({"fixed_s": 0.01, "graph_sizes": [1, 2]}) == StepTime(fixed_s=0.01, graph_sizes=(1, 2))
    with pytest.raises(EngineError, match=r"'fixd_s'.*known are"):
        from_json({"fixd_s": 0.01})
