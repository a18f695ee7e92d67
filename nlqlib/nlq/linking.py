"""Which names of the catalog stand in a question: longest match first, no model, nothing guessed.

A word may link to several names ("client" is a customer and a kind of customer); all of them are kept, since
a link only narrows down what a slot may hold. What no word links to is not in the question.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nlqlib.nlq.catalog import Catalog, Dimension, fold

LONGEST = 6
"""Words of the longest name looked for."""
WORD = re.compile(r"[^\W_]+(?:['’.&-][^\W_]+)*['’]?", re.UNICODE)
NUMBER = re.compile(r"(?<![\w.])(\d+(?:,\d{3})+|\d+)(\.\d+)?\s*(%|per ?cent\b|k\b|m\b)?", re.IGNORECASE)
SCALE = {"k": 1e3, "m": 1e6}
TO_TWENTY = (
    "one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen twenty"
)
NUMBER_WORDS = {word: n for n, word in enumerate(TO_TWENTY.split(" "), start=1)} | {
    "dozen": 12,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "hundred": 100,
}


def _any_of(*words: str) -> re.Pattern[str]:
    return re.compile(rf"\b({'|'.join(words)})\b", re.IGNORECASE)


EXCLUDING = _any_of(
    "without", "except", r"exclud\w*", "other than", "outside", "not", "non", "but", r"leav\w* out", "apart",
    "aside", r"omit\w*", "minus", r"ignor\w*",
)  # fmt: skip
COMPARING = _any_of(
    "than", "above", "over", "below", "under", r"exceed\w*", "at least", "at most", "up to", "between",
    "minimum", "maximum", "beyond", r"reach\w*", "or more", "or less",
)  # fmt: skip
RECORDED = _any_of(
    "no", "without", "missing", "unknown", "null", "blank", "empty", "recorded", "unassigned", "unspecified",
    r"lack\w*",
)  # fmt: skip
SIDE_BY_SIDE = _any_of(
    "versus", "vs", "each", "separately", r"compar\w*", "against", "side by side", "respectively", "both"
)
YEARS = range(1900, 2101)


@dataclass(frozen=True)
class Links:
    """Names of the catalog that a question mentions, each in the order of its first mention."""

    metrics: tuple[str, ...] = ()
    dimensions: tuple[str, ...] = ()
    values: Mapping[str, tuple[str, ...]] | None = None
    """By dimension: the values that are named."""
    numbers: tuple[float, ...] = ()
    """Every number, percentages as fractions too (8 % gives 8 and 0.08)."""
    plural: bool = False
    """Is a dimension named in the plural?"""
    excluding: bool = False
    """Is there a word that leaves values out?"""
    comparing: bool = False
    """Is there a word or sign of a threshold?"""
    recorded: bool = False
    """Is there a word for what is not recorded, or is?"""
    side_by_side: bool = False
    """Is there a word that shows values beside each other, and so splits by their dimension?"""

    @property
    def named(self) -> Mapping[str, tuple[str, ...]]:
        """`values`, never `None`."""
        return self.values or {}

    @property
    def dimensions_touched(self) -> tuple[str, ...]:
        """Dimensions named themselves or by one of their values."""
        return tuple(dict.fromkeys([*self.dimensions, *self.named]))

    @property
    def counts(self) -> tuple[float, ...]:
        """Numbers that are no year."""
        return tuple(n for n in self.numbers if n not in YEARS)


def link(question: str, catalog: Catalog) -> Links:
    """The names of `catalog` that `question` mentions, and its numbers."""
    metrics, dimensions, values = [], [], []
    plural = False
    for words, (kind, name, value) in _matches(question, _spellings(catalog)):
        if kind == "metric":
            metrics.append(name)
        elif kind == "dimension":
            dimensions.append(name)
            plural = plural or (words.endswith("s") and not words.endswith("ss"))
        else:
            values.append((name, value))
    fields = dict.fromkeys(name for name, _ in values)
    found = {f: tuple(dict.fromkeys(v for name, v in values if name == f)) for f in fields}
    question = re.sub(r"[<>≥≤]", " than ", question)
    patterns = (EXCLUDING, COMPARING, RECORDED, SIDE_BY_SIDE)
    cues = [pattern.search(question) is not None for pattern in patterns]
    return Links(_once(metrics), _once(dimensions), found, numbers(question), plural, *cues)


Meaning = tuple[str, str, str]
"""What a spelling means: metric, dimension or value; the name; the value."""


def _matches(question: str, spellings: Mapping[str, list[Meaning]]) -> Iterator[tuple[str, Meaning]]:
    """The folded words of each name in the question, and what they mean."""
    words = WORD.findall(question)
    at = 0
    while at < len(words):
        size = next(
            (n for n in range(min(LONGEST, len(words) - at), 0, -1) if _folded(words, at, n) in spellings), 0
        )
        said = _folded(words, at, size)
        yield from ((said, meaning) for meaning in spellings.get(said, ()))
        at += size or 1


def _folded(words: list[str], at: int, size: int) -> str:
    return fold(" ".join(words[at : at + size]))


def _spellings(catalog: Catalog) -> dict[str, list[Meaning]]:
    found: dict[str, list[Meaning]] = {}
    for spelling, meaning in _named(catalog):
        for form in _forms(fold(spelling)):
            known = found.setdefault(form, [])
            if meaning not in known:
                known.append(meaning)
    return found


def _named(catalog: Catalog) -> Iterator[tuple[str, Meaning]]:
    for metric in catalog.metrics.values():
        for word in (metric.name, *metric.synonyms):
            yield word, ("metric", metric.name, "")
    for dimension in catalog.dimensions.values():
        for word in (dimension.name, *dimension.synonyms):
            yield word, ("dimension", dimension.name, "")
        yield from _values(dimension)


def _values(dimension: Dimension) -> Iterator[tuple[str, Meaning]]:
    for value in dimension.values:
        for word in (value, *dimension.value_synonyms.get(value, ())):
            yield word, ("value", dimension.name, value)


def _forms(folded: str) -> Iterable[str]:
    """A name in singular and plural, as far as an ending tells."""
    stems = {folded}
    if folded.endswith("s"):
        stems.add(folded[:-1])
    if folded.endswith("ies"):
        stems.add(f"{folded[:-3]}y")
    stems.add(f"{folded[:-1]}ies" if folded.endswith("y") else f"{folded}s")
    return {s for s in stems if len(s) > 1}


def numbers(question: str) -> tuple[float, ...]:
    """Every number of `question` in order, in digits or words, without doubles."""
    found = []
    for match in NUMBER.finditer(question):
        plain = float(match[1].replace(",", "") + (match[2] or ""))
        unit = (match[3] or "").lower()
        found.append((match.start(), plain * SCALE.get(unit, 1)))
        if unit.startswith(("%", "per")):
            found.append((match.start(), round(plain / 100, 10)))
    for match in WORD.finditer(question):
        if match[0].lower() in NUMBER_WORDS:
            found.append((match.start(), float(NUMBER_WORDS[match[0].lower()])))
    return tuple(dict.fromkeys(value for _, value in sorted(found, key=lambda pair: pair[0])))


def _once(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
