"""Every condition runs with one command, keeps what the model said beside what was answered, and resumes."""

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from model_world import MODEL, Scripted

from nlqlib import paths
from nlqlib.__main__ import main
from nlqlib.analysis.cost import TokenPrices
from nlqlib.artifacts import Store
from nlqlib.experiments import journal as journals
from nlqlib.experiments.answers import unfinished
from nlqlib.experiments.asking import Asked, ask_all
from nlqlib.experiments.condition_report import Prices, report
from nlqlib.experiments.conditions import (
    ASKINGS,
    CONDITIONS,
    condition,
    conditions,
    requests_per_question,
)
from nlqlib.experiments.journal import Journal
from nlqlib.experiments.judging import change_of, executor, final_of, judge, raw_of
from nlqlib.experiments.questions import Question, load_questions
from nlqlib.experiments.recording import asking, record_asking
from nlqlib.experiments.semantics import evaluate_all, evaluation_spec
from nlqlib.experiments.study import Study
from nlqlib.nlq.catalog import QuestionError, load_catalog
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import Completion, Workload
from nlqlib.serving import twin_target
from nlqlib.serving.target import TargetError, open_target

DEV = load_questions("dev")
SOME = ("dev-01", "dev-02", "dev-09", "dev-17")
"""A breakdown, a ranking, a sorted breakdown, a series."""


def false_ranking(gold: dict[str, Any]) -> dict[str, Any]:
    """The article's main error: `gold` as a ranking of ten."""
    order = {"by": gold["metrics"][0], "direction": "desc"}
    return gold | {"query_type": "top_n_by_metric", "grain": None, "sort": order, "limit": 10}


def four(folder: Path) -> Path:
    """Four development questions as a set of one's own."""
    lines = (paths.QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()
    path = folder / "mine.jsonl"
    path.write_text("\n".join(line for line in lines if json.loads(line)["id"] in SOME), encoding="utf-8")
    return path


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return four(tmp_path)


@pytest.fixture
def model() -> Scripted:
    return ranking_model()


def ranking_model() -> Scripted:
    """A model that takes every question for a ranking of ten, and is hardly surer of it."""
    return Scripted({q.question: false_ranking(q.golds[0].wire()) for q in DEV}, sure=0.5)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The set, with every way of asking recorded for the twin to replay."""
    folder = tmp_path_factory.mktemp("recorded")
    source = four(folder)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(paths, "RECORDINGS", folder / "recordings")
        patched.setattr(journals, "FOLDER", folder / "answered")
        twin_target.recordings.cache_clear()
        target = ranking_model().target()
        for name in ASKINGS:
            record_asking(target, str(source), asking(name), concurrency=2)
        yield source
    twin_target.recordings.cache_clear()


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["evaluate", *argv, "--target", "twin", "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def share(found: list[dict[str, Any]], name: str) -> tuple[int, int]:
    one = next(s for s in found if s["name"] == name)
    return one["k"], one["n"]


# --- the conditions ---


def test_the_conditions_are_those_of_the_contract() -> None:
    assert list(CONDITIONS)[:2] == ["baseline", "contrastive"]
    assert {"guardrail", "cues", "planner", "clarifier", "rules_only", "majority"} <= set(CONDITIONS)
    assert [requests_per_question(condition(n)) for n in ("cues", "planner", "rules_only")] == [1, 2, 0]


def test_a_list_of_conditions_or_all_of_them_can_be_named() -> None:
    assert [c.name for c in conditions("baseline, cues,baseline")] == ["baseline", "cues"]
    assert [c.name for c in conditions("all")] == list(CONDITIONS)
    for wrong in ("magic", "", "baseline,magic"):
        with pytest.raises(QuestionError, match="there are baseline, contrastive"):
            conditions(wrong)


def test_points_measured_before_there_were_corrections_keep_their_fingerprint() -> None:
    spec = evaluation_spec("x", "dev", CONDITIONS["baseline"], 8)
    assert spec.params == {
        "name": "baseline",
        "prompt": "baseline",
        "contract": "structured_outputs",
        "max_tokens": 256,
        "concurrency": 8,
    }
    assert evaluation_spec("x", "dev", CONDITIONS["cues"], 8).params["correction"] == "cues"
    assert evaluation_spec("x", "dev", CONDITIONS["planner"], 8).requests == 40


# --- every condition through the command, replayed ---


@pytest.mark.parametrize("name", CONDITIONS)
def test_every_condition_evaluates_with_raw_and_final_scores_and_interventions(
    name: str, recorded: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    found = told(capsys, str(recorded), "--condition", name, "--out", str(out))
    assert (found["condition"], found["questions"], found["failed"]) == (name, 4, 0)
    final, n_raw = share(found["final"], "strict accuracy"), 4 if condition(name).asks else 0
    assert share(found["raw"], "strict accuracy")[1] == n_raw and final[1] == 4
    assert found["interventions"]["answered"] == n_raw
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert [row["strict"] for row in rows].count(True) == final[0]
    assert all({"raw", "final", "decisions", "changed", "refused", "requests"} <= set(row) for row in rows)


def test_cues_put_right_what_the_model_took_for_rankings(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, str(recorded), "--condition", "cues")
    assert share(found["raw"], "strict accuracy") == (0, 4)
    assert share(found["final"], "strict accuracy") == (4, 4)
    acted = found["interventions"]
    assert (acted["interventions"], acted["precision"]["value"], acted["recall"]["value"]) == (4, 1.0, 1.0)
    assert acted["harm"]["value"] is None, "nothing was right, so nothing could be harmed"
    assert next(iter(acted["categories"])) == "false ranking"
    assert found["transitions"] == {"wrong → right": 4}
    assert found["pair consistency"]["final"]["k"] == 1


def test_the_articles_guardrail_reaches_only_false_rankings_without_a_cue(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    acted = told(capsys, str(recorded), "--condition", "guardrail")["interventions"]
    # dev-09 says "worst", so the guard is silent; dev-17 is a series, which it makes a breakdown
    assert (acted["interventions"], acted["precision"]["k"], acted["wrong_to_wrong"]) == (2, 1, 1)
    assert acted["fixable_recall"]["n"] == 2, "the two breakdowns: rankings and series are out of reach"


def test_the_raw_answer_the_final_one_and_every_decision_stand_in_the_row(
    recorded: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    told(capsys, str(recorded), "--condition", "cues", "--out", str(out))
    row = json.loads(out.read_text("utf-8").splitlines()[0])
    assert row["raw"]["query_type"] == "top_n_by_metric" and row["raw_strict"] is False
    assert row["final"]["query_type"] == "breakdown" and row["strict"] is True
    kind = next(d for d in row["decisions"] if d["rule"] == "query_type")
    assert (kind["before"], kind["after"], kind["action"]) == ("top_n_by_metric", "breakdown", "changed")
    assert kind["words"] and all(word in row["question"] for word in kind["words"])
    assert row["text"].startswith("{") and row["requests"][0]["output_tokens"] == row["output_tokens"]


def test_the_planner_asks_twice_and_both_answers_are_kept(
    recorded: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    found = told(capsys, str(recorded), "--condition", "planner", "--out", str(out))
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    assert found["serving"]["requests"] == 8
    assert rows[0]["requests"][0]["text"] == "ranking"
    belief = rows[0]["belief"]
    assert belief["kind"] == belief["said"] == "top_n_by_metric"
    assert sum(math.exp(p) for p in belief["logprobs"].values()) == pytest.approx(1.0)
    both = rows[0]["requests"]
    assert rows[0]["output_tokens"] == sum(r["output_tokens"] for r in both)


def test_what_the_clarifier_gains_is_never_mixed_with_the_forced_accuracy(
    recorded: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    found = told(capsys, str(recorded), "--condition", "clarifier", "--out", str(out))
    rows = [json.loads(line) for line in out.read_text("utf-8").splitlines()]
    asked = [row for row in rows if row["clarification"]]
    # dev-02 is a ranking for both, and the ranking of dev-17 has nothing to rank
    assert [row["question_id"] for row in asked] == ["dev-01", "dev-09"]
    assert found["interventions"]["asked"]["k"] == 2
    assert all(len(row["clarification"]["options"]) == 2 for row in asked)
    assert all(row["clarification"]["chosen"] == 0 for row in asked), "the gold is the rules' reading"
    assert found["forced strict accuracy"]["k"] == sum(row["forced_strict"] for row in rows)


def test_several_conditions_are_compared_question_by_question(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, str(recorded), "--condition", "baseline,cues,majority")
    assert [c["condition"] for c in found["conditions"]] == ["baseline", "cues", "majority"]
    cues = found["paired"][0]
    assert (cues["name"], cues["only_first"], cues["only_second"]) == ("cues", 0, 4)
    assert cues["p"] == pytest.approx(0.125) and cues["p_holm"] == pytest.approx(0.25)


def test_the_same_evaluation_twice_gives_the_same_bytes(
    recorded: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    outs = [tmp_path / name for name in ("one.jsonl", "two.jsonl")]
    pages = [told(capsys, str(recorded), "--condition", "clarifier", "--out", str(out)) for out in outs]
    assert outs[0].read_bytes() == outs[1].read_bytes()
    assert pages[0] == pages[1]


def test_the_table_says_na_where_nothing_could_be_counted(
    recorded: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["evaluate", str(recorded), "--condition", "baseline", "--target", "twin"]) == 0
    shown = capsys.readouterr().out
    assert "intervention precision: n/a" in shown and "harm: n/a" in shown
    assert "cost per 1,000 questions n/a" in shown


# --- rules and majority need no model ---


def test_without_a_model_nothing_is_asked_and_raw_scores_are_na(
    mine: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, str(mine), "--condition", "rules_only")
    assert share(found["raw"], "strict accuracy") == (0, 0)
    assert share(found["final"], "strict accuracy") == (4, 4)
    assert found["serving"]["requests"] == 0 and found["interventions"]["precision"]["value"] is None


# --- failures ---


def rows_of(model: Scripted, name: str, questions: list[Question]) -> list[dict[str, Any]]:
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(load_catalog())
        target = model.target()
        asked, _ = target.run(ask_all(target, questions, condition(name), catalog, 2))
        run = executor(warehouse, catalog)
        return [judge(one, condition(name), catalog, run) for one in asked]


@pytest.mark.parametrize("name", ["baseline", "cues", "planner"])
def test_a_failed_request_is_no_answer_and_the_rules_do_not_cover_it_up(name: str, model: Scripted) -> None:
    model.fails = lambda question: question == DEV[0].question
    first, second = rows_of(model, name, DEV[:2])
    assert (first["outcome"], first["final"], first["strict"]) == ("http_503", None, False)
    assert change_of(first) is None and change_of(second) is not None
    found = report([first, second])
    assert (found["failed"], share(found["final"], "strict accuracy")[1]) == (1, 1)


def test_a_question_that_is_not_worth_sending_is_refused_and_the_others_are_asked(model: Scripted) -> None:
    gold = DEV[0].golds
    hopeless = [Question("empty", " ? ", gold), Question("huge", "revenue " * 500, gold)]
    rows = rows_of(model, "cues", [*hopeless, DEV[0]])
    assert [len(row["requests"]) for row in rows] == [0, 0, 1]
    assert "empty" in rows[0]["invalid"] and "characters" in rows[1]["invalid"]
    assert rows[0]["final"] is None and rows[1]["final"] is None and rows[2]["final"]


def test_an_answer_that_cannot_be_read_is_wrong_and_may_be_put_right(model: Scripted) -> None:
    broken = DEV[0].golds[0].wire() | {"metrics": ["refunds", "refunds"]}
    model.intents = {DEV[0].question: broken}
    [row] = rows_of(model, "cues", DEV[:1])
    assert row["raw"] is None and row["raw_errors"] == ("invalid",) and "twice" in row["invalid"]
    assert row["strict"] and row["changed"]
    assert (raw_of(row).strict, final_of(row).strict) == (False, True)


# --- resuming ---


def test_an_interrupted_evaluation_asks_only_for_the_rest(
    mine: Path, model: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "answered")
    questions, how, catalog = load_questions(mine), condition("planner"), load_catalog()
    model.fails = lambda question: question == questions[3].question
    target, workload = model.target(), Workload("mine", "hash", 4)

    def go() -> list[Asked]:
        kept = unfinished(target, workload, how)
        return target.run(ask_all(target, questions, how, catalog, 2, journal=kept))[0]

    assert [a.answered for a in go()] == [True, True, True, False]
    model.fails = lambda question: False
    model.asked.clear()
    again = go()
    assert all(a.answered for a in again)
    assert model.asked == [questions[3].question] * 2, "only the failed one, in its two steps"
    model.asked.clear()
    assert [a.heard for a in go()] == [a.heard for a in again] and model.asked == []


def test_a_journal_cut_by_a_kill_loses_only_its_last_line(tmp_path: Path) -> None:
    header = {"set": "x"}
    first = Journal.open(header, tmp_path)
    first.add("a", Completion("q1", "ok", "text", token_ids=(1, 2), logprobs=({"token": "x"},)))
    first.add("b", Completion("q2", "timeout"))
    first.path.write_text(first.path.read_text("utf-8") + '{"key": "c", "compl', encoding="utf-8")
    again = Journal.open(header, tmp_path)
    assert again.answers == first.answers and set(again.answers) == {"a"}
    assert Journal.open({"set": "y"}, tmp_path).answers == {}
    again.close()
    assert Journal.open(header, tmp_path).answers == {}


def test_the_twin_keeps_no_journal(model: Scripted) -> None:
    assert unfinished(open_target("twin"), Workload("x", "y", 1), condition("cues")) is None
    assert unfinished(model.target(), Workload("x", "y", 1), condition("rules_only")) is None


# --- recording ---


def test_a_recording_of_the_planner_holds_both_steps_with_log_probabilities(recorded: Path) -> None:
    folder = paths.RECORDINGS / MODEL.rsplit("/", maxsplit=1)[-1]
    rows = [
        json.loads(li) for li in (folder / "mine-planner-structured_outputs.jsonl").open(encoding="utf-8")
    ]
    assert {row["about"]["step"] for row in rows} == {"kind", "slots"} and len(rows) == 8
    assert all("logprobs" in row for row in rows if row["about"]["step"] == "kind")


def test_half_a_recording_is_none_and_the_next_try_asks_only_for_the_rest(
    mine: Path, model: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "RECORDINGS", tmp_path / "recordings")
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "answered")
    last = load_questions(mine)[-1].question
    model.fails = lambda question: question == last
    target = model.target()
    with pytest.raises(TargetError, match="1 of 4 answers to 4 questions are missing"):
        record_asking(target, str(mine), asking("baseline"))
    assert not (tmp_path / "recordings").exists()
    model.fails = lambda question: False
    model.asked.clear()
    path = record_asking(target, str(mine), asking("baseline"))
    assert model.asked == [last]
    assert len(path.read_text("utf-8").splitlines()) == 4
    assert list((tmp_path / "answered").iterdir()) == []


def test_recording_again_asks_only_for_what_changed_unless_told_to(
    mine: Path, model: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paths, "RECORDINGS", tmp_path / "recordings")
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "answered")
    target = model.target()
    path = record_asking(target, str(mine), asking("planner"))
    first = path.read_bytes()
    model.asked.clear()
    assert record_asking(target, str(mine), asking("planner"), concurrency=2).read_bytes() == first
    assert model.asked == []
    rows = [json.loads(line) for line in mine.read_text("utf-8").splitlines()]
    rows[0]["question"] += "?"
    model.intents = {**model.intents, rows[0]["question"]: rows[0]["gold"]}
    mine.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    record_asking(target, str(mine), asking("planner"))
    assert model.asked == [rows[0]["question"]] * 2
    model.asked.clear()
    record_asking(target, str(mine), asking("planner"), again=True)
    assert len(model.asked) == 9, "the warm-up, and two steps for each of four"


def test_an_unknown_way_of_asking_cannot_be_recorded() -> None:
    with pytest.raises(QuestionError, match="there are baseline, contrastive, planner"):
        asking("cues")


# --- cost ---


def test_the_cost_of_a_thousand_questions_counts_every_request_of_theirs(model: Scripted) -> None:
    rows = rows_of(model, "planner", DEV[:2])
    sent = [request for row in rows for request in row["requests"]]
    dollars = sum(r["prompt_tokens"] * 1.0 + r["output_tokens"] * 4.0 for r in sent) / 1e6
    found = report(rows, Prices(TokenPrices(1.0, 4.0)))["serving"]
    assert found["cost per 1,000 questions"] == pytest.approx(dollars / 2 * 1000)


@pytest.mark.parametrize("given", ["free", "1", "1,2,3,4", "1,-2", "1,inf"])
def test_a_price_that_is_none_is_refused(given: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "dev", "--target", "twin", "--token-prices", given]) == 2
    assert "dollars per million tokens" in capsys.readouterr().err


def test_a_gold_is_never_seen_by_a_forced_correction(model: Scripted) -> None:
    """The same question with another gold gets the same final answer."""
    other = Question(
        DEV[0].id, DEV[0].question, (Intent.model_validate(false_ranking(DEV[0].golds[0].wire())),)
    )
    for name in ("guardrail", "cues", "planner"):
        [one], [two] = rows_of(model, name, [DEV[0]]), rows_of(model, name, [other])
        assert one["final"] == two["final"]


def test_conditions_that_ask_alike_are_asked_once_and_judged_on_the_same_answers(
    mine: Path, model: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "answered")
    study = Study("13_heldout", model.target(), "full", "openai", Store(tmp_path / "artifacts"))
    hows = conditions("baseline,guardrail,cues,rules_only")
    found = evaluate_all(study, str(mine), hows, 2)
    assert len(model.asked) == 4
    raw = [[row["raw"] for row in found[name].samples()] for name in ("baseline", "guardrail", "cues")]
    assert raw[0] == raw[1] == raw[2]
    assert [found[name].value("strict accuracy", "share") for name in found] == [0.0, 0.25, 1.0, 1.0]
    assert list((tmp_path / "answered").iterdir()) == []
    model.asked.clear()
    assert all(record.reused for record in evaluate_all(study, str(mine), hows, 2).values())
    assert model.asked == [], "what is retained needs no endpoint"
