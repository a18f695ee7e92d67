"""What a model said is measured and retained; a judgement is made from it by today's rules."""

import asyncio
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from model_world import Scripted
from test_heldout import four, ranking_model

from nlqlib import commands_evaluate
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Record, Store
from nlqlib.experiments import (
    answers,
    candidates,
    candidates_notes,
    environment,
    heldout,
    rejudging,
    semantics,
)
from nlqlib.experiments import journal as journals
from nlqlib.experiments.answers import Asking
from nlqlib.experiments.conditions import CONDITIONS, conditions
from nlqlib.experiments.heard import hopeless, request_digest
from nlqlib.experiments.questions import asked_workload, load_questions, question_workload
from nlqlib.experiments.quiet import RULE, busy_share, idle_rule
from nlqlib.experiments.semantics import evaluate_all
from nlqlib.experiments.study import Study
from nlqlib.load import batch
from nlqlib.load.batch import complete_all
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.intent import intent_of
from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.target import open_target
from nlqlib.twin.clock import VirtualLoop

HOWS = conditions("baseline,guardrail,cues,rules_only")


@pytest.fixture
def mine(tmp_path: Path) -> Path:
    return four(tmp_path)


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scripted:
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "answered")
    return ranking_model()


@pytest.fixture
def study(model: Scripted, tmp_path: Path) -> Study:
    return Study("13_heldout", model.target(), "full", "openai", Store(tmp_path / "artifacts"))


def files(study: Study, beginning: str) -> dict[str, bytes]:
    folder = study.store.root / "scripted" / "13_heldout"
    return {p.name: p.read_bytes() for p in folder.glob(f"{beginning}*") if ".run." not in p.name}


def strict(record: Record) -> float | None:
    return record.value("strict accuracy", "share")


def changed(path: Path, place: int, **fields: Any) -> None:
    """Rewrite one question of a set."""
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    rows[place] |= fields
    path.write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")


# --- rules change, answers stay ---


def test_a_changed_rule_is_judged_anew_from_the_same_answers(
    study: Study, model: Scripted, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = evaluate_all(study, str(mine), HOWS, 2)
    kept, judged = files(study, "answers-"), files(study, "dev-")
    assert [strict(before[n]) for n in before] == [0.0, 0.25, 1.0, 1.0] and len(model.asked) == 4
    model.asked.clear()
    monkeypatch.setattr(semantics, "rules_digest", lambda: "other rules")
    after = evaluate_all(study, str(mine), HOWS, 2)
    assert model.asked == [] and files(study, "answers-") == kept
    assert not any(record.reused for record in after.values())
    now = files(study, "dev-")
    assert len(now) == len(judged) and not set(now) & set(judged), "no judgement by older rules is left"
    assert all(record.reused for record in evaluate_all(study, str(mine), HOWS, 2).values())


def test_a_judgement_of_answers_that_are_gone_is_replaced(
    study: Study, model: Scripted, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = evaluate_all(study, str(mine), HOWS, 2)
    for path in (study.store.root / "scripted" / "13_heldout").glob("answers-*"):
        path.unlink()
    model.intents = {question: intent | {"limit": 7} for question, intent in model.intents.items()}
    after = evaluate_all(study, str(mine), HOWS, 2)
    assert before["cues"].params["answers"] != after["cues"].params["answers"]
    assert not before["cues"].path.exists() and after["cues"].path.exists()
    assert after["rules_only"].reused and after["rules_only"].path.exists(), "no model was asked there"


def test_a_judgement_of_other_answers_that_are_kept_is_left_alone(
    study: Study, model: Scripted, mine: Path
) -> None:
    before = evaluate_all(study, str(mine), conditions("baseline"), 2)["baseline"]
    old = load_questions(mine)[0].question
    model.intents = {**model.intents, f"{old}, please": model.intents[old]}
    changed(mine, 0, question=f"{old}, please")
    after = evaluate_all(study, str(mine), conditions("baseline"), 2)["baseline"]
    assert before.path != after.path and before.verified() and after.verified()
    assert len(files(study, "answers-")) == 4, "both measurements are kept, with their rows"


def test_only_what_is_replaced_is_removed_and_said(
    study: Study, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = evaluate_all(study, str(mine), conditions("cues,contrastive_cues"), 2)
    monkeypatch.setattr(semantics, "rules_digest", lambda: "other rules")
    monkeypatch.setattr(semantics, "replace_older", lambda kept: [])
    second = evaluate_all(study, str(mine), conditions("cues"), 2)["cues"]
    monkeypatch.undo()
    assert first["cues"].path.exists()
    assert semantics.replace_older(second) == [first["cues"].path]
    left = {p.name for p in second.path.parent.glob("dev-*.json")}
    assert {second.path.name, first["contrastive_cues"].path.name} < left
    assert not {p.name for p in second.path.parent.glob(f"{first['cues'].path.stem}*")}


# --- the twin ---


def test_the_twins_times_do_not_depend_on_what_was_asked_before(tmp_path: Path) -> None:
    def served(order: str, folder: str) -> dict[str, list[Any]]:
        study = Study("13_heldout", open_target("twin"), "full", "openai", Store(tmp_path / folder))
        found = evaluate_all(study, "dev", conditions(order), 4)
        return {name: record.samples() for name, record in found.items()}

    assert served("baseline,contrastive", "a") == served("contrastive,baseline", "b")


def test_what_a_number_of_an_evaluation_is_called_depends_on_who_answered(
    study: Study, tmp_path: Path, mine: Path
) -> None:
    twin = Study("13_heldout", open_target("twin"), "full", "openai", Store(tmp_path / "twin"))
    on_twin = evaluate_all(twin, "dev", conditions("cues,rules_only"), 4)
    assert {m.tag for m in on_twin["cues"].metrics} == {"replayed"}
    assert {m.tag for m in on_twin["rules_only"].metrics} == {"measured"}, "nothing of it is replayed"
    real = evaluate_all(study, str(mine), conditions("cues"), 2)["cues"]
    assert {m.tag for m in real.metrics} == {"measured"}


def test_prompt_tokens_are_counted_on_every_target(tmp_path: Path) -> None:
    twin = Study("00_environment", open_target("twin"), "full", "wire", Store(tmp_path))
    assert {m.tag for m in environment.token_counts(twin).metrics} == {"counted"}


# --- rules and their words ---


def test_the_rules_vocabulary_is_part_of_the_rules(monkeypatch: pytest.MonkeyPatch) -> None:
    semantics.rules_digest.cache_clear()
    before = semantics.rules_digest()
    monkeypatch.setattr(semantics, "VOCABULARY", ("catalog.toml",))
    semantics.rules_digest.cache_clear()
    assert semantics.rules_digest() != before
    semantics.rules_digest.cache_clear()


def test_a_changed_gold_asks_nothing_and_is_judged(study: Study, model: Scripted, mine: Path) -> None:
    evaluate_all(study, str(mine), HOWS, 2)
    model.asked.clear()
    ranking = model.intents[load_questions(mine)[0].question]
    changed(mine, 0, gold=ranking)
    after = evaluate_all(study, str(mine), HOWS, 2)
    assert model.asked == [] and strict(after["baseline"]) == 0.25


def test_a_changed_question_is_asked_and_the_others_are_not(
    study: Study, model: Scripted, mine: Path
) -> None:
    evaluate_all(study, str(mine), HOWS, 2)
    model.asked.clear()
    old = load_questions(mine)[0].question
    model.intents = {**model.intents, f"{old}, please": model.intents[old]}
    changed(mine, 0, question=f"{old}, please")
    evaluate_all(study, str(mine), HOWS, 2)
    assert model.asked == [f"{old}, please"]


def test_the_workload_of_answers_knows_no_golds(mine: Path) -> None:
    asked, whole = asked_workload(mine), question_workload(mine)
    changed(mine, 0, slice="other")
    assert asked_workload(mine) == asked and question_workload(mine) != whole


def test_what_is_asked_is_part_of_the_point() -> None:
    questions, catalog = load_questions("dev")[:3], load_catalog()
    digests = {
        request_digest(questions, CONDITIONS[n], catalog) for n in ("baseline", "contrastive", "planner")
    }
    assert len(digests) == 3
    assert request_digest(questions[:2], CONDITIONS["planner"], catalog) not in digests
    assert request_digest(questions, CONDITIONS["cues"], catalog) in digests, "another rule asks alike"


# --- failures ---


def test_an_evaluation_with_a_failed_request_is_not_retained_and_the_next_run_asks_only_for_it(
    study: Study, model: Scripted, mine: Path
) -> None:
    lost = load_questions(mine)[1].question
    model.fails = lambda question: question == lost
    before = evaluate_all(study, str(mine), HOWS, 2)
    assert [before[n].status for n in before] == ["error", "error", "error", "success"]
    assert before["cues"].requests["http_503"] == 1 and strict(before["cues"]) == 1.0
    assert "1 requests failed (http_503" in before["cues"].body["error"]
    assert [load_record(p).status for p in (study.store.root / "scripted").rglob("answers-*.json")
            if ".run." not in p.name] == ["error"]  # fmt: skip
    model.fails = lambda question: False
    model.asked.clear()
    after = evaluate_all(study, str(mine), HOWS, 2)
    assert model.asked == [lost]
    assert {record.status for record in after.values()} == {"success"} and strict(after["cues"]) == 1.0


def test_a_planner_whose_second_request_failed_asks_only_for_that(
    study: Study, model: Scripted, mine: Path
) -> None:
    asked = list[str]()

    def second_fails(question: str) -> bool:
        asked.append(question)
        return asked.count(question) == 2

    model.fails = second_fails
    assert evaluate_all(study, str(mine), conditions("planner"), 1)["planner"].status == "error"
    model.fails = lambda question: False
    model.asked.clear()
    assert evaluate_all(study, str(mine), conditions("planner"), 1)["planner"].status == "success"
    assert sorted(model.asked) == sorted(q.question for q in load_questions(mine))


def test_a_missing_recording_is_no_failed_point(tmp_path: Path, mine: Path) -> None:
    changed(mine, 0, question="a question that nobody recorded")
    study = Study("13_heldout", open_target("twin"), "full", "openai", Store(tmp_path / "artifacts"))
    found = evaluate_all(study, str(mine), conditions("baseline"), 2)
    assert found["baseline"].status == "error" and answers.UNRECORDED in found["baseline"].body["error"]
    assert found["baseline"].requests["total"] == 4 and len(found["baseline"].samples()) == 4
    assert not (tmp_path / "artifacts").exists(), "no file says that a measurement failed"
    study.provenance(found["baseline"])


# --- what is kept ---


def test_answers_read_from_a_file_are_judged_as_those_just_heard(
    study: Study, mine: Path, tmp_path: Path
) -> None:
    hows = conditions("planner,clarifier,baseline")
    fresh = evaluate_all(study, str(mine), hows, 2)
    for path in (study.store.root / "scripted" / "13_heldout").glob("dev-*"):
        path.unlink()
    again = evaluate_all(study, str(mine), hows, 2)
    for name in fresh:
        assert again[name].samples() == fresh[name].samples()
    assert again["clarifier"].results["report"]["interventions"]["asked"]["k"] > 0, "beliefs are kept too"


def test_answers_keep_no_times_of_the_day_and_no_bytes(study: Study, mine: Path) -> None:
    evaluate_all(study, str(mine), conditions("planner"), 2)
    [path] = (study.store.root / "scripted" / "13_heldout").glob("answers-*.jsonl")
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    assert min(r["start_s"] for row in rows for r in row["requests"]) == 0.0
    first = rows[0]["requests"][0]["logprobs"][0]
    assert set(first) == {"token", "logprob", "top_logprobs"} and len(first["top_logprobs"]) == 3
    assert len({r["key"] for row in rows for r in row["requests"]}) == 8


def test_a_question_not_worth_sending_is_judged_without_a_request(
    study: Study, model: Scripted, mine: Path
) -> None:
    changed(mine, 0, question=" ? ")
    found = evaluate_all(study, str(mine), conditions("baseline"), 2)["baseline"]
    assert len(model.asked) == 3 and found.status == "success" and len(found.samples()) == 4
    assert found.samples()[0]["invalid"] == hopeless(" ? ")


def test_retained_answers_serve_another_condition_and_need_no_endpoint(
    study: Study, model: Scripted, mine: Path
) -> None:
    evaluate_all(study, str(mine), conditions("baseline"), 2)
    elsewhere, catalog = replace(study, target=model.target()), heldout.lookups(study)
    model.asked.clear()
    known = {
        n: answers.retained(elsewhere, Asking.of(str(mine), CONDITIONS[n], catalog, 2))
        for n in ("cues", "planner")
    }
    assert known == {"cues": True, "planner": False}
    evaluate_all(elsewhere, str(mine), conditions("cues,guardrail"), 2)
    assert model.asked == [] and not elsewhere.target.connected


def test_what_was_asked_and_judged_as_one_point_is_judged_again_when_it_is_read(
    study: Study, model: Scripted, mine: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    how = replace(CONDITIONS["baseline"], name="structured_outputs")
    record = semantics.evaluate(study, str(mine), how, 4, "arm-structured_outputs")
    assert not any(row.strict for row in semantics.judged_rows(record))
    assert [j.e2e_s for j in semantics.judged_rows(record)] == [r["e2e_s"] for r in record.samples()]
    first, *others = load_questions(mine)
    said = replace(first, golds=(intent_of(model.intents[first.question], load_catalog()),))
    rejudging._rejudged.cache_clear()
    monkeypatch.setattr(rejudging, "load_questions", lambda source, catalog: [said, *others])
    assert [j.strict for j in semantics.judged_rows(record)] == [True, False, False, False], (
        "by today's golds"
    )
    rejudging._rejudged.cache_clear()


# --- the local engine ---


@pytest.fixture
def local(study: Study, model: Scripted, monkeypatch: pytest.MonkeyPatch) -> Study:
    """The scripted model as if its engine ran on this machine, which is busy with other work."""
    monkeypatch.setattr(answers, "busy_share", lambda: 0.9)
    return replace(study, target=replace(model.target(), name="local", kind="local"))


def test_times_measured_beside_other_work_are_named_so(local: Study, mine: Path) -> None:
    record = evaluate_all(local, str(mine), conditions("baseline"), 2)["baseline"]
    [rule] = record.validity
    assert (rule.rule, rule.value, rule.ok) == (RULE, 0.9, False)
    found: candidates.Measurements = {"dev": {"1.5B": record, "3B": None}}
    assert candidates_notes.beside(found) == " beside other work"
    assert "90% busy" in candidates_notes.times_sentence(found)
    assert candidates_notes.times_sentence({"dev": {"3B": None}}) == ""
    patient = {**record.body, "validity": [], "results": {**record.results, "rate_limit_wait_s": 12.0}}
    told = candidates_notes.times_sentence({"dev": {"3B": replace(record, body=patient)}})
    assert told == "12 s were spent waiting for rate limits; no latency counts them."


def test_evaluate_takes_what_a_page_retained_of_the_local_engine(
    local: Study,
    model: Scripted,
    mine: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    evaluate_all(local, str(mine), conditions("baseline"), 2)
    model.asked.clear()
    target, remeasure = replace(model.target(), name="local", kind="local"), False
    monkeypatch.setattr(commands_evaluate, "open_target", lambda spec, progress: target)
    monkeypatch.setattr(Store, "from_environment", lambda: replace(local.store, remeasure=remeasure))
    asking = commands_evaluate.Asking(str(mine), "local", "baseline,cues")
    assert commands_evaluate.evaluate(asking, as_json=False) == 0
    told = capsys.readouterr()
    assert model.asked == [] and not target.connected and "4 of 4 answers were retained" in told.err
    assert "100% (51%–100%), 4 of 4" in told.out
    remeasure = True
    assert commands_evaluate.evaluate(asking, as_json=False) == 0
    assert len(model.asked) == 4, "asked once for both conditions"


# --- rate limits ---


class Limited:
    """A hosted model that refuses the first `n` requests."""

    def __init__(self, n: int, retry_after_s: float | None = None) -> None:
        self.left, self.retry_after_s, self.sent = n, retry_after_s, 0

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        self.sent += 1
        self.left -= 1
        if self.left >= 0:
            return Completion(request.request_id, "http_429", retry_after_s=self.retry_after_s)
        return Completion(request.request_id, "ok", "{}")

    async def aclose(self) -> None: ...


def waited(model: Limited) -> tuple[Completion, float, float]:
    loop = VirtualLoop()

    async def go() -> tuple[Completion, float, float]:
        started = asyncio.get_running_loop().time()
        [done], told = await complete_all(model, [ChatRequest("q", ())], 1, "question")
        return done, told, asyncio.get_running_loop().time() - started

    try:
        return loop.run_until_complete(go())
    finally:
        loop.close()


def test_a_rate_limit_is_waited_out_and_the_wait_is_told() -> None:
    model = Limited(2)
    done, told, took = waited(model)
    assert (done.outcome, model.sent) == ("ok", 3)
    assert told == took == batch.RATE_LIMIT_WAITS_S[0] + batch.RATE_LIMIT_WAITS_S[1]


def test_the_servers_word_counts_where_it_asks_for_longer() -> None:
    assert waited(Limited(1, retry_after_s=7.0))[1] == 7.0
    assert waited(Limited(1, retry_after_s=0.1))[1] == batch.RATE_LIMIT_WAITS_S[0]


def test_a_rate_limit_that_does_not_end_is_a_failure() -> None:
    done, told, _ = waited(Limited(100))
    assert done.outcome == "http_429" and told == sum(batch.RATE_LIMIT_WAITS_S)


# --- a quiet machine ---


def test_a_machine_is_busy_when_its_cores_work_while_nothing_is_asked(tmp_path: Path) -> None:
    counters = tmp_path / "stat"
    counters.write_text("cpu  100 0 100 800 0 0 0 0 0 0\n", encoding="ascii")
    assert busy_share(0.0, counters) is None, "no tick has passed"
    assert busy_share(0.0, tmp_path / "none") is None
    assert idle_rule(0.02, None).ok is True
    assert (idle_rule(0.02, 0.9).ok, idle_rule(0.02, 0.9).value) == (False, 0.9)
    assert idle_rule(None, None).ok is None
    share = busy_share(0.05)
    assert share is None or 0.0 <= share <= 1.0
