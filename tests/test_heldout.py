"""The page on held-out meaning: what is asked, what is chosen, what its tables say; on a scripted model."""

import json
from collections.abc import Iterator
from dataclasses import replace
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
    heldout_chosen,
    heldout_detail,
    heldout_page,
    heldout_sets,
)
from nlqlib.experiments import journal as journals
from nlqlib.experiments.captions import captioned
from nlqlib.experiments.conditions import ASKINGS
from nlqlib.experiments.heard import KINDS
from nlqlib.experiments.heldout import Found
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.recording import asking, record_asking
from nlqlib.experiments.study import Study
from nlqlib.nlq.catalog import QuestionError, load_catalog
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
    assert sum(final.loc[k, k] for k in KINDS) == 4
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


def test_what_was_never_recorded_is_named_with_its_command_and_is_no_answer(
    study: Study, tmp_path: Path
) -> None:
    study = replace(study, store=Store(tmp_path))  # a set of the same name replaces that of `found`
    unrecorded = heldout.evaluated(study, ["dev", "adversarial"], "baseline,cues,rules_only", 2)
    table = heldout_page.conditions_table(unrecorded)
    some, none = table.loc[("dev", "baseline")], table.loc[("adversarial", "cues")]
    assert (some["failed requests"], some["final strict"].endswith("of 4")) == (16, True)
    assert (none["raw strict"], none["final strict"], none["failed requests"]) == (*["not recorded"] * 2, 45)
    told = heldout_page.failures_sentence(unrecorded)
    assert "Not recorded: baseline on dev, adversarial;" in told and "rules_only" not in told
    assert told.startswith("Left out, since nothing of it was answered here: adversarial.")
    assert "record --set dev,adversarial --condition baseline" in told
    assert plots.png(heldout_page.accuracy_figure(unrecorded, study)).startswith(b"\x89PNG")
    assert heldout_page.failures_sentence({"dev": {"rules_only": unrecorded["dev"]["rules_only"]}}) == (
        "No request failed."
    )


def test_what_was_not_heard_on_every_set_is_not_chosen(found: Found, study: Study) -> None:
    unrecorded = heldout.evaluated(study, ["adversarial"], "all", 2)
    assert heldout.best({"dev": found["dev"], **unrecorded}) is None, "no model was heard on adversarial"
    assert heldout_chosen.best_table({"dev": found["dev"], **unrecorded}).shape[0] == 2


def test_gates_are_asked_of_sets_that_nothing_was_chosen_on(found: Found) -> None:
    table = heldout_chosen.best_table(found | {"holdout": found["dev"]})
    assert table.loc["dev", "gate"] == "none: chosen on it"
    assert table.loc["holdout", "gate"] == "final ≥ 90%, precision ≥ 95%: met"
    assert table.loc["dev", "counts as"] == "development"
    assert table.loc["holdout", "counts as"] == heldout_sets.standing("holdout").words
    for name, gate in heldout_sets.GATES.items():
        told = heldout_chosen.best_table(found | {name: found["dev"]}).loc[name, "gate"]
        assert told.startswith(f"final ≥ {gate:.0%}")
    weak = {"dev": {"guardrail": found["dev"]["guardrail"]}, "holdout": found["dev"]}
    assert "final below 90%; precision below 95%" in heldout_chosen.best_table(weak).loc["holdout", "gate"]


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
    assert "replayed answers" in alt and "dev (development): baseline 0%" in alt
    assert plots.png(heldout_page.accuracy_figure(found, study)).startswith(b"\x89PNG")
    assert "100% on dev (development)" in heldout_chosen.best_sentence(found)
    assert heldout_chosen.best_sentence({}).startswith("No question was answered of the sets")


def test_what_a_set_counts_as_stands_in_figures_alt_texts_sentences_and_tables(
    found: Found, study: Study
) -> None:
    both = found | {"holdout": found["dev"]}
    short = heldout_sets.standing("holdout").short
    assert short.startswith("development since ")
    titles = [ax.get_title(loc="left") for ax in heldout_page.accuracy_figure(both, study).axes]
    assert f"holdout\n({short})".replace(" since ", " since\n") in titles
    confused = heldout_detail.confusion_figure(both, study, "baseline", "raw")
    assert any(ax.get_title(loc="left").endswith(f"holdout\n({short})") for ax in confused.axes)
    named = f"holdout ({short})"
    assert named in heldout_page.accuracy_alt(both, study)
    assert named in heldout_detail.confusion_alt(both, study, "baseline", "raw")
    assert named in heldout_chosen.best_sentence(both)
    table = heldout_page.answers(heldout_page.conditions_table(both), study, "Raw and final")
    assert heldout_sets.standing("holdout").words in table.reading


def test_the_majority_condition_is_not_named_like_the_share_of_the_majority_class(found: Found) -> None:
    names = set(heldout_page.accuracy_table(found).index.get_level_values("condition"))
    assert "majority" not in names and heldout_page.label("majority") in names
    assert heldout_page.label("cues") == "cues"


def test_a_set_that_nobody_answered_is_named_and_left_out(found: Found, study: Study, tmp_path: Path) -> None:
    mine = tmp_path / "unseen.jsonl"
    asked_before = (paths.QUESTIONS / "dev.jsonl").read_bytes()
    mine.write_bytes(asked_before.replace(b'"question": "', b'"question": "so, '))
    asked = {**found, **heldout.evaluated(study, [str(mine)], "baseline,cues,rules_only", 2)}
    assert heldout.unheard_sets(asked) == ["unseen"]
    assert list(heldout.answered(asked)) == ["dev"]
    assert heldout.best(heldout.answered(asked)) is not None, "as if the set were not there"
    told = heldout_page.failures_sentence(asked)
    assert "Left out, since nothing of it was answered here: unseen." in told
    assert "record --set unseen" in told
    alone = {"unseen": asked["unseen"]}
    assert heldout.answered(alone) == alone, "where nothing was answered at all the tables say so"


def test_a_set_of_ours_without_a_file_is_neither_planned_nor_asked(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(heldout_sets, "SETS", (*heldout_sets.SETS, "nowhere"))
    with_it = PARAMS | {"sets": ["dev", "nowhere"]}
    assert heldout.specs(study, with_it) == heldout.specs(study, PARAMS | {"sets": ["dev"]})
    assert heldout.evaluated(study, ["nowhere"]) == {}
    with pytest.raises(QuestionError, match="cannot read"):
        heldout.specs(study, PARAMS | {"sets": ["holduot"]})


def test_the_articles_sentence_has_the_articles_numbers() -> None:
    told = heldout_article.article_sentence()
    assert "60 held-out questions from 38.3% to 70.0%" in told and "16.7% of its interventions" in told


def test_the_widest_interval_is_computed(found: Found) -> None:
    # one of four right: Wilson's interval is 4.6 to 70 %
    told = heldout_page.widths_sentence({"dev": {"guardrail": found["dev"]["guardrail"]}})
    assert told == "The widest 95 % interval of a share here is ± 33 points on dev (4 questions)."
    assert "not known" in heldout_page.widths_sentence({})
