"""Walk over every number of the article's text and see which claim or exclusion holds it."""

import re
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from nlqlib.article import claims, exclusions

WORDS = {
    word: value
    for value, words in {
        0: "zero", 0.5: "half", 1: "one once", 2: "two twice double", 3: "three", 4: "four", 5: "five",
        6: "six", 7: "seven", 8: "eight", 9: "nine", 10: "ten", 11: "eleven", 12: "twelve", 20: "twenty",
        30: "thirty", 40: "forty", 50: "fifty", 60: "sixty", 90: "ninety", 100: "hundred", 1000: "thousand",
        1_000_000: "million",
    }.items()
    for word in words.split()
}  # fmt: skip
NUMBER = re.compile(rf"\d+(?:,\d{{3}})*(?:\.\d+)?|\b(?:{'|'.join(WORDS)})\b", re.IGNORECASE)
UNITS = (("%", 0.01), (" percentage points", 0.01), (" ms", 0.001), ("K", 1000.0))

Span = tuple[int, int]
Holder = tuple[str, int, int, str]
"""Who holds, from where to where, and the fragment or the pattern by which it was found."""


def numbers(text: str) -> list[tuple[Span, float]]:
    """Every number written in digits or as a cardinal word: its place, and its value in base units."""
    return [(m.span(), _value(m[0]) * _unit(text[m.end() :])) for m in NUMBER.finditer(text)]


def _value(token: str) -> float:
    return float(WORDS[token.lower()]) if token[0].isalpha() else float(token.replace(",", ""))


def _unit(after: str) -> float:
    """The unit right behind a number, or behind the number it forms a range with."""
    after = re.sub(r"^(?:-| to )\d+(?:\.\d+)?", "", after)
    return next((factor for unit, factor in UNITS if after.startswith(unit)), 1.0)


@dataclass(frozen=True)
class Walk:
    """Which numbers of the text have how many holders."""

    total: int
    claimed: int
    excluded: int
    left_over: tuple[str, ...]
    held_twice: tuple[str, ...]


def places(text: str, quote: str) -> list[int]:
    return [m.start() for m in re.finditer(re.escape(quote), text)]


def walk(text: str) -> Walk:
    """Holders of every number of `text`. A claim holds what it prints, an exclusion all in its fragments."""
    tokens = [span for span, _ in numbers(text)]
    held: dict[Span, list[str]] = defaultdict(list)
    for name, low, high, _ in holders(text):
        for span in tokens:
            if low <= span[0] and span[1] <= high:
                held[span].append(name)
    claimed = {s for s, names in held.items() if names[0].startswith("claim")}
    free = tuple(_around(text, s) for s in tokens if s not in held)
    double = tuple(f"{_around(text, s)}: {', '.join(n)}" for s, n in held.items() if len(n) > 1)
    return Walk(len(tokens), len(claimed), len(held) - len(claimed), free, double)


def holders(text: str) -> list[Holder]:
    """Every claim and exclusion with the places of `text` that it holds, claims first."""
    return [*_claimed(text), *_excluded(text)]


def _claimed(text: str) -> Iterator[Holder]:
    for c in claims():
        start = text.index(c.quote) + c.quote.index(c.printed)
        yield f"claim {c.id}", start, start + len(c.printed), c.quote
        for quote in c.also:
            start = text.index(quote)
            yield f"claim {c.id}, again", start, start + len(quote), quote


def _excluded(text: str) -> Iterator[Holder]:
    mine = [(low, high) for _, low, high, _ in _claimed(text)]
    for e in exclusions():
        spots = [(text.index(q), text.index(q) + len(q), q) for q in e.quotes]
        if e.pattern:
            spots += [(*m.span(), e.pattern) for m in re.finditer(e.pattern, text)]
        for low, high, fragment in spots:
            for span, _ in numbers(text[low:high]):
                at, end = low + span[0], low + span[1]
                if e.pattern or not any(a <= at and end <= b for a, b in mine):
                    yield f"exclusion {e.id}", at, end, fragment


def _around(text: str, span: Span) -> str:
    return repr(text[max(0, span[0] - 30) : span[1] + 25])
