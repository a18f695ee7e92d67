"""Which words mean what: the closed words of English (`data/english.toml`) and the open ones of a catalog.

A lexicon maps a phrase, as a tuple of folded words, to its entries. Codes are single characters, so that a
question becomes a string and a rule a regular expression over it; `english.toml` says what each stands for.
The words beside a catalog (`catalog_words.py`) are read with it.
The catalog adds M (metric), D and E (dimension, singular and plural), X (a plural that is both), V (value)
and A (a question word that asks for a dimension).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

from nlqlib.nlq.catalog import Catalog, Dimension, Metric, fold
from nlqlib.nlq.catalog_words import Words
from nlqlib.nlq.cue_closed import Entries, Entry, closed_words, english
from nlqlib.nlq.cue_phrases import (
    Phrase,
    one_slip,
    phrases_of,
    plural,
    plural_head,
    singular,
    words_of,
)

__all__ = ["LONGEST", "Entry", "Lexicon", "english", "lexicon"]

QUESTION_WORDS = frozenset({"where", "who", "why", "when", "what"})
LONGEST = 9


@dataclass(frozen=True)
class Lexicon:
    """Entries by phrase, the catalog's before the language's."""

    entries: Entries
    trade: Mapping[str, Phrase]
    """Single words of the catalog, against which a misspelt word is held."""

    def at(self, words: Phrase) -> tuple[Entry, ...]:
        """What `words` can be; () when unknown."""
        return self.entries.get(words, ())

    def nearest(self, text: str) -> tuple[str, Entry] | None:
        """The one word of the catalog that `text` is but for a slip of the finger, and what it stands for."""
        if len(text) < 5:
            return None
        close = [phrase for word, phrase in self.trade.items() if one_slip(text, word)]
        entries = {entry for phrase in close for entry in self.at(phrase) if entry.code in "MDEXV"}
        return (close[0][0], entries.pop()) if len(entries) == 1 else None


@lru_cache(maxsize=8)
def _built(holder: "_Held") -> Lexicon:
    catalog = holder.catalog
    found: defaultdict[Phrase, list[Entry]] = defaultdict(list)
    closed = closed_words(catalog)
    _add_metrics(found, catalog, closed)
    _add_dimensions(found, catalog)
    _add_values(found, catalog)
    _add_spoken(found, catalog.words)
    _add_quotients(found, catalog)
    trade = {phrase[0]: phrase for phrase in found if len(phrase) == 1 and len(phrase[0]) >= 5}
    merged = {phrase: _fit((*entries, *closed.get(phrase, ())), phrase) for phrase, entries in found.items()}
    return Lexicon({**_without_counts(closed, found), **merged}, trade)


def _fit(entries: tuple[Entry, ...], phrase: Phrase) -> tuple[Entry, ...]:
    """All that a phrase can be. `calls` are no part of the asking where they are what is counted."""
    named = Entry("M", "_".join(phrase)) in entries
    return tuple(e for e in entries if not (named and e == Entry(".", "noun")))


def _without_counts(closed: Entries, found: Mapping[Phrase, list[Entry]]) -> Entries:
    """The closed words without `weekly meetings` and their kind where meetings are what is counted."""

    def counts(phrase: Phrase) -> bool:
        timed = any(entry.code == "G" for entry in closed.get(phrase[:1], ()))
        return timed and len(phrase) > 1 and any(e.code in "MX" for e in found.get(phrase[-1:], ()))

    idle = (Entry("."),)
    return {phrase: entries for phrase, entries in closed.items() if entries != idle or not counts(phrase)}


def _add_spoken(found: defaultdict[Phrase, list[Entry]], words: Words) -> None:
    """What people call metrics and dimensions besides: phrases that the catalog itself leaves open."""
    for name, text in words.metric.items():
        for phrase in dict.fromkeys(map(words_of, phrases_of(text))):
            _add_free(found, phrase, Entry("M", name))
    for name, text in words.dimension.items():
        for phrase in dict.fromkeys(map(words_of, phrases_of(text))):
            _add_free(found, phrase, Entry("D", name))
            _add_free(found, plural_head(phrase), Entry("E", name))


def _add_free(found: defaultdict[Phrase, list[Entry]], phrase: Phrase, entry: Entry) -> None:
    """Add an entry for a phrase that has none yet."""
    if phrase and not found.get(phrase):
        found[phrase].append(entry)


def _add_quotients(found: defaultdict[Phrase, list[Entry]], catalog: Catalog) -> None:
    """`per order`, where some ratio is over orders: behind what stands above, the ratio is meant."""
    ratios: defaultdict[Phrase, list[str]] = defaultdict(list)
    for metric in catalog.metrics.values():
        for other in catalog.metrics.values() if metric.kind == "ratio" else ():
            if other.kind == "measure" and other.measures[0] == metric.measures[1]:
                for text in (other.name, *other.synonyms):
                    ratios[singular(words_of(text.replace("_", " ")))].append(metric.name)
        for whole in _wholes(metric, catalog):
            for word in ("as", "in"):
                found[(word, "percentage", "of", *words_of(whole.replace("_", " ")))].append(Entry("%"))
    for noun, names in ratios.items():
        for front in (("per",), ("for", "each"), ("each",), ("on", "each")):
            found[(*front, *noun)].append(Entry("÷", tuple(dict.fromkeys(names))))


def _wholes(metric: Metric, catalog: Catalog) -> Iterator[str]:
    """What the ratio `metric` is a share of, where the part is a metric too: margin in percent of revenue."""
    measured = {
        other.measures[0]: other.name for other in catalog.metrics.values() if other.kind == "measure"
    }
    if metric.kind == "ratio" and metric.unit == "ratio" and set(metric.measures) <= set(measured):
        yield measured[metric.measures[1]]


class _Held:
    """A catalog as a cache key: by identity, for its tables cannot be hashed."""

    def __init__(self, catalog: Catalog) -> None:
        self.catalog = catalog

    def __hash__(self) -> int:
        return id(self.catalog)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Held) and other.catalog is self.catalog


def lexicon(catalog: Catalog) -> Lexicon:
    """The lexicon of `catalog`, made once for each catalog object."""
    return _built(_Held(catalog))


def _add_metrics(found: defaultdict[Phrase, list[Entry]], catalog: Catalog, closed: Entries) -> None:
    entities = {
        singular(words_of(text))
        for dimension in catalog.dimensions.values()
        for text in (dimension.name.replace("_", " "), *dimension.synonyms)
    }
    for metric in catalog.metrics.values():
        for text in (metric.name.replace("_", " "), *metric.synonyms):
            phrase = words_of(text)
            for form in {phrase, plural(phrase), singular(phrase)}:
                if form and (form == phrase or (form not in closed and form not in entities)):
                    _put(found, form, Entry("M", metric.name))


def _add_dimensions(found: defaultdict[Phrase, list[Entry]], catalog: Catalog) -> None:
    for dimension in catalog.dimensions.values():
        for text in (dimension.name.replace("_", " "), *dimension.synonyms):
            phrase = words_of(text)
            if not phrase:
                continue
            if phrase == ("what",):
                continue
            if phrase[0] in QUESTION_WORDS:
                _put(found, phrase, Entry("A", dimension.name))
                continue
            many = plural(phrase) if singular(phrase) == phrase else phrase
            _put(found, singular(phrase), Entry("D", dimension.name))
            if "of" in phrase[1:]:  # what kind of customers
                _put(found, plural(phrase), Entry("D", dimension.name))
                many = plural(plural_head(phrase))
            _put(found, many, Entry("E", dimension.name))
            _put(found, plural_head(phrase), Entry("E", dimension.name))
        for word in _unnamed(dimension):
            _put(found, (word,), Entry("Z", dimension.name))


def _unnamed(dimension: Dimension) -> tuple[str, ...]:
    """`uncategorized`: without a value of a dimension that may lack one."""
    stem = dimension.name[:-1] if dimension.name.endswith("y") else dimension.name
    return (f"un{stem}ized", f"un{stem}ised", f"un{stem}ed") if dimension.nullable and "_" not in stem else ()


def _add_values(found: defaultdict[Phrase, list[Entry]], catalog: Catalog) -> None:
    for dimension in catalog.dimensions.values():
        for phrase, value in _spoken_values(dimension):
            if phrase:
                _put(found, phrase, Entry("V", (dimension.name, value)))


def _spoken_values(dimension: Dimension) -> Iterator[tuple[Phrase, Any]]:
    for value in dimension.values:
        phrase = words_of(value)
        yield phrase, value
        yield ("".join(phrase),), value
        if phrase[-1].endswith("s") and "'" in value:
            yield (*phrase[:-1], phrase[-1][:-1]), value
        if not phrase[-1].endswith("s") or phrase[-1].endswith("ss"):
            yield plural(phrase), value
        elif len(phrase) == 1 and len(phrase[0]) > 3:
            yield (phrase[0][:-1],), value
    folded = {fold(value): value for value in dimension.values}
    for one, other in permutations(folded, 2):  # South West for Southwest
        if one + other in folded:
            yield (one, other), folded[one + other]
    for value, spellings in dimension.value_synonyms.items():
        for text in spellings:
            phrase = words_of(text)
            yield phrase, value
            if not phrase[-1].endswith("s"):
                yield plural(phrase), value
    yield from _names(dimension)


def _names(dimension: Dimension) -> Iterator[tuple[Phrase, Any]]:
    """Names looked up in the warehouse: the id of one that is unique, the name itself of one that is not."""
    ids: defaultdict[str, list[int]] = defaultdict(list)
    for key, name in dimension.names.items():
        ids[name].append(key)
    for name, keys in ids.items():
        yield words_of(name), keys[0] if len(keys) == 1 else name


def _put(found: defaultdict[Phrase, list[Entry]], phrase: Phrase, entry: Entry) -> None:
    """Add an entry; a plural that is a metric and a dimension is both (X)."""
    if entry in found[phrase]:
        return
    metric = next((e for e in found[phrase] if e.code == "M"), None)
    if entry.code == "E" and metric:
        found[phrase].remove(metric)
        found[phrase].append(Entry("X", (metric.value, entry.value)))
    elif not any(e.code in "MX" for e in found[phrase]) or entry.code == "V":
        found[phrase].append(entry)
