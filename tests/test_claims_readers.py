"""The notebooks' own comparisons on retained runs: what a page would show is what the claims table reads."""

from pathlib import Path

import pytest
from claims_world import keep

from nlqlib.artifacts import Store
from nlqlib.experiments import decomposition, kv_pressure, prefix, quality_under_load
from nlqlib.experiments.claims import Line, target_lines
from nlqlib.experiments.prompt_variants import LEADING, WARM
from nlqlib.experiments.study import Study
from nlqlib.records import Json
from nlqlib.serving.target import open_target


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Line]:
    """The claims table of a twin on which four pages were measured with few requests."""
    root = tmp_path_factory.mktemp("artifacts")

    def study(notebook: str) -> Study:
        return Study(notebook, open_target("twin"), "full", "wire", Store(root))

    decomposition.alone(study("07_latency_decomposition"), n=10)
    kv_pressure.under_load(study("11_kv_pressure"), [28], n=56)
    prefix.measure(study("08_prefix_cache"), n=8, scenarios=(WARM, LEADING))
    quality_under_load.under_load(study("12_quality_under_load"), [1, 4], 4, 0)
    return {line.claim.id: line for line in target_lines("twin", root)}


@pytest.mark.parametrize(
    ("claim_id", "notebook", "near"),
    [
        ("decomposition.decode", "07_latency_decomposition", 3.11),
        ("decomposition.itl", "07_latency_decomposition", 0.0272),
        ("kv.usage", "11_kv_pressure", 0.015),
        ("prefix.warm.prefill", "08_prefix_cache", 0.032),
        ("load.identical", "12_quality_under_load", 1.0),
    ],
)
def test_a_page_of_the_twin_is_read(twin: dict[str, Line], claim_id: str, notebook: str, near: float) -> None:
    line = twin[claim_id]
    assert line.notebook == notebook
    assert line.verdict.value == pytest.approx(near, rel=0.1)
    assert [p.split("/")[1] for p in line.artifacts] == [notebook] * len(line.artifacts) != []


def test_a_scenario_that_was_not_measured_has_no_value(twin: dict[str, Line]) -> None:
    assert twin["prefix.diverse.ttft"].word == "not measured"
    assert "have no point of this setting" in twin["prefix.diverse.ttft"].verdict.reason


def test_what_the_twin_must_give_is_no_confirmation(twin: dict[str, Line]) -> None:
    assert twin["load.identical"].word == "not comparable"
    assert twin["decomposition.queue"].word == "not comparable"


# ---- pages whose runs are made by hand -------------------------------------------------------------------

PRETTY, COMPACT = '{\n  "metric": "revenue"\n}', '{"metric":"revenue"}'


def said(question: str, text: str, tokens: int, **more: float | str) -> Json:
    return {"question_id": question, "outcome": "ok", "text": text, "output_tokens": tokens, **more}


def timed(form: str, question: str, text: str, tokens: int, e2e_s: float) -> Json:
    return said(question, text, tokens, form=form, id=question, e2e_s=e2e_s)


@pytest.fixture
def output(tmp_path: Path) -> dict[str, Line]:
    """An L4 that honours the wish for compact output three times of four, with the article's times."""
    ids = [f"q{i}" for i in range(4)]
    answers = {"pretty": [said(q, PRETTY, 116) for q in ids], "prompt_compact": []}
    answers["prompt_compact"] = [
        *(said(q, COMPACT, 77) for q in ids[:3]),
        *(said(q, PRETTY, 116) for q in ids[3:]),
    ]
    for name, rows in answers.items():
        metrics = {("output_tokens", "mean"): sum(r["output_tokens"] for r in rows) / len(rows)}
        keep(tmp_path, "l4", "09_compact_json", f"dev-{name}", metrics, samples=rows, name=name)
    rows = [timed("pretty", q, PRETTY, 116, 3.214) for q in ids]
    rows += [timed("prompt_compact", q, COMPACT, 77, 2.169) for q in ids[:3]]
    rows += [timed("prompt_compact", q, PRETTY, 116, 3.2) for q in ids[3:]]
    itl = {("inter_token_latency", "mean"): 0.0272}
    keep(tmp_path, "l4", "09_compact_json", "timing", itl, samples=rows, forms=list(answers))
    return {line.claim.id: line for line in target_lines("l4", tmp_path)}


def test_the_pairs_timed_in_turn_give_the_saving(output: dict[str, Line]) -> None:
    assert output["output.saving.measured"].verdict.value == pytest.approx(1.045)
    assert output["output.saving.expected"].verdict.value == pytest.approx(39 * 0.0272)
    assert {output[f"output.{c}"].word for c in ("saving.measured", "saving.expected", "saving.share")} == {
        "reproduced"
    }


def test_lengths_are_read_of_the_answers_that_honoured_the_wish(output: dict[str, Line]) -> None:
    assert output["output.compact.tokens"].verdict.value == 77
    assert output["output.pretty.range"].word == "reproduced"
    assert output["output.pretty.characters"].verdict.value == len(PRETTY)


def test_counts_of_trials_are_scaled_to_the_articles_number_and_say_so(output: dict[str, Line]) -> None:
    line = output["output.instruction.honoured"]
    assert line.verdict.value == pytest.approx(9.0)
    assert "3 of 4 questions, as of 12" in line.verdict.reason
    assert output["output.instruction.backfired"].verdict.value == 0


def test_the_answer_at_the_windows_edge_is_read_of_the_smaller_window(tmp_path: Path) -> None:
    for window, status, outcome in ((4096, 400, "context_overflow"), (8192, 200, "ok")):
        row = {"prompt_tokens": window - 100, "max_tokens": 200, "http_status": status, "outcome": outcome}
        keep(
            tmp_path,
            "local",
            "10_context_budget",
            f"probes-w{window}",
            samples=[row],
            window=window,
            clamping=False,
        )
    [line] = [x for x in target_lines("local", tmp_path) if x.claim.id == "context.overflow_status"]
    assert (line.word, line.verdict.value) == ("reproduced", 400)
    assert len(line.artifacts) == 1
