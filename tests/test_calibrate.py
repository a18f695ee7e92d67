"""Fits: they recover what is known, name what is not, and meet the stated bounds on the two real engines."""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from benchmarks import refit
from nlqlib.twin import model
from nlqlib.twin.calibrate import (
    CalibrationError,
    Observation,
    Prediction,
    Trace,
    deviation,
    fit,
    fit_trace,
    predict,
    replay,
    trace_errors,
    undetermined,
)
from nlqlib.twin.datasheet import L4, LLAMA31_8B, QWEN25_3B, RTX_4090, roofline
from nlqlib.twin.limits import EngineError, EngineLimits, version_defaults
from nlqlib.twin.load import Load, lengths, prompts, simulate, warm_up
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence
from nlqlib.twin.step_time import StepTime

SMALL = EngineLimits(2000, max_num_seqs=16)
TRUE = StepTime(fixed_s=0.008, token_s=2e-4, sequence_s=5e-4)


def observed(name: str, load: Load, quantity: str, use: bool = True) -> Observation:
    value = getattr(simulate(SMALL, TRUE, load), quantity)
    return Observation(name, load, quantity, value, value, use, "simulated")


def load_of(concurrency: int, **more: object) -> Load:
    settings = {"prompt_tokens": 400, "shared_tokens": 0, "distinct": 0, "output_tokens": 30.0, "warm": False}
    return Load(concurrency, 4 * concurrency + 8, **{**settings, **more})  # type: ignore[arg-type]


# --- fits to observations ---------------------------------------------------------------------------------


def test_a_fit_recovers_the_coefficients_that_made_the_observations():
    seen = [
        observed("gap at 1", load_of(1), "itl_s"),
        observed("prefill", load_of(1), "prefill_s"),
        observed("throughput at 8", load_of(8), "throughput_run"),
        observed("throughput at 16", load_of(16), "throughput_run", use=False),
    ]
    start = StepTime(fixed_s=0.004, token_s=4e-4, sequence_s=2e-4)
    found = fit(SMALL, start, ("fixed_s", "token_s", "sequence_s"), seen)
    assert found.unknown == ()
    assert found.step_time.token_s == pytest.approx(TRUE.token_s, rel=0.01)
    assert found.step_time.sequence_s == pytest.approx(TRUE.sequence_s, rel=0.01)
    assert [p.tag for p in found.predictions] == ["fitted"] * 3 + ["predicted"]
    assert abs(found.predictions[-1].error) < 0.005


def test_coefficients_that_one_request_at_a_time_cannot_tell_apart_are_named():
    seen = [observed("gap at 1", load_of(1), "itl_s")]
    start = StepTime(fixed_s=0.004, token_s=2e-4, sequence_s=2e-4, mixed_s=0.001)
    found = fit(SMALL, start, ("fixed_s", "sequence_s", "mixed_s"), seen)
    assert set(found.unknown) == {"sequence_s", "mixed_s"}  # of the gap, they are the small share


def test_a_coefficient_nothing_responds_to_is_undetermined_and_no_other():
    jacobian = np.array([[1.0, 0.0], [2.0, 0.0]])
    assert undetermined(jacobian, ("felt", "unfelt")) == ("unfelt",)
    assert undetermined(np.zeros((2, 2)), ("a", "b")) == ("a", "b")
    assert undetermined(np.array([[1.0, 0.5], [0.0, 1.0]]), ("a", "b")) == ()


@pytest.mark.parametrize(
    ("value", "error"), [(4.1, 0.0), (4.0, 4.0 / 4.06 - 1), (4.3, 4.3 / 4.21 - 1), (4.06, 0.0), (4.21, 0.0)]
)
def test_a_row_measured_twice_counts_as_the_interval_between_the_two(value, error):
    assert deviation(value, 4.06, 4.21) == pytest.approx(error)


def test_a_quantity_that_does_not_exist_in_a_run_is_missing_and_has_no_error():
    load = load_of(1, output_tokens=1.0, output_sd=0.0)
    (prediction,) = predict(SMALL, TRUE, [Observation("gap", load, "itl_s", 0.01, 0.01, False, "none")])
    assert prediction == Prediction(prediction.observation, None, None)


def test_a_fit_without_evidence_or_scale_is_refused():
    unused = observed("gap at 1", load_of(1), "itl_s", use=False)
    with pytest.raises(CalibrationError, match="no observation is marked"):
        fit(SMALL, TRUE, ("fixed_s",), [unused])
    with pytest.raises(CalibrationError, match="starts at 0"):
        fit(SMALL, TRUE, ("mixed_s",), [replace(unused, fit=True)])


# --- fits to traces ---------------------------------------------------------------------------------------


def synthetic_trace() -> Trace:
    random = np.random.default_rng(7)
    n, nothing = 60, np.zeros(60)
    arrivals = np.cumsum(random.exponential(0.05, n))
    prompts = tuple(int(x) for x in random.integers(50, 900, n))
    outputs = tuple(int(x) for x in random.integers(2, 120, n))
    return replay(SMALL, TRUE, Trace(arrivals, prompts, outputs, nothing, nothing, nothing))


def test_the_replay_of_a_simulated_trace_has_no_error():
    trace = synthetic_trace()
    errors = trace_errors(replay(SMALL, TRUE, trace), trace, np.full(60, True))
    assert set(errors.values()) == {0.0}
    assert {"mean_ttft", "p99_tpot", "mean_queue", "p99_e2e", "mean_prefill"} <= set(errors)


def test_half_of_a_simulated_trace_gives_back_its_coefficients_and_predicts_the_other_half():
    trace, even = synthetic_trace(), np.arange(60) % 2 == 0
    start = StepTime(fixed_s=0.005, token_s=3e-4, sequence_s=5e-4)
    found, unknown = fit_trace(SMALL, start, ("fixed_s", "token_s"), trace, even)
    assert unknown == ()
    assert found.fixed_s == pytest.approx(TRUE.fixed_s, rel=0.02)
    errors = trace_errors(replay(SMALL, found, trace), trace, ~even)
    assert max(abs(e) for e in errors.values()) < 0.01


def test_more_than_four_coefficients_for_one_trace_are_refused():
    names = ("fixed_s", "token_s", "sequence_s", "kv_logical_s", "mixed_s")
    with pytest.raises(CalibrationError, match="at most 4"):
        fit_trace(SMALL, TRUE, names, synthetic_trace(), np.full(60, True))


# --- the RTX 4090 run -------------------------------------------------------------------------------------

FIXTURES = os.environ.get("NLQLIB_FIXTURES")


def recorded(folder: Path) -> tuple[EngineLimits, Trace]:
    """Limits and requests of a measured run; arrivals are wall-clock, moved to the engine's clock by the
    fastest.
    """
    meta = json.loads((folder / "meta.json").read_text())
    rows = [json.loads(line) for line in (folder / "requests.jsonl").read_text().splitlines()]
    column = {key: np.array([row[key] for row in rows]) for key in rows[0] if key != "request_id"}
    arrival = column["arrival_time"] + np.min(column["queued_ts"] - column["arrival_time"])
    zero = arrival[0]
    engine = meta["engine_kwargs"]
    limits = EngineLimits(
        meta["kv_cache"]["num_gpu_blocks"],
        block_size=meta["kv_cache"]["block_size"],
        max_num_seqs=engine["max_num_seqs"],
        max_num_batched_tokens=engine["max_num_batched_tokens"],
        max_model_len=engine["max_model_len"],
        enable_prefix_caching=meta["kv_cache"]["enable_prefix_caching"],
        **version_defaults(meta["vllm_version"]),
    )
    trace = Trace(
        arrival - zero,
        tuple(column["input_toks"].tolist()),
        tuple(column["output_toks"].tolist()),
        *(column[key] - zero for key in ("scheduled_ts", "first_token_ts", "last_token_ts")),
    )
    return limits, trace


@pytest.mark.skipif(not FIXTURES, reason="NLQLIB_FIXTURES names no folder of measured runs")
def test_the_rtx_4090_run_is_predicted_within_two_percent_on_requests_it_was_not_fitted_on():
    limits, measured = recorded(Path(FIXTURES) / "vllm-rtx4090-llama-3.1-8b")
    assert limits.async_scheduling and limits.scheduler_reserve_full_isl
    even = np.arange(len(measured.prompt_tokens)) % 2 == 0
    sheet = roofline(LLAMA31_8B, RTX_4090)
    start = replace(sheet, fixed_s=0.002, sequence_s=1e-5)
    found, _ = fit_trace(limits, start, ("fixed_s", "token_s", "sequence_s"), measured, even)
    errors = trace_errors(replay(limits, found, measured), measured, ~even)
    means = {name: error for name, error in errors.items() if name.startswith("mean_")}
    tails = {f"p99_{span}": errors[f"p99_{span}"] for span in ("queue", "ttft", "tpot", "e2e")}
    assert max(abs(e) for e in means.values()) <= 0.02, means
    assert max(abs(e) for e in tails.values()) <= 0.03, tails
    assert found.token_s == pytest.approx(sheet.token_s, rel=0.15)  # still a physical rate


# --- the L4 -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def l4() -> model.TwinModel:
    return model.load()


@pytest.fixture(scope="module")
def l4_errors(l4: model.TwinModel) -> dict[str, float]:
    return {p.observation.name: p.error for p in predict(l4.limits, l4.step_time, l4.observations)}


def rows(errors: dict[str, float], start: str) -> dict[str, float]:
    return {name: error for name, error in errors.items() if name.startswith(start)}


def test_at_most_three_rows_are_used_to_fit_never_32_and_two_of_the_prefill_points(l4):
    used = [seen.name for seen in l4.observations if seen.fit]
    throughput = [name for name in used if name.startswith("throughput")]
    assert len(throughput) <= 3 and "throughput at 32" not in used
    assert len([name for name in used if name.startswith(("prefill", "TTFT"))]) <= 2
    assert not [name for name in used if name.startswith("p95")]


def test_every_row_comes_from_enough_requests_of_115_tokens_give_or_take_three(l4):
    for seen in l4.observations:
        if seen.quantity in ("throughput_run", "p95_s"):
            assert seen.load.requests >= max(150, 20 * seen.load.concurrency)
            assert (seen.load.output_tokens, seen.load.output_sd) == (115.0, 3.0)
            assert seen.load.outside_s == pytest.approx(l4.outside_s) == pytest.approx(0.070)


def test_the_ten_throughput_rows_are_within_five_percent_and_two_and_a_half_on_average(l4_errors):
    errors = rows(l4_errors, "throughput")
    assert len(errors) == 10
    assert max(abs(e) for e in errors.values()) <= 0.05
    assert np.mean([abs(e) for e in errors.values()]) <= 0.025
    assert abs(errors["throughput at 40"]) <= 0.02 and abs(errors["throughput at 48"]) <= 0.02


def test_the_ten_p95_rows_are_within_six_percent(l4_errors):
    errors = rows(l4_errors, "p95")
    assert len(errors) == 10 and max(abs(e) for e in errors.values()) <= 0.06


def test_gap_between_tokens_and_time_to_first_token_are_within_three_and_eight_percent(l4, l4_errors):
    assert abs(l4_errors["gap between tokens, one warm request at a time"]) <= 0.03
    assert max(abs(e) for e in rows(l4_errors, "TTFT").values()) <= 0.08
    warm = next(s for s in l4.observations if s.name == "TTFT, warm")
    assert abs(simulate(l4.limits, l4.step_time, warm.load).ttft_s - 0.034) <= 0.005


def test_the_bounds_hold_for_other_draws_of_output_lengths(l4):
    again = [
        replace(s, load=replace(s.load, seed=11))
        for s in l4.observations
        if s.quantity in ("throughput_run", "p95_s")
    ]
    for prediction in predict(l4.limits, l4.step_time, again):
        assert abs(prediction.error) <= (
            0.05 if prediction.observation.quantity == "throughput_run" else 0.06
        )


def test_the_stored_predictions_are_what_the_stored_coefficients_give(l4):
    stored = {row["name"]: row for row in model.document()["observations"]}
    for prediction in predict(l4.limits, l4.step_time, l4.observations):
        row = stored[prediction.observation.name]
        assert (prediction.value, prediction.error, prediction.tag) == (
            row["value"],
            row["error"],
            row["tag"],
        )


def test_every_coefficient_of_the_stored_twin_says_where_it_comes_from(l4):
    stored = model.document()
    names = {o.name for o in l4.observations if o.fit}
    assert set(stored["step_time"]) | set(stored["outside"]) == set(stored["coefficients"])
    assert {n for c in stored["coefficients"].values() for n in c["fitted_on"]} == names
    fitted = {name for name, c in stored["coefficients"].items() if c["origin"] == "fitted"}
    assert fitted == set(stored["fit"]["free"]) and stored["fit"]["unknown"] == []


def test_the_data_sheet_gives_the_published_arithmetic():
    assert QWEN25_3B.weight_bytes == 6_171_877_376
    assert QWEN25_3B.kv_bytes_per_token == 36_864
    step_time = roofline(QWEN25_3B, L4, shared=True)
    floor = step_time.features_s(1, 1, 3300, 3300)
    assert floor == pytest.approx(0.02098, abs=5e-6)


def test_kv_usage_under_28_requests_comes_out_at_the_published_one_and_a_half_percent(l4):
    load = Load(28, 28)
    table, chains = prompts(load, 16)
    replica = Replica(l4.limits, l4.step_time, table)
    start = warm_up(replica, load, chains)
    for i in range(28):
        replica.submit(Sequence(str(i), 3300, 115, chains[i % 20]), start)
    replica.settle(start + 2.0)
    assert len(replica.scheduler.running) == 28 and not replica.scheduler.waiting
    assert replica.scheduler.pool.usage == pytest.approx(0.015, abs=0.001)


# --- stored twins -----------------------------------------------------------------------------------------


def test_an_unknown_twin_is_refused_with_the_names_there_are():
    with pytest.raises(EngineError, match=r"no twin 'l5'; there are: .*l4-qwen2.5-3b"):
        model.load("l5")


def test_a_broken_or_incomplete_file_is_refused(tmp_path):
    broken = tmp_path / "broken.json"
    broken.write_text('{"name": ')
    with pytest.raises(EngineError, match=r"broken.json is not JSON"):
        model.load(broken)
    lacking = {k: v for k, v in model.document().items() if k != "engine"}
    with pytest.raises(EngineError, match="lacks 'engine'"):
        model.from_document(lacking)
    odd = model.document()
    odd["observations"][0]["quantity"] = "speed"
    with pytest.raises(EngineError, match="'speed' is not a quantity"):
        model.from_document(odd)


def test_a_refit_starts_from_the_file_and_writes_only_when_told(tmp_path, capsys):
    stored = model.document()
    stored["observations"] = [o for o in stored["observations"] if o["fit"] and "throughput" not in o["name"]]
    stored["fit"]["free"] = ["fixed_s", "token_s", "mixed_s"]
    path = tmp_path / "twin.json"
    path.write_text(model.dumps(stored))
    before = path.read_text()
    assert refit.main([str(path)]) == 0
    assert "gap between tokens" in capsys.readouterr().out and path.read_text() == before
    assert refit.main([str(path), "--write"]) == 0
    again = model.document(path)
    assert max(abs(o["error"]) for o in again["observations"]) < 0.005


def test_the_committed_file_is_in_the_form_it_is_written_in():
    path = model.TWINS / "l4-qwen2.5-3b.json"
    assert model.dumps(model.document()) == path.read_text(encoding="utf-8")


def test_output_lengths_are_drawn_once_per_seed_and_never_below_one():
    load = Load(1, 500, output_tokens=2.0, output_sd=3.0)
    assert lengths(load) == lengths(load) != lengths(replace(load, seed=1))
    assert min(lengths(load)) == 1
