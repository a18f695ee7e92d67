"""The page on held-out meaning: what is asked, what is chosen, what its tables say; on a scripted model."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from model_world import Scripted

from nlqlib import paths, plots
from nlqlib.artifacts import Store
from nlqlib.experiments import (
    heldout,
    heldout_article,
    heldout_detail,
    heldout_page,
    heldout_standing,
)
from nlqlib.experiments import journal as journals
from nlqlib.experiments.captions import captioned
from nlqlib.experiments.conditions import ASKINGS
from nlqlib.experiments.heldout import Found
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.recording import asking, record_asking
from nlqlib.experiments.study import Study
from nlqlib.nlq.catalog import load_catalog
from nlqlib.serving import twin_target
from nlqlib.serving.target import open_target

DEV = load_questions("dev")
SOME = ("dev-01", "dev-02", "dev-09", "dev-17")
"""A breakdown, a ranking, a sorted breakdown, a series."""
PARAMS = {"conditions": "all", "concurrency": 2}


def ranked(gold: dict[str, Any]) -> dict[str, Any]:
    """The article's main error: `gold` as a ranking of ten."""
    order = {"by": gold["metrics"][0], "direction": "desc"}
    return gold | {"query_type": "top_n_by_metric", "grain": None, "sort": order, "limit": 10}


def ranking_model() -> Scripted:
    """A model that takes every question for a ranking of ten."""
    return Scripted({q.question: ranked(q.golds[0].wire()) for q in DEV}, sure=0.5)


def four(folder: Path) -> Path:
    """Four development questions under the name of the development set."""
    lines = (paths.QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()
    path = folder / "dev.jsonl"
    path.write_text("\n".join(line for line in lines if json.loads(line)["id"] in SOME), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Study]:
    """The twin, with every way of asking the four questions recorded."""
    folder = tmp_path_factory.mktemp("recorded")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(paths, "RECORDINGS", folder / "recordings")
        patched.setattr(journals, "FOLDER", folder / "answered")
        twin_target.recordings.cache_clear()
        target = ranking_model().target()
        for name in ASKINGS:
            record_asking(target, str(four(folder)), asking(name), concurrency=2)
        yield Study(heldout.NOTEBOOK, open_target("twin"), "full", "openai", Store(folder / "artifacts"))
    twin_target.recordings.cache_clear()


@pytest.fixture(scope="module")
def found(study: Study) -> Found:
    return heldout.evaluated(study, [str(source(study))], concurrency=2)


def source(study: Study) -> Path:
    return study.store.root.parent / "dev.jsonl"


# --- what is asked ---


def test_one_evaluation_point_for_each_set_and_condition(found: Found) -> None:
    assert {r.body["point"] for r in found["dev"].values()} == {f"dev-{n}" for n in found["dev"]}
    assert {r.body["kind"] for r in found["dev"].values()} == {"evaluation"}
    assert all(len(r.samples()) == len(SOME) for r in found["dev"].values())


def test_the_plan_counts_each_way_of_asking_once(tmp_path: Path) -> None:
    study = Study(heldout.NOTEBOOK, ranking_model().target(), "full", "openai", Store(tmp_path))
    specs = heldout.specs(study, PARAMS | {"sets": ["dev", "holdout"]})
    # one request by each prompt, two by the planner, and none for what is only judged
    assert {spec.name.removeprefix("answers-"): spec.requests for spec in specs} == {
        **{"dev-baseline": 20, "dev-contrastive": 20, "dev-planner": 40},
        **{"holdout-baseline": 60, "holdout-contrastive": 60, "holdout-planner": 120},
    }


def test_the_plan_counts_what_really_goes_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "answered")
    model = ranking_model()
    study = Study(heldout.NOTEBOOK, model.target(), "full", "openai", Store(tmp_path / "artifacts"))
    sets = [str(four(tmp_path))]
    planned = heldout.specs(study, PARAMS | {"sets": sets})
    heldout.evaluated(study, sets, concurrency=2)
    assert len(model.asked) == sum(spec.requests for spec in planned) == 4 + 4 + 8
    assert all(study.retained(spec) for spec in planned), "the plan names the very points that are retained"


# --- what is held out, and what is chosen ---


def test_the_sets_that_are_held_out_are_the_files_whose_hash_was_written_down() -> None:
    found = {name: heldout.standing(name) for name in heldout.SETS}
    assert [found[n].development for n in heldout.SETS] == [True, False, False]
    assert found["dev"].unchanged is None
    assert found["holdout"].unchanged and found["adversarial"].unchanged
    assert all(found[n].looks for n in ("holdout", "adversarial")), "every look is logged"


def test_questions_that_rules_were_changed_for_are_not_called_held_out() -> None:
    said = heldout_standing.standing_sentence(heldout.SETS)
    assert "Not held out any more are 1 of 60 in holdout and 3 of 45 in adversarial" in said
    told = heldout_standing.standing_table(heldout.SETS)["counts as"]
    assert told.tolist()[0] == "development" and told["holdout"] == "held out, but for 1 of its questions"


def test_how_many_questions_became_development_is_read_from_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "README.md").write_text(
        "| date | set | SHA-256 | event | development from then on |\n|---|---|---|---|---|\n"
        "| 2026-11-30 | holdout, adversarial | unchanged | totals only | — |\n"
        "| 2026-12-01 | holdout, adversarial | unchanged | read, then rules changed | holdout 2 |\n"
        "| 2026-12-02 | adversarial, holdout | unchanged | again | holdout 1, adversarial 4 |\n"
    )
    for name in heldout.SETS:
        (tmp_path / f"{name}.jsonl").write_bytes((paths.QUESTIONS / f"{name}.jsonl").read_bytes())
    monkeypatch.setattr(paths, "QUESTIONS", tmp_path)
    assert [heldout.standing(name).read for name in heldout.SETS] == [0, 3, 4]
    assert [date for date, _ in heldout.standing("holdout").looks] == [
        "2026-11-30",
        "2026-12-01",
        "2026-12-02",
    ]


def test_a_changed_file_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("README.md", "holdout.jsonl"):
        (tmp_path / name).write_bytes((paths.QUESTIONS / name).read_bytes())
    with (tmp_path / "holdout.jsonl").open("a", encoding="utf-8") as file:
        file.write("\n")
    monkeypatch.setattr(paths, "QUESTIONS", tmp_path)
    assert heldout.standing("holdout").unchanged is False
    assert heldout_standing.standing_table(["holdout"]).loc["holdout", "file"] == "CHANGED since"


def test_the_best_condition_asks_a_model_and_never_the_user(found: Found) -> None:
    best = heldout.best(found)
    assert best in {"cues", "contrastive_cues", "planner"}
    most = max(heldout.correctness(r).k for n, r in found["dev"].items() if n != "clarifier")
    assert heldout.correctness(found["dev"][best]).k == most == 4


def test_the_best_condition_is_chosen_on_development_alone(found: Found) -> None:
    assert heldout.best({"holdout": found["dev"]}) is None
    only = {"dev": {"baseline": found["dev"]["baseline"]}, "holdout": found["dev"]}
    assert heldout.best(only) == "baseline", "what is better on a held-out set is not looked at"


def test_the_clarifier_stands_apart_in_every_table(found: Found, study: Study) -> None:
    tables = (heldout_page.conditions_table, heldout_page.accuracy_table, heldout_page.paired_table)
    assert all("clarifier" not in table(found).index.get_level_values("condition") for table in tables)
    figure = heldout_page.accuracy_figure(found, study)
    labels = [t.get_text() for ax in figure.axes for t in ax.get_yticklabels()]
    assert "planner" in labels and "clarifier" not in labels
    assert heldout_page.clarifier_table(found).shape == (1, 3)


# --- what the tables say ---


def test_the_guards_row_has_the_articles_columns(found: Found) -> None:
    row = heldout_page.conditions_table(found).loc[("dev", "guardrail")]
    # two questions hold a word of ranking; of the others one is a breakdown, one a series
    assert row["raw strict"].endswith("0 of 4")
    assert row["final strict"].endswith("1 of 4")
    assert row["interventions"] == 2
    assert row["precision"].endswith("1 of 2")


def test_conditions_without_a_model_have_no_interventions(found: Found) -> None:
    row = heldout_page.conditions_table(found).loc[("dev", "rules_only")]
    assert (row["raw strict"], row["interventions"], row["precision"]) == ("n/a", "n/a", "n/a")


def test_a_one_way_guard_is_bounded_by_what_it_can_rewrite(found: Found, study: Study) -> None:
    bounds = heldout.ceiling(found["dev"]["guardrail"], load_catalog())
    shares = [bounds.raw, bounds.fired, bounds.oracle, bounds.free]
    # with order and limit free the sorted breakdown is in reach as well; ranking and series never are
    assert [s.k for s in shares] == [0, 1, 1, 2]
    assert {s.n for s in shares} == {4}
    told = heldout_page.ceiling_sentence({"dev": {"guardrail": bounds}})
    assert "can pass 50% on dev" in told
    assert heldout_page.ceiling_table({"dev": {"guardrail": bounds}}).shape == (1, 4)


def test_paired_tests_compare_with_the_first_condition(found: Found) -> None:
    row = heldout_page.paired_table(found).loc[("dev", "cues")]
    assert (row["right only under baseline"], row["right only under this"]) == (0, 4)
    assert float(row["p (exact McNemar)"]) == pytest.approx(0.125, abs=0.01)  # 2 · 0.5⁴
    assert float(row["p (Holm)"]) >= float(row["p (exact McNemar)"])


def test_errors_and_slices_are_told_for_each_condition_that_was_evaluated(found: Found) -> None:
    errors = heldout_detail.taxonomy_table(found, ["guardrail", "cues", "unheard of"])
    assert list(errors.columns) == ["guardrail raw", "guardrail final", "cues raw", "cues final"]
    assert errors.loc[("dev", "kind"), "guardrail raw"] == 3
    assert (errors["cues final"] == 0).all()
    gone = heldout_detail.recall_table(found, ["cues"])
    assert gone.loc[("dev", "false ranking"), "cues"].endswith("2 of 2")
    assert not heldout_detail.slices_table(found, ["cues"]).empty


def test_confusion_counts_every_answer_once(found: Found, study: Study) -> None:
    raw = heldout_detail.confusion(found["dev"]["baseline"], "raw")
    assert raw["top_n_by_metric"].sum() == raw.to_numpy().sum() == 4
    final = heldout_detail.confusion(found["dev"]["cues"], "final")
    assert sum(final.loc[k, k] for k in heldout_detail.KINDS) == 4
    figure = heldout_detail.confusion_figure(found, study, "baseline", "raw")
    assert [t.get_text() for t in figure.axes[0].texts].count("0") == 6
    assert "2 breakdowns ranked" in heldout_detail.confusion_alt(found, study, "baseline", "raw")


def test_every_decision_says_what_became_of_the_answer_and_on_which_words(found: Found) -> None:
    decided = heldout_detail.decisions_table(found["dev"], "guardrail")
    assert len(decided) == 2
    assert set(decided["became"]) == {"wrong → right", "wrong → wrong"}
    assert (decided["decision"] == "no ranking cue: top_n_by_metric → breakdown").all()
    worded = heldout_detail.decisions_table(found["dev"], "cues")["decision"].str.cat()
    assert "“" in worded and "{" not in worded, "words of the question, and no raw data"
    assert heldout_detail.decisions_table(found["dev"], "unheard of").empty


def test_the_worst_misses_come_first_with_their_golds(found: Found) -> None:
    misses = heldout_detail.worst_misses(found["dev"], "guardrail", 2)
    counts = [len(cell.split(", ")) for cell in misses["wrong in"]]
    assert len(misses) == 2 and counts == sorted(counts, reverse=True)
    assert heldout_detail.worst_misses(found["dev"], "cues", 5).empty


def test_a_long_table_is_folded_and_a_short_one_is_not(study: Study) -> None:
    long = captioned(pd.DataFrame({"a": range(heldout_detail.OPEN_ROWS + 1)}), study, "Many <rows>")
    short = captioned(pd.DataFrame({"a": [1]}), study, "One row")
    assert "<summary>Many &lt;rows&gt;" in heldout_detail.Folded(long)._repr_html_()
    assert "details" not in heldout_detail.Folded(short)._repr_html_()


def test_what_was_never_recorded_is_named_with_its_command_and_is_no_answer(study: Study) -> None:
    unrecorded = heldout.evaluated(study, ["dev", "adversarial"], "baseline,cues,rules_only", 2)
    table = heldout_page.conditions_table(unrecorded)
    some, none = table.loc[("dev", "baseline")], table.loc[("adversarial", "cues")]
    assert (some["failed requests"], some["final strict"].endswith("of 4")) == (16, True)
    assert (none["raw strict"], none["final strict"], none["failed requests"]) == (*["not recorded"] * 2, 45)
    told = heldout_page.failures_sentence(unrecorded)
    assert told.startswith("Not recorded: baseline on dev, adversarial;") and "rules_only" not in told
    assert "record --set dev,adversarial --condition baseline" in told
    assert plots.png(heldout_page.accuracy_figure(unrecorded, study)).startswith(b"\x89PNG")
    assert heldout_page.failures_sentence({"dev": {"rules_only": unrecorded["dev"]["rules_only"]}}) == (
        "No request failed."
    )


def test_what_was_not_heard_on_every_set_is_not_chosen(found: Found, study: Study) -> None:
    unrecorded = heldout.evaluated(study, ["adversarial"], "all", 2)
    assert heldout.best({"dev": found["dev"], **unrecorded}) is None, "no model was heard on adversarial"
    assert heldout_page.best_table({"dev": found["dev"], **unrecorded}).shape[0] == 2


def test_gates_are_asked_of_held_out_sets_only(found: Found) -> None:
    table = heldout_page.best_table(found | {"holdout": found["dev"]})
    assert table.loc["dev", "gate"] == "none: development"
    assert table.loc["holdout", "gate"] == "final ≥ 90%, precision ≥ 95%: met"
    weak = {"dev": {"guardrail": found["dev"]["guardrail"]}, "holdout": found["dev"]}
    assert "final below 90%; precision below 95%" in heldout_page.best_table(weak).loc["holdout", "gate"]


# --- against the article ---


def test_every_claim_of_the_articles_two_sets_has_a_row(found: Found, study: Study) -> None:
    table = heldout_article.against_article({}, study)
    claimed = {"holdout.raw.baseline", "holdout.precision.baseline_guardrail", "adversarial.precision"}
    assert claimed <= set(table["claim"])
    assert set(table["value"]) == {"not measured"}


def test_our_values_stand_beside_the_articles(found: Found, study: Study) -> None:
    both = {"holdout": found["dev"], "adversarial": found["dev"]}
    table = heldout_article.against_article(both, study).set_index("claim")
    assert table.loc["holdout.final.baseline_guardrail", "value"] == "0.25 share"
    assert table.loc["holdout.interventions.baseline_guardrail", "value"] == "2 interventions"
    # one of two under each prompt
    assert table.loc["adversarial.precision", "value"] == "0.5 share"
    assert table.loc["holdout.set.contrast_pair", "value"] == "40 questions"
    assert set(table["tag"]) == {"replayed"}


def test_figures_show_and_tell_their_main_number(found: Found, study: Study) -> None:
    alt = heldout_page.accuracy_alt(found, study)
    assert "replayed answers" in alt and "dev: baseline 0%" in alt
    assert plots.png(heldout_page.accuracy_figure(found, study)).startswith(b"\x89PNG")
    assert "100% on dev" in heldout_page.best_sentence(found)
    assert heldout_page.best_sentence({}).startswith("No development question")
