"""The page on output tokens: what is asked, what is counted, what is recommended; on a scripted server."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from fake_structured import StructuredServer

from nlqlib import paths, plots
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import (
    compact,
    compact_article,
    compact_choice_page,
    compact_effects_page,
    compact_meaning_page,
    compact_page,
    compact_saving_page,
)
from nlqlib.experiments.compact import Plan, evaluated, opened, planned, points, rotated, timing, timings
from nlqlib.experiments.output_contracts import FORMS
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target

DEV = load_questions("dev")
INTENTS = {q.question: q.golds[0].wire() for q in DEV}
PARAMS = {"sets": ["dev"], "n": 6, "n_timed": 3, "concurrency": 2, "flagged": "no"}
CUT, LONG, WRONG = (DEV[i].question for i in (1, 2, 3))


def scripted(**changes: object) -> StructuredServer:
    return StructuredServer(intents=INTENTS, **changes)  # type: ignore[arg-type]


def study_of(folder: Path, server: StructuredServer, profile: str = "full") -> Study:
    return Study("09_compact_json", server.target(), profile, "wire", Store(folder / "artifacts"))  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def study(tmp_path_factory: pytest.TempPathFactory) -> Study:
    """A server whose compact answers are cut once, though the text is whole, and once too long."""
    server = scripted(cuts=frozenset({CUT}), rambles=frozenset({LONG}))
    return study_of(tmp_path_factory.mktemp("page"), server)


@pytest.fixture(scope="module")
def plan(study: Study) -> Plan:
    return opened(study, PARAMS)[1]


@pytest.fixture(scope="module")
def found(study: Study, plan: Plan) -> Mapping[str, Mapping[str, Record]]:
    return evaluated(study, plan)


# --- what is asked ---


def test_the_probe_decides_which_forms_are_compared(tmp_path: Path) -> None:
    _, plan = opened(study_of(tmp_path, scripted(reads=frozenset({"json", "regex"}))), PARAMS)
    assert [f.name for f in plan.forms] == [
        "pretty",
        "prompt_compact",
        "prompt_shown",
        "regex",
        "shown_regex",
    ]


def test_the_plan_names_the_points_that_are_retained(study: Study, found: object, plan: Plan) -> None:
    timing(study, plan)
    wanted = points(study, PARAMS)
    assert [spec.name for _, spec in wanted][:2] == ["probe", "dev-pretty"]
    assert all(where.retained(spec) for where, spec in wanted)


def test_before_a_probe_the_plan_counts_on_every_form(tmp_path: Path) -> None:
    names = {spec.name for _, spec in points(study_of(tmp_path, scripted()), PARAMS)}
    assert {"dev-guidance", "dev-regex", "dev-grammar", "timing"} <= names


def quick(folder: Path) -> tuple[Study, dict[str, object]]:
    return study_of(folder, scripted(), "quick"), {
        "sets": [],
        "n": 0,
        "n_timed": 0,
        "concurrency": 8,
        "flagged": "",
    }


def test_the_quick_profile_sends_few_requests(tmp_path: Path) -> None:
    wanted = points(*quick(tmp_path))
    assert sum(spec.requests for _, spec in wanted) <= 200
    assert {spec.name.split("-")[0] for _, spec in wanted} == {"probe", "dev", "holdout", "timing"}


def test_the_quick_profile_asks_the_tuned_set_whole_and_times_every_form(tmp_path: Path) -> None:
    plan = planned(*quick(tmp_path))
    assert (plan.asked_of("dev"), plan.asked_of("holdout")) == (
        "all 20 questions",
        "first 8 of 60 questions",
    )
    assert plan.timed == plan.forms, "whichever is recommended was timed"
    told = compact_page.asked_sentence(plan)
    assert "holdout, first 8 of 60 questions. Timed in turn: dev, first 4 of 20 questions" in told
    assert compact_page.named(plan, "holdout") == "holdout (first 8 of 60 questions)"


def test_questions_given_by_number_are_so_many_of_every_set(tmp_path: Path) -> None:
    study, params = quick(tmp_path)
    plan = planned(study, params | {"n": 5})
    assert plan.asked_of("dev") == "first 5 of 20 questions" and plan.first("holdout") == 5


def test_what_our_engine_answered_of_the_unseen_set_is_asked_as_before() -> None:
    study = Study.open("09_compact_json", "local", "quick", "openai")
    params = {"sets": [], "n": 0, "n_timed": 0, "concurrency": 8, "flagged": ""}
    kept = [
        (where, spec) for where, spec in points(study, params) if spec.name.startswith(("probe", "holdout"))
    ]
    assert len(kept) == 6 and all(where.retained(spec) for where, spec in kept)


def test_the_form_with_a_server_flag_is_asked_of_a_server_of_its_own(tmp_path: Path) -> None:
    study = study_of(tmp_path, scripted())
    _, plan = opened(study, PARAMS | {"flagged": "yes", "n": 2})
    found = evaluated(study, plan)["dev"]
    assert list(found)[-2:] == ["server_flag", "guidance_flag"]
    assert compact_effects_page.paired(found)["server_flag"][0].effect == "honoured"
    assert found["server_flag"].body["fingerprint"] != found["pretty"].body["fingerprint"]
    assert study.run(compact._in_turn(study, plan, "dev")), "the first server answers again"


def test_each_form_comes_first_in_turn() -> None:
    forms = [FORMS[name] for name in ("pretty", "regex", "guidance")]
    assert [rotated(forms, i)[0].name for i in range(4)] == ["pretty", "regex", "guidance", "pretty"]


# --- what is counted ---


def test_a_cut_answer_is_counted_and_in_no_mean(found: Mapping[str, Mapping[str, Record]]) -> None:
    table = compact_page.tokens_table(found["dev"])
    assert table.loc["regex", "cut"] == "1" and table.loc["regex", "whole answers"] == "5 of 6"
    assert table.loc["pretty", "cut"] == "0"


def test_a_cut_answer_whose_text_is_right_is_wrong_all_the_same(
    found: Mapping[str, Mapping[str, Record]],
) -> None:
    rows = compact_meaning_page.meanings(found["dev"])
    assert rows["pretty"]["strict accuracy"].k == 6
    assert [one.k for one in rows["regex"].values()] == [5, 5, 5]
    shift = compact_meaning_page.shifted(found["dev"])["regex"][0]
    assert (shift.lost, shift.won) == (1, 0)


def test_a_cut_answer_saves_nothing(found: Mapping[str, Mapping[str, Record]]) -> None:
    [cut] = [pair for pair in compact_effects_page.paired(found["dev"])["regex"] if pair.effect == "cut"]
    assert (cut.question_id, cut.tokens_saved) == (DEV[1].id, None)


def test_lengths_are_held_against_the_pretty_answers_to_the_same_questions(
    found: Mapping[str, Mapping[str, Record]],
) -> None:
    said = compact_page.tokens_sentence(found["dev"])
    table = compact_page.tokens_table(found["dev"])
    column = "tokens against pretty, same questions"
    assert table.loc["regex", column].endswith("n = 5") and f"regex {table.loc['regex', column]}" in said
    assert table.loc["pretty", column] == table.loc["post_parse", column] == "—"


def test_a_cut_answer_is_compared_with_nothing(found: Mapping[str, Mapping[str, Record]], plan: Plan) -> None:
    both = compact_meaning_page.compared(found["dev"], "regex")
    assert (len(both.whole), both.left_out) == (5, 1)
    assert DEV[1].id not in {one["id"] for one in compact_meaning_page.changed(found["dev"], "regex")}
    said = compact_meaning_page.shift_sentence(found, plan)
    assert "of those to 6 questions that are whole in both forms: " in said and " regex 0 of 5," in said
    assert "of 5 (1 left out" in compact_meaning_page.changed_sentence(found["dev"], "regex")


def test_honoured_backfired_and_cut_stand_side_by_side(found: Mapping[str, Mapping[str, Record]]) -> None:
    table = compact_effects_page.effects_table(found["dev"])
    assert table.loc["regex", ["honoured", "backfired", "cut"]].tolist() == [4, 1, 1]
    assert table.loc["prompt_compact", "ignored"] == 6, "this model does not listen"


def test_a_model_that_listens_is_seen_to_listen(tmp_path: Path) -> None:
    study = study_of(tmp_path, scripted(obeys=True))
    _, plan = opened(study, PARAMS)
    found = evaluated(study, plan)["dev"]
    assert compact_effects_page.effects_table(found).loc["prompt_compact", "honoured"] == 6
    assert "prompt_compact of 6: honoured 6" in compact_effects_page.effects_sentence(found)


def test_post_parse_saves_characters_and_tokens_of_text_but_none_that_were_generated(
    found: Mapping[str, Mapping[str, Record]],
) -> None:
    table = compact_page.tokens_table(found["dev"])
    pretty, made = table.loc["pretty"], table.loc["post_parse"]
    assert float(made["characters, mean"]) < float(pretty["characters, mean"])
    assert float(made["tokens of the text, mean"]) < float(pretty["tokens of the text, mean"])
    assert made["generated tokens, mean"] == pretty["generated tokens, mean"]


# --- what is recommended ---


def test_what_was_cut_speaks_against_a_form(found: Mapping[str, Mapping[str, Record]]) -> None:
    choice = compact_choice_page.recommendation(found)
    assert "1 of 6 cut" in choice.weighed["regex"].against
    assert choice.chosen == "pretty"
    assert "Keep the pretty form" in compact_choice_page.choice_sentence(choice, open_target("twin"))  # type: ignore[arg-type]


def test_a_form_that_is_short_whole_and_right_has_a_price_on_six_questions(tmp_path: Path) -> None:
    study = study_of(tmp_path, scripted())
    _, plan = opened(study, PARAMS)
    choice = compact_choice_page.recommendation(evaluated(study, plan))
    assert (choice.verdict, choice.chosen) == ("not proven", "pretty")
    said = compact_choice_page.choice_sentence(choice, study)
    assert said.startswith("**Keep the pretty form until more questions are asked**")
    assert "by 6 questions its price may be up to 39% of them" in said and "5% is the margin" in said
    assert set(compact_choice_page.choice_table(choice)["chosen"]) == {""}


# --- the page ---


@pytest.fixture(scope="module")
def twin(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, Plan, Record]:
    """The recorded pretty answers timed on the twin, beside a form recorded with it."""
    study = Study(
        "09_compact_json", open_target("twin"), "full", "wire", Store(tmp_path_factory.mktemp("twin"))
    )
    forms = tuple(FORMS[name] for name in ("pretty", "regex"))
    plan = Plan(forms, ("dev",), 0, forms, 4, 8)
    return study, plan, timing(study, plan)


def test_on_the_twin_the_saving_is_what_the_tokens_foretell(twin: tuple[Study, Plan, Record]) -> None:
    study, plan, timed = twin
    one = compact_saving_page.savings(timed, plan)["regex"]
    assert one.n == 4 and one.ratio == pytest.approx(1, abs=0.03)
    assert "modelled" in compact_saving_page.savings_sentence({"dev": timed}, plan, study)


def test_forms_are_timed_on_questions_that_tuned_nothing_too(twin: tuple[Study, Plan, Record]) -> None:
    study, plan, timed = twin
    both = replace(plan, sets=("dev", "holdout"), unheard={"holdout": ()})
    found = timings(study, both)
    assert list(found) == ["dev", "holdout"] and found["dev"].samples() == timed.samples()
    table = compact_saving_page.latency_table(found, both)
    assert list(table.index) == [(s, form) for s in ("dev", "holdout") for form in ("pretty", "regex")]
    assert set(table["whole answers"]) == {"4 of 4"} and "—" not in set(table["p50 (s)"])
    assert compact_saving_page.savings(found["holdout"], both)["regex"].ratio == pytest.approx(1, abs=0.03)
    assert "Set holdout (first 4 of 60 questions): at " in compact_saving_page.savings_sentence(
        found, both, study
    )


def test_a_form_unheard_on_a_set_is_not_timed_there(twin: tuple[Study, Plan, Record]) -> None:
    _, plan, _ = twin
    lacking = replace(plan, sets=("holdout",), unheard={"holdout": ("regex",)})
    assert lacking.timed_sets == ("dev", "holdout")
    assert [form.name for form in lacking.timed_on("holdout")] == ["pretty"]
    assert compact.timing_spec(lacking, "holdout").params["forms"] == ["pretty"]
    assert compact.timing_spec(lacking).params["forms"] == ["pretty", "regex"]


def test_the_twins_pace_is_the_articles(twin: tuple[Study, Plan, Record]) -> None:
    assert compact.itl_s(twin[2]) == pytest.approx(0.0272, abs=0.0005)


def test_every_figure_says_what_it_shows(
    study: Study, found: Mapping[str, Mapping[str, Record]], twin: tuple[Study, Plan, Record]
) -> None:
    where, plan, timed = twin
    drawn = [
        (compact_page.tokens_figure(found["dev"], study), compact_page.tokens_alt(found["dev"], study)),
        (
            compact_effects_page.effects_figure(found["dev"], study),
            compact_effects_page.effects_alt(found["dev"], study),
        ),
        (
            compact_meaning_page.meaning_figure(found["dev"], study),
            compact_meaning_page.meaning_alt(found["dev"], study),
        ),
        (
            compact_saving_page.savings_figure(timed, plan, where),
            compact_saving_page.savings_alt(timed, plan, where),
        ),
    ]
    for figure, alt in drawn:
        assert len(plots.png(figure)) > 5000 and "target" in alt and len(alt) > plots.MIN_ALT_CHARS


def test_the_article_is_compared_by_words_and_by_times(
    study: Study, found: Mapping[str, Mapping[str, Record]], twin: tuple[Study, Plan, Record]
) -> None:
    where, plan, timed = twin
    table = compact_article.against_article(found, timed, plan, where).set_index("claim")
    assert table.loc["output.pretty.p50", "tag"] == "modelled"
    assert table.loc["output.compact.p50", "verdict"] == "not measured", "nothing was honoured"
    assert "honoured 7, ignored 4, backfired 1" in compact_article.obedience_sentence(found)


def test_the_probe_is_put_in_words(study: Study) -> None:
    said = compact_page.probe_sentence(opened(study, PARAMS)[0])
    assert said.startswith(
        "The schema is asked for by `structured_outputs`. Silently ignored, with HTTP 200: "
    )
    assert "`guided_json`, `disable_any_whitespace`" in said
    told = compact_page.whitespace_sentence(opened(study, PARAMS)[0])
    assert told.endswith("`disable_any_whitespace` ignored, `whitespace_pattern` ignored.")
    assert "Honoured with each request: `guidance`, `regex`, `grammar`." in said


def test_answers_that_mean_something_else_are_listed_with_their_fields(tmp_path: Path) -> None:
    server = scripted()
    study = study_of(tmp_path, server)
    _, plan = opened(study, PARAMS)
    first = evaluated(study, plan)["dev"]
    server.intents = {**INTENTS, WRONG: INTENTS[WRONG] | {"limit": 7}}
    other = evaluated(study_of(tmp_path / "other", server), plan)["dev"]
    table = compact_meaning_page.changed_table({"pretty": first["pretty"], "regex": other["regex"]}, "regex")
    assert table.index.tolist() == [WRONG] and table.iloc[0]["differs in"] == "limit"
    assert table.iloc[0]["strictly right"] == "pretty"


def test_the_notebook_names_only_what_the_library_has() -> None:
    cells = json.loads((paths.ROOT / "notebooks" / "09_compact_json.ipynb").read_text("utf-8"))["cells"]
    homes = {
        "compact": compact,
        "page": compact_page,
        "effects": compact_effects_page,
        "weighing": compact_choice_page,
        "meaning": compact_meaning_page,
        "compact_article": compact_article,
        "saving": compact_saving_page,
    }
    code = "\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "code")
    for alias, module in homes.items():
        for name in {w.split("(")[0] for w in code.replace(")", " ").split() if w.startswith(f"{alias}.")}:
            assert hasattr(module, name.removeprefix(f"{alias}.")), name


def test_planned_keeps_to_the_parameters(study: Study) -> None:
    wanted = planned(study, PARAMS | {"sets": ["holdout"], "n": 5, "n_timed": 2})
    assert (wanted.sets, wanted.n, wanted.n_timed, wanted.concurrency) == (("holdout",), 5, 2, 2)
