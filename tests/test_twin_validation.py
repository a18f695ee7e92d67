"""`validate-twin`: every bound has a row, a missed or missing one fails, and each number comes from its
source.
"""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest

from nlqlib import commands_twin
from nlqlib.__main__ import main
from nlqlib.article import claim
from nlqlib.artifacts import Measured, PointKey, Store
from nlqlib.experiments import twin_validation as validation
from nlqlib.experiments import twin_validation_article as article
from nlqlib.experiments import twin_validation_retained as retained
from nlqlib.experiments import twin_validation_speed as speed
from nlqlib.experiments import twin_validation_trace as trace
from nlqlib.experiments.probes import Probed
from nlqlib.experiments.twin_validation_check import (
    Check,
    all_met,
    at_least,
    holds,
    not_run,
    shown,
    summary,
    table,
    within,
)
from nlqlib.records import Json
from nlqlib.twin import model
from nlqlib.twin.calibrate import Trace, replay
from nlqlib.twin.datasheet import LLAMA31_8B, RTX_4090, roofline
from nlqlib.twin.limits import EngineLimits

MET = within("g", "near", 0.01, 0.02, "predicted")
MISSED = within("g", "far", -0.03, 0.02, "predicted")
NOT_RUN = not_run("g", "absent", "≤ 2.0%", "predicted", "set X")


# --- one check --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("check", "verdict"),
    [
        (MET, "met"),
        (MISSED, "NOT MET"),
        (NOT_RUN, "not run"),
        (within("g", "edge", -0.02, 0.02, "fitted"), "met"),
        (within("g", "none", None, 0.02, "fitted"), "NOT MET"),
        (at_least("g", "speed", 99.9, 100, "req/s"), "NOT MET"),
        (at_least("g", "speed", 100, 100, "req/s"), "met"),
        (holds("g", "count", "≤ 3", 4, False, "counted"), "NOT MET"),
        (shown("g", "beside", "+40.00%", "predicted"), "no bound"),
    ],
)
def test_a_check_is_met_only_inside_its_bound(check: Check, verdict: str) -> None:
    assert check.verdict == verdict


@pytest.mark.parametrize(
    ("checks", "met"),
    [
        ([MET], True),
        ([MET, shown("g", "beside", "", "predicted")], True),
        ([MET, MISSED], False),
        ([MET, NOT_RUN], False),
        ([shown("g", "beside", "", "predicted")], False),
        ([], False),
    ],
)
def test_all_is_met_only_when_every_bound_was_looked_at_and_holds(checks: list[Check], met: bool) -> None:
    assert all_met(checks) is met


def test_the_table_has_a_line_for_each_check_and_says_why_one_is_missing() -> None:
    lines = table([MET, MISSED, NOT_RUN]).splitlines()
    assert lines[0].split() == ["what", "bound", "value", "tag"]
    assert lines[1].split() == ["g:", "near", "≤", "2.0%", "+1.00%", "predicted", "met"]
    assert lines[2].endswith("NOT MET") and lines[3].endswith("not run")
    assert lines[-2] == "1 of 3 bounds met, 1 not met, 1 not run"
    assert lines[-1] == "  g: absent: set X"


def test_a_value_without_a_bound_is_not_counted() -> None:
    assert summary([MET, shown("g", "b", "", "fitted")]) == "1 of 1 bounds met, 0 not met, 0 not run"


# --- all of them ------------------------------------------------------------------------------------------

GROUPS = {"good": lambda tell: [MET], "bad": lambda tell: [MISSED]}


def test_groups_run_in_their_order_and_those_left_out_are_not_run() -> None:
    assert validation.validate(groups=GROUPS) == [MET, MISSED]
    first, second = validation.validate(["good"], groups=GROUPS)
    assert first == MET and second.verdict == "not run" and "--only" in second.note


def test_an_unknown_group_is_refused_with_a_near_name() -> None:
    with pytest.raises(validation.UnknownGroupError, match="did you mean good"):
        validation.validate(["goood"], groups=GROUPS)


def test_a_group_whose_load_fails_altogether_is_not_met() -> None:
    def fails(tell: validation.Tell) -> list[Check]:
        raise validation.LoadError("no request of 20 succeeded")

    (check,) = validation.validate(groups={"broken": fails})
    assert check.verdict == "NOT MET" and "no request" in check.note


@pytest.mark.parametrize(("groups", "status"), [({"good": GROUPS["good"]}, 0), (GROUPS, 1)])
def test_the_command_exits_0_only_if_every_bound_is_met(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], groups: dict, status: int
) -> None:
    monkeypatch.setattr(
        validation, "validate", lambda only, tell: [c for g in groups.values() for c in g(tell)]
    )
    assert commands_twin.validate([], as_json=True) == status
    told = json.loads(capsys.readouterr().out)
    assert told["met"] is (status == 0)
    assert [c["verdict"] for c in told["checks"]] == ["met", "NOT MET"][: len(groups)]


def test_the_command_refuses_an_unknown_group_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["validate-twin", "--only", "sped"]) == 2
    assert "did you mean speed?" in capsys.readouterr().err


def test_the_command_looks_at_what_was_fitted_and_fails_because_the_rest_was_not_run(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["validate-twin", "--only", "fit", "--json"]) == 1
    told = {c["what"]: c for c in json.loads(capsys.readouterr().out)["checks"]}
    assert (
        told["throughput rows"]["value"] == "3"
        and told["throughput rows"]["note"].count("throughput at") == 3
    )
    assert told["throughput at 32"]["verdict"] == "met"


# --- the article ------------------------------------------------------------------------------------------


def test_the_ten_rows_are_those_of_the_article_and_twice_measured_ones_are_intervals() -> None:
    told = {n: claim(f"{sweep}.throughput.{n}") for n, sweep in article.ROWS.items()}
    assert sorted(told) == [1, 8, 12, 16, 18, 20, 24, 32, 40, 48]
    intervals = {n: (c.low, c.high) for n, c in told.items() if c.low < c.high}
    assert intervals == {16: (4.06, 4.21), 24: (5.26, 5.63), 32: (6.63, 6.87)}


def test_the_claims_are_the_observations_that_the_stored_twin_was_made_with() -> None:
    for seen in model.load().observations:
        quantity, _, n = seen.name.partition(" at ")
        if n.isdigit():
            told = claim(f"{article.ROWS[int(n)]}.{quantity}.{n}")
            assert (seen.low, seen.high) == (told.low, told.high), seen.name


@pytest.mark.parametrize(("n", "requests"), [(1, 150), (7, 150), (8, 160), (48, 960)])
def test_a_row_takes_150_requests_and_twenty_waves(n: int, requests: int) -> None:
    assert article.enough(n) == requests


def test_a_row_through_the_client_is_what_the_engine_alone_gives_up_to_the_prompts() -> None:
    found = article.row(8, 160)
    assert found.throughput == pytest.approx(2.22, rel=0.05)
    assert found.p95_s == pytest.approx(3.62, rel=0.06)
    assert {c.outcome for c in found.run.completions} == {"ok"}


def test_few_requests_are_not_enough_and_the_check_says_so() -> None:
    checks = article.row_checks(n_of=lambda n: 20, rows=(1,))
    told = {c.what: c for c in checks}
    assert told["requests at 1, whole run"].verdict == "NOT MET"
    assert told["throughput at 1"].ok and told["throughput at 1"].tag == "predicted"
    assert told["throughput at 1, recorded lengths"].verdict == "no bound"
    assert told["outside the engine"].value == "70.0 ms" and told["failed requests"].ok


def test_token_times_are_within_their_bounds_and_the_warm_one_within_five_milliseconds() -> None:
    told = {c.what: c for c in article.token_checks()}
    assert told["gap between tokens, one warm request at a time"].bound == "≤ 3.0%"
    assert told["TTFT, warm, absolute"].bound == "≤ 5 ms"
    assert {c.verdict for c in told.values()} == {"met", "no bound"}


def test_two_runs_and_another_process_give_the_same_bytes() -> None:
    assert [c.verdict for c in article.same_checks(20)] == ["met", "met"]
    assert article.digest(n=20) != article.digest(n=21)


# --- the RTX 4090 run -------------------------------------------------------------------------------------


def test_without_the_variable_the_run_is_not_run_and_says_what_to_set(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv(trace.VARIABLE, raising=False)
    (check,) = trace.checks()
    assert check.verdict == "not run" and trace.VARIABLE in check.note
    monkeypatch.setenv(trace.VARIABLE, str(tmp_path))
    (check,) = trace.checks()
    assert check.verdict == "not run" and trace.RUN in check.note and str(tmp_path) not in check.note


LIMITS = EngineLimits(2000, max_num_seqs=16, max_model_len=4096)
META = {
    "vllm_version": "0.12.0",
    "engine_kwargs": {"max_num_seqs": 16, "max_num_batched_tokens": 2048, "max_model_len": 4096},
    "kv_cache": {"num_gpu_blocks": 2000, "block_size": 16, "enable_prefix_caching": True},
}


def simulated(n: int = 60) -> Trace:
    """A run of the twin itself, on the hardware the validation assumes."""
    random, nothing = np.random.default_rng(7), np.zeros(n)
    prompts, outputs = random.integers(50, 900, n), random.integers(2, 120, n)
    asked = Trace(
        np.cumsum(random.exponential(0.05, n)),
        tuple(map(int, prompts)),
        tuple(map(int, outputs)),
        *[nothing] * 3,
    )
    truth = replace(roofline(LLAMA31_8B, RTX_4090), fixed_s=0.004, sequence_s=3e-5)
    return replay(LIMITS, truth, asked)


def written(folder: Path, run: Trace) -> Path:
    """`run` as a folder of the measured form, its clock 100 s off the arrivals' clock."""
    folder.mkdir()
    (folder / "meta.json").write_text(json.dumps(META))
    rows = [
        {
            "request_id": str(i),
            "arrival_time": float(run.arrival_s[i]) + 1e6,
            "queued_ts": float(run.arrival_s[i]) + 100 + (0.0 if i == 3 else 0.001),
            "scheduled_ts": float(run.scheduled_s[i]) + 100,
            "first_token_ts": float(run.first_token_s[i]) + 100,
            "last_token_ts": float(run.last_token_s[i]) + 100,
            "input_toks": run.prompt_tokens[i],
            "output_toks": run.output_tokens[i],
        }
        for i in range(len(run.prompt_tokens))
    ]
    (folder / "requests.jsonl").write_text("\n".join(json.dumps(row) for row in rows))
    return folder


def test_a_run_is_read_with_its_two_clocks_tied_by_the_fastest_request(tmp_path: Path) -> None:
    run = simulated()
    limits, found = trace.read_run(written(tmp_path / trace.RUN, run))
    assert limits == LIMITS
    zero = run.arrival_s[0]
    for name in ("arrival_s", "scheduled_s", "first_token_s", "last_token_s"):
        assert getattr(found, name) == pytest.approx(getattr(run, name) - zero, abs=1e-6), name


def test_a_simulated_run_is_met_and_one_that_is_half_as_fast_in_its_odd_requests_is_not() -> None:
    run = simulated()
    checks = trace.judge(LIMITS, run)
    assert all_met(checks) and len(checks) == 1 + 2 * 5
    assert {c.bound for c in checks[1:]} == {"≤ 2.0%", "≤ 3.0%"}
    slow = run.arrival_s + 2 * (run.last_token_s - run.arrival_s)
    odd = np.arange(len(slow)) % 2 == 1
    wrong = replace(run, last_token_s=np.where(odd, slow, run.last_token_s))
    missed = [c.what for c in trace.judge(LIMITS, wrong) if not c.ok]
    assert "mean e2e, odd requests" in missed and "P99 e2e, odd requests" in missed


def test_a_damaged_run_is_not_run_and_says_what_is_wrong(tmp_path: Path) -> None:
    folder = written(tmp_path / trace.RUN, simulated(4))
    (folder / "requests.jsonl").write_text('{"arrival_time": 1.0}')
    with pytest.raises(trace.TraceError, match="lacks the field 'queued_ts'"):
        trace.read_run(folder)
    (folder / "requests.jsonl").write_text("")
    with pytest.raises(trace.TraceError, match="no requests"):
        trace.read_run(folder)
    (folder / "requests.jsonl").unlink()
    with pytest.raises(trace.TraceError, match=r"cannot read .*requests.jsonl"):
        trace.read_run(folder)


# --- what is retained of the real engine ------------------------------------------------------------------


def prediction(name: str, error: float, tag: str = "predicted") -> Json:
    row = {"name": name, "quantity": "throughput_run", "measured": 1.0, "concurrency": 8}
    return row | {"value": 1 + error, "error": error, "tag": tag}


def account(case: str, planned_hits: int, measured_hits: int) -> Json:
    hits = {"planned_hits": planned_hits, "measured_hits": measured_hits}
    return {"case": case, **hits, "planned_queries": 3300, "measured_queries": 3300}


PREDICTIONS = [prediction("gap at 1", 0.0, "fitted"), prediction("N = 8", 0.08), prediction("N = 32", -0.2)]
ACCOUNTS = [account("repeat", 3296, 3296), account("cold", 0, 16)]


def retain(
    root: Path, point: str, results: Json, target: str = "local", samples: Sequence[Json] = ()
) -> None:
    key = PointKey(target, "05_knee", point, "calibration", {}, None, {"name": target}, "1")
    Store(root=root).measure(key, lambda: Measured(results=results, samples=list(samples)))


def test_without_retained_points_the_real_engine_is_not_run_and_says_what_to_run(tmp_path: Path) -> None:
    (engine,), (counters,) = retained.engine_checks(tmp_path), retained.counter_checks(tmp_path)
    assert engine.verdict == counters.verdict == "not run"
    assert "TARGET=local" in engine.note and "TARGET=local" in counters.note


def test_a_calibration_of_another_target_does_not_count(tmp_path: Path) -> None:
    retain(tmp_path, retained.CALIBRATION, {"predictions": PREDICTIONS}, target="twin")
    assert [c.verdict for c in retained.engine_checks(tmp_path)] == ["not run"]


def test_every_prediction_of_the_real_engine_is_judged_and_fitted_ones_are_counted(
    tmp_path: Path,
) -> None:
    retain(tmp_path, retained.CALIBRATION, {"predictions": PREDICTIONS})
    told = {c.what: c for c in retained.engine_checks(tmp_path)}
    assert told["points calibrated on"].value == "1"
    assert told["N = 8, throughput_run"].verdict == "met"
    assert told["N = 32, throughput_run"].verdict == "NOT MET"
    assert not any("gap at 1" in what for what in told)


def test_the_gap_between_tokens_under_load_is_shown_and_not_judged(tmp_path: Path) -> None:
    gap = prediction("itl at 8", 0.4) | {"quantity": "itl_s"}
    alone = gap | {"name": "itl at 1", "concurrency": 1}
    retain(tmp_path, retained.CALIBRATION, {"predictions": [gap, alone, PREDICTIONS[1]]})
    told = {c.what: c.verdict for c in retained.engine_checks(tmp_path)}
    assert (told["itl at 8, itl_s"], told["itl at 1, itl_s"]) == ("no bound", "NOT MET")


def test_points_are_counted_not_the_numbers_read_off_them_and_nine_are_too_many(tmp_path: Path) -> None:
    seen = Probed("p", "fit", 1, 2, 128, 0, 2, 1.0, 1.0, 0.9, None, 0.9, 1.0, 0.0, 0.9, 0.0)
    points = [asdict(seen)] * 9 + [asdict(replace(seen, use="judge"))]
    retain(tmp_path, retained.CALIBRATION, {"predictions": PREDICTIONS}, samples=points)
    few = retained.engine_checks(tmp_path)[0]
    assert (few.what, few.value, few.verdict) == ("points calibrated on", "9", "NOT MET")


def test_one_token_too_many_is_a_wrong_counter(tmp_path: Path) -> None:
    retain(tmp_path, retained.ACCOUNTING, {"rows": ACCOUNTS})
    told = {c.what: c for c in retained.counter_checks(tmp_path)}
    assert told["repeat, hits"].verdict == told["cold, queries"].verdict == "met"
    assert told["cold, hits"].verdict == "NOT MET" and told["cold, hits"].bound == "= 16"


# --- speed ------------------------------------------------------------------------------------------------

TINY = speed.Effort(engine_requests=200, sweep_requests=8, levels=(1, 4), repeats=2)


def test_every_case_gives_a_speed_and_the_bounded_ones_a_row() -> None:
    found = speed.speeds(TINY)
    assert len(found) == len(speed.ENGINE_CASES) + len(speed.PATH_CASES)
    assert all(s.requests_per_s > 0 and s.times_real > 0 for s in found)
    rows = [s.check() for s in found if s.bound is not None]
    assert [c.bound for c in rows] == [
        *("≥ 20,000 req/s", "≥ 100,000 req/s"),
        *("≥ 1,000 × real time", "≥ 50 × real time", "≥ 80 × real time"),
    ]


def test_the_best_of_repeats_is_by_what_the_bound_is_on() -> None:
    one = speed.Speed("sweep", 100.0, 9.0, 5.0, "× real time")
    two = speed.Speed("sweep", 90.0, 11.0, 5.0, "× real time")
    assert speed.best([one, two]) is two and two.value == 11.0
    assert speed.best([replace(one, unit="req/s"), replace(two, unit="req/s")]).requests_per_s == 100.0
    with pytest.raises(ValueError, match="has no bound"):
        replace(one, bound=None).check()
