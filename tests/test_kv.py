"""KV memory by arithmetic: the shapes on file, the two savings, blocks to the block of the engine's rules."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.analysis.kv import InFlight, blocks, blocks_in, needs, usage
from nlqlib.experiments.model_data import UnknownModelError, machine, machines, model_shape, models
from nlqlib.twin.blocks import HashTable
from nlqlib.twin.datasheet import L4, QWEN25_3B
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence
from nlqlib.twin.step_time import StepTime

QWEN = model_shape("Qwen/Qwen2.5-3B-Instruct")


# ---- shapes ----------------------------------------------------------------------------------------------


def test_parameters_follow_from_the_shape() -> None:
    assert {name.rsplit("/")[-1]: shape.parameters for name, shape in models().items()} == {
        "Qwen2.5-3B-Instruct": 3_085_938_688,
        "Qwen2.5-Coder-1.5B-Instruct": 1_543_714_304,
        "Qwen2.5-7B-Instruct": 7_615_616_512,
    }


def test_a_shape_on_file_is_the_twins_own() -> None:
    assert QWEN.transformer == QWEN25_3B
    assert machine("NVIDIA L4 (24 GB, 300 GB/s)").peaks == L4


def test_an_untied_head_is_read_by_a_step_and_the_embedding_table_is_not() -> None:
    seven = model_shape("Qwen2.5-7B-Instruct")
    assert seven.parameters - seven.streamed_parameters == 152_064 * 3_584


def test_kv_bytes_of_a_token() -> None:
    assert QWEN.kv_bytes_per_token == 36_864
    assert model_shape("Qwen2.5-Coder-1.5B-Instruct").kv_bytes_per_token == 28_672
    assert model_shape("Qwen2.5-7B-Instruct").kv_bytes_per_token == 57_344


def test_two_of_sixteen_heads_make_a_token_eight_times_smaller() -> None:
    assert QWEN.gqa_factor == 8
    assert QWEN.multi_head.kv_bytes_per_token == 8 * QWEN.kv_bytes_per_token


def test_an_unknown_name_suggests_one_on_file() -> None:
    with pytest.raises(UnknownModelError, match=r"did you mean Qwen/Qwen2\.5-3B-Instruct"):
        model_shape("Qwen/Qwen2.5-3B-Instrukt")
    with pytest.raises(UnknownModelError, match="NVIDIA L4"):
        machine("AMD EPYC 7763")


def test_an_l40s_is_no_l4() -> None:
    assert machine("NVIDIA L40S").name == "NVIDIA L40S"
    assert machine("NVIDIA H100 80GB HBM3 SXM").name == "NVIDIA H100 SXM"
    assert all(m.memory_bytes > 20e9 for m in machines().values())


# ---- blocks ----------------------------------------------------------------------------------------------


def test_one_request_holds_what_it_needs_whether_or_not_blocks_are_shared() -> None:
    alone = InFlight(1, (100,), 64, 1)
    assert blocks(alone, 16).total == blocks(alone, 16, sharing=False).total == 7


def test_shared_per_prompt_and_own_blocks() -> None:
    # four requests over two prompts of 100 tokens that share 50: 3 full blocks of 16 for all, 3 more for each
    # prompt, and for each request the block that its last 4 prompt tokens and 8 of the answer fill
    found = blocks(InFlight(4, (100, 100), 50, 8), 16)
    assert (found.shared, found.per_prompt, found.own) == (3, 6, 4)


def test_without_sharing_every_request_holds_its_whole_prompt() -> None:
    assert blocks(InFlight(4, (100, 100), 50, 8), 16, sharing=False).total == 4 * 7


def test_growth_counts_the_mean_over_the_answer() -> None:
    # 15 … 18 tokens: one block for the first two lengths, two for the others
    assert blocks(InFlight(1, (15,), 0, 4), 16).total == 1.5


def test_the_articles_usage_is_predicted_without_a_fit() -> None:
    load = InFlight(28, (3309, 3326, 3320), 3301, 115)
    capacity = blocks_in(20.5e9, QWEN, 16)
    assert capacity == pytest.approx((20.5e9 - 6.1719e9) / (16 * 36_864), rel=1e-4)
    assert usage(blocks(load, 16).total, capacity) == pytest.approx(0.015, abs=0.005)


def test_the_savings_multiply() -> None:
    load = InFlight(28, (3320,), 3301, 115)
    found = {(n.sharing, n.grouped): n.kv_bytes for n in needs(QWEN, load, 16)}
    assert found[True, False] / found[True, True] == 8
    assert found[False, False] / found[False, True] == 8
    sharing = found[False, True] / found[True, True]
    assert sharing == pytest.approx(found[False, False] / found[True, False])
    assert 10 < sharing < 28


def test_more_than_there_is_does_not_fit() -> None:
    assert usage(30, 21) == 1.5
    with pytest.raises(ValueError, match="reserved"):
        usage(1, 1)
    with pytest.raises(ValueError, match="do not hold the weights"):
        blocks_in(6e9, QWEN, 16)


def test_a_prefix_longer_than_a_prompt_is_refused() -> None:
    with pytest.raises(ValueError, match="shortest has 10"):
        InFlight(1, (10, 20), 11, 1)
    with pytest.raises(ValueError, match="at least one request"):
        InFlight(0, (10,), 1, 1)
    with pytest.raises(ValueError, match="holds nothing"):
        blocks(InFlight(1, (10,), 1, 1), 0)


@given(
    requests=st.integers(1, 40),
    prompts=st.lists(st.integers(1, 400), min_size=1, max_size=5),
    output=st.integers(1, 40),
    block_size=st.sampled_from([1, 16, 128]),
    data=st.data(),
)
def test_sharing_never_needs_more_and_never_less_than_its_tokens(
    requests: int, prompts: list[int], output: int, block_size: int, data: st.DataObject
) -> None:
    load = InFlight(requests, tuple(prompts), data.draw(st.integers(0, min(prompts))), output)
    shared, apart = (blocks(load, block_size, s).total for s in (True, False))
    assert shared <= apart + 1e-9
    assert apart * block_size >= requests * sum(prompts) / len(prompts) - 1e-9
    assert min(blocks(load, block_size).__dict__.values()) >= -1e-9


@pytest.mark.parametrize("prompt", [100, 96])
@pytest.mark.parametrize("sharing", [True, False])
def test_the_mean_over_an_answer_is_what_the_engines_own_pool_holds(sharing: bool, prompt: int) -> None:
    output, n, table = 24, 4, HashTable(16)
    limits = EngineLimits(num_gpu_blocks=200, max_num_batched_tokens=1024, enable_prefix_caching=sharing)
    replica = Replica(limits, StepTime(fixed_s=1.0), table)
    held_by(replica, [Sequence("warm", prompt, 1, table.chain(range(prompt)))], at_s=0, steps=1)
    asked = [Sequence(str(i), prompt, output, table.chain(range(prompt))) for i in range(n)]
    held = held_by(replica, asked, at_s=100, steps=output)
    wanted = blocks(InFlight(n, (prompt,), prompt - 4, output), 16, sharing).total
    assert sum(held) / len(held) == pytest.approx(wanted)


def held_by(replica: Replica, asked: list[Sequence], at_s: float, steps: int) -> list[int]:
    """Blocks in use in the middle of each of `steps` steps of one second."""
    for sequence in asked:
        replica.submit(sequence, at_s)
    held = []
    for step in range(steps):
        replica.settle(at_s + step + 0.5)
        held.append(replica.scheduler.pool.used)
    replica.advance(at_s + steps)
    return held
