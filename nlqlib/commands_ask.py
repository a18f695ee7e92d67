"""The command `ask`: one question through a model and a correction to rows, or to a reason for none."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing

from nlqlib.commands import answered, show, words_of
from nlqlib.commands_advice import advised
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
UNCHOSEN = "no reading was chosen, and this is the answer without asking"


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
    if asked.outcome == "ok":
        return f"{stage}: {reason}"
    return advised(f"{stage}: {asked.outcome}: {reason}", asked.outcome)


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
    if unsure := list(_unsure(made, told["not_understood"])):
        told["unsure"] = "; ".join(unsure)
    return told


def _unsure(made: Corrected, not_understood: Sequence[str]) -> Iterator[str]:
    """Why the answer may not be what was meant."""
    if made.asked and made.chosen is None:
        yield UNCHOSEN
    if made.abstained:
        yield "the rules do not explain the question: this is the model's own reading"
    elif not_understood:
        yield f"not understood, and left out: {', '.join(map(repr, not_understood))}"


def _chosen(asked: Clarification) -> int | None:
    """The option that the user at the terminal chooses; `None` for neither, and where none is chosen."""
    if sys.stdin is None or sys.stdin.closed or not sys.stdin.isatty():
        return _unchosen("there is nobody to choose, standard input is no terminal")
    # on standard error: standard output is the answer's, which a program may read
    print(f"{asked.text}\nnumber: ", end="", file=sys.stderr, flush=True)
    line = sys.stdin.readline()
    said, neither = line.strip(), len(asked.options) + 1
    if not line:
        _tell("")  # the prompt's line ends here
        return _unchosen("the input ended")
    if said == str(neither):
        return None
    if said.isdecimal() and 0 < int(said) < neither:
        return int(said) - 1
    return _unchosen(f"{said!r} is no number from 1 to {neither}")


def _unchosen(why: str) -> int | None:
    _tell(f"nlqlib: {why}: {UNCHOSEN}")
    return None


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
