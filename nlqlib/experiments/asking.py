"""Questions put to an endpoint under one condition, and what their answers are as intents.

Sending is in `heard`; here an answer is read: its form, the intent in it, and the model's belief where it was
asked for one. The same reading serves what has just come in and what was retained earlier.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nlqlib.experiments.conditions import Condition
from nlqlib.experiments.heard import Heard as Completions
from nlqlib.experiments.heard import hear, heard_from, hopeless, named_kind
from nlqlib.experiments.journal import Journal
from nlqlib.experiments.questions import Question
from nlqlib.load.batch import Completes
from nlqlib.nlq.belief import read_belief
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.correction import Heard
from nlqlib.nlq.form import classify_answer
from nlqlib.nlq.intent import Intent, parse_intent
from nlqlib.nlq.pipeline import contracts
from nlqlib.nlq.planner import read_slots
from nlqlib.records import ANSWERED, Completion, Outcome
from nlqlib.serving.client import ClientKind
from nlqlib.serving.target import Target


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
    heard, waited = await heard_from(target, questions, how, catalog, concurrency, kind, journal)
    return read_all(questions, heard, how, catalog), waited


async def ask_with(
    client: Completes, questions: Sequence[Question], how: Condition, catalog: Catalog, concurrency: int
) -> tuple[list[Asked], float]:
    """`ask_all` through a `client` that stays open; all `questions` are sent."""
    heard, waited = await hear(client, questions, how, catalog, concurrency)
    return read_all(questions, heard, how, catalog), waited


def read_all(
    questions: Sequence[Question], heard: Completions, how: Condition, catalog: Catalog
) -> list[Asked]:
    """Each question with what was `heard` of it, as an intent or a reason for none."""
    return [read(q, heard.get(q.id, ()), how, catalog) for q in questions]


def read(question: Question, completions: tuple[Completion, ...], how: Condition, catalog: Catalog) -> Asked:
    """What `completions` say about `question`; without any, why it was not sent."""
    if not completions:
        return Asked(question, Heard(None), "ok", hopeless(question.question))
    if how.planned:
        return _planned(question, completions, catalog)
    return _direct(question, completions[0], catalog)


def _direct(question: Question, done: Completion, catalog: Catalog) -> Asked:
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


def _planned(question: Question, both: tuple[Completion, ...], catalog: Catalog) -> Asked:
    """The intent that the kind of the first and the slots of the second make; a failure is the question's."""
    first, *rest = both
    if not rest:
        return Asked(question, Heard(None), first.outcome, first.error, both)
    [slots], belief = rest, read_belief(first)
    if slots.outcome not in ANSWERED:
        return Asked(question, Heard(None, belief), slots.outcome, slots.error, both)
    outcome, reason = classify_answer(slots.text, slots.finish_reason, contracts(catalog)["unconstrained"])
    if outcome != "ok":
        return Asked(question, Heard(None, belief), outcome, reason, both)
    raw, invalid = read_slots(slots, named_kind(first), catalog)
    return Asked(question, Heard(raw, belief), outcome, invalid, both)
