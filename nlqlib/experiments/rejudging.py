"""Evaluations that were asked and judged as one point, judged again by today's rules when they are read."""

from functools import lru_cache
from pathlib import Path

from nlqlib.artifact_record import Record, load_record
from nlqlib.experiments.asking import read
from nlqlib.experiments.conditions import Condition
from nlqlib.experiments.judging import Run, executor, judge
from nlqlib.experiments.questions import Question, load_questions
from nlqlib.nlq.catalog import Catalog, QuestionError, load_catalog
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import ANSWERED, Completion, Json


def todays_rows(record: Record) -> list[Json]:
    """The rows of `record`, judged now from the texts in it; as they were kept where that is not possible.

    What was asked in several steps, or judged from answers retained apart, is left as it is.
    """
    how = _condition(record)
    if how is None or record.workload is None or not record.path.is_file():
        return record.samples()
    return [
        dict(row) for row in _rejudged(record.path, record.path.stat().st_mtime_ns, how, record.workload.name)
    ]


def _condition(record: Record) -> Condition | None:
    told = record.params
    if "answers" in told or told.get("prompt") in (None, "", "planner"):
        return None
    return Condition(told["name"], told["prompt"], told["contract"], told.get("correction", "none"))


@lru_cache(maxsize=16)
def _rejudged(path: Path, written: int, how: Condition, source: str) -> tuple[Json, ...]:
    catalog, run = _ours()
    known = _known(source, catalog)
    return tuple(
        judge(read(known[row["question_id"]], (_completion(row),), how, catalog), how, catalog, run)
        if _same(row, known)
        else row
        for row in load_record(path).samples()
    )


@lru_cache(maxsize=1)
def _ours() -> tuple[Catalog, Run]:
    """Our catalog and what executes its intents, kept open: the warehouse is read-only and stays as it is."""
    warehouse = open_warehouse()
    catalog = warehouse.lookups(load_catalog())
    return catalog, executor(warehouse, catalog)


def _known(source: str, catalog: Catalog) -> dict[str, Question]:
    """The questions of the set as they are today; none where it is not one of ours."""
    try:
        return {q.id: q for q in load_questions(source, catalog)}
    except QuestionError:
        return {}


def _same(row: Json, known: dict[str, Question]) -> bool:
    """Is this question still asked in these words, and was it answered?"""
    question = known.get(row["question_id"])
    return question is not None and question.question == row["question"] and row["outcome"] in ANSWERED


def _completion(row: Json) -> Completion:
    """The answer of a row as it came; its form is judged again."""
    timed = row["e2e_s"] is not None
    return Completion(
        request_id=row["question_id"],
        outcome="length" if row["finish_reason"] == "length" else "ok",
        text=row["text"],
        finish_reason=row["finish_reason"],
        prompt_tokens=row["prompt_tokens"],
        output_tokens=row["output_tokens"],
        start_s=0.0 if timed else None,
        end_s=row["e2e_s"],
    )
