"""The refined guardrail: what a question says by its words alone, and an intent corrected by it.

`read` runs an ordered grammar over the question, in which every word is used once: values of the catalog,
idioms, row limits, thresholds, sorts, ranks, trends, comparisons. `correct` holds a model's intent against
the reading. Where the words that carry an intent are not explained, it abstains.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_assemble import assemble
from nlqlib.nlq.cue_board import Board, Fact
from nlqlib.nlq.cue_clauses import asking
from nlqlib.nlq.cue_merge import Merged, merged
from nlqlib.nlq.cue_tags import Item, tagged
from nlqlib.nlq.cue_text import Token, tokens
from nlqlib.nlq.decision import GuardDecision
from nlqlib.nlq.equality import strict_equal
from nlqlib.nlq.intent import ContractViolation, Filter, Intent, check
from nlqlib.nlq.prompt import MAX_QUESTION_CHARS
from nlqlib.nlq.schema import MAX_EVIDENCE

UNEXPLAINED = 0.34
"""With more than this share of its words unexplained, and more than three, a question is not read."""
SLOTS = ("query_type", "metrics", "dimensions", "filters", "period", "grain", "sort", "limit")


@dataclass(frozen=True)
class Reading:
    """What the rules alone make of a question."""

    intent: Intent | None
    """`None`: the words do not make an intent; `problem` says why."""
    spans: tuple[tuple[str, int, int], ...]
    """(slot, start, end): which characters of the question each slot stands on."""
    unexplained: tuple[str, ...]
    """Words that no rule knows."""
    holes: tuple[str, ...]
    """Unexplained words that stand where a value or a dimension belongs."""
    problem: str = ""
    left: tuple[tuple[str, int, int], ...] = ()
    """(word, start, end): numbers, dates, values and metrics that found no place in the intent."""

    @property
    def sure(self) -> bool:
        """Is there an intent, with nothing unexplained or left over where it would matter?"""
        return self.intent is not None and not self.holes and not self.left


def read(question: str, catalog: Catalog) -> Reading:
    """The intent that the words of `question` make, by rules alone. Never raises for any text."""
    if len(question) > MAX_QUESTION_CHARS:
        return Reading(None, (), (), (), "the question is too long to be read")
    words = tokens(question)
    ways = (asking(words, catalog), words, tokens(question, mixed=True))
    readings = [_read(question, way, catalog) for way in dict.fromkeys(ways)]
    return next((found for found in readings if found.intent is not None), readings[0])


def asked(question: str, catalog: Catalog) -> tuple[Token, ...]:
    """The words of `question` that ask for something, without those that only tell."""
    return asking(tokens(question), catalog)


def _read(question: str, words: Sequence[Token], catalog: Catalog) -> Reading:
    items = tagged(words, catalog)
    known = [item for item in items if item.code != "?"]
    unexplained = tuple(item.words for item in items if item.code == "?")
    said = merged(known, catalog, polar=_polar(words))
    facts = said.facts
    made = assemble(facts, catalog)
    intent, problem = _checked(made.intent, catalog)
    if intent is not None and len(unexplained) > 3 and len(unexplained) > UNEXPLAINED * len(words):
        intent, problem = None, "most words are unknown"
    spans = _spans(facts, words)
    if intent is not None:
        intent = intent.model_copy(update={"evidence": _evidence(question, facts, words)})
    left = _left(said, intent, question, words)
    return Reading(intent, spans, unexplained, _holes(items), problem or made.problem, left)


def _left(
    said: Merged, intent: Intent | None, question: str, words: Sequence[Token]
) -> tuple[tuple[str, int, int], ...]:
    """What found no place: items that no fact rests on, and caps that another cap overrules."""
    limits = [f for f in said.facts if f.slot == "limit" and f.rule != "ranking default"]
    over = [f.spans for f in limits if intent is not None and f.value != intent.limit]
    places = [(item.start, item.end) for item in said.left] + [span for spans in over for span in spans]
    found = [(words[start].start, words[end - 1].end) for start, end in places if end > start]
    return tuple((question[start:end], start, end) for start, end in found)


def _polar(words: Sequence[Token]) -> bool:
    return bool(words) and words[0].text in ("did", "does", "do", "is", "are", "was", "were", "has", "have")


def _checked(intent: Intent | None, catalog: Catalog) -> tuple[Intent | None, str]:
    if intent is None:
        return None, ""
    try:
        check(intent, catalog)
    except ContractViolation as error:
        return None, str(error)
    return intent, ""


def _holes(items: Sequence[Item]) -> tuple[str, ...]:
    """Unknown words where a value or a dimension belongs: behind `by`, `for`, `without`, `versus`."""
    found = []
    for before, item in pairwise(items):
        if item.code == "?" and before.code in "bfxz!^":
            found.append(item.words)
    return tuple(found)


def _spans(facts: Sequence[Fact], words: Sequence[Token]) -> tuple[tuple[str, int, int], ...]:
    return tuple(
        (fact.slot, min(w.start for w in words[start:end]), max(w.end for w in words[start:end]))
        for fact in facts
        for start, end in fact.spans
        if end > start
    )


def _evidence(question: str, facts: Sequence[Fact], words: Sequence[Token]) -> str:
    """The words that decide the kind: of time, of rank, else of the split."""
    for slot in ("grain", "trend", "rank", "dimension", "metric"):
        spans = [span for fact in facts if fact.slot == slot for span in fact.spans]
        told = [word for start, end in spans for word in words[start:end]]
        if told:
            text = question[min(word.start for word in told) : max(word.end for word in told)]
            return text if len(text) <= MAX_EVIDENCE else text[:MAX_EVIDENCE].rsplit(" ", 1)[0][:MAX_EVIDENCE]
    return ""


def correct(
    question: str, raw: Intent | None, catalog: Catalog
) -> tuple[Intent | None, tuple[GuardDecision, ...]]:
    """The intent of `question`: the reading where there is one, else `raw`; with every decision taken.

    `raw` is the model's intent, or `None` where none could be read. Too few words explained make no reading:
    then it abstains. A reading that is not `sure` is kept, for it is right far more often than `raw`, with
    the filters of `raw` on what no rule knows, and a decision `unsure` on the words in doubt. Idempotent.
    """
    reading = read(question, catalog)
    if reading.intent is None:
        return raw, (GuardDecision("read", (), None, reading.problem, "abstained"),)
    final = _with_unknown_values(reading, raw)
    doubts = () if reading.sure else (_unsure(reading),)
    if raw is not None and _same(raw, final, catalog):
        return raw, (GuardDecision("read", _all(reading), None, None, "kept"), *doubts)
    return final, (*_decisions(raw, final, reading), *doubts)


def _unsure(reading: Reading) -> GuardDecision:
    """The words that a reading leaves out though they may matter."""
    places = tuple((start, end) for _, start, end in reading.left)
    words = [*reading.holes, *(word for word, _, _ in reading.left)]
    return GuardDecision("unsure", places, None, words, "kept")


def _same(raw: Intent, final: Intent, catalog: Catalog) -> bool:
    try:
        return strict_equal(raw, final, catalog)
    except ContractViolation:
        return raw == final


def _with_unknown_values(reading: Reading, raw: Intent | None) -> Intent:
    """The reading, with filters of `raw` on values that the question names and no rule knows: never a
    confident answer to another question."""
    assert reading.intent is not None
    if raw is None or not reading.holes:
        return reading.intent
    kept = [f for f in raw.filters if _names_unknown(f, reading.holes) and f not in reading.intent.filters]
    return reading.intent.model_copy(update={"filters": (*reading.intent.filters, *kept)})


def _names_unknown(condition: Filter, holes: Sequence[str]) -> bool:
    said = {token.text for value in condition.values for token in tokens(str(value))}
    return bool(said & set(holes))


def _all(reading: Reading) -> tuple[tuple[int, int], ...]:
    return tuple((start, end) for _, start, end in reading.spans)


FEEDS = {
    "query_type": ("rank", "grain", "trend", "dimension"),
    "metrics": ("metric", "rank metric", "reserve", "threshold metric"),
    "dimensions": ("dimension", "entity", "rank among"),
    "filters": ("filter", "threshold"),
    "sort": ("sort", "rank"),
}
"""Which facts a slot of the intent is made of, where they are not called alike."""


def _decisions(raw: Intent | None, final: Intent, reading: Reading) -> tuple[GuardDecision, ...]:
    before: dict[str, Any] = raw.wire() if raw is not None else {}
    after = final.wire()
    return tuple(
        GuardDecision(slot, _resting(slot, reading), before.get(slot), after[slot], "changed")
        for slot in SLOTS
        if before.get(slot) != after[slot]
    ) or (GuardDecision("read", (), None, None, "kept"),)


def _resting(slot: str, reading: Reading) -> tuple[tuple[int, int], ...]:
    kinds = FEEDS.get(slot, (slot,))
    return tuple((start, end) for kind, start, end in reading.spans if kind in kinds)


__all__ = ["Board", "Reading", "correct", "read"]
