"""Which words mean what: the closed words of English (`data/english.toml`) and the open ones of a catalog.

A lexicon maps a phrase, as a tuple of folded words, to its entries. Codes are single characters, so that a
question becomes a string and a rule a regular expression over it; `english.toml` says what each stands for.
The catalog adds M (metric), D and E (dimension, singular and plural), X (a plural that is both), V (value)
and A (a question word that asks for a dimension).
"""

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations
from typing import Any

from nlqlib.nlq.catalog import Catalog, Dimension, fold
from nlqlib.nlq.cue_phrases import (
    ARTICLES,
    Phrase,
    one_slip,
    phrases_of,
    plural,
    plural_head,
    singular,
    words_of,
)
from nlqlib.paths import DATA

ENGLISH = DATA / "english.toml"
TRADE = DATA / "english_trade.toml"
QUESTION_WORDS = frozenset({"where", "who", "why", "when", "what"})
LONGEST = 9


@dataclass(frozen=True)
class Entry:
    """What a phrase can be: a `code`, and what goes with it (a name, a direction, a unit, an operator)."""

    code: str
    value: Any = None


@dataclass(frozen=True)
class Lexicon:
    """Entries by phrase, the catalog's before the language's."""

    entries: Mapping[Phrase, tuple[Entry, ...]]
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


@lru_cache(maxsize=1)
def english() -> Mapping[Phrase, tuple[Entry, ...]]:
    """The closed words, by phrase."""
    found: defaultdict[Phrase, list[Entry]] = defaultdict(list)
    for code, value, text in _blocks(tomllib.loads(ENGLISH.read_text("utf-8"))):
        for phrase in phrases_of(text):
            key = tuple(word for word in phrase.split() if word not in ARTICLES)
            if value == "noun":
                found[key] = [entry for entry in found[key] if entry.code != code]
            if key and all(entry.code != code for entry in found[key]):
                found[key].append(Entry(code, value))
    return {phrase: tuple(sorted(entries, key=lambda e: e.code == ".")) for phrase, entries in found.items()}


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


@lru_cache(maxsize=8)
def _built(key: int, holder: "_Held") -> Lexicon:
    catalog = holder.catalog
    found: defaultdict[Phrase, list[Entry]] = defaultdict(list)
    _add_metrics(found, catalog)
    _add_dimensions(found, catalog)
    _add_values(found, catalog)
    _add_trade(found)
    _add_quotients(found, catalog)
    trade = {phrase[0]: phrase for phrase in found if len(phrase) == 1 and len(phrase[0]) >= 5}
    merged = {phrase: (*entries, *english().get(phrase, ())) for phrase, entries in found.items()}
    return Lexicon({**english(), **merged}, trade)


def _add_trade(found: defaultdict[Phrase, list[Entry]]) -> None:
    """What a trade calls its metrics and dimensions besides: phrases that the catalog itself leaves open."""
    for kind, groups in tomllib.loads(TRADE.read_text("utf-8")).items():
        for keys, text in groups.items():
            name = _name_of(found, keys.split("|"), "M" if kind == "metric" else "D")
            for phrase in dict.fromkeys(map(words_of, phrases_of(text) if name else ())):
                if kind == "metric":
                    _add_free(found, phrase, Entry("M", name))
                else:
                    _add_free(found, phrase, Entry("D", name))
                    _add_free(found, plural_head(phrase), Entry("E", name))


def _name_of(found: Mapping[Phrase, list[Entry]], keys: Iterable[str], code: str) -> str | None:
    """The name that the first known of `keys` stands for."""
    entries = (entry for key in keys for entry in found.get(words_of(key), ()) if entry.code in (code, "X"))
    entry = next(entries, None)
    return None if entry is None else entry.value[code == "D"] if entry.code == "X" else entry.value


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
    for noun, names in ratios.items():
        for front in (("per",), ("for", "each"), ("each",), ("on", "each")):
            found[(*front, *noun)].append(Entry("÷", tuple(dict.fromkeys(names))))


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
    return _built(id(catalog), _Held(catalog))


def _add_metrics(found: defaultdict[Phrase, list[Entry]], catalog: Catalog) -> None:
    entities = {
        singular(words_of(text))
        for dimension in catalog.dimensions.values()
        for text in (dimension.name.replace("_", " "), *dimension.synonyms)
    }
    for metric in catalog.metrics.values():
        for text in (metric.name.replace("_", " "), *metric.synonyms):
            phrase = words_of(text)
            for form in {phrase, plural(phrase), singular(phrase)}:
                if form and (form == phrase or (form not in english() and form not in entities)):
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
