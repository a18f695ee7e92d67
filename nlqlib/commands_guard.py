"""The command `guard`: a correction alone, on raw intents that are given; no model is asked.

The raw file has one JSON line per question: `id` (or `question_id`) and the model's answer as `raw` or
`intent` (an object or null) or as `text`. What `evaluate --out` writes is such a file.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nlqlib.commands import InputError
from nlqlib.commands_evaluate import acted, write_rows
from nlqlib.experiments.asking import Asked
from nlqlib.experiments.condition_report import report, shown
from nlqlib.experiments.conditions import Condition, condition
from nlqlib.experiments.judging import decision_row, executor, judge
from nlqlib.experiments.questions import Question, load_questions, set_path
from nlqlib.files import text_lines
from nlqlib.nlq.belief import Belief
from nlqlib.nlq.catalog import Catalog, QuestionError, load_catalog
from nlqlib.nlq.correction import Heard, changed, correct
from nlqlib.nlq.intent import Intent, intent_of, parse_intent
from nlqlib.nlq.warehouse import Warehouse, open_warehouse
from nlqlib.records import ANSWERED, Completion, Json


def guard(source: str, raw: str, name: str, out: str | None, as_json: bool) -> int:
    """Correct every raw intent of the file `raw` to the questions of `source`; raises `InputError`.

    With golds in the questions everything is judged too. Exit status 1 when an answer is a failed request.
    """
    how = condition(name)
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(load_catalog())
        questions, judged = _questions(source, catalog)
        answers = _answers(raw)
        asked = [_asked(q, answers, raw, catalog) for q in questions]
        rows = _judged(asked, how, catalog, warehouse) if judged else _plain(asked, how, catalog)
    if out:
        write_rows(out, rows)
    told: Json = {"condition": name, "correction": how.correction, "questions": len(rows)}
    told |= report(rows) if judged else {}
    print(json.dumps(told | {"rows": rows}, indent=2, ensure_ascii=False) if as_json else _page(told, rows))
    return 1 if any(row["outcome"] not in ANSWERED for row in rows) else 0


def _questions(source: str, catalog: Catalog) -> tuple[list[Question], bool]:
    """The questions of `source`, and whether all of them have golds to be judged by."""
    rows = _lines(str(set_path(source)))
    if all("gold" in row for row in rows):
        return load_questions(source, catalog), True
    try:
        return [Question(str(row["id"]), str(row["question"]), ()) for row in rows], False
    except KeyError as error:
        raise InputError(f"{source}: every line needs id and question ({error} is missing)") from error


def _answers(path: str) -> dict[str, Json]:
    """The rows of the raw file by question."""
    found: dict[str, Json] = {}
    for place, row in enumerate(_lines(path), start=1):
        name = row.get("question_id", row.get("id"))
        if name is None:
            raise InputError(f"{path}, line {place}: needs an id")
        if str(name) in found:
            raise InputError(f"{path}, line {place}: the id {name} stands there twice")
        found[str(name)] = row
    return found


def _lines(path: str) -> list[Json]:
    try:
        rows = [json.loads(line) for line in text_lines(Path(path).read_text("utf-8")) if line.strip()]
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON lines: {error}") from error
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise InputError(f"{path} holds no rows: give one JSON object per line")
    return rows


def _asked(question: Question, answers: Mapping[str, Json], path: str, catalog: Catalog) -> Asked:
    """The given answer, as if it had just come."""
    row = answers.get(question.id)
    if row is None:
        raise InputError(f"{path} has no answer to question {question.id}")
    raw, invalid = _intent(row, catalog)
    outcome = row.get("outcome", "ok")
    done = Completion(question.id, outcome, row.get("text"), row.get("finish_reason"))
    return Asked(question, Heard(raw, _belief(row)), outcome, row.get("invalid") or invalid, (done,))


def _intent(row: Json, catalog: Catalog) -> tuple[Intent | None, str | None]:
    """The raw intent of a row; an invalid one is an answer all the same."""
    given: Any = row.get("raw", row.get("intent"))
    try:
        if given is not None:
            return intent_of(given, catalog), None
        if "raw" in row or "intent" in row or row.get("text") is None:
            return None, "no intent was given"
        if not isinstance(row["text"], str):
            return None, "the answer is no text"
        return parse_intent(row["text"], catalog), None
    except QuestionError as error:
        return None, str(error)


def _belief(row: Json) -> Belief | None:
    told = row.get("belief")
    if not isinstance(told, dict):
        return None
    if "kind" not in told:
        raise InputError(f"the belief of {row.get('question_id', row.get('id'))} names no kind")
    return Belief(told["kind"], told.get("logprobs"), told.get("said"))


def _judged(asked: list[Asked], how: Condition, catalog: Catalog, warehouse: Warehouse) -> list[Json]:
    run = executor(warehouse, catalog)
    return [judge(one, how, catalog, run) for one in asked]


def _plain(asked: list[Asked], how: Condition, catalog: Catalog) -> list[Json]:
    """Rows without golds: what was given, what is answered, and every decision."""
    return [_plain_row(one, how, catalog) for one in asked]


def _plain_row(one: Asked, how: Condition, catalog: Catalog) -> Json:
    question, raw = one.question.question, one.heard.raw
    made = correct(how.correction, question, one.heard, catalog)
    return {
        "question_id": one.question.id,
        "question": question,
        "outcome": one.outcome,
        "raw": raw.wire() if raw else None,
        "invalid": one.invalid,
        "final": made.final.wire() if made.final else None,
        "changed": changed(raw, made, catalog),
        "decisions": [decision_row(d, question) for d in made.decisions],
        "abstained": made.abstained,
        "refused": made.refused,
    }


def _page(told: Json, rows: list[Json]) -> str:
    """Every change with its words, then the sums."""
    lines = [f"{told['questions']} answers, correction {told['correction']}", ""]
    lines += [line for row in rows for line in _decisions(row)]
    fired = sum(row["changed"] for row in rows)
    if "interventions" not in told:
        return "\n".join([*lines, "", f"changed: {fired} of {len(rows)}"])
    lines += ["", acted(told["interventions"])]
    for side in ("raw", "final"):
        strict = next(s for s in told[side] if s["name"] == "strict accuracy")
        lines.append(f"strict accuracy, {side}: {shown(strict)}")
    return "\n".join(lines)


def _decisions(row: Json) -> list[str]:
    """A row that was changed or refused, one line for each decision that changed something."""
    if row["refused"]:
        return [f"{row['question_id']} refused: {row['refused']}"]
    return [
        f"{row['question_id']} {d['action']} {d['rule']}: {json.dumps(d['before'], ensure_ascii=False)} → "
        f"{json.dumps(d['after'], ensure_ascii=False)}"
        + (f"  ({', '.join(repr(w) for w in d['words'])})" if d["words"] else "")
        for d in row["decisions"]
        if d["action"] != "kept"
    ]
