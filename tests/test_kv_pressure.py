"""KV pressure: usage foretold and sampled on the twin, two savings apart, signals and their control."""

from pathlib import Path

import pytest
from arm_records import arm
from matplotlib.figure import Figure
from retained_points import points

from nlqlib import article
from nlqlib.analysis.samples import Gpu, GpuSample, Sample
from nlqlib.analysis.window import Scrape, scrape_of
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import kv_page as page
from nlqlib.experiments import kv_pressure, kv_roofline, kv_savings, kv_signals
from nlqlib.experiments.arm import measure
from nlqlib.experiments.arm_result import ESTIMATES, observed
from nlqlib.experiments.model_data import machine, model_shape
from nlqlib.experiments.study import Study
from nlqlib.load.closed_loop import ClientHealth, LoadRun
from nlqlib.records import Completion
from nlqlib.serving.target import open_target

FLOPS = ESTIMATES["estimated_flops"][1]
QWEN, L4 = model_shape("Qwen/Qwen2.5-3B-Instruct"), machine("NVIDIA L4")


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Study:
    store = Store(tmp_path_factory.mktemp("store"))
    return Study("11_kv_pressure", open_target("twin"), "full", "wire", store)


@pytest.fixture
def local(tmp_path: Path) -> Study:
    return Study("11_kv_pressure", open_target("local"), "quick", "wire", Store(tmp_path))


@pytest.fixture(scope="module")
def shared(twin: Study) -> Record:
    return kv_pressure.under_load(twin, (28,), n=140)[0]


@pytest.fixture(scope="module")
def unshared(twin: Study) -> Record:
    return kv_pressure.unshared(twin)[0]


@pytest.fixture(scope="module")
def pressed(twin: Study) -> Record:
    return kv_pressure.pressed(twin)[0]


def texts(figure: Figure) -> str:
    return " | ".join(t.get_text() for ax in figure.axes for t in ax.texts)


# ---- usage -----------------------------------------------------------------------------------------------


def test_the_workloads_prompts_share_nearly_all_of_their_beginning() -> None:
    lengths, common = kv_pressure.prompt_lengths()
    assert len(lengths) == 20
    assert 0.99 < common / (sum(lengths) / len(lengths)) < 1


def test_another_tokenizers_lengths_scale_ours() -> None:
    lengths, common = kv_pressure.prompt_lengths()
    half = kv_pressure.in_flight(4, 16, sum(lengths) / len(lengths) / 2)
    assert half.shared == round(common / 2)
    assert kv_pressure.in_flight(4, 16, sum(lengths) / len(lengths)).prompts == lengths


def test_the_articles_usage_is_foretold_within_half_a_point_and_brackets_what_is_unpublished() -> None:
    found = page.foretold()
    assert found.usage == pytest.approx(0.015, abs=0.005)
    assert found.low < found.usage < found.high
    assert found.low >= 0.015 - 0.005 and found.high <= 0.015 + 0.005
    assert "nothing fitted" in page.foretold_sentence()


def test_sampled_usage_agrees_with_the_arithmetic(shared: Record) -> None:
    table = page.usage_table([shared])
    assert abs(float(table.loc["28 in flight", "mean − foretold (points)"])) < 0.1
    assert shared.value("kv_usage", "mean") == pytest.approx(0.015, abs=0.002)
    assert shared.value("preemptions", "count") == 0


def test_without_sharing_the_same_load_needs_an_order_of_magnitude_more(
    shared: Record, unshared: Record
) -> None:
    apart, together = unshared.value("kv_usage", "max"), shared.value("kv_usage", "max")
    assert apart is not None and together is not None
    assert 0.24 < apart < 0.26
    assert apart > 10 * together
    assert unshared.value("hit_rate", "mean") == 0
    assert "With nothing shared" in page.unshared_sentence([unshared])


def test_gauges_that_lag_are_said_to_lag_and_not_to_show_who_runs() -> None:
    said = page.unshared_sentence(points("local", "11_kv_pressure", "unshared"))
    assert "its gauges lag" in said and "at a time" not in said


def test_what_an_engine_does_not_say_is_missing() -> None:
    blind = arm(28, blocks=None, block_size=None, output_tokens=115)
    row = page.usage_table([blind]).loc["28 in flight"]
    assert row["usage foretold"] == row["sampled, mean"] == "—"
    assert "not observable" in page.usage_sentence([blind])
    assert "not observable" in page.unshared_sentence([blind])


# ---- savings ---------------------------------------------------------------------------------------------


def test_both_savings_are_kept_apart() -> None:
    found = kv_savings.savings(QWEN, kv_savings.article_capacity())
    both, gqa, sharing, none = (found[t][1] for t in kv_savings.TITLES.values())
    assert sharing / both == none / gqa == 8
    assert gqa / both == pytest.approx(none / sharing)
    assert gqa / both > 8
    assert none > 1 > gqa
    assert "NO" in kv_savings.savings_table().loc["neither", "fits"]


def test_only_arms_of_the_articles_load_and_blocks_are_drawn_as_seen(shared: Record, pressed: Record) -> None:
    cpu = arm(28, block_size=128)
    assert kv_savings.comparable([shared, pressed, arm(4), cpu]) == [shared]


def test_the_figure_shows_arithmetic_samples_and_the_article(
    twin: Study, shared: Record, unshared: Record
) -> None:
    drawn = texts(kv_savings.savings_figure(twin, [shared, unshared]))
    assert "sampled 1.5%" in drawn
    assert "article 1.5%" in drawn
    assert "195.0%" in drawn


# ---- signals ---------------------------------------------------------------------------------------------


def test_every_signal_of_pressure_is_silent_at_the_articles_load(shared: Record) -> None:
    table = kv_signals.signals_table(shared)
    assert list(table["explanation"]) == ["rejected"] * len(kv_signals.EXPLANATIONS)
    assert kv_signals.signals_sentence(shared).startswith("KV pressure is ruled out")


def test_the_control_shows_every_signal_of_pressure(pressed: Record, shared: Record) -> None:
    assert [kv_signals.judged(e, pressed) for e in kv_signals.PRESSURE] == ["NOT rejected"] * 3
    assert kv_signals.signals_sentence(pressed).startswith("KV pressure is not ruled out")
    assert "shows 3 of the 3" in kv_signals.signals_sentence(shared, pressed)


def test_a_missing_signal_rejects_nothing() -> None:
    blind = arm(28)
    assert set(kv_signals.signals_table(blind)["explanation"]) == {kv_signals.UNSEEN}
    assert "cannot be told" in kv_signals.signals_sentence(blind)


def test_a_queue_with_room_in_the_cache_is_no_wait_for_blocks() -> None:
    busy = arm(16, waiting=4.0, running=12.0, kv_usage__max=0.04, preemptions__count=0, queue=1, engine_e2e=4)
    words = {e.claim: kv_signals.judged(e, busy) for e in kv_signals.EXPLANATIONS}
    assert words["requests wait for room in the KV cache"] == "rejected"
    assert words["time is lost in the engine's queue, for whatever reason"] == "NOT rejected"


def test_the_gpu_is_missing_with_its_reason(shared: Record) -> None:
    row = kv_signals.gpu_table([shared]).loc["28 in flight"]
    assert row["GPU utilisation"] == "—"
    assert "has no GPU" in row["missing, because"]


# ---- what an arm keeps of GPU and estimates --------------------------------------------------------------


def _run() -> LoadRun:
    done = Completion("a", "ok", start_s=0.0, end_s=1.0, output_tokens=2, prompt_tokens=4)
    samples = (Sample(0.5, 1.0, 0.0, None, 0.25),)
    return LoadRun((done,), 1, 0.0, ClientHealth(1, 1, 0, None, None, None), samples)


def test_a_gpu_that_is_seen_is_kept() -> None:
    gpus = [GpuSample(0.5, (Gpu("0", "NVIDIA L4", 0.785, 20.5e9, 24e9, 70.0),))]
    found = observed(_run(), None, None, gpus, "measured")
    values = {(m.name, m.stat): m.value for m in found.metrics}
    assert values["gpu_utilisation", "mean"] == 0.785
    assert values["gpu_memory", "max"] == 20.5e9
    assert values["kv_usage", "max"] == 0.25
    assert found.results["gpu_problem"] is None


def test_estimates_that_stay_at_zero_are_missing() -> None:
    zero, still, risen = (_estimates(0.0, at_s=0.0), _estimates(0.0, at_s=2.0), _estimates(5e9, at_s=2.0))
    assert _flops(zero, still) is None
    assert _flops(zero, risen) == 5e9


def _estimates(flops: float, at_s: float) -> Scrape:
    lines = ('vllm:num_requests_running{engine="0"} 0.0', f'{FLOPS}{{engine="0"}} {flops}', "")
    return scrape_of(["\n".join(lines)], at_s)


def _flops(before: Scrape, after: Scrape) -> float | None:
    metrics = observed(_run(), before, after, [], "measured").metrics
    return next(m.value for m in metrics if m.name == "estimated_flops")


# ---- the roofline ----------------------------------------------------------------------------------------


def test_a_step_of_the_twin_lies_under_the_memory_roof(shared: Record) -> None:
    [point] = kv_roofline.points([shared])
    once, each = point.steps["once"], point.steps["each"]
    assert once.kv_tokens < each.kv_tokens == each.context_tokens
    row = kv_roofline.roofline_table([shared], QWEN, L4).loc["28 in flight"]
    low, high = (float(p.rstrip("%")) for p in row["gap explained by memory"].split(" to "))
    assert 50 < low < 60 and 78 < high < 88
    assert float(row["by arithmetic"].rstrip("%")) < 5
    sentence = kv_roofline.roofline_sentence([shared], QWEN, L4, "")
    assert "memory side of the ridge (403 FLOP/byte)" in sentence


def test_without_peaks_there_is_no_roof_and_a_reason(local: Study, shared: Record) -> None:
    figure = kv_roofline.roofline_figure([shared], local, QWEN, None, "no peaks of this CPU are on file")
    assert "no roof: no peaks of this CPU" in texts(figure)
    assert "memory roof (ms)" not in kv_roofline.roofline_table([shared], QWEN, None)
    assert "no peaks" in kv_roofline.roofline_sentence(
        [shared], QWEN, None, "no peaks of this CPU are on file"
    )


def test_without_a_gap_between_tokens_nothing_is_placed(twin: Study) -> None:
    assert kv_roofline.points([arm(8)]) == []
    assert kv_roofline.roofline_table([arm(8)], QWEN, L4).empty
    assert "no step can be placed" in kv_roofline.roofline_sentence([arm(8)], QWEN, L4, "")


# ---- who is served, what is planned ----------------------------------------------------------------------


def test_the_twin_is_the_model_it_models_and_not_the_one_whose_words_it_replays(twin: Study) -> None:
    shape, name = kv_pressure.served_shape(twin, arm())
    assert (shape, name) == (QWEN, "Qwen/Qwen2.5-3B-Instruct")
    found, _ = kv_pressure.served_machine(twin, arm())
    assert found == L4
    assert "36,864 bytes per token" in page.bytes_sentence(shape, name, twin)


def test_a_local_engines_space_is_foretold_in_tokens(local: Study) -> None:
    shape, name = kv_pressure.served_shape(local, arm())
    if local.target.declared["settings"].get("kv_space_gib") == "4":
        assert "149,797 tokens" in page.bytes_sentence(shape, name, local)


def test_an_unknown_model_and_machine_say_what_to_set(local: Study) -> None:
    shape, why = kv_pressure.served_shape(local, arm(), "some/other-model")
    assert shape is None and "data/models.toml" in why
    found, why = kv_pressure.served_machine(local, arm())
    assert found is None and "accelerator" in why


def test_the_plans_of_both_profiles(twin: Study, local: Study) -> None:
    params = {"loads": [], "n_requests": 0, "seed": 0}
    names = [s.name for _, s in kv_pressure.points(twin, params)]
    assert names == [f"shared-n{k:02d}" for k in (1, 8, 16, 28)] + ["unshared-n28", "pressed-n28"]
    quick = [*kv_pressure.load_arms(local, (), 0, 0), *kv_pressure.unshared_arms(local, 0)]
    assert [(a.concurrency, a.requests) for a in quick] == [(1, 4), (4, 8), (16, 32), (4, 4)]
    assert kv_pressure.pressed_arms(local, 0) == []
    assert measure(local, []) == []


# ---- the article -----------------------------------------------------------------------------------------


def test_every_claim_of_the_page_is_judged(shared: Record, twin: Study) -> None:
    table = kv_signals.against_article([shared], twin)
    wanted = {c.id for c in article.claims() if c.notebook == "11_kv_pressure"}
    assert set(table["claim"]) == wanted
    usage = table[table["claim"] == "kv.usage"]
    assert list(usage["verdict"]) == ["reproduced", "reproduced"]
    assert list(usage["tag"]) == ["predicted", "predicted"]
    gpu = table[table["claim"].str.startswith("kv.gpu")]
    assert set(gpu["verdict"]) == {"not comparable"}
