"""The map on the twin, whole: predictions first, few engines, verdicts from retained runs, what is unseen."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from fake_behaviours import Say
from fake_server import FakeServer, serve
from matplotlib.figure import Figure

from nlqlib import tokens
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Measured, Record, Store
from nlqlib.experiments import control, control_answers
from nlqlib.experiments import control_figures as figures
from nlqlib.experiments import control_page as page
from nlqlib.experiments.conditions import CONDITIONS, requests
from nlqlib.experiments.control_data import OWN, digest, rows
from nlqlib.experiments.control_observed import Finding, Outcome, newest, outcomes
from nlqlib.experiments.control_prompts import cuts, lengths, shorten
from nlqlib.experiments.control_run import salted
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Study
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.prompt import system_text
from nlqlib.records import ChatRequest
from nlqlib.serving.target import Connection, Target, TargetError, open_target

SEEN_ON_THE_TWIN = {"Client concurrency", "Engine batch limits", "Prefix caching", "ISL", "OSL"}


def study_of(name: str, folder: Path, profile: str = "full") -> Study:
    return Study(OWN, open_target(name), profile, "wire", Store(folder))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> Study:
    return study_of("twin", tmp_path_factory.mktemp("store"))


@pytest.fixture(scope="module")
def own(twin: Study) -> list[Record]:
    smaller = {**control.BATCH["full"], "n": 40}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(control.BATCH, "full", smaller)  # type: ignore[arg-type]
        return control.measure(twin)


@pytest.fixture(scope="module")
def found(twin: Study, own: list[Record]) -> list[Outcome]:
    return outcomes(twin, own)


@pytest.fixture(scope="module")
def asked() -> list[ChatRequest]:
    return requests(load_questions("dev"), CONDITIONS["baseline"], load_catalog())


def finding(found: Sequence[Outcome], name: str) -> Finding:
    return next(f for o in found for f in o.findings if f.predicted.id == name)


def values(own: Sequence[Record], sweep: str, metric: str, stat: str = "mean") -> list[float]:
    told = (r.value(metric, stat) for r in own if r.params.get("sweep") == sweep)
    return [v for v in told if v is not None]


def texts(figure: Figure) -> str:
    labels = [
        t.get_text().replace("\n", " ") for ax in figure.axes for t in (*ax.texts, *ax.get_yticklabels())
    ]
    return " | ".join(labels)


# ---- prompts ---------------------------------------------------------------------------------------------


def test_a_shortened_prompt_is_a_beginning_of_the_real_one_that_ends_with_a_whole_rule_or_example() -> None:
    whole = system_text(load_catalog())
    found = cuts(whole)
    assert found[-1] == whole
    assert all(whole.startswith(cut) for cut in found)
    assert all(len(a) <= len(b) for a, b in pairwise(found))
    assert sum("# Examples" in cut for cut in found) == 12


@pytest.mark.parametrize("wanted", [800, 1600])
def test_prompts_have_the_length_asked_for_by_exact_counts(asked: list[ChatRequest], wanted: int) -> None:
    found = lengths(shorten(asked, wanted))
    assert found[0] == pytest.approx(wanted, rel=0.06)
    assert max(found) - min(found) < 40
    assert found[0] == tokens.count_chat(shorten(asked, wanted)[0].messages)


def test_without_a_length_the_prompt_stays_as_it_is(asked: list[ChatRequest]) -> None:
    assert shorten(asked, 0) == asked
    assert 3_200 < lengths(asked)[0] < 3_500


# ---- what is run -----------------------------------------------------------------------------------------


def test_a_real_engine_is_started_once_for_each_setting(tmp_path: Path) -> None:
    local = study_of("local", tmp_path, "quick")
    variants = [t.variant for t in control.trials(local)]
    changes = 1 + sum(a != b for a, b in pairwise(variants))
    assert changes == len(set(variants)) == 5
    assert variants[0] == "standard" and "budget-4096" not in variants


def test_the_quick_plan_stays_within_its_minutes(tmp_path: Path) -> None:
    local = study_of("local", tmp_path, "quick")
    planned = [spec for _, spec in control.points(local, {"cell": "", "seed": 0})]
    whole_prompts = [t for t in control.trials(local) if t.unshared and not t.prompt]
    assert all(spec.about_s is not None for spec in planned)
    assert 6 * 60 < sum(spec.about_s or 0 for spec in planned) < 14 * 60
    assert len(whole_prompts) == 1


def test_every_run_names_the_predictions_it_came_after(own: list[Record]) -> None:
    assert own[0].params["digest"] == digest()
    assert all(r.params["predictions"] == digest() for r in own[1:])
    assert len(own[0].params["statements"]) == sum(len(r.predicted) for r in rows())


def test_predictions_are_written_before_the_first_run_and_not_again(twin: Study, own: list[Record]) -> None:
    again = control.predicted(twin)
    assert again.reused and again.run["completed_at"] == own[0].run["completed_at"]
    assert all(own[0].run["completed_at"] <= r.run["started_at"] for r in own[1:])
    assert "before the first" in page.written_sentence(own[0], own)


def test_the_predictions_are_in_the_file_while_the_point_is_only_started(tmp_path: Path) -> None:
    study = study_of("twin", tmp_path)
    seen: list[tuple[str, int]] = []

    def look() -> Measured:
        [body] = [p for p in tmp_path.rglob("*.json") if not p.name.endswith(".run.json")]
        record = load_record(body)
        seen.append((record.status, len(record.params["statements"])))
        return Measured()

    study.point(control.prediction_spec(), look)
    assert seen == [("started", sum(len(r.predicted) for r in rows()))]


def test_an_earlier_run_is_called_a_check(found: list[Outcome], own: list[Record], twin: Study) -> None:
    late = replace(own[0], run={**own[0].run, "completed_at": "2999-01-01T00:00:00.000+00:00"})
    [row] = [r for r in rows() if r.id == "osl"]
    assert finding(found, "osl.decode").foretold is True
    [again] = outcomes(twin, [late, *own[1:]], [row])
    assert again.findings[0].foretold is False
    assert "AFTER" in page.written_sentence(late, [late, *own[1:]])


def test_a_second_run_sends_nothing(twin: Study, own: list[Record], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(control.BATCH, "full", {**control.BATCH["full"], "n": 40})  # type: ignore[arg-type]
    assert all(r.reused for r in control.measure(twin))


# ---- engines ---------------------------------------------------------------------------------------------


def test_never_more_sequences_run_than_the_engine_has_places(own: list[Record]) -> None:
    for sweep, limit in (("seqs-08", 8), ("seqs-16", 16), ("seqs-32", 32)):
        assert values(own, sweep, "running", "max") == [limit] * 3


def test_the_cache_holds_all_but_the_end_of_a_prompt_or_nothing(own: list[Record]) -> None:
    assert min(values(own, "prompt-3.3k-cached", "cached_share")) > 0.99
    assert values(own, "prompt-3.3k-whole", "cached_share") == [0.0] * 3
    assert values(own, "caching-off", "cached_share") == [0.0] * 3


def test_a_whole_prompt_in_one_step_holds_up_the_others_longer_than_in_two(own: list[Record]) -> None:
    on, budget, off = (
        values(own, s, "longest_gap", "max") for s in ("chunks-on", "budget-4096", "chunks-off")
    )
    assert min(off) > 1.3 * max(on)
    assert off == pytest.approx(budget)


def test_answers_are_cut_at_sixteen_tokens_and_then_do_not_parse(own: list[Record]) -> None:
    cut = next(r for r in own if r.body["point"] == "answers-cut")
    assert cut.value("answer_tokens", "mean") == control_answers.CUT_TOKENS
    assert cut.value("truncated", "share") == cut.value("parse_errors", "share") == 1.0


def test_salts_never_repeat_on_a_real_engine(twin: Study, tmp_path: Path, asked: list[ChatRequest]) -> None:
    local = study_of("local", tmp_path, "quick")
    salts = [next(salted(local, asked)).extra["cache_salt"] for _ in range(2)]
    assert salts[0] != salts[1]
    assert next(salted(twin, asked)).extra["cache_salt"] == "twin-0"


def test_one_engine_runs_at_a_time_and_each_is_ended_before_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NLQLIB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setitem(control.BATCH, "quick", {**control.BATCH["quick"], "n": 8})  # type: ignore[arg-type]
    events: list[str] = []
    local = replace(study_of("twin", tmp_path, "quick"), target=_watched({}, events))
    control.measure(local)
    started = [e for e in events if e.startswith("start")]
    assert len(started) == len(set(started)) == 5
    running = 0
    for event in events:
        running += 1 if event.startswith("start") else -1
        assert 0 <= running <= 1
    assert running == 0


def _watched(flags: dict[str, object], events: list[str]) -> Target:
    """The twin in the place of a real engine: says when it is started and ended."""
    twin = open_target("twin").engine(words="synthetic", **flags)

    def connect() -> Connection:
        events.append(f"start {flags}")
        return replace(twin.connect(), close=lambda: events.append("end"))

    def variant(more: Mapping[str, object]) -> Target:
        return _watched({**flags, **more}, events)

    return replace(twin, kind="local", connect=connect, variant=variant)


# ---- verdicts --------------------------------------------------------------------------------------------


def test_every_row_has_a_verdict_and_what_the_twin_can_show_is_shown(found: list[Outcome]) -> None:
    assert len(found) == 13
    seen = {o.row.control for o in found if o.verdict in ("confirmed", "rejected")}
    assert seen >= SEEN_ON_THE_TWIN


def test_what_holds_by_construction_is_no_confirmation(found: list[Outcome]) -> None:
    for name in ("client_concurrency.in_flight", "engine_batch.running", "max_tokens.finish_reason"):
        assert finding(found, name).verdict == "holds by construction"
    assert finding(found, "engine_batch.throughput").verdict == "confirmed"


def test_a_row_that_rests_on_another_notebook_names_it(found: list[Outcome]) -> None:
    router = finding(found, "router_admission.queue")
    assert router.verdict == "not observable here" and "run 03_admission first" in router.why
    table = page.unseen_table(found)
    assert any("run 13_heldout_semantics first" in reason for reason in table.index)
    assert any("one model is served here" in reason for reason in table.index)


def test_runs_of_other_notebooks_are_read_where_they_are_kept(twin: Study, own: list[Record]) -> None:
    from nlqlib.experiments import admission

    there = replace(twin, notebook="03_admission")
    design = admission.design(there, n=12, together=4)
    admission.cells(there, design)
    [row] = [r for r in rows() if r.id == "replica_admission"]
    [outcome] = outcomes(twin, own, [row])
    assert outcome.verdict == "confirmed" and finding([outcome], "replica_admission.throughput").n == (3, 3)


def test_an_endpoint_whose_settings_are_not_ours_says_how_to_see_more(tmp_path: Path) -> None:
    url = study_of("http://127.0.0.1:9/v1", tmp_path)
    found = outcomes(url, [])
    assert "needs other settings" in finding(found, "engine_batch.throughput").why
    with pytest.raises(TargetError, match="a cell is one of"):
        control.measure(url, cell="seqs-99")
    planned = [spec.params.get("variant") for _, spec in control.points(url, {"cell": "seqs-08", "seed": 0})]
    assert set(planned) == {None, "seqs-08"}


def test_a_whole_page_of_somebody_elses_endpoint_shows_what_a_client_can_see(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(control.BATCH, "quick", {**control.BATCH["quick"], "n": 32})  # type: ignore[arg-type]
    once = {**control.ALONE["quick"], "repeats": 1, "cold": {"0.8k": 1, "1.6k": 1, "3.3k": 1}}
    monkeypatch.setitem(control.ALONE, "quick", once)  # type: ignore[arg-type]
    monkeypatch.setenv("TARGET_NAME", "theirs")
    with serve(FakeServer([Say("{}", latency_s=0.05)])) as url:
        study = study_of(f"{url}/v1", tmp_path, "quick")
        own = control.measure(study)
    found = outcomes(study, own)
    [alone], [together] = (values(own, name, "throughput_run") for name in ("client-01", "seqs-32"))
    assert together > 2 * alone
    assert finding(found, "structured_outputs.parse").verdict == "rejected"
    bare = {f.verdict for f in page.findings(found) if f.change and f.change.interval is None}
    assert bare <= {"confirmed once", "rejected once", "holds by construction"}
    assert "once" not in "".join(bare) or "rest on one run of each side" in page.map_sentence(found)
    assert values(own, "seqs-32", "prefill") == []
    assert "needs other settings" in finding(found, "prefix_caching.ttft").why
    assert page.map_table(found)["verdict"].iloc[0] == "rejected"
    assert not any(url in path.read_text("utf-8") for path in tmp_path.rglob("*.json"))


def test_a_target_that_is_ours_takes_no_cell(twin: Study) -> None:
    with pytest.raises(TargetError, match="settings are ours"):
        control.measure(twin, cell="seqs-08")


def test_a_missing_metric_is_not_observed_and_a_broken_run_is_left_out(
    twin: Study, own: list[Record]
) -> None:
    [row] = [r for r in rows() if r.id == "client_concurrency"]
    bare = [replace(r, body={**r.body, "metrics": []}) for r in own]
    assert "does not show it" in outcomes(twin, bare, [row])[0].findings[1].why
    rule = {"rule": "alone on the server", "value": 2, "threshold": 1, "ok": False}
    broken = [replace(r, body={**r.body, "validity": [rule]}) for r in own]
    assert "broke a validity rule" in outcomes(twin, broken, [row])[0].findings[1].why


def test_of_two_runs_of_one_point_the_newer_counts(own: list[Record]) -> None:
    older = replace(own[1], run={**own[1].run, "completed_at": "2000-01-01"})
    assert newest([own[1], older]) == newest([older, own[1]]) == [own[1]]


# ---- page ------------------------------------------------------------------------------------------------


def test_rejected_rows_come_first_in_every_table_and_figure(found: list[Outcome]) -> None:
    turned = [replace(found[-2], findings=tuple(_rejected(f) for f in found[-2].findings)), *found[:-2]]
    assert page.map_table(turned)["verdict"].iloc[0] == "rejected"
    assert page.findings_table(turned)["verdict"].iloc[0] == "rejected"
    assert "Rejected: Held-out evaluation" in page.map_sentence(turned)


def _rejected(f: Finding) -> Finding:
    return replace(f, verdict="rejected", why="it went the other way")


def test_tables_hold_every_row_and_every_prediction(found: list[Outcome], own: list[Record]) -> None:
    assert len(page.map_table(found)) == 13
    assert len(page.findings_table(found)) == sum(len(r.predicted) for r in rows())
    assert len(page.answers_table(own)) == 3
    assert set(page.runs_table(own)["engine"]) == set(control.VARIANTS)
    assert "or from the twin's own rules" in page.construction_sentence(found, study_of("twin", Path()))


def test_figures_draw_a_line_for_each_row_and_say_their_main_number(
    found: list[Outcome], own: list[Record], twin: Study
) -> None:
    fig = figures.map_figure(found, twin)
    assert all(row.control.replace("`", "") in texts(fig) for row in rows())
    assert "not observed" in texts(fig)
    assert len(figures.findings_figure(found, twin).axes[0].get_yticks()) > 15
    assert "Of 13 rows" in figures.map_alt(found, twin)
    assert len(figures.limits_figure(own, twin).axes) == 4
    assert "From 8 to 32 places throughput goes from" in figures.limits_alt(own, twin)
    assert "times the tokens" in figures.lengths_alt(own, twin)
    assert "Largest change" in figures.findings_alt(found, twin)


def test_without_any_run_the_figures_say_so(twin: Study) -> None:
    assert "not observable" in figures.limits_sentence([])
    assert "not observed" in texts(figures.limits_figure([], twin))
    assert figures.lengths_sentence([]) == "No prompt length was measured here."
