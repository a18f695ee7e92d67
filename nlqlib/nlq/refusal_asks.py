"""Questions that no table answers, though they name a metric: reasons, texts, advice, what a name means.

Each is known by its words alone. One clause that asks for such a thing is no reason to refuse where another
one asks for numbers: `I wonder why sales fell. Show revenue by month.`
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_clauses import clauses, led
from nlqlib.nlq.cue_tags import Item, tagged
from nlqlib.nlq.cue_text import Token
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.refusal_words import refusals, words_called


@dataclass(frozen=True)
class Ask:
    """Something other than numbers that is asked for, and where, in characters."""

    kind: str
    span: tuple[int, int]


@lru_cache(maxsize=1)
def asks() -> Mapping[str, tuple[re.Pattern[str], ...]]:
    """What is asked for instead of numbers, and the patterns by which it is known."""
    pieces = refusals()["pieces"]

    def filled(pattern: str) -> str:
        return re.sub(r"<([a-z]+)>", lambda m: pieces[m[1]], pattern)

    return {kind: tuple(re.compile(filled(p)) for p in known) for kind, known in refusals()["asks"].items()}


def no_numbers(words: Sequence[Token], intent: Intent | None, catalog: Catalog) -> Ask | None:
    """What `words` ask for instead of numbers; `None` where some clause of them asks for numbers.

    `intent` is what the rules read: one that is split by what a `why` asks for answers it.
    """
    found: Ask | None = None
    rest: list[Sequence[Token]] = []
    for clause in clauses(words):
        ask = _asked(clause.tokens)
        found = found or (ask[0] if ask else None)
        rest.append(clause.tokens[: ask[1]] if ask else clause.tokens)
    if found is None or any(_asks_numbers(part, catalog) for part in rest):
        return None
    return None if found.kind == "reason" and _answers_why(intent, catalog) else found


def _asked(words: Sequence[Token]) -> tuple[Ask, int] | None:
    """The first such request in one clause, and the word that it begins with."""
    matches = [
        (begin + text[: m.start()].count(" "), len(m[0].split()), kind)
        for begin in sorted({0, led(words)})
        for text in [" ".join(word.text for word in words[begin:])]
        for kind, known in asks().items()
        for pattern in known
        if (m := pattern.search(text))
    ]
    if not matches:
        return None
    first, length, kind = min(matches, key=lambda found: found[0])
    return Ask(kind, (words[first].start, words[first + length - 1].end)), first


def _asks_numbers(words: Sequence[Token], catalog: Catalog) -> bool:
    """Do they name a metric, other than as what is spoken of (`for revenue, why …`)?"""
    items = tagged(words[led(words) :], catalog)
    spoken = len(items) > 1 and items[0].code == "f" and items[0].start == 0
    return any(item.code in "MX=" for item in items[2 if spoken else 0 :])


def _answers_why(intent: Intent | None, catalog: Catalog) -> bool:
    """Is it split by a dimension that says why (`why do people return things: refunds by reason`)?"""
    return intent is not None and any("why" in catalog.dimensions[d].synonyms for d in intent.dimensions)


def instead(ask: Ask, items: Sequence[Item], catalog: Catalog) -> str:
    """The reason for refusing `ask`, with a question to ask in its place."""
    named = next((item.value for item in items if item.code == "M"), next(iter(catalog.metrics)))
    example = f"'{named.replace('_', ' ')} by month'"
    reason: str = refusals()["reasons"][ask.kind]
    return reason.format(example, today=catalog.today)


def other_thing(items: Sequence[Item], words: Sequence[Token]) -> tuple[str, int, int] | None:
    """A metric's name that means another thing here, with its first word and the one behind its last."""
    for item in items:
        if item.code not in "MX":
            continue
        before = words[item.start - 1] if item.start and not words[item.start].apart else None
        outlay = words[item.end - 1].text in words_called("outlay")
        if before is not None and (
            before.text in words_called("others") or (outlay and before.text in words_called("spent"))
        ):
            return f"{before.text} {item.words}", item.start - 1, item.end
        end = _of_others(words, item.end)
        if end is not None:
            return " ".join(word.text for word in words[item.start : end]), item.start, end
    return None


def _of_others(words: Sequence[Token], at: int) -> int | None:
    """Where `of our employees` ends that begins at word `at`."""
    said = [word.text for word in words[at : at + 3]]
    if not said or said[0] not in ("of", "among", "amongst"):
        return None
    return next((at + i + 1 for i, word in enumerate(said) if i and word in words_called("others")), None)
