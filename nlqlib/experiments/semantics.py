"""Does an answer mean the right thing? A set of questions under one condition, judged one by one."""

import re
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from nlqlib.analysis.evaluation import Judged, scores
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.questions import Question, load_questions, question_workload
from nlqlib.experiments.study import Spec, Study
from nlqlib.load.batch import complete_all
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.equality import compare, differences
from nlqlib.nlq.form import classify_answer
from nlqlib.nlq.intent import Intent, parse_intent
from nlqlib.nlq.pipeline import contracts
from nlqlib.nlq.prompt import build_messages
from nlqlib.nlq.sql import Result, build, execute
from nlqlib.nlq.warehouse import Warehouse, open_warehouse
from nlqlib.records import ChatRequest, Completion, Json, Metric
from nlqlib.serving.client import ClientKind
from nlqlib.serving.identity import identify
from nlqlib.serving.target import Target

MODULES = (
    "nlqlib.experiments.semantics",
    "nlqlib.analysis.evaluation",
    "nlqlib.twin.app",
    "nlqlib.nlq.pipeline",
)
MAX_TOKENS = 256
NAMED_KIND = re.compile(r'"query_type"\s*:\s*"(\w+)"')


@dataclass(frozen=True)
class Condition:
    """How a question is asked: which prompt, which output contract."""

    name: str
    prompt: str
    contract: str


CONDITIONS = {"baseline": Condition("baseline", "baseline", "structured_outputs")}


def condition(name: str) -> Condition:
    """The condition called `name`. Raises `QuestionError`."""
    if name not in CONDITIONS:
        raise QuestionError(f"unknown condition {name!r}: there are {', '.join(CONDITIONS)}")
    return CONDITIONS[name]


def requests(questions: Sequence[Question], how: Condition, catalog: Catalog) -> list[ChatRequest]:
    """One request for each question, as `how` asks it."""
    contract = contracts(catalog)[how.contract]
    return [
        ChatRequest(
            q.id, tuple(build_messages(q.question, catalog, how.prompt)), MAX_TOKENS, contract=contract
        )
        for q in questions
    ]


def judge(
    question: Question, completion: Completion, catalog: Catalog, run: Callable[[Intent], Result | None]
) -> tuple[Judged, Json]:
    """What became of one question, and the row kept of it."""
    schema = contracts(catalog)["structured_outputs"]
    outcome, reason = completion.outcome, completion.error
    if completion.ok or outcome in ("length", "empty"):
        outcome, reason = classify_answer(completion.text, completion.finish_reason, schema)
    raw, invalid = _read(completion.text, catalog) if outcome == "ok" else (None, reason)
    equal = compare(raw, question.golds, catalog, run)
    judged = Judged(
        question_id=question.id,
        outcome=outcome,
        compliant=outcome == "ok",
        strict=equal.strict,
        kind=equal.kind,
        execution=equal.execution,
        executed=None if raw is None else run(raw) is not None,
        gold_kind=question.golds[0].query_type,
        raw_kind=_kind(completion.text),
        errors=differences(raw, question.golds, catalog),
        output_tokens=completion.output_tokens,
        e2e_s=completion.e2e_s,
    )
    return judged, _row(question, completion, judged, raw, invalid)


def _read(text: str | None, catalog: Catalog) -> tuple[Intent | None, str | None]:
    try:
        return parse_intent(text or "", catalog), None
    except QuestionError as error:
        return None, str(error)


def _kind(text: str | None) -> str | None:
    """The `query_type` that an answer names, in whatever form: meaning is judged apart from form."""
    named = NAMED_KIND.search(text or "")
    return named[1] if named else None


def _row(
    question: Question, completion: Completion, judged: Judged, raw: Intent | None, invalid: str | None
) -> Json:
    return {
        **asdict(judged),
        "question": question.question,
        "gold": question.golds[0].model_dump(mode="json"),
        "raw": raw.model_dump(mode="json") if raw else None,
        "invalid": invalid,
        "text": completion.text,
        "finish_reason": completion.finish_reason,
        "prompt_tokens": completion.prompt_tokens,
    }


def executor(warehouse: Warehouse, catalog: Catalog) -> Callable[[Intent], Result | None]:
    """A function from an intent to its rows; `None` where the warehouse refuses it."""

    def run(intent: Intent) -> Result | None:
        try:
            return execute(build(intent, catalog), warehouse)
        except QuestionError:
            return None

    return run


def evaluation_spec(point: str, source: str, how: Condition, concurrency: int) -> Spec:
    """The evaluation of the set `source` under `how`, as a point."""
    workload = question_workload(source)
    params = {**asdict(how), "max_tokens": MAX_TOKENS, "concurrency": concurrency}
    return Spec(point, params, MODULES, workload, "evaluation", workload.n, concurrency)


def evaluate(study: Study, source: str, how: Condition, concurrency: int, point: str) -> Record:
    """Every question of the set `source` under `how`, as one retained evaluation."""

    def measure() -> Measured:
        with open_warehouse() as warehouse:
            catalog = warehouse.lookups(study.catalog)
            questions = load_questions(source, catalog)
            completions, waited_s = study.run(
                ask_all(study.target, questions, how, catalog, concurrency, study.client)
            )
            run = executor(warehouse, catalog)
            pairs = [judge(q, c, catalog, run) for q, c in zip(questions, completions, strict=True)]
        server = study.run(identify(study.target))
        return measured([p[0] for p in pairs], [p[1] for p in pairs], server, waited_s)

    return study.point(evaluation_spec(point, source, how, concurrency), measure)


async def ask_all(
    target: Target,
    questions: Sequence[Question],
    how: Condition,
    catalog: Catalog,
    concurrency: int,
    client: ClientKind = "openai",
) -> tuple[list[Completion], float]:
    """The completions of `questions` in their order, and the seconds spent waiting for rate limits."""
    asking = target.client(client)
    try:
        return await complete_all(asking, requests(questions, how, catalog), concurrency, "question")
    finally:
        await asking.aclose()


def measured(judged: Sequence[Judged], rows: list[Json], server: Any, waited_s: float) -> Measured:
    """The evaluation as it is retained: counts by outcome, scores with intervals, one row per question."""
    outcomes: dict[str, int] = {}
    for one in judged:
        outcomes[one.outcome] = outcomes.get(one.outcome, 0) + 1
    tokens = [j.output_tokens for j in judged if j.output_tokens is not None]
    mean = sum(tokens) / len(tokens) if tokens else None
    found = scores(judged)
    metrics = [Metric(s.name, "share", "share", s.value, s.n) for s in found]
    metrics.append(Metric("output_tokens", "tokens", "mean", mean, len(tokens)))
    return Measured(
        server=server,
        requests={"total": len(judged), **outcomes},
        metrics=metrics,
        samples=rows,
        results={"scores": [asdict(s) for s in found], "rate_limit_wait_s": waited_s},
    )


def judged_rows(record: Record) -> list[Judged]:
    """The judgements of a retained evaluation."""
    return [_judged(row) for row in record.samples()]


def _judged(row: Json) -> Judged:
    known: Json = {k: row[k] for k in Judged.__dataclass_fields__ if k in row}
    return Judged(**(known | {"errors": tuple(row["errors"])}))
