"""What vLLM calls its metrics, by version."""

import pytest

from nlqlib.metric_names import (
    COUNTERS,
    HISTOGRAMS,
    QUANTITIES,
    SAMPLED_NAMES,
    MetricNameError,
    is_of_vllm,
    name_in,
    quantity,
)


@pytest.mark.parametrize(
    ("key", "version", "name"),
    [
        ("kv_usage", "0.8", "vllm:gpu_cache_usage_perc"),
        ("kv_usage", "0.12.0", "vllm:kv_cache_usage_perc"),
        ("queries", "0.8.5", "vllm:gpu_prefix_cache_queries"),
        ("queries", "v0.32.0", "vllm:prefix_cache_queries"),
        ("hits", "0.12", "vllm:prefix_cache_hits"),
        ("itl_s", "0.10.2", "vllm:time_per_output_token_seconds"),
        ("itl_s", "0.32", "vllm:inter_token_latency_seconds"),
        ("waiting", "0.12", "vllm:num_requests_waiting"),
        ("waiting", "0.32", "vllm:num_requests_waiting"),
        ("queue_s", "0.12", "vllm:request_queue_time_seconds"),
        ("ttft_s", "0.40", "vllm:time_to_first_token_seconds"),
    ],
)
def test_a_quantity_has_the_name_of_its_version(key: str, version: str, name: str) -> None:
    assert name_in(key, version) == name


def test_a_quantity_of_later_has_no_name_yet() -> None:
    assert name_in("tpot_s", "0.8") is None


@pytest.mark.parametrize("key", QUANTITIES)
def test_every_version_of_the_range_names_every_quantity_but_the_newest(key: str) -> None:
    named = [name_in(key, f"0.{minor}") for minor in range(8, 33)]
    assert all(named) or key == "tpot_s"


def test_the_newest_name_is_read_first() -> None:
    assert quantity("hits").bases[0] == "vllm:prefix_cache_hits"
    assert quantity("hits").bases.index("vllm:gpu_prefix_cache_hits") > 0


def test_a_counter_shows_by_its_total_and_a_histogram_by_its_count() -> None:
    assert quantity("prompt_tokens").samples[0] == "vllm:prompt_tokens_total"
    assert quantity("ttft_s").samples[0] == "vllm:time_to_first_token_seconds_count"
    assert quantity("running").samples[0] == "vllm:num_requests_running"


def test_no_sample_name_belongs_to_two_quantities() -> None:
    names = [name for q in QUANTITIES.values() for name in q.samples]
    assert len(names) == len(set(names))


def test_no_name_is_that_of_a_creation_time_or_of_the_histogram_of_iterations() -> None:
    names = [name for q in QUANTITIES.values() for name in q.samples]
    assert not [name for name in names if name.endswith("_created") or "iteration_tokens" in name]


def test_sampling_asks_for_running_waiting_and_kv_usage_only() -> None:
    vllm = {name for name in SAMPLED_NAMES if name.startswith("vllm:")}
    assert vllm == {
        "vllm:num_requests_running",
        "vllm:num_requests_waiting",
        "vllm:num_requests_waiting_by_reason",
        "vllm:kv_cache_usage_perc",
        "vllm:gpu_cache_usage_perc",
    }


def test_keys_are_split_by_kind() -> None:
    assert {"queries", "hits", "preemptions", "requests_finished"} <= set(COUNTERS)
    assert {"queue_s", "prefill_s", "decode_s", "e2e_s"} <= set(HISTOGRAMS)


def test_ray_s_exporter_is_known_by_its_prefix() -> None:
    assert is_of_vllm("ray_vllm_num_requests_running")
    assert "ray_vllm_num_requests_running" in SAMPLED_NAMES
    assert not is_of_vllm("process_start_time_seconds")


def test_an_unknown_quantity_names_those_there_are() -> None:
    with pytest.raises(MetricNameError, match="no quantity is called 'ttft': use one of running"):
        quantity("ttft")


def test_a_version_that_is_none_is_refused() -> None:
    with pytest.raises(MetricNameError, match="is no version of vLLM"):
        name_in("hits", "latest")
