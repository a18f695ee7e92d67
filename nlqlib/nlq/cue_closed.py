"""The closed words: those of English (`data/english.toml`), and what the words of a catalog add to them."""

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from typing import Any

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.catalog_words import Words
from nlqlib.nlq.cue_phrases import ARTICLES, Phrase, phrases_of
from nlqlib.nlq.cue_roles import roles
from nlqlib.paths import DATA

ENGLISH = DATA / "english.toml"


@dataclass(frozen=True)
class Entry:
    """What a phrase can be: a `code`, and what goes with it (a name, a direction, a unit, an operator)."""

    code: str
    value: Any = None


Entries = Mapping[Phrase, tuple[Entry, ...]]


@lru_cache(maxsize=1)
def english() -> Entries:
    """The closed words, by phrase. The value of an adjective is the part its metric plays (`cue_roles`)."""
    found: defaultdict[Phrase, list[Entry]] = defaultdict(list)
    for code, value, text in _blocks(tomllib.loads(ENGLISH.read_text("utf-8"))):
        for key in _keys(text):
            if value == "noun":
                found[key] = [entry for entry in found[key] if entry.code != code]
            if all(entry.code != code for entry in found[key]):
                found[key].append(Entry(code, value))
    return {phrase: _fillers_last(entries) for phrase, entries in found.items()}


def _blocks(document: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """(code, value, phrases) of every block; the value is what stands behind the dot of its name."""
    for section, body in document.items():
        if "phrases" in body:
            yield body["code"], section if body["code"] == "C" or section == "noun" else None, body["phrases"]
        for name, inner in body.items():
            if name == "words":
                yield from ((body["code"], word, phrases) for word, phrases in _turned(body))
            elif isinstance(inner, Mapping):
                yield inner["code"], name, inner["phrases"]


def _turned(body: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """Adjectives are listed under what they mean, superlatives by themselves."""
    items = body["words"].items()
    return items if body["code"] == "J" else ((meaning, word) for word, meaning in items)


def _keys(text: str) -> Iterator[Phrase]:
    phrases = (tuple(word for word in p.split() if word not in ARTICLES) for p in phrases_of(text))
    return (phrase for phrase in phrases if phrase)


def _fillers_last(entries: Iterable[Entry]) -> tuple[Entry, ...]:
    return tuple(sorted(entries, key=lambda entry: entry.code == "."))


def closed_words(catalog: Catalog) -> Entries:
    """The closed words as `catalog` has them: adjectives with their metric, and words of its own."""
    found = {phrase: known for phrase, entries in english().items() if (known := _played(entries, catalog))}
    for entry, text in _own(catalog.words):
        for phrase in _keys(text):
            others = [other for other in found.get(phrase, ()) if other.code != entry.code]
            found[phrase] = _fillers_last([*others, entry])
    return found


def _played(entries: tuple[Entry, ...], catalog: Catalog) -> tuple[Entry, ...]:
    """`entries` with the metric of an adjective for its part; without it where no metric plays that part."""
    if all(entry.code != "J" for entry in entries):
        return entries
    parts = roles(catalog)
    meant = (Entry("J", parts[entry.value]) if entry.code == "J" else entry for entry in entries)
    return tuple(entry for entry in meant if entry.code != "J" or entry.value is not None)


def _own(words: Words) -> Iterator[tuple[Entry, str]]:
    """The catalog's own closed words: what each can be, and its phrases."""
    adjectives = ((Entry("J", name), text) for name, text in words.adjective.items())
    superlatives = ((Entry("=", meaning), text) for text, meaning in words.superlative.items())
    return chain(adjectives, superlatives, [(Entry("."), words.idiom)])
