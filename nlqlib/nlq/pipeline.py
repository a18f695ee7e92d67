"""Question → intent → SQL → rows, each stage with an outcome of its own.

The pipeline is handed a `complete` function and knows nothing of what serves it. `prepare` and `read` are
pure but for the warehouse; `answer` puts the one await between them, and `answer_sync` does the same for a
`complete` that is an ordinary function. Whether the meaning is right is judged elsewhere, against a gold.
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Literal

import duckdb

from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.compact_grammar import compact_contracts
from nlqlib.nlq.form import classify_answer
from nlqlib.nlq.intent import ContractViolation, Intent, IntentError, parse_intent, wire_schema
from nlqlib.nlq.prompt import build_messages
from nlqlib.nlq.sql import Query, Result, build, execute
from nlqlib.nlq.warehouse import Warehouse
from nlqlib.records import ANSWERED, UNCONSTRAINED, ChatRequest, Completion, Json, OutputContract

Complete = Callable[[ChatRequest], Awaitable[Completion]]
CompleteSync = Callable[[ChatRequest], Completion]
StageName = Literal["serving", "form", "intent", "sql"]
STAGES: tuple[StageName, ...] = ("serving", "form", "intent", "sql")


@dataclass(frozen=True)
class Stage:
    """What became of one stage: `ok` is `None` when it was not reached."""

    name: StageName
    ok: bool | None
    reason: str | None = None


@dataclass(frozen=True)
class Answer:
    """One question on its way; what was not reached is `None`."""

    question: str
    completion: Completion
    """Its outcome is that of the form, once the endpoint has answered."""
    raw: Intent | None
    """The intent in the model's words, valid by the contract."""
    final: Intent | None
    """The intent that was executed: the raw one, or what a correction made of it."""
    query: Query | None
    result: Result | None
    stages: tuple[Stage, ...]
    """serving (an answer came), form (JSON by the schema), intent (valid by the contract), sql (it ran)."""

    def stage(self, name: StageName) -> Stage:
        """The stage called `name`."""
        return next(stage for stage in self.stages if stage.name == name)

    @property
    def ok(self) -> bool:
        """Did the question end in rows?"""
        return all(stage.ok for stage in self.stages)

    @property
    def error(self) -> str | None:
        """Where and why it ended early, in one line; `None` when it did not."""
        failed = next((stage for stage in self.stages if stage.ok is False), None)
        return f"{failed.name}: {failed.reason}" if failed else None


def contracts(catalog: Catalog) -> Mapping[str, OutputContract]:
    """The ways to ask for an intent, by name.

    `unconstrained` promises nothing. `structured_outputs` is vLLM's field, `response_format` the one that
    other servers share. `guided_json` is vLLM's former field, which newer versions ignore with HTTP 200: kept
    to show what that looks like. Those that promise minified JSON are `compact_grammar`'s.
    """
    schema = wire_schema(catalog)
    wrapped = {"type": "json_schema", "json_schema": {"name": "intent", "schema": schema, "strict": True}}
    fields: dict[str, Json] = {
        "structured_outputs": {"structured_outputs": {"json": schema}},
        "response_format": {"response_format": wrapped},
        "guided_json": {"guided_json": schema},
    }
    asked = {name: OutputContract(name, body, schema) for name, body in fields.items()}
    return {UNCONSTRAINED.name: UNCONSTRAINED, **asked, **compact_contracts(schema)}


def prepare(
    question: str,
    catalog: Catalog,
    prompt: str = "baseline",
    contract: OutputContract = UNCONSTRAINED,
    request_id: str = "question",
    max_tokens: int = 256,
) -> ChatRequest:
    """The request for the intent of `question`. Raises `QuestionError` as `build_messages` does."""
    messages = build_messages(question, catalog, prompt)
    return ChatRequest(request_id, messages, max_tokens=max_tokens, contract=contract)


def read(
    question: str,
    completion: Completion,
    catalog: Catalog,
    warehouse: Warehouse | None,
    contract: OutputContract = UNCONSTRAINED,
    correct: Callable[[Intent], Intent] | None = None,
) -> Answer:
    """What `completion` says about `question`: form, intent, and its rows from `warehouse` (`None`: not run).

    `catalog` should know the values that live in the warehouse (`warehouse.lookups`). `correct` makes the
    final intent of the raw one. Never raises for what a model can say: a failure is a stage that is not ok.
    """
    judged = judge_form(completion, contract)
    if judged.outcome != "ok":
        stage: StageName = "form" if judged.outcome in ANSWERED else "serving"
        reason = f"{judged.outcome}: {judged.error}" if judged.error else judged.outcome
        return _ended(question, judged, Stage(stage, False, reason))
    return _from_text(question, judged, catalog, warehouse, correct)


def judge_form(completion: Completion, contract: OutputContract) -> Completion:
    """`completion` with the outcome of its form; one that serving failed, or cut, keeps its own."""
    if completion.outcome != "ok":
        return completion
    outcome, reason = classify_answer(completion.text, completion.finish_reason, contract)
    return completion if outcome == "ok" else completion.failed(outcome, reason or outcome)


def _from_text(
    question: str,
    judged: Completion,
    catalog: Catalog,
    warehouse: Warehouse | None,
    correct: Callable[[Intent], Intent] | None,
) -> Answer:
    try:
        raw = parse_intent(judged.text or "", catalog)
    except ContractViolation as error:
        return _ended(question, judged, Stage("intent", False, str(error)))
    except IntentError as error:
        return _ended(question, judged, Stage("form", False, str(error)))
    final = correct(raw) if correct else raw
    query, result, sql = run_intent(final, catalog, warehouse)
    return Answer(question, judged, raw, final, query, result, _stages(sql))


def run_intent(
    intent: Intent, catalog: Catalog, warehouse: Warehouse | None
) -> tuple[Query | None, Result | None, Stage]:
    """The query of `intent`, its rows, and the outcome of the SQL stage; not run without a warehouse."""
    try:
        query = build(intent, catalog)
    except QuestionError as error:
        return None, None, Stage("sql", False, str(error))
    if warehouse is None:
        return query, None, Stage("sql", None)
    try:
        return query, execute(query, warehouse), Stage("sql", True)
    except (QuestionError, duckdb.Error) as error:
        return query, None, Stage("sql", False, str(error))


def _stages(last: Stage) -> tuple[Stage, ...]:
    """All stages in order: those before `last` went well, those after it were not reached."""
    at = STAGES.index(last.name)
    before = (Stage(name, True) for name in STAGES[:at])
    after = (Stage(name, None) for name in STAGES[at + 1 :])
    return (*before, last, *after)


def _ended(question: str, judged: Completion, failed: Stage) -> Answer:
    return Answer(question, judged, None, None, None, None, _stages(failed))


async def answer(
    question: str,
    complete: Complete,
    catalog: Catalog,
    warehouse: Warehouse | None,
    prompt: str = "baseline",
    contract: OutputContract = UNCONSTRAINED,
    correct: Callable[[Intent], Intent] | None = None,
) -> Answer:
    """Ask for the intent of `question` through `complete`, and run it.

    Raises `QuestionError` for a question that is empty or too long, before anything is sent.
    """
    request = prepare(question, catalog, prompt, contract)
    return read(question, await complete(request), catalog, warehouse, contract, correct)


def answer_sync(
    question: str,
    complete: CompleteSync,
    catalog: Catalog,
    warehouse: Warehouse | None,
    prompt: str = "baseline",
    contract: OutputContract = UNCONSTRAINED,
    correct: Callable[[Intent], Intent] | None = None,
) -> Answer:
    """`answer` for a `complete` that is an ordinary function; needs no event loop."""
    request = prepare(question, catalog, prompt, contract)
    return read(question, complete(request), catalog, warehouse, contract, correct)
