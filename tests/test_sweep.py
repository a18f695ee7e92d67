"""A level of a sweep: what is sent, what is measured on the twin, and what is missing without metrics."""

from dataclasses import replace
from pathlib import Path

import pytest

from nlqlib.analysis.latency import steady_window
from nlqlib.analysis.window import scrape_of
from nlqlib.artifacts import Store
from nlqlib.experiments import knee, saturation
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import (
    QUICK_TOKENS,
    Level,
    at,
    level_spec,
    levels,
    measure_level,
    offered,
    planned_requests,
    sweep,
)
from nlqlib.experiments.sweep_result import measured, residual_s
from nlqlib.load.closed_loop import ClientHealth, LoadRun
from nlqlib.records import Completion
from nlqlib.serving.target import open_target


def study_of(tmp_path: Path, target: str = "twin", profile: str = "full") -> Study:
    return Study("05_knee", open_target(target), profile, "wire", Store(tmp_path))  # type: ignore[arg-type]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return study_of(tmp_path)


LEVEL = Level("dense", 4, 60, seed=3, words="synthetic")


# ---- what is sent ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "full", "quick"), [(1, 150, 4), (8, 160, 16), (32, 640, 64)])
def test_a_level_sends_twenty_waves_and_at_least_150_or_two_in_the_quick_profile(
    tmp_path: Path, n: int, full: int, quick: int
) -> None:
    assert planned_requests(study_of(tmp_path), n) == full
    assert planned_requests(study_of(tmp_path, profile="quick"), n) == quick


def test_repeats_come_in_one_shuffled_order_that_the_seed_decides(study: Study) -> None:
    found = levels(study, "repeated", (12, 16, 20, 24), repeats=3, seed=5)
    again = levels(study, "repeated", (12, 16, 20, 24), repeats=3, seed=5)
    other = levels(study, "repeated", (12, 16, 20, 24), repeats=3, seed=6)
    assert found == again
    assert [x.point for x in found] != [x.point for x in other]
    assert sorted(x.point for x in found) == sorted(x.point for x in other)
    assert [x.concurrency for x in found] != sorted(x.concurrency for x in found)


def test_each_repeat_has_a_seed_of_its_own(study: Study) -> None:
    assert {x.repeat: x.seed for x in levels(study, "r", (8,), repeats=3, seed=5)} == {1: 6, 2: 7, 3: 8}


def test_quick_answers_of_a_real_engine_have_a_declared_fixed_length(tmp_path: Path) -> None:
    local = study_of(tmp_path, "local", "quick")
    [level] = levels(local, "dense", (8,))
    assert (level.output_tokens, level.words) == (QUICK_TOKENS, "served")
    sent = offered(local, level)
    assert {r.max_tokens for r in sent} == {QUICK_TOKENS}
    assert all(r.body("m")["ignore_eos"] is True for r in sent)


def test_full_answers_end_where_the_model_ends_them(study: Study) -> None:
    sent = offered(study, LEVEL)
    assert len(sent) == 20
    assert {r.max_tokens for r in sent} == {256}
    assert "ignore_eos" not in sent[0].body("m")


def test_a_real_endpoint_is_never_asked_for_a_variant(tmp_path: Path) -> None:
    local = study_of(tmp_path, "local", "quick")
    assert at(local, LEVEL) is local


def test_what_decides_a_level_decides_its_fingerprint(study: Study) -> None:
    def key(level: Level) -> str:
        return str(at(study, level).key(level_spec(level)))

    same = key(LEVEL)
    assert key(replace(LEVEL)) == same
    for other in (
        replace(LEVEL, seed=4),
        replace(LEVEL, requests=61),
        replace(LEVEL, words="recordings"),
        replace(LEVEL, concurrency=5),
    ):
        assert key(other) != same


def test_the_plan_of_a_page_counts_every_level_with_its_warm_up(study: Study) -> None:
    params = {"dense": [1, 8], "repeated": [4], "n_requests": 30}
    found = {s.name: s.requests for _, s in knee.points(study, params) if s.workload is not None}
    assert {n for n in found if n.startswith("repeated")} == {f"repeated-n04-r{r}" for r in (1, 2, 3)}
    # 20 warm-ups each; 2 dense, 3 repeated and 2 recorded of 30, 3 short of 150
    assert sum(n for name, n in found.items() if "-n" in name) == 7 * 50 + 3 * 170


def test_the_quick_profile_repeats_only_the_capacity_region(tmp_path: Path) -> None:
    found = saturation.saturation_levels(study_of(tmp_path, profile="quick"), (), 3, 0, 0)
    assert sorted((x.concurrency, x.repeat) for x in found) == [
        *((16, 1), (32, 1), (32, 2), (32, 3), (40, 1), (48, 1))
    ]


# ---- what is measured ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory):  # type: ignore[no-untyped-def]
    return measure_level(study_of(tmp_path_factory.mktemp("sweep")), LEVEL)


def test_a_level_on_the_twin_keeps_every_rule_of_measurement(record) -> None:  # type: ignore[no-untyped-def]
    assert record.requests == {"total": 60, "ok": 60}
    assert {r.rule for r in record.validity if r.ok is False} == set()
    checked = {r.rule for r in record.validity if r.ok}
    assert {"Little's law: X·R / N", "window length in mean latencies"} <= checked


def test_its_numbers_agree_with_each_other(record) -> None:  # type: ignore[no-untyped-def]
    x, mean = record.value("throughput_window", "mean"), record.value("e2e_latency_window", "mean")
    assert x * mean == pytest.approx(4, rel=0.05)
    assert record.value("running", "max") == 4
    assert record.value("in_flight", "peak") == 4
    assert record.value("output_tokens", "mean") == pytest.approx(115, abs=2)
    engine = sum(record.value(name, "mean") for name in ("queue", "prefill", "decode"))
    assert engine + record.value("residual", "mean") == pytest.approx(
        record.value("e2e_latency", "mean"), abs=0.01
    )


def test_the_prefix_is_warm_before_the_measurement(record) -> None:  # type: ignore[no-untyped-def]
    assert record.value("hit_rate", "mean") > 0.99


def test_rows_of_its_requests_are_kept_in_order_of_start(record) -> None:  # type: ignore[no-untyped-def]
    rows = record.samples()
    assert [r["i"] for r in rows] == list(range(60))
    assert rows[0]["start_s"] == 0
    assert [r["start_s"] for r in rows] == sorted(r["start_s"] for r in rows)
    assert set(rows[0]) == {"i", "id", "outcome", "start_s", "end_s", "output_tokens", "prompt_tokens"}


def test_times_of_the_twin_are_tagged_modelled(record) -> None:  # type: ignore[no-untyped-def]
    assert {m.tag for m in record.metrics} == {"modelled"}
    assert record.results == {"clock": "virtual"}


def test_the_raw_scrapes_are_kept(record) -> None:  # type: ignore[no-untyped-def]
    assert b"vllm:num_requests_running" in record.scrapes()["before"]


def test_the_same_seed_gives_the_same_bytes(record, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    again = measure_level(study_of(tmp_path), LEVEL)
    rows, before = (r.path.with_suffix(".jsonl").read_bytes() for r in (again, record))
    assert rows == before
    assert again.scrapes() == record.scrapes()
    assert again.body["metrics"] == record.body["metrics"]


def test_a_level_is_measured_once(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    small = replace(LEVEL, requests=8)
    [first] = sweep(study, [small])
    [second] = sweep(study, [small])
    assert not first.reused
    assert second.reused


def test_without_metrics_the_servers_side_is_missing_and_the_rest_is_there(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    import nlqlib.experiments.sweep as module

    real = module.at(study, LEVEL).target
    blind = replace(real, connect=lambda: replace(real.connect(), metrics_urls=()))
    monkeypatch.setattr(module, "at", lambda study, _: replace(study, target=blind))
    found = measure_level(study, replace(LEVEL, requests=24))
    assert found.value("throughput_run", "mean") > 1
    for name in ("running", "hit_rate", "queue", "residual", "kv_usage"):
        assert {m.value for m in found.metrics if m.name == name} == {None}
    assert {r.rule for r in found.validity if r.ok is False} == set()
    assert found.scrapes() == {}


# ---- a run made by hand ----------------------------------------------------------------------------------


def run_of(outcomes: str, n: int = 2) -> LoadRun:
    """Requests of one second each, `n` in flight: `.` ok, `x` timeout."""
    done = tuple(
        Completion(
            str(i),
            "ok" if mark == "." else "timeout",
            start_s=float(i // n),
            end_s=float(i // n + 1),
            output_tokens=10 if mark == "." else None,
        )
        for i, mark in enumerate(outcomes)
    )
    health = ClientHealth(n, n, 0)
    return LoadRun(done, n, 0.0, health, window=steady_window(done, n))


def value(found, name: str, stat: str = "mean"):  # type: ignore[no-untyped-def]
    return next(m.value for m in found.metrics if (m.name, m.stat) == (name, stat))


def test_throughput_counts_good_answers_over_the_whole_run() -> None:
    found = measured(run_of("." * 20), None, None, "measured")
    assert value(found, "throughput_run") == 2.0
    assert value(found, "e2e_latency", "p95") == 1.0
    assert found.requests == {"total": 20, "ok": 20}


def test_a_failure_has_no_latency_and_lowers_throughput() -> None:
    found = measured(run_of(".x" * 10), None, None, "measured")
    assert found.requests == {"total": 20, "ok": 10, "timeout": 10}
    assert value(found, "throughput_run") == 1.0
    assert value(found, "e2e_latency", "mean") == 1.0
    assert next(r for r in found.validity if r.rule.startswith("failed")).ok is False


def test_nothing_good_has_no_latency_at_all() -> None:
    found = measured(run_of("xxxx"), None, None, "measured")
    assert found.requests == {"total": 4, "ok": 0, "timeout": 4}
    assert value(found, "e2e_latency") is None
    assert value(found, "output_tokens") is None


def page(finished: int, e2e_sum: float) -> str:
    label = '{engine="0",model_name="m"}'
    return (
        "# TYPE vllm:request_success_total counter\n"
        f'vllm:request_success_total{{engine="0",finished_reason="stop",model_name="m"}} {finished}\n'
        "# TYPE vllm:e2e_request_latency_seconds histogram\n"
        f'vllm:e2e_request_latency_seconds_bucket{{engine="0",model_name="m",le="+Inf"}} {finished}\n'
        f"vllm:e2e_request_latency_seconds_sum{label} {e2e_sum}\n"
        f"vllm:e2e_request_latency_seconds_count{label} {finished}\n"
    )


def test_more_finished_on_the_server_than_we_sent_voids_the_point() -> None:
    before, after = scrape_of([page(100, 90.0)], 0.0), scrape_of([page(125, 112.5)], 10.0)
    found = measured(run_of("." * 20), before, after, "measured")
    [broken] = [r for r in found.validity if r.ok is False and "window length" not in r.rule]
    assert (broken.value, broken.threshold) == (25, 20)


def test_the_residual_is_what_the_client_saw_beyond_the_engine() -> None:
    before, after = scrape_of([page(100, 90.0)], 0.0), scrape_of([page(120, 108.0)], 10.0)
    found = measured(run_of("." * 20), before, after, "measured")
    assert value(found, "residual") == pytest.approx(1.0 - 18.0 / 20)
    assert residual_s(run_of("." * 20).completions, None) is None


def test_littles_law_counts_every_request_that_left_whatever_its_outcome() -> None:
    found = measured(run_of("." * 30 + "x" * 10), None, None, "measured")
    law = next(r for r in found.validity if r.rule.startswith("Little"))
    # starts at 0, 1, … 19 s: 19 s of window, 19 whole waves of 2 in it
    assert law.value == pytest.approx(38 / 19 * 1.0 / 2)
    assert law.ok


def test_littles_law_is_unchecked_in_a_window_whose_edges_alone_could_break_it() -> None:
    short = measured(run_of("." * 20), None, None, "measured")
    assert next(r for r in short.validity if r.rule.startswith("Little")).ok is None
