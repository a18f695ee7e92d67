"""Answers under load beside the answer to the same question alone: same text, same intent, same rows."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

from nlqlib.analysis.evaluation import Share, share
from nlqlib.artifacts import Record
from nlqlib.experiments.judging import executor
from nlqlib.experiments.quality_under_load import SET
from nlqlib.experiments.questions import Question, load_questions
from nlqlib.nlq.catalog import Catalog, QuestionError, load_catalog
from nlqlib.nlq.equality import compare
from nlqlib.nlq.intent import Intent, parse_intent
from nlqlib.nlq.sql import Result
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import ANSWERED, Json

Run = Callable[[Intent], Result | None]


@dataclass(frozen=True)
class Compared:
    """One answer beside the first one to the same question alone."""

    question_id: str
    turn: int
    same_text: bool
    same_intent: bool
    """Equal in every field that counts; two answers that cannot be read are the same when their texts are."""
    same_rows: bool | None
    """`None`: the answer alone gives no rows to compare with."""
    right: bool
    """Strictly equal to a gold."""
    e2e_s: float | None
    parted: "Parting | None" = None


@dataclass(frozen=True)
class Parting:
    """Where an answer leaves the one that was given alone."""

    before: str
    """The words just before it."""
    alone: str
    """What was said alone, from there on."""
    now: str
    token: str | None
    """The token alone that did not come back; `None` without log-probabilities."""
    lead: float | None
    """Its lead over its runner-up in nats; `None`: not told, or nothing else was possible."""


@dataclass(frozen=True)
class Level:
    """All answers of one level."""

    concurrency: int
    answers: tuple[Compared, ...]
    failed: int
    peak: int

    def same(self, what: str) -> Share:
        """Share of questions all of whose answers are the same by `what`: a field of `Compared`."""
        told: dict[str, list[bool]] = {}
        for one in self.answers:
            value = getattr(one, what)
            if value is not None:
                told.setdefault(one.question_id, []).append(value)
        return share(what, sum(map(all, told.values())), len(told))

    @property
    def right(self) -> Share:
        """Strictly right, the first answer to each question."""
        first = {one.question_id: one.right for one in reversed(self.answers)}
        return share("strictly right", sum(first.values()), len(first))

    @property
    def different(self) -> list[Compared]:
        return [one for one in self.answers if not one.same_text]


SHORT = 40
"""Characters shown around a place where two answers part."""


def levels(records: Sequence[Record]) -> list[Level]:
    """Each record's answers beside those of the first, which has one request in flight.

    That one's own answers are compared from the second turn on: the control, empty where there was no second.
    """
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(load_catalog())
        known = {q.id: q for q in load_questions(SET, catalog)}
        run = executor(warehouse, catalog)
        alone = {row["question_id"]: row for row in records[0].samples() if row["turn"] == 0}
        return [_level(record, alone, known, catalog, run) for record in records]


def _level(
    record: Record, alone: Mapping[str, Json], known: Mapping[str, Question], catalog: Catalog, run: Run
) -> Level:
    concurrency = int(record.params["concurrency"])
    rows = [row for row in record.samples() if row["outcome"] in ANSWERED]
    told = [
        _compared(row, alone[row["question_id"]], known[row["question_id"]], catalog, run)
        for row in rows
        if concurrency > 1 or row["turn"]
    ]
    failed = len(record.samples()) - len(rows)
    return Level(concurrency, tuple(told), failed, int(record.results["peak_in_flight"]))


def _compared(row: Json, alone: Json, question: Question, catalog: Catalog, run: Run) -> Compared:
    now, then = _intent(row["text"], catalog), _intent(alone["text"], catalog)
    same_text = row["text"] == alone["text"]
    equal = compare(now, (then,), catalog, run) if then is not None else None
    return Compared(
        question_id=row["question_id"],
        turn=row["turn"],
        same_text=same_text,
        same_intent=equal.strict if equal else same_text,
        same_rows=equal.execution if equal else None,
        right=compare(now, question.golds, catalog).strict,
        e2e_s=seconds(row),
        parted=None if same_text else parting(alone, row),
    )


def _intent(text: str | None, catalog: Catalog) -> Intent | None:
    try:
        return parse_intent(text or "", catalog)
    except QuestionError:
        return None


def seconds(row: Json) -> float | None:
    """Seconds of one request; `None` where the endpoint has no clock."""
    return None if None in (row["start_s"], row["end_s"]) else row["end_s"] - row["start_s"]


def parting(alone: Json, row: Json) -> Parting:
    """Where the text of `row` leaves that of `alone`, and how sure the model was there when alone."""
    then, now = alone["text"] or "", row["text"] or ""
    at = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(then, now, strict=False)))
    token = _token_at(alone.get("tokens") or [], at)
    return Parting(
        before=then[max(0, at - SHORT) : at],
        alone=then[at : at + SHORT],
        now=now[at : at + SHORT],
        token=token["token"] if token else None,
        lead=token["lead"] if token else None,
    )


def _token_at(tokens: Sequence[Json], at: int) -> Json | None:
    """The token that holds character `at`; the last one, which ends the answer, where the text is shorter."""
    end = 0
    for token in tokens:
        end += len(token["token"] or "")
        if end > at:
            return token
    return tokens[-1] if tokens else None


def closest(record: Record) -> dict[str, float | None]:
    """For each question answered alone, the smallest lead of any of its tokens, in nats."""
    found: dict[str, float | None] = {}
    for row in (r for r in record.samples() if r["turn"] == 0):
        leads = [t["lead"] for t in row.get("tokens") or [] if t["lead"] is not None]
        found[row["question_id"]] = min(leads, default=None)
    return found
