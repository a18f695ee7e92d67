"""The clarifier: one multiple-choice question where the rules and the model read a question differently.

It asks only where neither is clearly right: the kinds differ, and the model is not much surer of its own
than of that of the rules. Each option says in plain words what would be shown. Who answers is not decided
here: a person at a terminal, or, in a simulation, the golds of the question.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from nlqlib.nlq.belief import WORDS, Belief
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.equality import strict_equal
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.sql import build

MARGIN_NATS = 1.0
"""Ask where the model gives the kind of the rules at least e⁻¹ = 37 % of the probability of its own.

Set by hand: page 13 shows that the development questions choose none."""
NEITHER = "something else"


@dataclass(frozen=True)
class Option:
    """One reading of the question."""

    text: str
    """What would be shown, in words."""
    intent: Intent


@dataclass(frozen=True)
class Clarification:
    """One multiple-choice question; `NEITHER` is always possible besides."""

    options: tuple[Option, ...]
    """The rules' reading first."""
    reason: str
    """Why it is asked."""

    @property
    def text(self) -> str:
        """The question as a person sees it."""
        lines = [f"{i}. {option.text}" for i, option in enumerate(self.options, start=1)]
        return "\n".join(["What do you mean?", *lines, f"{len(lines) + 1}. {NEITHER}"])


def clarification(
    rules: Intent | None,
    model: Intent | None,
    belief: Belief | None,
    catalog: Catalog,
    margin: float = MARGIN_NATS,
) -> Clarification | None:
    """The question to ask about the readings of the `rules` and of the `model`; `None`: nothing to ask.

    `belief` is how sure the model is of its kind; without log-probabilities every difference in kind counts
    as a small one. A reading that cannot be answered is no option, and a single option is no question.
    """
    if rules is None or model is None or rules.query_type == model.query_type:
        return None
    apart = belief.margin(rules.query_type) if belief else None
    if apart is not None and apart > margin:
        return None
    options = _options([rules, model], catalog)
    if len(options) < 2:
        return None
    how = "" if apart is None else f", {apart:.1f} nats apart"
    reason = f"the rules say {WORDS[rules.query_type]}, the model {WORDS[model.query_type]}{how}"
    return Clarification(options, reason)


def _options(readings: Sequence[Intent], catalog: Catalog) -> tuple[Option, ...]:
    """A reading each, but one for those that show the same."""
    found: dict[str, Option] = {}
    for reading in readings:
        try:
            words = build(reading, catalog).interpretation
        except QuestionError:
            continue
        found.setdefault(words, Option(words, reading))
    return tuple(found.values())


def chosen_by_gold(asked: Clarification, golds: Sequence[Intent], catalog: Catalog) -> int | None:
    """The option that somebody who means one of `golds` would choose; `None`: neither of them."""
    for i, option in enumerate(asked.options):
        if any(strict_equal(option.intent, gold, catalog) for gold in golds):
            return i
    return None
