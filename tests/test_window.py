"""Windows between two scrapes: the server-side cases of the measurement page, and what surrounds them."""

import gzip
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from metrics_pages import between, counter, failed, gauge, histogram, labels, scrape, start_time

from nlqlib.analysis.exposition import ExpositionError, Page
from nlqlib.analysis.histogram import Histogram, pooled
from nlqlib.analysis.stats import Interval
from nlqlib.analysis.window import (
    Sample,
    Scrape,
    Window,
    foreign_traffic_rules,
    levels,
    parse,
    replica_windows,
    scrape_of,
    snapshot,
    window,
)
from nlqlib.metric_names import HISTOGRAMS

QUERIES, HITS = "vllm:prefix_cache_queries", "vllm:prefix_cache_hits"
QUEUE = "vllm:request_queue_time_seconds"


# Cases of the measurement page with known right values


def test_case_3_a_creation_time_beside_a_counter_is_no_count() -> None:
    found = between(counter(QUERIES, 0), counter(QUERIES, 32))
    assert found.queries == 32


def test_case_3_waiting_is_its_own_total_and_not_the_reasons_on_top() -> None:
    reasons = "".join(
        f"vllm:num_requests_waiting_by_reason{labels(reason=reason)} {n}\n"
        for reason, n in (("capacity", 4), ("deferred", 1))
    )
    page = gauge("vllm:num_requests_waiting", 5) + reasons
    assert between(page, page).waiting == 5
    assert between(reasons, reasons).waiting == 5


def test_case_4_an_old_and_a_new_name_give_one_value() -> None:
    def page(n: int) -> str:
        return counter(QUERIES, n) + counter("vllm:gpu_prefix_cache_queries", n)

    assert between(page(100), page(132)).queries == 32


def test_case_4_the_old_name_alone_is_read_too() -> None:
    def page(n: int) -> str:
        return counter("vllm:gpu_prefix_cache_queries", n) + gauge("vllm:gpu_cache_usage_perc", 0.25)

    found = between(page(100), page(132))
    assert (found.queries, found.kv_usage) == (32, 0.25)


def test_case_4_neither_name_is_missing_and_not_zero() -> None:
    found = between(gauge("vllm:num_requests_running", 0), gauge("vllm:num_requests_running", 0))
    assert (found.running, found.queries, found.hits, found.hit_rate) == (0, None, None, None)
    assert (found.queue_s, found.kv_usage, found.preemptions, found.blocks) == (None,) * 4
    assert found.valid


def test_case_5_two_engines_add_up() -> None:
    page = gauge("vllm:num_requests_running", 3) + gauge("vllm:num_requests_running", 5, engine="1")
    found = between(page, page)
    assert (found.running, found.engines) == (8, 2)


def test_case_5_a_pooled_mean_is_not_a_mean_of_means() -> None:
    before = histogram(QUEUE, []) + histogram(QUEUE, [], engine="1")
    after = histogram(QUEUE, [1.0]) + histogram(QUEUE, [0.2] * 9, engine="1")
    assert between(before, after).queue_s == pytest.approx((1.0 + 9 * 0.2) / 10)


def test_case_5_two_urls_add_up_as_two_engines_do() -> None:
    before = scrape(0, counter(HITS, 5), counter(HITS, 100))
    after = scrape(60, counter(HITS, 8), counter(HITS, 105))
    assert window(before, after).hits == 8


def test_case_6_a_percentile_in_the_first_bucket_is_only_bounded() -> None:
    found = between(histogram(QUEUE, []), histogram(QUEUE, [0.020] * 100))
    assert found.queue_s == pytest.approx(0.020)
    p95 = found.percentile("queue_s", 95)
    assert p95 is not None and p95.text == "≤ 0.3"


def test_case_7_a_counter_that_fell_makes_the_window_invalid() -> None:
    found = between(counter(QUERIES, 1000) + counter(HITS, 5), counter(QUERIES, 40) + counter(HITS, 9))
    assert not found.valid
    assert failed(found) == {
        "counters only grew": f"{QUERIES}_total 1000 → 40: the engine was restarted, or the two scrapes "
        "are swapped"
    }
    assert (found.queries, found.hits, found.hit_rate) == (None, None, None)


# Restarts, and other engines than before


def test_one_engine_that_fell_is_seen_although_the_sum_rose() -> None:
    before = counter(QUERIES, 1000) + counter(QUERIES, 1000, engine="1")
    after = counter(QUERIES, 40) + counter(QUERIES, 9000, engine="1")
    assert "counters only grew" in failed(between(before, after))


def test_a_restart_is_seen_by_the_process_although_every_counter_rose() -> None:
    before = counter(QUERIES, 10) + start_time(1.75e9)
    after = counter(QUERIES, 900) + start_time(1.75e9 + 30)
    found = between(before, after)
    assert "another process answers" in str(failed(found)["the same engine throughout"])
    assert found.queries is None


def test_a_restart_is_seen_by_the_creation_time_of_a_counter() -> None:
    found = between(counter(QUERIES, 10), counter(QUERIES, 900, created=1.75e9 + 30))
    assert (
        failed(found)["the same engine throughout"] == f"{QUERIES}_created changed: the engine was restarted"
    )


def test_another_model_in_the_second_scrape_is_no_window() -> None:
    found = between(counter(QUERIES, 10), counter(QUERIES, 900).replace('"m"', '"n"'))
    assert failed(found)["the same engine throughout"] == "the model changed from m to n"


def test_an_engine_that_came_or_went_is_no_window() -> None:
    two = counter(QUERIES, 10) + counter(QUERIES, 500, engine="1")
    came, went = between(counter(QUERIES, 5), two), between(two, counter(QUERIES, 50))
    assert failed(came)["the same engine throughout"] == "the engines changed from 0 to 0, 1"
    assert failed(went)["the same engine throughout"] == "the engines changed from 0, 1 to 0"


def test_a_series_that_began_inside_the_window_began_at_zero() -> None:
    name = "vllm:request_success"
    before = counter(name, 7, finished_reason="stop")
    after = counter(name, 9, finished_reason="stop") + counter(name, 3, finished_reason="length")
    assert between(before, after).requests_finished == 5


def test_without_start_and_creation_times_a_restart_cannot_be_excluded() -> None:
    page = gauge("vllm:num_requests_running", 1)
    rule = next(r for r in between(page, page).rules if r.rule == "the same engine throughout")
    assert (rule.ok, rule.value) == (None, None)


# Other rules


@pytest.mark.parametrize("value", ["NaN", "+Inf"])
@pytest.mark.parametrize("name", ["vllm:num_requests_running", "vllm:kv_cache_usage_perc"])
def test_a_gauge_that_is_not_finite_makes_the_window_invalid(name: str, value: str) -> None:
    found = between(gauge(name, 1), gauge(name, value))
    assert list(failed(found)) == ["every value is finite"]


def test_a_counter_that_is_not_finite_makes_the_window_invalid() -> None:
    assert "every value is finite" in failed(between(counter(HITS, 1), counter(HITS, "NaN")))


def test_a_mean_longer_than_the_window_makes_it_invalid() -> None:
    found = between(histogram(QUEUE, []), histogram(QUEUE, [75.0]), elapsed=60)
    assert failed(found) == {"no mean is longer than the window": "queue_s 75"}
    assert found.queue_s is None


def test_a_mean_as_long_as_the_window_fits() -> None:
    assert between(histogram(QUEUE, []), histogram(QUEUE, [60.0]), elapsed=60).queue_s == 60


@pytest.mark.parametrize("elapsed", [0.0, -1.0, math.nan, math.inf])
def test_a_window_needs_a_length(elapsed: float) -> None:
    page = counter(HITS, 1)
    assert "the window has a length, in s" in failed(between(page, page, elapsed))


# Pages that cannot be read


def test_a_page_that_was_not_read_makes_everything_missing_and_says_why() -> None:
    read, unread = Page(counter(HITS, 1)), Page(None, "the metrics page answers HTTP 500")
    found = window(Scrape(0, (read, read)), Scrape(9, (read, unread)))
    assert (found.hits, found.observed, found.valid, found.elapsed_s) == (None, False, True, 9)
    assert [(r.value, r.ok) for r in found.rules] == [("page 2: the metrics page answers HTTP 500", None)]


def test_without_pages_everything_is_missing() -> None:
    found = window(Scrape(0, ()), Scrape(1, ()))
    assert (found.observed, found.running) == (False, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("<!doctype html><html></html>", "this is HTML"),
        ('{"detail": "Not Found"}', "this is JSON"),
        ("vllm:num_requests_running three\n", "no metrics page, or only a part of one"),
        ('vllm:prompt_tokens_total{engine="0', "no metrics page, or only a part of one"),
    ],
)
def test_a_text_that_is_no_page_is_refused(text: str, reason: str) -> None:
    with pytest.raises(ExpositionError, match=reason):
        parse(text)


@pytest.mark.parametrize("text", ["up 1\n", "# TYPE x gauge\nx 3\n"])
def test_a_page_without_vllm_is_a_reason(text: str) -> None:
    assert "no metric of vLLM" in scrape_of([text], 0.0).reasons[0]


def test_an_empty_page_is_a_reason() -> None:
    assert scrape_of([" \n"], 0.0).reasons == ("the page is empty",)


def test_the_page_of_a_real_engine_holds_every_quantity() -> None:
    """vLLM 0.32 on a CPU, saved while it served its 67th request."""
    page = gzip.decompress((Path(__file__).parent / "vllm-0.32-cpu.prom.gz").read_bytes()).decode()
    found = between(
        page,
        page.replace(
            '"stop",model_name="Qwen/Qwen2.5-Coder-1.5B-Instruct"} 62.0',
            '"stop",model_name="Qwen/Qwen2.5-Coder-1.5B-Instruct"} 65.0',
        ),
    )
    assert found.valid and set(found.histograms) == set(HISTOGRAMS)
    assert (found.requests_finished, found.preemptions) == (3, 0)
    assert (found.running, found.waiting, found.engines) == (1, 0, 1)
    assert (found.blocks, found.block_size) == (1170, 128)
    assert found.models == ("Qwen/Qwen2.5-Coder-1.5B-Instruct",)
    assert found.kv_usage == pytest.approx(0.0231, abs=1e-4)


def test_a_histogram_without_its_sum_is_missing() -> None:
    lines = [line for line in histogram(QUEUE, [0.1]).splitlines() if "_sum" not in line]
    page = "\n".join(lines) + "\n" + counter(HITS, 1)
    assert between(page, page).count("queue_s") is None


# Values


def test_rates_and_computed_tokens_are_differences() -> None:
    def page(queries: int, hits: int, prompt: int) -> str:
        return counter(QUERIES, queries) + counter(HITS, hits) + counter("vllm:prompt_tokens", prompt)

    found = between(page(1000, 900, 1100), page(2000, 1650, 2100))
    assert (found.hit_rate, found.prompt_tokens, found.computed_prompt_tokens) == (0.75, 1000, 250)


def test_nothing_looked_up_is_no_hit_rate() -> None:
    page = counter(QUERIES, 10) + counter(HITS, 5)
    assert between(page, page).hit_rate is None


def test_nothing_observed_is_no_mean() -> None:
    found = between(histogram(QUEUE, [1.0]), histogram(QUEUE, [1.0]))
    assert (found.queue_s, found.count("queue_s"), found.percentile("queue_s", 50)) == (None, 0, None)


def test_kv_usage_of_two_engines_is_their_mean() -> None:
    name = "vllm:kv_cache_usage_perc"
    page = gauge(name, 0.25) + gauge(name, 0.75, engine="1")
    assert between(page, page).kv_usage == 0.5


def test_blocks_add_up_and_their_size_is_shared() -> None:
    def info(engine: str, blocks: str, size: str) -> str:
        here = labels(engine, num_gpu_blocks=blocks, block_size=size)
        return f"vllm:cache_config_info{here} 1.0\n" + gauge("vllm:num_requests_running", 0, engine)

    page = info("0", "1170", "128") + info("1", "30", "128")
    assert (between(page, page).blocks, between(page, page).block_size) == (1200, 128)
    odd = info("0", "1170", "128") + info("1", "None", "16")
    assert (between(odd, odd).blocks, between(odd, odd).block_size) == (None, None)


def test_a_replica_has_a_window_of_its_own() -> None:
    def page(one: int, other: int) -> str:
        return counter(HITS, one) + counter(HITS, other, engine="1") + start_time()

    before, after = scrape(0, page(0, 0), counter(HITS, 7)), scrape(9, page(3, 5), counter(HITS, 8))
    found = replica_windows(before, after)
    assert {name: w.hits for name, w in found.items()} == {"0/0": 3, "0/1": 5, "1/0": 1}
    assert all(w.valid and w.elapsed_s == 9 for w in found.values())


def test_one_replica_that_restarted_spoils_its_own_window_only() -> None:
    before, after = (
        scrape(0, counter(HITS, 90), counter(HITS, 7)),
        scrape(9, counter(HITS, 5), counter(HITS, 8)),
    )
    found = replica_windows(before, after)
    assert [w.valid for w in found.values()] == [False, True]
    assert found["1/0"].hits == 1


def test_one_scrape_alone_holds_the_gauges() -> None:
    page = gauge("vllm:num_requests_running", 28) + gauge("vllm:kv_cache_usage_perc", 0.015)
    found = snapshot(scrape(5, page, page))
    assert (found["running"], found["waiting"], found["kv_usage"]) == (56, None, 0.015)
    assert set(snapshot(Scrape(0, ())).values()) == {None}
    assert snapshot(scrape(5, gauge("vllm:num_requests_running", "NaN")))["running"] is None


# Histograms


@pytest.mark.parametrize(
    ("q", "text"), [(0, "≤ 0.3"), (50, "0.3 … 0.5"), (75, "2.5 … 5"), (80, "> 2.5"), (100, "> 60")]
)
def test_a_percentile_is_bounded_by_the_buckets_of_its_two_order_statistics(q: float, text: str) -> None:
    found = between(histogram(QUEUE, []), histogram(QUEUE, [0.1, 0.4, 0.4, 3.0, 100.0]), elapsed=600)
    bounds = found.percentile("queue_s", q)
    assert bounds is not None and bounds.text == text


def test_engines_with_other_bounds_share_those_that_both_have() -> None:
    one = Histogram(2, 3.0, ((0.3, 1), (1.0, 1), (math.inf, 2)))
    other = Histogram(1, 0.5, ((1.0, 1), (math.inf, 1)))
    assert pooled([one, other]) == Histogram(3, 3.5, ((1.0, 2), (math.inf, 3)))


@given(
    st.lists(st.floats(0, 500), min_size=1, max_size=60),
    st.lists(st.floats(0, 500), max_size=60),
    st.floats(0, 100),
)
def test_a_percentile_never_leaves_its_bounds(now: list[float], past: list[float], q: float) -> None:
    found = between(histogram(QUEUE, past), histogram(QUEUE, past + now), elapsed=1e4)
    exact = float(np.percentile(now, q))
    p = found.percentile("queue_s", q)
    assert p is not None
    assert (p.low is None or p.low <= exact) and (p.high is None or exact <= p.high + 1e-9)
    assert found.queue_s == pytest.approx(sum(now) / len(now), abs=1e-6)


# Samples through the run


def test_levels_are_weighted_by_time() -> None:
    samples = [Sample(0, 4, 0), Sample(1, 8, 2), Sample(4, 0, 0)]
    found = levels(samples)
    assert (found.n, found.running_mean, found.running_max) == (3, 7.0, 8)
    assert (found.waiting_mean, found.waiting_max, found.total_max) == (1.5, 2, 10)


def test_levels_of_a_span_hold_the_last_value_to_its_end() -> None:
    samples = [Sample(0, 100, 0), Sample(2, 4, 0), Sample(3, 8, 0), Sample(9, 50, 0)]
    found = levels(samples, Interval(1, 5))
    assert (found.n, found.running_mean, found.running_max) == (2, pytest.approx(20 / 3), 8)


def test_levels_of_kv_usage() -> None:
    found = levels([Sample(0, 1, 0, kv_usage=0.5), Sample(1, 1, 0, kv_usage=0.75), Sample(2, 1, 0)])
    assert (found.kv_usage_mean, found.kv_usage_max) == (0.5, 0.75)


def test_a_failed_sample_is_left_out_and_none_is_missing() -> None:
    assert levels([Sample(0, None, None, "HTTP 503"), Sample(1, 3, 0)]).running_mean == 3
    assert levels([]).running_max is None


def finished(n: float | None) -> Window:
    return Window(60, (), requests_finished=n)


def test_foreign_traffic_is_what_the_server_finished_beyond_ours() -> None:
    rules = foreign_traffic_rules(finished(33), 32, 8, [Sample(0, 8, 0)])
    assert [(r.value, r.threshold, r.ok) for r in rules] == [(33, 32, False), (8, 8, True)]


def test_foreign_traffic_is_what_is_in_flight_beyond_ours() -> None:
    samples = [Sample(0, 8, 0), Sample(0.25, 7, 2), Sample(0.5, 8, 0)]
    rules = foreign_traffic_rules(finished(30), 32, 8, samples)
    assert [r.ok for r in rules] == [True, False]


def test_foreign_traffic_that_cannot_be_seen_is_not_denied() -> None:
    assert [r.ok for r in foreign_traffic_rules(finished(None), 32, 8, [])] == [None, None]
    assert [r.ok for r in foreign_traffic_rules(finished(1), 32, None, [Sample(0, 9, 9)])] == [True, None]


def test_a_scrape_of_the_same_page_twice_is_a_window_without_events() -> None:
    page = counter(HITS, 3) + histogram(QUEUE, [0.1]) + start_time()
    found = between(page, page)
    assert (found.hits, found.queue_s, found.valid) == (0, None, True)
