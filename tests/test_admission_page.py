"""The page on admission: what is measured where, deployments merged, the factorial, queues by layer."""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from fake_server import serve
from sweep_records import ARTICLE, level

from nlqlib import plots
from nlqlib.analysis.factorial import CELLS, Factorial, factorial
from nlqlib.analysis.samples import Sample
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import admission, admission_article, admission_page, diagnosis_page, factorial_page
from nlqlib.experiments.admission import Design, design
from nlqlib.experiments.path_level import PathLevel, gate_peaks, thinned, waiting_at
from nlqlib.experiments.study import Study
from nlqlib.records import Completion
from nlqlib.serving.target import TargetError, open_target
from nlqlib.serving.twin_target import TwinSettings, twin_app

SMALL = Design(together=8, n=40)
LL, HL, LH, HH = CELLS


def study_of(folder: Path, target: str = "twin", profile: str = "full") -> Study:
    return Study("03_admission", open_target(target), profile, "wire", Store(folder))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_of(tmp_path_factory.mktemp("admission"))


@pytest.fixture(scope="module")
def sweeps(twin: Study) -> dict[str, list[Record]]:
    return admission.sweeps(twin, SMALL)


@pytest.fixture(scope="module")
def cells(twin: Study) -> dict[tuple[str, str], list[Record]]:
    return admission.cells(twin, SMALL)  # type: ignore[return-value]


# ---- what is measured ------------------------------------------------------------------------------------


def test_on_the_twin_both_sweeps_and_four_cells_are_planned(twin: Study) -> None:
    params = {"low": 1, "high": 32, "together": 0, "n_requests": 0, "cell": ""}
    names = [s.name for _, s in admission.points(twin, params)]
    assert [n for n in names if n.startswith("before")] == [f"before-n{n:02d}" for n in (1, 2, 4, 8, 16, 32)]
    assert {n for n in names if n.startswith("cell")} == {
        f"cell-{a}-{b}-n32-r{r}" for a, b in CELLS for r in (1, 2, 3)
    }
    assert len(names) == len(set(names))


def test_the_points_that_are_planned_are_those_that_are_measured(
    twin: Study, sweeps: dict[str, list[Record]], cells: dict[tuple[str, str], list[Record]]
) -> None:
    params = {"low": 1, "high": 32, "together": 8, "n_requests": 40, "cell": ""}
    missing = [s.name for where, s in admission.points(twin, params) if not where.retained(s)]
    assert missing == ["cold-n01"]


def test_a_real_engine_is_asked_for_little_in_the_quick_profile(tmp_path: Path) -> None:
    local = study_of(tmp_path, "local", "quick")
    params = {"low": 1, "high": 32, "together": 0, "n_requests": 0, "cell": ""}
    found = [s for _, s in admission.points(local, params)]
    assert {s.params["output_tokens"] for s in found} == {16}
    assert sum(s.params["requests"] for s in found) == 2 * (8 + 8 + 32) + 4 * 2 * 8 + 3 * (5 + 16)
    assert {s.concurrency for s in found if "low" in s.params["cell"]} == {1}


def before_levels(study: Study, **more: int) -> list[PathLevel]:
    return admission.sweep_levels(study, "low/low", Design(**more))  # type: ignore[arg-type]


def test_where_a_machine_drifts_the_ends_of_the_sweep_before_are_repeated_in_mixed_order(
    tmp_path: Path,
) -> None:
    local = study_of(tmp_path, "local", "quick")
    found = [(x.concurrency, x.repeat, x.requests) for x in before_levels(local)]
    assert found[:3] == [(1, 0, 8), (4, 0, 8), (16, 0, 32)]
    assert sorted(found[3:]) == [(1, r, 5) for r in (1, 2, 3)] + [(16, r, 16) for r in (1, 2, 3)]
    assert [r for _, r, _ in found[3:]] == [1, 1, 2, 2, 3, 3]  # neighbours in time are a pair
    first = {n for i, (n, _, _) in enumerate(found[3:]) if i % 2 == 0}
    assert first == {1, 16}
    assert found == [(x.concurrency, x.repeat, x.requests) for x in before_levels(local)]
    assert {(x.concurrency, x.repeat) for x in before_levels(local, n=40)} == {(n, r) for n, r, _ in found}


def test_repeats_leave_the_points_that_were_retained_as_they_were(tmp_path: Path) -> None:
    asked = before_levels(study_of(tmp_path, "local", "quick"))
    one = {
        "cell": "low/low",
        "concurrency": 1,
        "output_tokens": 16,
        "repeat": 0,
        "requests": 8,
        "seed": 0,
        "sweep": "before",
        "warm": True,
        "words": "served",
    }
    assert vars(asked[0]) == one
    assert vars(asked[2]) == {**one, "concurrency": 16, "requests": 32}
    assert len({x.point for x in asked}) == len(asked)


def test_a_repeated_end_costs_a_real_engine_less_than_four_minutes(tmp_path: Path) -> None:
    sent = sum(x.requests for x in before_levels(study_of(tmp_path, "local", "quick")) if x.repeat)
    assert sent * 3.5 < 240  # seconds of one request at a limit of one on two cores


def test_neither_the_twin_nor_the_sweep_after_is_repeated(twin: Study, tmp_path: Path) -> None:
    assert {x.repeat for x in before_levels(twin)} == {0}
    local = study_of(tmp_path, "local", "quick")
    assert {x.repeat for x in admission.sweep_levels(local, "high/high", Design())} == {0}


def test_the_cells_are_measured_in_an_order_that_mixes_them(
    twin: Study, cells: dict[tuple[str, str], list[Record]]
) -> None:
    every = [r for records in cells.values() for r in records]
    order = [r.params["cell"] for r in sorted(every, key=lambda r: str(r.run["started_at"]))]
    assert sorted(order) != order
    assert {r.params["seed"] for r in cells[LL]} == {1, 2, 3}
    assert [r.params["repeat"] for r in cells[LL]] == [1, 2, 3]


def test_limits_that_are_no_low_and_high_are_refused(twin: Study) -> None:
    with pytest.raises(TargetError, match="1 ≤ low < high"):
        design(twin, low=4, high=4)
    with pytest.raises(TargetError, match="set by us"):
        design(twin, cell="low/low")
    with pytest.raises(TargetError, match="a cell is one of low/low"):
        design(study_of(Path("unused"), "http://h/v1"), cell="middle/low")


# ---- the twin --------------------------------------------------------------------------------------------


def test_before_throughput_is_flat_and_after_it_grows(sweeps: dict[str, list[Record]]) -> None:
    was = admission_page.signature("before", sweeps["before"])
    now = admission_page.signature("after", sweeps["after"])
    assert was is not None and now is not None and was.tail is not None
    assert was.flat
    assert was.tail.slope * was.x_last == pytest.approx(1, abs=0.05)
    assert now.gain > 10
    assert not now.flat


def test_requests_wait_at_the_router_before_and_nowhere_after(sweeps: dict[str, list[Record]]) -> None:
    [last] = [r for r in sweeps["before"] if r.params["concurrency"] == 32]
    assert last.value("router_depth", "mean") == pytest.approx(31, abs=0.1)
    assert last.value("replica_depth", "mean") == 0
    assert last.results["gateway"] == {"router": 31, "replica": 0}
    assert last.results["middle"]["running"] == 1
    for record in sweeps["after"]:
        assert record.value("router_queue", "mean") == 0


def test_where_requests_wait_is_the_low_limit_that_comes_first(
    cells: dict[tuple[str, str], list[Record]],
) -> None:
    at = {cell: factorial_page.inside(records) for cell, records in cells.items()}
    assert at[LL][:2] == pytest.approx((7, 0), abs=0.1)
    assert at[LH][:2] == pytest.approx((7, 0), abs=0.1)
    assert at[HL][:2] == pytest.approx((0, 7), abs=0.1)
    assert at[HH][0] == at[HH][1] == 0
    assert at[HH][3] == pytest.approx(8, abs=0.5)


def test_two_gates_in_a_row_are_all_interaction(
    twin: Study, cells: dict[tuple[str, str], list[Record]]
) -> None:
    found = factorial_page.effects(cells, "X (req/s)")  # type: ignore[arg-type]
    assert found.effect("router, replica low").value == pytest.approx(0, abs=0.01)
    assert found.effect("replica, router low").value == pytest.approx(0, abs=0.01)
    together = found.effect("router × replica")
    assert together.distinct
    assert together.value == pytest.approx(found.effect("router").value)
    assert "all interaction" in factorial_page.effects_sentence(cells, twin)  # type: ignore[arg-type]
    assert "by construction" in factorial_page.effects_sentence(cells, twin)  # type: ignore[arg-type]


def test_both_sweeps_are_diagnosed_with_the_layer(sweeps: dict[str, list[Record]]) -> None:
    found = diagnosis_page.diagnoses(sweeps)
    assert (found["before"].verdict, found["before"].layer) == ("serialised upstream", "router")
    assert found["after"].verdict == "batching works"
    table = diagnosis_page.layers_table(found)
    assert table.loc["Router", "before"].startswith("limits")
    assert table.loc["Replica admission", "before"].startswith("not reached")
    assert table.loc["Autoscaler", "after"].startswith("passes: 1 replica")
    assert "Baseten" in diagnosis_page.remedy_table(found["before"]).index


def test_a_cold_engine_answers_its_first_request_slowly(twin: Study, sweeps: dict[str, list[Record]]) -> None:
    [cold] = admission.cold(twin, SMALL)
    first, *others = [row["end_s"] - row["start_s"] for row in cold.samples()]
    assert first > max(others) + 0.2
    assert "3.6 s" in admission_page.cold_sentence(sweeps["before"], [cold])


def test_every_figure_is_drawn_and_says_its_target(
    twin: Study, sweeps: dict[str, list[Record]], cells: dict[tuple[str, str], list[Record]]
) -> None:
    for figure, alt in (
        (admission_page.sweeps_figure(sweeps, twin), admission_page.sweeps_alt(sweeps, twin)),
        (factorial_page.interaction_figure(cells, twin), factorial_page.interaction_alt(cells, twin)),  # type: ignore[arg-type]
        (factorial_page.depth_figure(cells, twin), factorial_page.depth_alt(cells, twin)),  # type: ignore[arg-type]
    ):
        assert len(plots.png(figure)) > 10_000
        assert "twin (modelled times)" in alt
        assert any(character.isdigit() for character in alt)


def test_tables_of_the_twin_have_a_row_for_each_cell_and_claim(
    twin: Study, sweeps: dict[str, list[Record]], cells: dict[tuple[str, str], list[Record]]
) -> None:
    table = factorial_page.cells_table(cells, twin, SMALL)  # type: ignore[arg-type]
    assert list(table.index) == list(admission.LABELS)
    assert list(table["router limit"]) == [1, 32, 1, 32]
    judged = admission_article.against_article(sweeps, cells, [], twin)  # type: ignore[arg-type]
    rows = judged.set_index("claim")
    for n in (1, 2, 4, 8, 16, 32):
        assert rows.loc[f"before.throughput.{n}", "verdict"] == "reproduced"
    assert rows.loc["after.throughput.32", "verdict"] == "not measured"  # 8 in flight here


# ---- an endpoint whose limits are not ours ---------------------------------------------------------------


@pytest.fixture(scope="module")
def socket(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The twin on a socket, in real time."""
    with serve(twin_app(TwinSettings(words="synthetic"))) as url:
        yield url


def endpoint(url: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Study:
    monkeypatch.setenv("METRICS_URL", f"{url}/metrics")
    monkeypatch.setenv("TARGET_NAME", "theirs")
    monkeypatch.delenv("MODEL", raising=False)
    monkeypatch.setattr(admission, "SWEPT", {"quick": {"low/low": (2,), "high/high": (2,)}})
    monkeypatch.setattr(admission, "REPEATS", {"quick": 1})
    monkeypatch.setattr(admission, "levels", short_levels)
    return study_of(folder, f"{url}/v1", "quick")


def short_levels(study: Study, *args: object, **more: object) -> list[PathLevel]:
    """The levels of the sweep with answers of two tokens."""
    from nlqlib.experiments.sweep import levels

    found = levels(study, *args, **more)  # type: ignore[arg-type]
    return [replace(level, output_tokens=2, requests=2) for level in found]  # type: ignore[misc]


def test_deployments_are_merged_by_their_cells(
    socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = endpoint(socket, tmp_path, monkeypatch)
    first, second = (design(study, together=2, cell=c) for c in ("low/low", "high/low"))
    assert set(admission.sweeps(study, first)) == {"before"}
    assert set(admission.cells(study, first)) == {LL}
    assert set(admission.sweeps(study, second)) == {"before", "high/low"}
    merged = admission.cells(study, second)
    assert set(merged) == {LL, HL}
    assert all(r.reused for r in admission.cells(study, first)[LL])
    table = factorial_page.cells_table(merged, study, second)
    assert table.loc["low/high", "repeats"] == "not observable here"
    assert table.loc["low/low", "router limit"] == "not ours"
    sentence = factorial_page.effects_sentence(merged, study)
    assert "four deployments" in sentence and "missing (router/replica): low/high, high/high;" in sentence


def test_without_a_label_the_endpoint_is_swept_as_it_is(
    socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = endpoint(socket, tmp_path, monkeypatch)
    wanted = design(study, together=2)
    assert set(admission.sweeps(study, wanted)) == {"as deployed"}
    assert admission.cells(study, wanted) == {}
    assert "its `cell`" in admission_page.design_sentence(study, wanted)
    [sent] = {where.target.name for where, _ in admission.points(study, {**vars(wanted), "n_requests": 0})}
    assert sent == "theirs"


def test_a_real_engine_gets_a_gateway_for_each_cell(
    socket: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = endpoint(socket, tmp_path, monkeypatch)
    ours = replace(study, target=replace(study.target, can=frozenset({"set_limits", "metrics"})))
    asked = admission.sweep_levels(ours, "low/low", Design())
    [found] = admission.measured_cell(ours, "low/low", Design(), asked)
    assert found.value("router_queue", "mean") > 0.02  # type: ignore[operator]
    assert found.results["gateway"] == {"router": 1, "replica": 0}
    assert found.run["interval_s"][1] > found.run["interval_s"][0]


# ---- made by hand ----------------------------------------------------------------------------------------


def drifting(ratio: float, speeds: Mapping[int, float], noise: float = 0.002) -> list[Record]:
    """A sweep before on a machine whose speed differs from repeat to repeat; X(16) is `ratio` times X(1)."""
    found = []
    for r, x in speeds.items():
        wobble = 1 + noise * (1 if r % 2 else -1)
        found += [level(1, x, 3.3, sweep="before", repeat=r)]
        found += [level(16, ratio * wobble * x, 52.0, sweep="before", repeat=r)]
    return found


DRIFT = {0: 0.306, 1: 0.285, 2: 0.312, 3: 0.291}
"""Requests per second of one machine in different minutes: 9 % apart."""


def test_a_drift_that_both_levels_share_does_not_hide_a_flat_throughput() -> None:
    found = admission_page.signature("before", drifting(1.0, DRIFT))
    assert found is not None and found.change is not None
    assert -0.01 < found.change.low < 0 < found.change.high < 0.01
    assert found.gain == pytest.approx(np.mean([1.002, 0.998]), abs=0.001)
    told = admission_page.signature_sentence({"before": drifting(1.0, DRIFT)})
    assert "flat within 5%" in told
    shown = admission_page.signature_table({"before": drifting(1.0, DRIFT)})
    assert "to +" in shown.loc["before", "change of X, 95 %"]


@pytest.mark.parametrize(
    "ratio, said",
    [(1.0, "throughput is flat at 0.3"), (0.8, "throughput falls by 2"), (2.0, "throughput grows 2.0 times")],
)
def test_what_a_sweep_reads_states_its_number(ratio: float, said: str) -> None:
    found = admission_page.signature("before", drifting(ratio, DRIFT))
    assert (
        found is not None
        and said in admission_page.signature_table({"before": drifting(ratio, DRIFT)}).loc["before", "reads"]
    )


def _factorial(router: float, replica: float, both: float, spread: float) -> Factorial:
    """Four cells of three repeats: at low/low 1.0, raised by so much alone and together."""
    means = {("low", "low"): 1.0, ("high", "low"): 1 + router, ("low", "high"): 1 + replica}
    cells = {**means, ("high", "high"): 1 + both}
    return factorial({cell: [m - spread, m, m + spread] for cell, m in cells.items()}, factorial_page.FACTORS)


@pytest.mark.parametrize(
    "router, replica, both, spread, said",
    [
        (0.0, 0.0, 5.0, 0.01, "It is all interaction"),
        (0.4, 0.5, 1.0, 0.01, "Each of them has an effect of its own"),
        (0.4, 0.0, 1.0, 0.01, "The router's limit has an effect of its own"),
        (0.02, -0.03, 0.1, 0.1, "Neither changes it alone by more than the repeats differ"),
    ],
)
def test_an_effect_of_its_own_is_one_that_the_repeats_show(
    router: float, replica: float, both: float, spread: float, said: str
) -> None:
    assert said in factorial_page._whole(_factorial(router, replica, both, spread))


@pytest.mark.parametrize(
    "ratio, noise, said",
    [
        (1.08, 0.002, ": not flat within 5%."),
        (0.90, 0.002, ": not flat within 5%."),
        (1.0, 0.06, "mean is inside 5%, but the interval reaches beyond"),
        (1.08, 0.06, "mean is outside 5%, but the interval is not"),
    ],
)
def test_a_ratio_is_judged_with_its_interval(ratio: float, noise: float, said: str) -> None:
    told = admission_page.signature_sentence({"before": drifting(ratio, DRIFT, noise)})
    assert said in told


def test_without_repeats_no_interval_is_stated() -> None:
    for speeds in ({0: 0.3}, {0: 0.3, 1: 0.31}):
        found = admission_page.signature("before", drifting(1.0, speeds))
        assert found is not None and found.change is None
    assert "interval" not in admission_page.signature_sentence({"before": drifting(1.0, {0: 0.3})})


def test_a_pair_of_which_a_rule_broke_does_not_count() -> None:
    good = drifting(1.0, DRIFT)
    bad = [level(1, 0.3, sweep="before", repeat=4), level(16, 0.9, sweep="before", repeat=4, broken=["x"])]
    one, other = (admission_page.signature("before", r) for r in (good, [*good, *bad]))
    assert one is not None and other is not None and one.change == other.change


def test_nothing_measured_leaves_no_trace_of_numbers(twin: Study) -> None:
    assert admission_page.path_table([]).empty
    assert "No sweep" in admission_page.signature_sentence({})
    assert "before and after" in admission_page.unmeasured_sentence({})
    assert "cannot be told apart" in factorial_page.effects_sentence({}, twin)
    assert len(plots.png(factorial_page.depth_figure({}, twin))) > 1000
    table = factorial_page.cells_table({}, twin, Design())
    assert set(table["repeats"]) == {"not observable here"}


def test_the_articles_own_sweep_after_meets_its_objectives_in_the_same_regions() -> None:
    after = [level(n, x, p95, x_window=x) for n, (x, p95) in ARTICLE.items()]
    chosen = [c.point.concurrency if c.point else None for c in admission_page.regions(after)]
    assert chosen == [16, 24, 32]


def test_a_bound_missed_by_less_than_the_models_tolerance_is_told_apart_from_one_that_is_met(
    twin: Study, tmp_path: Path
) -> None:
    after = [level(n, x, 1.05 * p95, x_window=x) for n, (x, p95) in ARTICLE.items()]
    strict, eased = admission_page.regions(after), admission_page.regions(after, 0.06)
    assert [c.point.concurrency for c in strict if c.point] == [8, 18, 32]
    assert [c.point.concurrency for c in eased if c.point] == [16, 24, 32]
    assert "cannot be told" in admission_page.regions_sentence({"after": after}, twin)
    judged = admission_article.against_article({"after": after}, {}, [], twin).set_index("claim")
    rows = judged.loc["operating.p95_below_4"]
    assert list(rows["verdict"]) == ["differs", "reproduced"]
    assert "allowing p95 its 6%" in rows["reason"].iloc[1]
    measured = study_of(tmp_path, "local")
    assert "tolerance" not in admission_page.regions_sentence({"after": after}, measured)
    assert list(admission_page.regions_table({"after": after}, measured).columns) == ["after"]


def test_a_repeat_whose_rules_broke_is_left_out_and_said_so(twin: Study) -> None:
    good = level(8, 2.0, 4.0, sweep="cell")
    bad = level(8, 9.0, 4.0, sweep="cell", broken=["foreign traffic"])
    assert factorial_page.values([good, bad], "X (req/s)") == [2.0]


def test_waits_follow_each_other_along_the_path() -> None:
    done = [
        Completion("a", "ok", start_s=0.0, end_s=9.0, router_queue_s=2.0, replica_queue_s=3.0),
        Completion("b", "ok", start_s=1.0, end_s=9.0, router_queue_s=0.0, replica_queue_s=None),
    ]
    assert waiting_at("router", done) == [(0.0, 2.0), (1.0, 1.0)]
    assert waiting_at("replica", done) == [(2.0, 5.0)]


def test_depth_counts_half_open_waits() -> None:
    times = np.array([0.0, 0.5, 1.0, 1.5, 2.0])
    assert list(factorial_page.depth_at(times, [(0, 1), (0.5, 2)])) == [1, 2, 1, 1, 0]
    assert list(factorial_page.depth_at(times, [])) == [0] * 5


def test_gauges_are_thinned_evenly_and_never_beyond_their_number() -> None:
    samples = [Sample(float(i), 1.0, 0.0) for i in range(1000)]
    kept = thinned(samples, most=240)
    assert len(kept) <= 240
    assert [s.at_s for s in kept[:3]] == [0.0, 5.0, 10.0]
    assert thinned(samples[:5]) == samples[:5]
    assert thinned([]) == []


def test_the_deepest_queue_is_that_of_the_worst_replica() -> None:
    text = (
        'nlqlib_gateway_peak_queue_depth{layer="router",replica=""} 3\n'
        'nlqlib_gateway_peak_queue_depth{layer="replica",replica="a"} 1\n'
        'nlqlib_gateway_peak_queue_depth{layer="replica",replica="b"} 5\n'
    )
    assert gate_peaks(text) == {"router": 3, "replica": 5}
    assert gate_peaks(None) == {}
