"""`guard` corrects raw answers that are given: no model, no golds needed, every decision with its words."""

import json
from pathlib import Path
from typing import Any

import pytest

from nlqlib import paths
from nlqlib.__main__ import main
from nlqlib.experiments.questions import load_questions

DEV = load_questions("dev")
FIRST, SECOND = DEV[0], DEV[1]
"""`refunds by channel` and `channels with the biggest refunds`."""


def false_ranking(wire: dict[str, Any]) -> dict[str, Any]:
    return wire | {
        "query_type": "top_n_by_metric",
        "sort": {"by": wire["metrics"][0], "direction": "desc"},
        "limit": 10,
    }


WRONG, RIGHT = false_ranking(FIRST.golds[0].wire()), SECOND.golds[0].wire()


def lines(path: Path, *rows: dict[str, Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


@pytest.fixture
def questions(tmp_path: Path) -> str:
    """The first two development questions with their golds."""
    kept = (paths.QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()[:2]
    return lines(tmp_path / "questions.jsonl", *map(json.loads, kept))


@pytest.fixture
def raw(tmp_path: Path) -> str:
    """A false ranking, and a right answer in words."""
    second = {"id": SECOND.id, "text": json.dumps(RIGHT, indent=2)}
    return lines(tmp_path / "raw.jsonl", {"question_id": FIRST.id, "raw": WRONG}, second)


def told(capsys: pytest.CaptureFixture[str], *argv: str) -> dict[str, Any]:
    assert main(["guard", *argv, "--json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> str:
    assert main(["guard", *argv]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1
    return shown.err


@pytest.mark.parametrize("name", ["guardrail", "cues"])
def test_a_false_ranking_is_put_right_and_a_right_answer_left_alone(
    name: str, questions: str, raw: str, capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, questions, "--raw", raw, "--condition", name)
    first, second = found["rows"]
    assert first["final"]["query_type"] == "breakdown" and first["strict"] and first["changed"]
    assert second["final"] == second["raw"] and second["strict"] and not second["changed"]
    acted = found["interventions"]
    assert (acted["interventions"], acted["precision"]["value"], acted["harm"]["value"]) == (1, 1.0, 0.0)
    assert acted["categories"]["false ranking"]["value"] == 1.0


def test_the_page_names_each_change_and_the_words_it_rests_on(
    questions: str, raw: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["guard", questions, "--raw", raw]) == 0
    shown = capsys.readouterr().out
    assert 'dev-01 changed query_type: "top_n_by_metric" → "breakdown"' in shown
    assert "dev-01 changed limit: 10 → null" in shown and "dev-02" not in shown
    assert "intervention precision: 100%" in shown
    assert "strict accuracy, raw: 50%" in shown and "strict accuracy, final: 100%" in shown


def test_questions_without_golds_are_corrected_and_not_judged(
    tmp_path: Path, raw: str, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = lines(tmp_path / "plain.jsonl", *({"id": q.id, "question": q.question} for q in (FIRST, SECOND)))
    found = told(capsys, plain, "--raw", raw)
    assert "interventions" not in found and "strict" not in found["rows"][0]
    assert [row["changed"] for row in found["rows"]] == [True, False]
    assert main(["guard", plain, "--raw", raw]) == 0
    assert "changed: 1 of 2" in capsys.readouterr().out


def test_what_evaluate_writes_can_be_guarded_and_guarded_again(
    questions: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows, out = str(tmp_path / "rows.jsonl"), str(tmp_path / "out.jsonl")
    assert main(["evaluate", questions, "--condition", "baseline", "--target", "twin", "--out", rows]) == 0
    assert main(["evaluate", questions, "--condition", "cues", "--target", "twin", "--out", out]) == 0
    capsys.readouterr()
    found = told(capsys, questions, "--raw", rows, "--condition", "cues")
    wanted = [json.loads(line) for line in Path(out).read_text("utf-8").splitlines()]
    assert [row["final"] for row in found["rows"]] == [row["final"] for row in wanted]
    assert [row["decisions"] for row in found["rows"]] == [row["decisions"] for row in wanted]


@pytest.mark.parametrize("name", ["guardrail", "cues"])
def test_a_correction_of_its_own_result_changes_nothing(
    name: str, questions: str, raw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    once = told(capsys, questions, "--raw", raw, "--condition", name)["rows"]
    again = lines(tmp_path / "again.jsonl", *({"id": r["question_id"], "intent": r["final"]} for r in once))
    twice = told(capsys, questions, "--raw", again, "--condition", name)
    assert twice["interventions"]["interventions"] == 0
    assert [r["final"] for r in twice["rows"]] == [r["final"] for r in once]


@pytest.mark.parametrize("given", [{"raw": None}, {"text": "North leads."}, {"raw": {"query_type": "pie"}}])
def test_an_answer_without_a_readable_intent_is_wrong_and_answered_by_the_rules(
    given: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    question = lines(
        tmp_path / "one.jsonl", json.loads((paths.QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()[0])
    )
    [row] = told(capsys, question, "--raw", lines(tmp_path / "raw.jsonl", {"id": FIRST.id, **given}))["rows"]
    assert row["raw"] is None and row["invalid"] and row["strict"]


def test_a_failed_request_is_no_answer_and_the_exit_status_says_so(
    questions: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failed = {"id": FIRST.id, "raw": None, "outcome": "timeout"}
    raw = lines(tmp_path / "raw.jsonl", failed, {"id": SECOND.id, "raw": RIGHT})
    assert main(["guard", questions, "--raw", raw, "--json"]) == 1
    found = json.loads(capsys.readouterr().out)
    assert found["failed"] == 1 and found["rows"][0]["final"] is None
    assert found["interventions"]["answered"] == 1


def test_the_rows_are_written_where_asked(
    questions: str, raw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.jsonl"
    found = told(capsys, questions, "--raw", raw, "--out", str(out))
    assert [json.loads(line) for line in out.read_text("utf-8").splitlines()] == found["rows"]


def test_a_file_that_cannot_be_used_is_refused_by_what_is_wrong(
    questions: str, raw: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = {"id": FIRST.id, "raw": WRONG}
    assert "cannot read" in refused(capsys, questions, "--raw", str(tmp_path / "none.jsonl"))
    assert "no answer to question dev-02" in refused(
        capsys, questions, "--raw", lines(tmp_path / "a.jsonl", one)
    )
    assert "dev-01 stands there twice" in refused(
        capsys, questions, "--raw", lines(tmp_path / "b.jsonl", one, one)
    )
    assert "line 1: needs an id" in refused(
        capsys, questions, "--raw", lines(tmp_path / "c.jsonl", {"raw": None})
    )
    (tmp_path / "d.jsonl").write_text("{", encoding="utf-8")
    assert "is not JSON lines" in refused(capsys, questions, "--raw", str(tmp_path / "d.jsonl"))
    (tmp_path / "e.jsonl").write_text("\n", encoding="utf-8")
    assert "holds no rows" in refused(capsys, questions, "--raw", str(tmp_path / "e.jsonl"))
    assert "unknown condition" in refused(capsys, questions, "--raw", raw, "--condition", "magic")
    nameless = lines(tmp_path / "f.jsonl", {"question": "revenue"})
    assert "needs id and question" in refused(capsys, nameless, "--raw", raw)
