"""How a set of questions is put to an endpoint under one condition: one request each, or the planner's two.

All first requests go out, a few at a time, and then all second ones, which depend on the first answers.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nlqlib.analysis.evaluation import ANSWERED
from nlqlib.experiments.conditions import Condition, requests
from nlqlib.experiments.journal import Journal, RememberingClient
from nlqlib.experiments.questions import Question
from nlqlib.load.batch import complete_all
from nlqlib.nlq.belief import read_belief
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.correction import Heard
from nlqlib.nlq.form import classify_answer
from nlqlib.nlq.intent import Intent, Kind, parse_intent
from nlqlib.nlq.pipeline import contracts
from nlqlib.nlq.planner import read_slots, slots_request
from nlqlib.nlq.prompt import clean
from nlqlib.records import Completion, Outcome
from nlqlib.serving.client import Client, ClientKind
from nlqlib.serving.target import Target

FALLBACK_KIND: Kind = "breakdown"
"""The usual case, for a question of which the model names no kind."""


@dataclass(frozen=True)
class Asked:
    """One question and everything that came back."""

    question: Question
    heard: Heard
    outcome: Outcome
    """Of the last request, its form included; `ok` where no model was asked."""
    invalid: str | None = None
    """Why no intent can be read."""
    completions: tuple[Completion, ...] = ()
    """In the order of asking; () where no model was asked."""

    @property
    def answered(self) -> bool:
        """Did every request bring what the model said?"""
        return self.outcome in ANSWERED

    @property
    def text(self) -> str | None:
        """What the model said in the end."""
        return self.completions[-1].text if self.completions else None

    @property
    def e2e_s(self) -> float | None:
        """Seconds of all requests together; `None` where one is missing."""
        times = [c.e2e_s for c in self.completions]
        known = [t for t in times if t is not None]
        return sum(known) if known and len(known) == len(times) else None

    def tokens(self, name: str) -> int | None:
        """`prompt_tokens`, `cached_tokens` or `output_tokens` of all requests; `None` if one is missing."""
        counts = [getattr(c, name) for c in self.completions]
        return sum(counts) if counts and None not in counts else None


async def ask_all(
    target: Target,
    questions: Sequence[Question],
    how: Condition,
    catalog: Catalog,
    concurrency: int,
    kind: ClientKind = "openai",
    journal: Journal | None = None,
) -> tuple[list[Asked], float]:
    """What was said to `questions`, in their order, and the seconds spent waiting for rate limits.

    With a `journal` what was answered before is not asked again.
    """
    hopeless = {q.id: reason for q in questions if (reason := _hopeless(q.question)) is not None}
    sent = [q for q in questions if how.asks and q.id not in hopeless]
    found, waited = await _sent(target, sent, how, catalog, concurrency, kind, journal)
    by_id = {asked.question.id: asked for asked in found}
    unsent = (Asked(q, Heard(None), "ok", hopeless.get(q.id)) for q in questions)
    return [by_id.get(asked.question.id, asked) for asked in unsent], waited


def _hopeless(question: str) -> str | None:
    """Why `question` is not worth sending."""
    try:
        clean(question)
    except QuestionError as error:
        return str(error)
    return None


async def _sent(
    target: Target,
    questions: Sequence[Question],
    how: Condition,
    catalog: Catalog,
    concurrency: int,
    kind: ClientKind,
    journal: Journal | None,
) -> tuple[list[Asked], float]:
    if not questions:
        return [], 0.0
    client = target.client(kind)
    try:
        asking = _remembering(client, journal)
        return await ask_with(asking, questions, how, catalog, concurrency)
    finally:
        await client.aclose()


def _remembering(client: Client, journal: Journal | None) -> Client:
    return client if journal is None else RememberingClient(client, journal, client.endpoint.model or "")


async def ask_with(
    client: Client, questions: Sequence[Question], how: Condition, catalog: Catalog, concurrency: int
) -> tuple[list[Asked], float]:
    """`ask_all` through a `client` that stays open."""
    first, waited = await complete_all(client, requests(questions, how, catalog), concurrency, "question")
    pairs = list(zip(questions, first, strict=True))
    if not how.planned:
        return [_direct(q, done, how, catalog) for q, done in pairs], waited
    spoken = [(q, done) for q, done in pairs if done.outcome in ANSWERED]
    second = [
        slots_request(q.question, _kind(done), catalog, how.contract, f"{q.id} slots") for q, done in spoken
    ]
    filled, more = await complete_all(client, second, concurrency, "slots")
    slots = {q.id: done for (q, _), done in zip(spoken, filled, strict=True)}
    return [_planned(q, done, slots.get(q.id), catalog) for q, done in pairs], waited + more


def _kind(done: Completion) -> Kind:
    return read_belief(done).kind or FALLBACK_KIND


def _direct(question: Question, done: Completion, how: Condition, catalog: Catalog) -> Asked:
    schema = contracts(catalog)["structured_outputs"]
    outcome, reason = done.outcome, done.error
    if outcome in ANSWERED:
        outcome, reason = classify_answer(done.text, done.finish_reason, schema)
    raw, invalid = _read(done.text, catalog) if outcome == "ok" else (None, reason)
    return Asked(question, Heard(raw), outcome, invalid, (done,))


def _read(text: str | None, catalog: Catalog) -> tuple[Intent | None, str | None]:
    try:
        return parse_intent(text or "", catalog), None
    except QuestionError as error:
        return None, str(error)


def _planned(question: Question, first: Completion, slots: Completion | None, catalog: Catalog) -> Asked:
    """The intent that the kind of `first` and the `slots` make; a failure of either is the question's."""
    if slots is None:
        return Asked(question, Heard(None), first.outcome, first.error, (first,))
    belief, both = read_belief(first), (first, slots)
    if slots.outcome not in ANSWERED:
        return Asked(question, Heard(None, belief), slots.outcome, slots.error, both)
    outcome, reason = classify_answer(slots.text, slots.finish_reason, contracts(catalog)["unconstrained"])
    if outcome != "ok":
        return Asked(question, Heard(None, belief), outcome, reason, both)
    raw, invalid = read_slots(slots, _kind(first), catalog)
    return Asked(question, Heard(raw, belief), outcome, invalid, both)
