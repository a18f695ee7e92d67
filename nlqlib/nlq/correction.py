"""From what the model said to what is answered: one correction for each condition, by name.

A correction is handed the question and everything that was heard, and gives the final intent with every
decision on the way, or a reason for giving none. It never sees a gold, except through `choose`, which stands
for the user whom the clarifier asks.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from nlqlib.nlq import cues, guardrail
from nlqlib.nlq.belief import Belief
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.clarifier import Clarification, clarification
from nlqlib.nlq.decision import GuardDecision
from nlqlib.nlq.equality import canonical
from nlqlib.nlq.intent import Intent, Kind
from nlqlib.nlq.refusal import refusal

Choose = Callable[[Clarification], int | None]
"""Answers a clarification: the place of an option, or `None` for neither."""

MAJORITY_KIND: Kind = "breakdown"
"""The commonest kind of the development set, and of the article's holdout."""
LEXICAL = frozenset({"kind", "sort", "limit", "false ranking"})
ALL = LEXICAL | {"metric", "dimension", "filter", "period", "grain", "unit", "invalid"}
SCOPE: Mapping[str, frozenset[str]] = {
    "none": frozenset(),
    "guardrail": LEXICAL,
    "cues": ALL,
    "planner": ALL,
    "clarifier": ALL,
    "rules_only": ALL,
    "majority": frozenset(),
}
"""The error categories that each correction may put right at all, by its name."""
CORRECTIONS = tuple(SCOPE)


class UnknownCorrection(QuestionError):
    """A correction that does not exist."""


@dataclass(frozen=True)
class Heard:
    """Everything that the model said about one question."""

    raw: Intent | None
    """Its intent; `None` where none can be read, or where no model was asked."""
    belief: Belief | None = None
    """Which kind it takes the question for, where that was asked apart."""


@dataclass(frozen=True)
class Corrected:
    """What is answered, and why."""

    final: Intent | None
    """`None`: there is nothing to answer with; `refused` says why where it was decided."""
    decisions: tuple[GuardDecision, ...] = ()
    refused: str | None = None
    asked: Clarification | None = None
    chosen: int | None = None
    """The option chosen; `None`: neither, or nothing was asked."""
    forced: Intent | None = None
    """What would have been answered without asking."""

    @property
    def abstained(self) -> bool:
        """Did a rule see something it does not understand, and leave the answer as it was?"""
        return any(d.action == "abstained" for d in self.decisions)


def correct(
    name: str, question: str, heard: Heard, catalog: Catalog, choose: Choose | None = None
) -> Corrected:
    """What the correction called `name` makes of `heard`.

    Without `choose` the clarifier has nobody to ask, and answers as it is forced to. Raises
    `UnknownCorrection`.
    """
    if name not in SCOPE:
        raise UnknownCorrection(f"unknown correction {name!r}: there are {', '.join(CORRECTIONS)}")
    if name == "none":
        return Corrected(heard.raw, forced=heard.raw)
    if name == "majority":
        return _forced(majority(catalog), ())
    if name == "guardrail":
        return _forced(*guardrail.correct(question, heard.raw, catalog))
    ruled = _ruled(question, None if name == "rules_only" else heard.raw, catalog)
    return _clarified(question, heard, ruled, catalog, choose) if name == "clarifier" else ruled


def majority(catalog: Catalog) -> Intent:
    """The answer of somebody who never reads the question: the commonest kind, the catalog's first metric."""
    return Intent(
        evidence="",
        query_type=MAJORITY_KIND,
        metrics=(next(iter(catalog.metrics)),),
        dimensions=(),
        filters=(),
        period="all",
        grain=None,
        sort=None,
        limit=None,
    )


def _forced(final: Intent | None, decisions: tuple[GuardDecision, ...]) -> Corrected:
    return Corrected(final, decisions, forced=final)


def _ruled(question: str, raw: Intent | None, catalog: Catalog) -> Corrected:
    """The cues' answer, or a refusal where the question asks for what the catalog does not have."""
    no = refusal(question, catalog)
    if no is not None:
        told = GuardDecision("refused", no.spans, raw.wire() if raw else None, None, "changed")
        return Corrected(None, (told,), refused=no.reason)
    return _forced(*cues.correct(question, raw, catalog))


def _clarified(
    question: str, heard: Heard, ruled: Corrected, catalog: Catalog, choose: Choose | None
) -> Corrected:
    """`ruled`, or what the user chose where rules and model are close to each other."""
    if ruled.refused or choose is None:
        return ruled
    rules, _ = cues.correct(question, None, catalog)
    asked = clarification(rules, heard.raw, heard.belief, catalog)
    if asked is None:
        return ruled
    chosen = choose(asked)
    final = ruled.final if chosen is None else asked.options[chosen].intent
    return replace(ruled, final=final, asked=asked, chosen=chosen)


def changed(raw: Intent | None, corrected: Corrected, catalog: Catalog) -> bool:
    """Is something else answered than the model said? Two spellings of one meaning are the same."""
    if raw is None or corrected.final is None:
        return (raw is None) != (corrected.final is None)
    return canonical(raw, catalog) != canonical(corrected.final, catalog)
