"""Scenario files: what runs, and how each mistake is refused."""

import copy
import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.twin import model
from nlqlib.twin.scenario import ScenarioError, from_json, parse, run

GOOD = {
    "engine": {"num_gpu_blocks": 100, "max_num_seqs": 8},
    "step_time": {"fixed_s": 0.01},
    "requests": [
        {"arrival_s": 0.0, "prompt_tokens": 100, "output_tokens": 5},
        {"arrival_s": 0.105, "prompt_tokens": 100, "output_tokens": 5, "id": "late"},
    ],
}


def changed(path: str, value: object) -> dict:
    """`GOOD` with the value at `path` replaced; `None` removes it."""
    scenario = copy.deepcopy(GOOD)
    *parents, last = [int(p) if p.isdigit() else p for p in path.split(".")]
    at = scenario
    for key in parents:
        at = at[key]
    if value is None:
        del at[last]
    else:
        at[last] = value
    return scenario


def test_each_request_gets_its_times_in_the_order_of_the_file():
    outcome = run(from_json(GOOD))
    first, late = outcome.requests
    assert (first.id, late.id) == ("0", "late")
    times = (first.queued_s, first.scheduled_s, first.first_token_s, first.last_token_s)
    assert times == pytest.approx((0.0, 0.0, 0.01, 0.05))
    assert (late.queued_s, late.scheduled_s, late.last_token_s) == pytest.approx((0.105, 0.105, 0.155))
    assert (outcome.steps, outcome.preemptions) == (10, 0)


def test_requests_need_not_be_sorted_by_arrival():
    backwards = changed("requests", list(reversed(GOOD["requests"])))
    backwards["requests"][1]["id"] = "early"
    assert [r.id for r in run(from_json(backwards)).requests] == ["late", "early"]
    assert run(from_json(backwards)).requests[0].queued_s == 0.105


def test_equal_token_ids_hit_the_cache_and_a_salt_keeps_them_apart():
    ids = list(range(3300))
    request = {"prompt_token_ids": ids, "output_tokens": 1}
    scenario = from_json(
        {
            "engine": {"num_gpu_blocks": 1000},
            "step_time": {"fixed_s": 0.01},
            "requests": [
                {"arrival_s": 0.0, **request},
                {"arrival_s": 1.0, **request},
                {"arrival_s": 2.0, **request, "cache_salt": "other"},
            ],
        }
    )
    outcome = run(scenario)
    assert [r.cached_tokens for r in outcome.requests] == [0, 3296, 0]
    assert (outcome.prefix_cache_queries, outcome.prefix_cache_hits) == (9900, 3296)


def test_lengths_without_ids_share_nothing():
    assert [r.cached_tokens for r in run(from_json(GOOD)).requests] == [0, 0]


def test_an_answer_of_known_tokens_is_found_by_the_next_turn():
    turn = list(range(40))
    scenario = from_json(
        {
            "engine": {"num_gpu_blocks": 100},
            "step_time": {"fixed_s": 0.01},
            "requests": [
                {"arrival_s": 0, "prompt_token_ids": turn[:20], "output_token_ids": turn[20:]},
                {"arrival_s": 9, "prompt_token_ids": [*turn, 99], "output_tokens": 1},
            ],
        }
    )
    assert run(scenario).requests[1].cached_tokens == 32


def test_a_stored_twin_brings_its_engine_and_the_scenario_may_change_it():
    scenario = from_json({**GOOD, "engine": {"max_num_seqs": 4}, "step_time": {"twin": "l4-qwen2.5-3b"}})
    twin = model.load()
    assert scenario.step_time == twin.step_time
    assert (scenario.limits.num_gpu_blocks, scenario.limits.max_num_seqs) == (twin.limits.num_gpu_blocks, 4)


def test_a_version_sets_its_flags_and_an_explicit_flag_wins():
    newer = from_json(changed("engine.vllm_version", "0.19.0")).limits
    assert newer.async_scheduling and newer.scheduler_reserve_full_isl
    mixed = changed("engine.vllm_version", "0.19.0")
    mixed["engine"]["async_scheduling"] = False
    assert from_json(mixed).limits.async_scheduling is False
    assert from_json(GOOD).limits.async_scheduling is False


def test_the_result_is_plain_json_and_byte_identical_every_time():
    text = json.dumps(GOOD)
    first, second = (json.dumps(run(parse(text)).to_json(), sort_keys=True) for _ in range(2))
    assert first == second
    assert set(json.loads(first)["requests"][0]) == {
        *("id", "queued_s", "scheduled_s", "first_token_s", "last_token_s"),
        *("prompt_tokens", "output_tokens", "cached_tokens", "preemptions"),
    }


@pytest.mark.parametrize(
    ("path", "value", "says"),
    [
        ("requests.0.arrival_s", -1.0, r"requests\[0\].arrival_s is -1.0; .* not negative"),
        ("requests.1.arrival_s", float("nan"), r"requests\[1\].arrival_s is nan"),
        ("requests.1.arrival_s", float("inf"), "finite"),
        ("requests.1.arrival_s", "soon", "'soon'"),
        ("requests.1.arrival_s", True, "finite number"),
        ("requests.1.arrival_s", None, "lacks 'arrival_s'"),
        ("requests.0.prompt_tokens", 0, "at least 1"),
        ("requests.0.prompt_tokens", 1.5, "whole number"),
        ("requests.0.prompt_tokens", None, r"lacks prompt_tokens \(or prompt_token_ids\)"),
        ("requests.0.output_tokens", -3, "at least 1"),
        ("requests.0.output_tokens", None, "lacks output_tokens"),
        ("requests.0.prompt_tokens", 5000, r"requests\[0\]: .* exceed the window of 1584"),
        ("requests.0.prompt_token_ids", [], "at least one token id"),
        ("requests.0.prompt_token_ids", [1, "a"], "at least one token id"),
        ("requests.0.prompt_token_ids", [1, 2], "prompt_token_ids has 2; leave one out"),
        ("requests.0.output_token_ids", [1, 2, 3, 4, 5], "mean nothing without prompt_token_ids"),
        ("requests.0.promt_tokens", 5, "did you mean 'prompt_tokens'"),
        ("requests.0.id", "late", "'late' is used twice"),
        ("requests", [], "at least one request"),
        ("requests", {}, "at least one request"),
        ("requests.0", 7, r"requests\[0\] must be an object"),
        ("requests", None, "lacks 'requests'"),
        ("engine.num_gpu_blocks", 0, "engine: num_gpu_blocks is 0"),
        ("engine.num_gpu_blocks", None, "engine lacks 'num_gpu_blocks'"),
        ("engine.num_gpu_blocks", 12.5, "whole number"),
        ("engine.max_num_seqs", 0, "max_num_seqs is 0"),
        ("engine.num_gpu_block", 12, "did you mean 'num_gpu_blocks'"),
        ("engine.zzz", 12, "known are num_gpu_blocks, block_size"),
        ("engine.max_num_batched_tokens", 4, "every running sequence"),
        ("engine.enable_prefix_caching", 1, "true or false"),
        ("engine.watermark", -0.1, "not negative"),
        ("engine.vllm_version", "new", "not of the form"),
        ("engine", [], "engine must be an object"),
        ("step_time.fixed_s", -0.01, "not negative"),
        ("step_time.fixed_s", 0.0, "take no time"),
        ("step_time.fxed_s", 0.1, "did you mean 'fixed_s'"),
        ("step_time.graph_sizes", [4, 2], "ascending"),
        ("step_time.graph_sizes", "4", "list of whole numbers"),
        ("step_time", {"twin": "l9"}, "there are: .*l4-qwen2.5-3b"),
        ("step_time", {"twin": "l4-qwen2.5-3b", "fixed_s": 1}, "unknown key 'fixed_s'"),
        ("request", [], "did you mean 'requests'"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_a_way_out(path, value, says):
    with pytest.raises(ScenarioError, match=says):
        from_json(changed(path, value))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "not JSON: .* line 1"),
        ("[]", "the scenario must be an object"),
        (json.dumps(GOOD).replace("0.105", "NaN"), "NaN is not a number"),
        (json.dumps(GOOD).replace("0.105", "-Infinity"), "-Infinity is not a number"),
        (json.dumps(GOOD).replace("0.105", "1e999"), "finite"),
    ],
)
def test_text_that_is_no_scenario_is_refused(text, says):
    with pytest.raises(ScenarioError, match=says):
        parse(text)


@pytest.mark.parametrize(
    ("path", "digits", "says"),
    [
        ("requests.0.arrival_s", 400, r"requests\[0\].arrival_s is 9+…; .* below 1e\+12"),
        ("requests.0.prompt_tokens", 400, r"requests\[0\].prompt_tokens is 9+…; .* whole number below"),
        ("engine.num_gpu_blocks", 30, "engine.num_gpu_blocks is 9+; .* whole number below"),
        ("engine.block_size", 11, "no block holds over 4096 tokens"),
        ("step_time.fixed_s", 400, "step_time.fixed_s is 9+…; .* below"),
        ("requests.0.arrival_s", 5000, "requests.*too long to be shown"),
    ],
)
def test_a_number_beyond_any_scenario_is_refused_with_its_place(path, digits, says):
    with pytest.raises(ScenarioError, match=says) as refused:
        from_json(changed(path, 10**digits - 1))
    assert len(str(refused.value)) < 300


def test_a_file_of_thousands_of_digits_or_brackets_is_refused():
    with pytest.raises(ScenarioError, match="a number that no scenario needs"):
        parse(json.dumps(GOOD).replace("0.105", "9" * 5000))
    with pytest.raises(ScenarioError, match="nested deeper than any scenario"):
        parse("[" * 100_000)


def test_the_largest_times_that_are_accepted_stay_finite():
    scenario = from_json(changed("step_time.fixed_s", 9e11))
    assert all(0 < one.last_token_s < float("inf") for one in run(scenario).requests)


def test_a_small_budget_needs_no_word_about_the_number_of_sequences():
    assert (
        from_json(
            {**GOOD, "engine": {"num_gpu_blocks": 100, "max_num_batched_tokens": 8}}
        ).limits.max_num_seqs
        == 8
    )


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@settings(max_examples=150, deadline=None)
@given(
    st.sampled_from(
        ["engine", "step_time", "requests", "requests.0", "engine.num_gpu_blocks", "step_time.fixed_s"]
    ),
    json_values,
)
def test_whatever_stands_in_a_file_it_runs_or_is_refused_by_name(path, value):
    try:
        scenario = from_json(changed(path, value))
    except ScenarioError:
        return
    assert scenario.requests
