"""The command `ask`: one question through a model and a correction to rows, or to a reason for none."""

import json
import sys
from contextlib import closing

from nlqlib.commands import answered, show, words_of
from nlqlib.experiments.asking import Asked, ask_all
from nlqlib.experiments.conditions import Condition, condition
from nlqlib.experiments.judging import decision_row
from nlqlib.experiments.questions import Question
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.clarifier import Clarification
from nlqlib.nlq.correction import Corrected, correct
from nlqlib.nlq.pipeline import run_intent
from nlqlib.nlq.prompt import clean
from nlqlib.nlq.refusal import refusal, unexplained
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import Json
from nlqlib.serving.target import Target, open_target

RULED = frozenset({"cues", "planner", "clarifier", "rules_only"})
"""Corrections that refuse what the catalog does not have; then no model needs to be asked."""


def ask(question: str, target: str, name: str, as_json: bool) -> int:
    """Answer one question under the condition `name`; 1 where it is refused or no answer came.

    Raises `QuestionError` for a question that is empty or too long.
    """
    clean(question)
    how = condition(name)
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(load_catalog())
        no = refusal(question, catalog) if how.correction in RULED else None
        if no is not None:
            return _refused(question, no.reason, as_json)
        with closing(open_target(target, progress=_tell)) as opened:
            asked = _asked(question, opened, how, catalog)
            made = correct(how.correction, question, asked.heard, catalog, _chosen)
            told = _told(question, asked, made, how, catalog, words_of(opened) if how.asks else "rules alone")
        if not asked.answered or made.final is None:
            print(f"nlqlib: no answer; {_why(asked, made)}", file=sys.stderr)
            return 1
        _, result, stage = run_intent(made.final, catalog, warehouse)
    if result is None:
        print(f"nlqlib: no answer; sql: {stage.reason}", file=sys.stderr)
        return 1
    show(answered(made.final, result, None) | told, as_json, result)
    return 0


def _asked(question: str, target: Target, how: Condition, catalog: Catalog) -> Asked:
    [asked], _ = target.run(ask_all(target, [Question("question", question, ())], how, catalog, 1))
    return asked


def _refused(question: str, reason: str, as_json: bool) -> int:
    if as_json:
        print(json.dumps({"question": question, "refused": reason}, indent=2, ensure_ascii=False))
    print(f"nlqlib: refused: {reason}", file=sys.stderr)
    return 1


def _why(asked: Asked, made: Corrected) -> str:
    """Where and why the question ended early."""
    if made.refused:
        return made.refused
    stage = "intent" if asked.outcome == "ok" else ("form" if asked.answered else "serving")
    reason = asked.invalid or (asked.completions[-1].error if asked.completions else None)
    return f"{stage}: {asked.outcome}: {reason}" if asked.outcome != "ok" else f"{stage}: {reason}"


def _told(question: str, asked: Asked, made: Corrected, how: Condition, catalog: Catalog, words: str) -> Json:
    """Who answered, what the model said, what was changed, and what nobody understood."""
    raw = asked.heard.raw
    told: Json = {
        "answer": words,
        "condition": how.name,
        "raw": raw.wire() if raw else None,
        "decisions": [decision_row(d, question) for d in made.decisions if d.action != "kept"],
        "not_understood": list(unexplained(question, catalog)) if how.correction in RULED else [],
    }
    if told["not_understood"]:
        told["unsure"] = f"not understood, and left out: {', '.join(map(repr, told['not_understood']))}"
    if made.abstained:
        told["unsure"] = "the rules do not explain the question: this is the model's own reading"
    return told


def _chosen(asked: Clarification) -> int | None:
    """The option that the user at the terminal chooses; `None` where there is nobody, or for neither."""
    if not sys.stdin.isatty():
        return None
    print(asked.text, file=sys.stderr)
    said = input("number: ").strip()
    place = int(said) - 1 if said.isdecimal() else -1
    return place if 0 <= place < len(asked.options) else None


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
