"""When a question is refused: it asks for what the catalog does not have, and any table would be wrong.

A word that nothing explains is refused where it stands in the place of a name: behind `by`, `for`, `without`
or `how many`. Elsewhere it is only named to the user. The reason comes with close names of the catalog.
"""

import difflib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nlqlib.nlq.catalog import Catalog, fold
from nlqlib.nlq.cue_tags import Item, codes, tagged
from nlqlib.nlq.cue_text import Token, tokens
from nlqlib.nlq.cues import read

SHOWN = 12
"""Names listed where none is close."""
NO_METRIC = "no metric is named"
"""The grammar's word for a question without one."""
NOTHING_ASKED = "nothing is asked for: name a metric, such as revenue by region in 2024"
CLOSE = 0.7
"""Similarity (difflib's ratio) from which a name is called close."""
PLACES = (
    ("dimension", re.compile(r"[bj]\?")),
    ("value", re.compile(r"[fxz!]\?")),
    ("dimension", re.compile(r"\^\?(?![MDEXV])")),
    ("metric", re.compile(r"q\?(?![MDEXV])")),
)
"""Which kind of name is missing, by the codes of the cue grammar: split, place, rank, count."""


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
    words = tokens(question)
    if not words and reading.intent is None:
        return Refusal(NOTHING_ASKED)
    missing = _missing(words, catalog)
    if missing:
        kind, item = missing
        return Refusal(_no_such(kind, item.words, catalog), _span(item, words))
    if reading.intent is not None:
        return None
    if reading.problem == NO_METRIC:
        strange = [item for item in tagged(words, catalog) if item.code == "?"]
        return _no_metric(strange, words, catalog)
    return Refusal(reading.problem) if reading.problem else None


def unexplained(question: str, catalog: Catalog) -> tuple[str, ...]:
    """Words of `question` that neither the catalog nor the grammar knows."""
    return read(question, catalog).unexplained


def _missing(words: Sequence[Token], catalog: Catalog) -> tuple[str, Item] | None:
    """The first unknown word that stands where a name belongs, and the kind of name."""
    items = tagged(words, catalog)
    for kind, pattern in PLACES:
        found = pattern.search(codes(items))
        if found:
            return kind, items[found.start() + 1]
    return None


def _no_metric(strange: Sequence[Item], words: Sequence[Token], catalog: Catalog) -> Refusal | None:
    """A question without a metric, but with a word that could be one; without such a word it may be meant."""
    if not strange:
        return None
    spans = tuple(span for item in strange for span in _span(item, words))
    return Refusal(_no_such("metric", " ".join(item.words for item in strange), catalog), spans)


def _span(item: Item, words: Sequence[Token]) -> tuple[tuple[int, int], ...]:
    return ((words[item.start].start, words[item.end - 1].end),)


def _no_such(kind: str, word: str, catalog: Catalog) -> str:
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
