"""Two windows: the same sweep on both in turns, merged from deployments, and read with intervals."""

from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

import pytest
from context_world import answer, endpoint_study, local_study, point, started_study, twin_study
from sweep_records import level

from nlqlib.analysis.headroom import Budget
from nlqlib.experiments import context, context_caps, context_engine, context_figures, kv_pressure
from nlqlib.experiments import context_difference_page as difference
from nlqlib.experiments import context_lengths as lengths
from nlqlib.experiments import context_window_page as page
from nlqlib.experiments.context import Deployment, Design, deployments, design, visits
from nlqlib.experiments.model_data import model_shape
from nlqlib.experiments.plans import duration_s
from nlqlib.experiments.study import Study
from nlqlib.serving.target import TargetError

WINDOWS = (4096, 8192)
PARAMS = {"windows": [4096, 8192], "swept": [], "n_requests": 0, "deployed": 0}
Found = dict[int, Deployment]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return twin_study(tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def wanted(study: Study) -> Design:
    return design(study, WINDOWS, (1, 4), 10)


@pytest.fixture(scope="module")
def found(study: Study, wanted: Design) -> Found:
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(context.REPEATS, "full", 2)
        return deployments(study, wanted)


# ---- design and plan -------------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", [(8192, 4096), (4096, 4096), (4096,), (0, 4096), (1, 2, 3)])
def test_windows_that_compare_nothing_are_refused(study: Study, windows: tuple[int, ...]) -> None:
    with pytest.raises(TargetError, match="the smaller first"):
        design(study, windows)


def test_a_label_is_for_endpoints_that_are_not_ours_and_names_one_of_the_windows(
    study: Study, tmp_path: Path
) -> None:
    with pytest.raises(TargetError, match="set by us"):
        design(study, WINDOWS, deployed=4096)
    with pytest.raises(TargetError, match="4096 or 8192"):
        design(endpoint_study(tmp_path, 4096), WINDOWS, deployed=2048)


def test_both_windows_get_the_same_sweep_questions_and_probes(study: Study) -> None:
    plain = design(study, WINDOWS)
    small, large = ([asdict(a) for a in context.window_arms(study, plain, w)] for w in WINDOWS)
    for side in (small, large):
        for one in side:
            del one["sweep"]
    assert [a | {"window": 8192} for a in small] == large
    assert {a["concurrency"] for a in small} == {1, 8, 16, 24, 32}
    assert len(small) == 15


def test_the_plan_of_the_twin_holds_every_point_once(study: Study) -> None:
    names = [s.name for _, s in context.points(study, PARAMS)]
    assert len(names) == len(set(names)) == 4 + 15 + 1 + 2 + 15 + 1 + 1


def test_the_windows_take_turns_so_that_drift_favours_neither(tmp_path: Path) -> None:
    def turns(study: Study) -> list[tuple[int, list[int], bool]]:
        found = visits(study, design(study, WINDOWS))
        return [(v.window, sorted({a.repeat for a in v.arms}), v.first) for v in found]

    assert turns(local_study(tmp_path)) == [(4096, [0], True), (8192, [0, 1], True), (4096, [1], False)]
    full = replace(local_study(tmp_path), profile="full")
    assert turns(full) == [(4096, [1], True), (8192, [1, 2], True), (4096, [2, 3], False), (8192, [3], False)]
    there = endpoint_study(tmp_path, 8192)
    [only] = visits(there, design(there, WINDOWS, deployed=8192))
    assert (only.window, len(only.arms), only.first) == (8192, 15, True)


def test_every_visit_of_a_quick_run_goes_through_the_levels_in_one_order(tmp_path: Path) -> None:
    local = local_study(tmp_path)
    loads = [[a.concurrency for a in v.arms] for v in visits(local, design(local, WINDOWS))]
    assert loads == [[1, 2, 4, 8, 16], [1, 2, 4, 8, 16] * 2, [1, 2, 4, 8, 16]]


def test_points_of_a_quick_run_that_were_measured_once_stay_what_they_were(tmp_path: Path) -> None:
    """The first run has no number and no other parameters than a page with single runs gave it."""
    local = local_study(tmp_path)
    arms = {a.point: a for a in context.window_arms(local, design(local, WINDOWS), 8192)}
    assert list(arms) == [f"w8192-n{n:02d}{r}" for r in ("", "-r1") for n in (1, 2, 4, 8, 16)]
    known = {"sweep": "w8192", "concurrency": 4, "requests": 8, "repeat": 0, "seed": 0, "words": "served"}
    known |= {"output_tokens": 16, "stream": False, "router": None, "replica": None, "unshared": False}
    assert asdict(arms["w8192-n04"]) == known | {"num_blocks": None, "window": 8192}
    assert asdict(arms["w8192-n04-r1"]) == asdict(arms["w8192-n04"]) | {"repeat": 1, "seed": 1}


def test_a_quick_local_run_keeps_its_budget_on_two_engines(tmp_path: Path) -> None:
    local = local_study(tmp_path)
    planned = context.points(local, PARAMS)
    engines = {str(there.target.declared) for there, _ in planned}
    assert len(engines) == 2
    assert sum(duration_s(s, "local") for _, s in planned) < 3 * 360  # the plan counts long answers
    names = [s.name for _, s in planned]
    assert names.count("cap-256") == 1  # the base window's answers are that limit's point
    assert names.count("answers-w8192") == 1


def test_an_endpoint_plans_only_the_window_it_is_deployed_with(tmp_path: Path) -> None:
    names = [s.name for _, s in context.points(endpoint_study(tmp_path, 8192), PARAMS | {"deployed": 8192})]
    assert not any("4096" in n for n in names) and "probes-w8192" in names
    undeclared = [s.name for _, s in context.points(endpoint_study(tmp_path, 8192), PARAMS)]
    assert undeclared == ["probe", "cap-64", "cap-128", "cap-256", "cap-512"]


# ---- by construction on the twin -------------------------------------------------------------------------


def test_on_the_twin_the_window_changes_no_time_and_the_page_says_why(
    study: Study, wanted: Design, found: Found
) -> None:
    seen = difference.changed(study, found, wanted)
    assert len(seen) == 2 * 4
    assert all(c.difference == 0 and c.reading == "no difference shown" for c in seen)
    text = difference.free_sentence(study, found, wanted)
    assert text.startswith("No difference of throughput is shown over all 2 concurrencies: +0.0%")
    assert "None of 8 comparisons" in text and text.endswith(difference.BY_CONSTRUCTION)
    assert "by construction" in page.kind(study)


def test_each_window_was_really_served(found: Found) -> None:
    told = {w: {r.server.max_model_len for r in d.records if r.server} for w, d in found.items()}
    assert told == {4096: {4096}, 8192: {8192}}


def test_two_levels_show_no_knee_and_the_page_says_so(found: Found, wanted: Design) -> None:
    assert "cannot be told: 2 different concurrencies" in page.knee_sentence(found, wanted)
    assert list(page.knee_table(found)["verdict"]) == ["cannot tell"] * 2


def _bent(window: int, at: int, noise: Sequence[float] = (0.0,)) -> Deployment:
    """A sweep that bends sharply at `at`, with some relative noise in turn."""
    loads = (1, 4, 8, 12, 16, 20, 24, 32)
    x = [min(n, at) + 0.1 * max(0, n - at) for n in loads]
    swept = [level(n, x[i] * (1 + noise[i % len(noise)])) for i, n in enumerate(loads)]
    return Deployment(window, tuple(swept))


def test_a_knee_that_stays_is_told_from_one_that_moves(wanted: Design) -> None:
    same = {w: _bent(w, 16) for w in WINDOWS}
    assert page.knee_sentence(same, wanted).startswith("No move of the knee is shown: 16.0 and 16.0")
    moved = {4096: _bent(4096, 16), 8192: _bent(8192, 12)}
    assert page.knee_sentence(moved, wanted).startswith("The knee moves from 16.0 to 12.0")


def test_a_knee_moves_only_outside_the_interval_of_the_difference(wanted: Design) -> None:
    """The first is sharp; the second, 3 away and so outside the first's interval, is too noisy to say so."""
    noisy = {4096: _bent(4096, 16), 8192: _bent(8192, 19, (0.1, -0.1))}
    first = page.knees(noisy)[4096].interval
    assert first is not None and not first.low <= (page.knees(noisy)[8192].at or 0) <= first.high
    assert page.knee_sentence(noisy, wanted).startswith("No move of the knee is shown")


def test_five_levels_of_a_quick_run_are_enough_for_a_knee(wanted: Design) -> None:
    loads = [(n, r) for r in (0, 1) for n in context.SWEPT["quick"]]
    swept = tuple(level(n, min(n, 4) + 0.1 * max(0, n - 4) + 0.01 * r, repeat=r) for n, r in loads)
    found = {w: Deployment(w, swept) for w in WINDOWS}
    assert list(page.knee_table(found)["verdict"]) == ["knee"] * 2


def test_the_sweep_is_shown_with_the_signals_the_article_asks_for(found: Found) -> None:
    table = page.sweep_table(found)
    assert {"context errors", "KV usage, max", "preemptions", "p95 (s)", "X run (req/s)"} <= set(
        table.columns
    )
    assert len(table) == 8
    assert set(table["context errors"]) == {0}
    assert list(table["window"])[:2] == ["4,096", "8,192"]


def test_capacity_is_arithmetic_on_the_engines_blocks(found: Found, wanted: Design) -> None:
    shape = model_shape("Qwen/Qwen2.5-3B-Instruct")
    table = page.capacity_table(found, wanted, shape, 3327, 256)
    fit = table.columns[2]
    assert "23,500" in fit
    assert [float(v) for v in table[fit]] == pytest.approx(
        [23_499 / 256, 23_499 / 512, 23_499 / 224], abs=0.05
    )
    assert list(table.iloc[:, 1]) == ["151", "302", "132"]
    assert "91.8 requests" in page.capacity_sentence(found, wanted)


def test_answers_are_the_same_and_by_construction(study: Study, found: Found, wanted: Design) -> None:
    text = page.answers_sentence(study, found, wanted)
    assert text.startswith("20 of 20 answers are the same") and "By construction" in text
    assert list(page.answers_table(found)["valid"]) == [18, 18]


def test_the_figures_draw_windows_differences_and_limits(study: Study, found: Found, wanted: Design) -> None:
    seen = difference.changed(study, found, wanted)
    fig = context_figures.windows_figure(study, found.values(), seen)
    words = [t.get_text() for ax in fig.axes for t in ax.texts]
    assert {"4,096", "8,192"} <= set(words)
    told = fig.axes[-1].get_title("left").splitlines()
    assert told[0] == "equal by construction" and told[-1] == "band: throughput over all levels, 95 %"
    assert len(fig.axes) == 3
    budgets = [Budget(w, 3327, 320) for w in WINDOWS]
    on_file = lengths.of("baseline")
    fig = context_figures.lengths_figure(study, on_file, budgets)
    words = [t.get_text() for ax in fig.axes for t in ax.texts]
    assert {"64", "128", "256"} <= set(words) and "512" not in words
    assert any("left 449" in w for w in words)
    alt = context_figures.lengths_alt(study, on_file, budgets)
    assert "8,192 is 3,327 of prompt, 320 of answer and 4,545 left" in alt
    assert "None of 8" in context_figures.windows_alt(study, difference.free_sentence(study, found, wanted))


def test_the_shape_is_that_of_the_modelled_engine(study: Study, found: Found) -> None:
    assert kv_pressure.served_shape(study, found[4096].sweep[0])[1] == "Qwen/Qwen2.5-3B-Instruct"


# ---- an endpoint that is not ours ------------------------------------------------------------------------


def test_windows_of_an_endpoint_are_merged_from_its_deployments(tmp_path: Path) -> None:
    first, second = (endpoint_study(tmp_path, w) for w in WINDOWS)
    plan = Design(WINDOWS, (2,), 10)
    alone = deployments(first, replace(plan, deployed=4096))
    assert alone[4096].sweep and alone[8192].records == []
    assert "not ours to set" in difference.free_sentence(first, alone, plan)
    assert "one window only" in page.answers_sentence(first, alone, plan)
    both = deployments(second, replace(plan, deployed=8192))
    assert [len(d.sweep) for d in both.values()] == [len(alone[4096].sweep)] * 2
    assert {r.server.max_model_len for r in both[4096].sweep if r.server} == {4096}
    text = difference.free_sentence(second, both, plan)
    assert "None of 4 comparisons" in text
    assert text.endswith("a drift of the endpoint looks like an effect of the window.")
    assert {c.method for c in difference.changed(second, both, plan)} == {"runs, Welch", "counts, Newcombe"}


def test_an_endpoint_with_another_window_than_it_is_said_to_have_is_not_measured(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="its window is 4096, not 8192"):
        deployments(endpoint_study(tmp_path, 4096), Design(WINDOWS, (1,), 20, deployed=8192))


def test_without_a_label_nothing_of_the_windows_is_measured(tmp_path: Path) -> None:
    there = endpoint_study(tmp_path, 4096)
    nothing = deployments(there, Design(WINDOWS, (1,), 20))
    assert all(d.records == [] for d in nothing.values())
    assert page.sweep_table(nothing).empty
    assert "not observable" in page.capacity_sentence(nothing, Design(WINDOWS))
    assert "cannot be told" in page.knee_sentence(nothing, Design(WINDOWS))
    fig = context_figures.windows_figure(there, nothing.values(), ())
    assert any("nothing to compare" in t.get_text() for ax in fig.axes for t in ax.texts)


# ---- an engine of ours -----------------------------------------------------------------------------------


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What becomes of the engines of a study in `tmp_path`, whose locks are no other run's."""
    found: list[str] = []
    monkeypatch.setattr(context_engine, "release", lambda: found.append("room"))
    monkeypatch.setenv("NLQLIB_CACHE", str(tmp_path / "cache"))
    return found


def test_engines_take_turns_and_each_starts_only_after_the_other_has_ended(
    tmp_path: Path, told: list[str]
) -> None:
    mine, plan = started_study(tmp_path, told), Design(WINDOWS, (1, 2), 4)
    capped = context_caps.measure(mine, context_caps.caps(mine))
    both = deployments(mine, plan)
    turns = ["start 4096", "end 4096", "room", "start 8192", "end 8192", "start 4096", "end 4096"]
    assert told == turns
    assert [[a.params["repeat"] for a in d.sweep] for d in both.values()] == [[0, 0, 1, 1]] * 2
    assert "1 in 20" not in (text := difference.free_sentence(mine, both, plan))
    assert "In 2 of 4 pairs of runs the smaller window was measured first" in text
    assert {w: d.sweep[0].server.max_model_len for w, d in both.items() if d.sweep[0].server} == {
        4096: 4096,
        8192: 8192,
    }
    assert both[4096].answers is not None and both[4096].answers.path == capped[-1].path
    assert {r["output_tokens"] for d in both.values() for a in d.sweep for r in a.samples()} == {16}
    deployments(started_study(tmp_path, told), plan)
    assert told == turns  # everything is retained: nothing starts


def test_what_is_left_of_an_earlier_run_starts_only_the_engines_it_needs(
    tmp_path: Path, told: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a run that was made with one run of each window the second runs are missing."""
    plan = Design(WINDOWS, (1, 2), 4)
    with monkeypatch.context() as once:
        once.setitem(context.REPEATS, "quick", 1)
        deployments(started_study(tmp_path, told), plan)
    assert told == ["start 4096", "end 4096", "room", "start 8192", "end 8192"]
    told.clear()
    both = deployments(started_study(tmp_path, told), plan)
    assert told == ["room", "start 8192", "end 8192", "start 4096", "end 4096"]
    assert [len(d.sweep) for d in both.values()] == [4, 4]


# ---- the same questions -----------------------------------------------------------------------------------


def test_answers_that_differ_are_counted() -> None:
    one = Deployment(4096, answers=point([answer("a"), answer("b")]))
    other = Deployment(8192, answers=point([answer("a"), answer("b", text_sha256="another")]))
    found = {4096: one, 8192: other}
    assert page._same(*(d.answers for d in found.values() if d.answers)) == (1, 2)
