"""Which words mean what: the closed words of English (`data/english.toml`) and the open ones of a catalog.

A lexicon maps a phrase, as a tuple of folded words, to its entries. Codes are single characters, so that a
question becomes a string and a rule a regular expression over it; `english.toml` says what each stands for.
The catalog adds M (metric), D and E (dimension, singular and plural), X (a plural that is both), V (value)
and A (a question word that asks for a dimension).
"""

import re
import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import permutations, product
from typing import Any

from nlqlib.nlq.catalog import Catalog, Dimension, fold
from nlqlib.nlq.cue_text import tokens
from nlqlib.paths import DATA

ENGLISH = DATA / "english.toml"
QUESTION_WORDS = frozenset({"where", "who", "why", "when", "what"})
ARTICLES = frozenset({"a", "an", "the", "our", "their", "its"})
"""Words that stand between others without meaning anything: left out of phrases and questions alike."""
LONGEST = 9
Phrase = tuple[str, ...]


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


def words_of(text: str) -> Phrase:
    """The folded words of a phrase."""
    return tuple(token.text for token in tokens(text) if token.text not in ARTICLES)


def expanded(pattern: str) -> Iterator[str]:
    """All phrases of `in (the|a) [short|long] run`: round brackets choose, square ones may be left out."""
    parts = re.split(r"(\([^)]*\)|\[[^\]]*\])", pattern)
    choices = [_choices(part) for part in parts]
    for chosen in product(*choices):
        yield " ".join("".join(chosen).split())


def _choices(part: str) -> list[str]:
    if part.startswith("("):
        return part[1:-1].split("|")
    return ["", *part[1:-1].split("|")] if part.startswith("[") else [part]


def _phrases(text: str) -> Iterator[str]:
    """The phrases of a block: a new one at every ` | ` outside brackets and at every line."""
    for line in text.splitlines():
        for pattern in re.split(r"\s\|\s(?![^(\[]*[)\]])", line):
            if pattern.strip():
                yield from expanded(pattern.strip())


@lru_cache(maxsize=1)
def english() -> Mapping[Phrase, tuple[Entry, ...]]:
    """The closed words, by phrase."""
    found: defaultdict[Phrase, list[Entry]] = defaultdict(list)
    for code, value, text in _blocks(tomllib.loads(ENGLISH.read_text("utf-8"))):
        for phrase in _phrases(text):
            key = tuple(word for word in phrase.split() if word not in ARTICLES)
            if key and all(entry.code != code for entry in found[key]):
                found[key].append(Entry(code, value))
    return {phrase: tuple(sorted(entries, key=lambda e: e.code == ".")) for phrase, entries in found.items()}


def _blocks(document: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """(code, value, phrases) of every block; the value is what stands behind the dot of its name."""
    for section, body in document.items():
        if "phrases" in body:
            yield body["code"], section if body["code"] == "C" else None, body["phrases"]
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
    trade = {phrase[0]: phrase for phrase in found if len(phrase) == 1 and len(phrase[0]) >= 5}
    merged = {phrase: (*entries, *english().get(phrase, ())) for phrase, entries in found.items()}
    return Lexicon({**english(), **merged}, trade)


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
                many = plural(_plural_head(phrase))
            _put(found, many, Entry("E", dimension.name))
            _put(found, _plural_head(phrase), Entry("E", dimension.name))
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


def plural(phrase: Phrase) -> Phrase:
    """The phrase with its last word in the plural."""
    *front, last = phrase
    if last.endswith("y") and last[-2:-1] not in "aeiou":
        return (*front, last[:-1] + "ies")
    return (*front, last + ("es" if last.endswith(("s", "x", "ch", "sh")) else "s"))


def singular(phrase: Phrase) -> Phrase:
    """The phrase with its last word in the singular."""
    *front, last = phrase
    if last.endswith("ies") and len(last) > 4:
        return (*front, last[:-3] + "y")
    if last.endswith(("sses", "xes", "ches", "shes")):
        return (*front, last[:-2])
    return (
        (*front, last[:-1])
        if last.endswith("s") and not last.endswith(("ss", "us")) and len(last) > 3
        else phrase
    )


def _plural_head(phrase: Phrase) -> Phrase:
    """`types of customer` of `type of customer`."""
    if "of" not in phrase[1:] and "for" not in phrase[1:]:
        return plural(singular(phrase))
    return (*plural(phrase[:1]), *phrase[1:])


def one_slip(text: str, word: str) -> bool:
    """Do they differ by one letter left out, put in, changed, or by two swapped?"""
    if abs(len(text) - len(word)) > 1 or text[0] != word[0]:
        return False
    i = next(
        (i for i, (a, b) in enumerate(zip(text, word, strict=False)) if a != b), min(len(text), len(word))
    )
    rest, other = text[i:], word[i:]
    swapped = rest[:2] == other[:2][::-1] and rest[2:] == other[2:]
    return rest[1:] == other or rest == other[1:] or rest[1:] == other[1:] or swapped
