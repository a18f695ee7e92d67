"""One question judged against its golds, before and after the correction, as one row that holds everything.

The row is what is kept: the raw answer, the final one, every decision and every request. All that is reported
is computed from rows, so that a retained evaluation can be read again without an endpoint.
"""

import re
from collections.abc import Callable
from dataclasses import asdict
from functools import cache

from nlqlib.analysis.evaluation import Judged
from nlqlib.analysis.intervention import FALSE_RANKING, Change
from nlqlib.experiments.asking import Asked
from nlqlib.experiments.conditions import Condition
from nlqlib.experiments.questions import Question
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.clarifier import Clarification, chosen_by_gold
from nlqlib.nlq.correction import LEXICAL, SCOPE, Corrected, changed, correct
from nlqlib.nlq.decision import GuardDecision
from nlqlib.nlq.equality import Equality, compare, differences
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.sql import Result, build, execute
from nlqlib.nlq.warehouse import Warehouse
from nlqlib.records import ANSWERED, Completion, Json

Run = Callable[[Intent], Result | None]
"""The rows of an intent, `None` where it cannot be executed."""
NAMED_KIND = re.compile(r'"query_type"\s*:\s*"(\w+)"')


def executor(warehouse: Warehouse, catalog: Catalog) -> Run:
    """A function from an intent to its rows, each executed once; `None` where the warehouse refuses it."""

    @cache
    def run(intent: Intent) -> Result | None:
        try:
            return execute(build(intent, catalog), warehouse)
        except QuestionError:
            return None

    return run


def judge(asked: Asked, how: Condition, catalog: Catalog, run: Run) -> Json:
    """The row of one question under `how`. A failed request is no answer, and nothing is made of it."""
    golds = asked.question.golds

    def choose(question: Clarification) -> int | None:
        return chosen_by_gold(question, golds, catalog)

    made = (
        correct(how.correction, asked.question.question, asked.heard, catalog, choose)
        if asked.answered
        else Corrected(None)
    )
    raw = compare(asked.heard.raw, golds, catalog, run)
    return {
        **_question(asked.question),
        **asdict(_judged(asked, how, made, catalog, run)),
        **_raw(asked, raw, catalog, run),
        **_final(asked, how, made, catalog),
        **_heard(asked),
    }


def _question(question: Question) -> Json:
    return {
        "question": question.question,
        "slice": question.slice,
        "gold": question.golds[0].wire(),
        "accept": [gold.wire() for gold in question.golds[1:]],
    }


def _judged(asked: Asked, how: Condition, made: Corrected, catalog: Catalog, run: Run) -> Judged:
    """The final answer against the golds."""
    golds, final = asked.question.golds, made.final
    equal = compare(final, golds, catalog, run)
    return Judged(
        question_id=asked.question.id,
        outcome=asked.outcome,
        compliant=asked.outcome == "ok" if how.asks else final is not None,
        strict=equal.strict,
        kind=equal.kind,
        execution=equal.execution,
        executed=None if final is None else run(final) is not None,
        gold_kind=golds[0].query_type,
        raw_kind=_named_kind(asked) if how.asks else (final.query_type if final else None),
        errors=differences(final, golds, catalog) if asked.answered else (),
        output_tokens=asked.tokens("output_tokens"),
        e2e_s=asked.e2e_s,
        cluster=asked.question.cluster,
    )


def _named_kind(asked: Asked) -> str | None:
    """The kind that an answer names, in whatever form: meaning is judged apart from form."""
    if asked.heard.belief is not None:
        return asked.heard.belief.kind
    named = NAMED_KIND.search(asked.text or "")
    return named[1] if named else None


def _raw(asked: Asked, equal: Equality, catalog: Catalog, run: Run) -> Json:
    raw, golds = asked.heard.raw, asked.question.golds
    return {
        "raw": raw.wire() if raw else None,
        "invalid": asked.invalid,
        "raw_strict": equal.strict,
        "raw_kind_right": equal.kind,
        "raw_execution": equal.execution,
        "raw_executed": None if raw is None else run(raw) is not None,
        "raw_errors": differences(raw, golds, catalog) if asked.completions and asked.answered else (),
    }


def _final(asked: Asked, how: Condition, made: Corrected, catalog: Catalog) -> Json:
    forced = compare(made.forced, asked.question.golds, catalog)
    return {
        "condition": how.name,
        "correction": how.correction,
        "final": made.final.wire() if made.final else None,
        "changed": asked.answered and changed(asked.heard.raw, made, catalog),
        "decisions": [decision_row(d, asked.question.question) for d in made.decisions],
        "abstained": made.abstained,
        "refused": made.refused,
        "clarification": _clarification(made),
        "forced_strict": forced.strict,
    }


def decision_row(decision: GuardDecision, question: str) -> Json:
    """A decision as it is kept: with the words it rests on."""
    return asdict(decision) | {"words": decision.words(question)}


def _clarification(made: Corrected) -> Json | None:
    if made.asked is None:
        return None
    options = [option.text for option in made.asked.options]
    return {"options": options, "reason": made.asked.reason, "chosen": made.chosen}


def _heard(asked: Asked) -> Json:
    belief = asked.heard.belief
    last = asked.completions[-1] if asked.completions else None
    return {
        "text": asked.text,
        "finish_reason": last.finish_reason if last else None,
        "prompt_tokens": asked.tokens("prompt_tokens"),
        "belief": asdict(belief) if belief else None,
        "requests": [_request(done) for done in asked.completions],
    }


def _request(done: Completion) -> Json:
    names = ("outcome", "finish_reason", "prompt_tokens", "cached_tokens", "output_tokens")
    told = {name: getattr(done, name) for name in (*names, "error", "text")}
    return told | {"start_s": done.start_s, "end_s": done.end_s}


def final_of(row: Json) -> Judged:
    """The final answer of a row, judged; fields that older rows lack keep their defaults."""
    known: Json = {k: row[k] for k in Judged.__dataclass_fields__ if k in row}
    return Judged(**(known | {"errors": tuple(row["errors"])}))


def raw_of(row: Json) -> Judged:
    """The model's own answer of a row, judged in the same way; older rows hold nothing else."""
    final = final_of(row)
    if "raw_strict" not in row:
        return final
    told: Json = asdict(final) | {
        "strict": row["raw_strict"],
        "kind": row["raw_kind_right"],
        "execution": row["raw_execution"],
        "executed": row["raw_executed"],
        "errors": tuple(row["raw_errors"]),
    }
    return Judged(**told)


def change_of(row: Json) -> Change | None:
    """What the correction did to a row; `None` where no model answered."""
    if row["outcome"] not in ANSWERED or not row["requests"]:
        return None
    errors = _errors(row, "raw")
    return Change(
        question_id=row["question_id"],
        raw_right=row["raw_strict"],
        final_right=row["strict"],
        changed=row["changed"],
        raw_errors=errors,
        final_errors=_errors(row, "final"),
        fixable=not row["raw_strict"] and _fixable(errors, row["correction"]),
        abstained=row["abstained"],
        refused=row["refused"] is not None,
        asked=row["clarification"] is not None,
        forced_right=row["forced_strict"],
        executed=row["executed"],
    )


def _errors(row: Json, answer: str) -> tuple[str, ...]:
    """The errors of the `raw` or `final` answer, a false ranking named before the others."""
    errors = tuple(row["errors" if answer == "final" else "raw_errors"])
    ranked = row[answer] is not None and row[answer]["query_type"] == "top_n_by_metric"
    wanted = {gold["query_type"] for gold in (row["gold"], *row["accept"])}
    return (FALSE_RANKING, *errors) if ranked and wanted == {"breakdown"} else errors


def _fixable(errors: tuple[str, ...], correction: str) -> bool:
    """Are all `errors` within reach of `correction`? The one-way guard reaches only false rankings."""
    reach = SCOPE[correction]
    return set(errors) <= reach and (reach != LEXICAL or FALSE_RANKING in errors)
