"""When a question is refused: it asks for what the catalog does not have, and any table would be wrong.

A word that nothing explains is refused where it stands in the place of a name: behind `by`, `how many`, `top`
or `versus`, behind a metric and a preposition, or alone behind a preposition of place, where it is no word of
the asking. Elsewhere it is only named to the user. Upper and lower case are never looked at. What asks for no
numbers (reasons, texts, advice) is refused as well. The reason comes with close names of the catalog.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from nlqlib.nlq.catalog import Catalog, fold
from nlqlib.nlq.cue_lexicon import english
from nlqlib.nlq.cue_phrases import ARTICLES
from nlqlib.nlq.cue_tags import Item, codes, tagged
from nlqlib.nlq.cue_text import Token
from nlqlib.nlq.cues import Reading, asked, read
from nlqlib.nlq.refusal_asks import instead, no_numbers, other_thing
from nlqlib.nlq.refusal_time import impossible, to_come
from nlqlib.nlq.refusal_words import unknown_name, words_called

SHOWN = 12
"""Names listed where none is close."""
NO_METRIC = "no metric is named"
"""The grammar's word for a question without one."""
NAMES = "MDEXVAGTUNKQ?jq^"
"""Codes of what may follow a split: names, units of time, numbers, and words that lead to one of them."""
PART = re.compile(r"[MX][^MXb]*b[DE]")
"""A metric with its split: `revenue by region`."""
BEFORE_NOW = frozenset({"now", "already", "earlier", "yesterday", "today", "first", "previously", "before"})
"""Words of somebody who speaks of an older question before the one that is asked."""
NOTHING_ASKED = "nothing is asked for: name a metric, such as revenue by region in 2024"
CLOSE = 0.7
"""Similarity (difflib's ratio) from which a name is called close."""
COMPOUND = re.compile(r"M\?(?=b)")
"""Loan duration by branch."""
ABSTRACT = re.compile(r"(?:[ts]ion|ment|ity|ness|[ae]nc[ey]|age|ure|cost|price|time|length|lag|churn)$")
"""Endings of nouns that name what can be measured."""
PLACES = (
    ("dimension", re.compile(r"[bj]\?(?![DETUX])")),
    ("dimension", re.compile(r"b[MV]\?")),  # by sales rep
    ("value", re.compile(r"M[fx]\?(?![TUG])|[z!]\?")),
    ("dimension", re.compile(r"\^\?(?![MDEXV])")),
    ("metric", re.compile(r"q\?(?![MDEXV])")),
    ("metric", COMPOUND),
    ("metric", re.compile(r"M\+\?(?![MDEXVTU?])")),
    ("dimension", re.compile(r"W\?(?![MDEXVTUN^?])")),
)
"""Which kind of name is missing, by the codes of the cue grammar: split, place, rank, count."""
MANNER = re.compile(r"(?:ly|wise|wide|ing|ed|ful|able|ous)$")
"""Endings of words that name nothing: adverbs, participles, adjectives."""
WITHOUT = ("without", "lack")


@dataclass(frozen=True)
class Refusal:
    """Why there is no answer."""

    reason: str
    """One line, with close names."""
    spans: tuple[tuple[int, int], ...] = ()
    """Characters of the question that it is about."""


def refusal(question: str, catalog: Catalog) -> Refusal | None:
    """Why `question` cannot be answered from `catalog`; `None` where it may be. Never raises for any text."""
    reading = read(question, catalog)
    words = asked(question, catalog)
    if not words and reading.intent is None:
        return Refusal(NOTHING_ASKED)
    ask = no_numbers(words, reading.intent, catalog)
    if ask is not None:
        return Refusal(instead(ask, tagged(words, catalog), catalog), (ask.span,))
    never = impossible(question)
    if never is not None:
        return Refusal(f"there is no {never[0]!r} in the calendar: name a day that exists", (never[1],))
    items = tagged(words, catalog)
    if reading.intent is not None:  # what was corrected need not be known
        items = items[max((at + 1 for at, item in enumerate(items) if item.code == "C"), default=0) :]
    missing = (
        _other_thing(items, words)
        or _missing(items)
        or _how(items, words)
        or _strange(items, words)
        or _swallowed(items, words)
        or _ahead(items, words)
    )
    several = _several(items, words, question)
    if several and not missing:
        return several
    if missing:
        return Refusal(_no_such(missing.kind, missing.words, catalog), missing.span(words))
    if reading.intent is not None:
        return _unplaced(reading, items, words)
    if reading.problem == NO_METRIC:
        return _no_metric(items, words, catalog)
    return Refusal(reading.problem) if reading.problem else None


def unexplained(question: str, catalog: Catalog) -> tuple[str, ...]:
    """Words of `question` that neither the catalog nor the grammar knows, or that found no place."""
    reading = read(question, catalog)
    return tuple(dict.fromkeys((*reading.unexplained, *(word for word, _, _ in reading.left))))


@dataclass(frozen=True)
class Missing:
    """Words that stand for something the catalog does not have, from word `start` up to `end`."""

    kind: str
    words: str
    start: int
    end: int

    def span(self, words: Sequence[Token]) -> tuple[tuple[int, int], ...]:
        """Where they stand, in characters."""
        return ((words[self.start].start, words[self.end - 1].end),)


def _missing(items: Sequence[Item]) -> Missing | None:
    """The first unknown word that stands where a name belongs."""
    for kind, pattern in PLACES:
        for found in pattern.finditer(codes(items)):
            first, item = items[found.start()], items[found.end() - 1]
            verb = pattern is COMPOUND and not ABSTRACT.search(item.words)  # profit breaks down by
            idle = MANNER.search(item.words) or (kind == "value" and item.words in words_called("asking"))
            if _meant(first) and not verb and not idle:
                return Missing(kind, item.words, item.start, item.end)
    return None


def _other_thing(items: Sequence[Item], words: Sequence[Token]) -> Missing | None:
    found = other_thing(items, words)
    return Missing("metric", *found) if found else None


def _how(items: Sequence[Item], words: Sequence[Token]) -> Missing | None:
    """`how old are our customers`: an unknown adjective that would be measured."""
    for item in items:
        asked = item.start > 0 and words[item.start - 1].text == "how"
        if (
            item.code == "?"
            and asked
            and not item.words.endswith("ly")
            and item.words not in words_called("sizes")
        ):
            return Missing("metric", item.words, item.start, item.end)
    return None


def _meant(item: Item) -> bool:
    """Does a name belong behind it? Not behind `don't` (flood me) or `what` (is the matter)."""
    return not (item.code == "!" and not item.words.startswith(WITHOUT)) and not (
        item.code == "W" and item.words != "which"
    )


def _strange(items: Sequence[Item], words: Sequence[Token]) -> Missing | None:
    found = unknown_name(items, words)
    return Missing("value", *found) if found else None


def _swallowed(items: Sequence[Item], words: Sequence[Token]) -> Missing | None:
    """A split by words that the grammar takes for fillers (`by warehouse`): they were meant as a name."""
    for at, item in enumerate(items):
        following = items[at + 1] if at + 1 < len(items) else None
        end = following.start if following else len(words)
        between = [
            i for i in range(item.end, end) if words[i].text not in ARTICLES and words[i].text.isalpha()
        ]
        if item.code == "b":
            named = [] if following and following.code in NAMES else between
        else:
            named = _nouns(between, words) if _names_next(items, at, following) else []
        if named:
            said = " ".join(words[i].text for i in named)
            return Missing("metric" if item.code == "+" else "dimension", said, named[0], named[-1] + 1)
    return None


def _names_next(items: Sequence[Item], at: int, following: Item | None) -> bool:
    """Is the item at `at` one behind which a name must stand: `which`, `revenue and`, `by Store`?"""
    item, before = items[at], items[at - 1].code if at else ""
    if item.code == "W":
        return item.words == "which" and (following is None or following.code not in "MDEXVTU")
    joins = item.code == "+" and before == "M" and (following is None or following.code in "bfP")
    return joins or (item.code in "MV" and before == "b")


def _nouns(places: Sequence[int], words: Sequence[Token]) -> list[int]:
    """The first of `places`, where a noun stands that is no name of the catalog."""
    first = places[:1]
    return [i for i in first if any(e.value == "noun" for e in english().get((words[i].text,), ()))]


def _ahead(items: Sequence[Item], words: Sequence[Token]) -> Missing | None:
    """A time to come that is asked about."""
    found = to_come(items, words)
    return Missing("time to come", *found) if found else None


def _several(items: Sequence[Item], words: Sequence[Token], question: str) -> Refusal | None:
    """Two questions at once, each with a metric and a split of its own that differ from the other's.

    A question that corrects itself, or says what is not wanted, is one: there the last instruction wins.
    """
    corrected = re.search("[C!IO]", codes(items)) or any(word.text in BEFORE_NOW for word in words)
    found = [] if corrected else list(PART.finditer(codes(items)))
    for one, other in pairwise(found):
        between = question[words[items[one.end() - 1].start].end : words[items[other.start()].start].start]
        joined = "+" in codes(items)[one.end() : other.start()] or re.search(r"[.?!;]\s", between)
        splits = [items[match.end() - 1].value for match in (one, other)]
        if joined and splits[0] != splits[1]:
            return Refusal("these are two questions, split in different ways: ask one at a time")
    return None


def _unplaced(reading: Reading, items: Sequence[Item], words: Sequence[Token]) -> Refusal | None:
    """A condition that limits nothing that is named (`orders over $500`): without it a table is wrong."""
    said = codes(items)
    for at, item in enumerate(items):
        place = (words[item.start].start, words[item.end - 1].end)
        number = next((word for word, *span in reading.left if tuple(span) == place), None)
        if number is not None and (said[max(0, at - 1) : at] in (">", "B") or said[at + 1 : at + 2] == "<"):
            reason = f"the condition on {number!r} fits no metric that is named: name the one that it limits"
            return Refusal(reason, (place,))
    return None


def _no_metric(items: Sequence[Item], words: Sequence[Token], catalog: Catalog) -> Refusal | None:
    """A question without a metric, but with a word that could be one, or with a split of something.

    Without either it may be meant: then the rules only abstain.
    """
    strange = [item for item in items if item.code == "?"]
    if strange:
        said = " ".join(item.words for item in strange)
        missing = Missing("metric", said, strange[0].start, strange[-1].end)
        return Refusal(_no_such("metric", said, catalog), missing.span(words))
    if "b" in codes(items):
        return Refusal(f"no metric is named that is known here; there are {_listed(catalog.metrics)}")
    return None


def _no_such(kind: str, word: str, catalog: Catalog) -> str:
    if kind == "time to come":
        return f"{word!r} is not in the data, which end on {catalog.today}: ask for a time before that"
    known = {fold(spelling): name for spelling, name in _spellings(kind, catalog)}
    close = difflib.get_close_matches(fold(word), known, n=3, cutoff=CLOSE)
    if close:
        return f"there is no {kind} {word!r}; did you mean {_listed(known[c] for c in close)}?"
    names = catalog.metrics if kind == "metric" else catalog.dimensions
    place = f" of any dimension ({_listed(names)})" if kind == "value" else f"; there are {_listed(names)}"
    return f"there is no {kind} {word!r}{place}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(list(dict.fromkeys(names))[:SHOWN])


def _spellings(kind: str, catalog: Catalog) -> list[tuple[str, str]]:
    """What names of a kind are called, and the name."""
    if kind == "value":
        return [
            (spelling, value)
            for dimension in catalog.dimensions.values()
            for value in dimension.values
            for spelling in (value, *dimension.value_synonyms.get(value, ()))
        ]
    entries = catalog.metrics if kind == "metric" else catalog.dimensions
    return [(s, e.name) for e in entries.values() for s in (e.name.replace("_", " "), *e.synonyms)]
