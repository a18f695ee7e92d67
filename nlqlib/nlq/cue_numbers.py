"""Numbers in words and figures, with their unit: `10k`, `$1.5 million`, `eight percent`, `a dozen`."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from nlqlib.nlq.cue_text import Token

UNITS = [
    "zero",
    "one",
    "two",
    "three",
    "four",
    "five",
    "six",
    "seven",
    "eight",
    "nine",
    "ten",
    "eleven",
    "twelve",
    "thirteen",
    "fourteen",
    "fifteen",
    "sixteen",
    "seventeen",
    "eighteen",
    "nineteen",
]
TENS = {
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "seventy": 70,
    "eighty": 80,
    "ninety": 90,
}
SCALES = {
    "hundred": 100,
    "thousand": 1_000,
    "k": 1_000,
    "grand": 1_000,
    "million": 10**6,
    "m": 10**6,
    "mn": 10**6,
}
SCALES |= {
    "mio": 10**6,
    "mil": 10**6,
    "millions": 10**6,
    "bn": 10**9,
    "billion": 10**9,
    "b": 10**9,
    "thousands": 1_000,
}
GROUPS = {"dozen": 12, "couple": 2, "pair": 2, "handful": 5, "trio": 3}
FRACTIONS = {"half": 0.5, "third": 1 / 3, "fifth": 0.2, "tenth": 0.1, "quarter": 0.25, "twentieth": 0.05}
CURRENCY = frozenset({"$", "€", "£", "usd", "eur"})
MONEY_WORDS = frozenset({"dollars", "dollar", "usd", "bucks", "euros", "eur", "euro"})
PERCENT = ({"%"}, {"percent"}, {"pct"}, {"percentage"}, {"per", "cent"})


@dataclass(frozen=True)
class Number:
    """A number in a question: value, code (N plain, K money, Q a share of one) and the words it takes up."""

    value: float
    code: str
    start: int
    end: int


def number_at(tokens: Sequence[Token], at: int) -> Number | None:
    """The number that begins at word `at`."""
    money = tokens[at].text in CURRENCY
    start = at + money
    plain = _plain(tokens, start)
    if plain is None:
        return None
    value, end = plain
    for words in PERCENT:
        n = len(words)
        if {token.text for token in tokens[end : end + n]} == words and end + n <= len(tokens):
            points = end + n < len(tokens) and tokens[end + n].text in ("points", "point")
            return Number(round(value / 100, 12), "Q", at, end + n + points)
    if end < len(tokens) and tokens[end].text in MONEY_WORDS:
        return Number(value, "K", at, end + 1)
    return Number(value, "K" if money else "N", at, end)


def _plain(tokens: Sequence[Token], at: int) -> tuple[float, int] | None:
    """Value and end of a number without its unit."""
    word = _word(tokens, at)
    group = _group(tokens, at)
    if group:
        return group
    if re.fullmatch(r"\d+(\.\d+)?|\.\d+", word):
        return _scaled(float(word), tokens, at + 1)
    if word in UNITS or word in TENS:
        return _spelled(tokens, at)
    if word in ("a", "one", "hundred", "thousand", "million"):
        first = at if word in SCALES else at + 1
        return (
            _scaled(1, tokens, first) if _word(tokens, first) in ("hundred", "thousand", "million") else None
        )
    return None


def _group(tokens: Sequence[Token], at: int) -> tuple[float, int] | None:
    """A dozen, half a dozen, a couple of, half a million."""
    words = [_word(tokens, at + i) for i in range(4)]
    if words[0] == "half":
        rest = at + 1 + (words[1] == "a")
        scale = {**GROUPS, **SCALES}.get(_word(tokens, rest))
        return (0.5 * scale, rest + 1) if scale and len(_word(tokens, rest)) > 2 else None
    first = at + (words[0] == "a")
    # top product and region pair
    paired = _word(tokens, first) == "pair" and _word(tokens, first + 1) != "of"
    if _word(tokens, first) in GROUPS and not paired:
        return GROUPS[_word(tokens, first)], first + 1 + (_word(tokens, first + 1) == "of")
    return None


def _spelled(tokens: Sequence[Token], at: int) -> tuple[float, int]:
    word = _word(tokens, at)
    value, end = float(TENS.get(word) or UNITS.index(word)), at + 1
    if word in TENS and _word(tokens, end) in UNITS[1:10]:
        value, end = value + UNITS.index(_word(tokens, end)), end + 1
    if _word(tokens, end) == "point" and _word(tokens, end + 1) in UNITS[:10]:
        value, end = value + UNITS.index(_word(tokens, end + 1)) / 10, end + 2
    return _scaled(value, tokens, end)


def _scaled(value: float, tokens: Sequence[Token], at: int) -> tuple[float, int]:
    """`value` times the scales that follow, and what is added after a hundred or a thousand."""
    if _word(tokens, at) == "and" and _word(tokens, at + 1) == "a" and _word(tokens, at + 2) in FRACTIONS:
        value, at = value + FRACTIONS[_word(tokens, at + 2)], at + 3
    while _word(tokens, at) in SCALES:
        value, at = value * SCALES[_word(tokens, at)], at + 1
    if value >= 100 and _word(tokens, at - 1) in ("hundred", "thousand"):
        after = at + (_word(tokens, at) == "and")
        if _word(tokens, after) in UNITS[1:] or _word(tokens, after) in TENS:
            more, end = _spelled(tokens, after)
            return value + more, end
    return value, at


def fraction_at(tokens: Sequence[Token], at: int) -> Number | None:
    """`half`, `a tenth`, `one in ten`, where a condition stands before it."""
    words = [_word(tokens, at + i) for i in range(3)]
    first = at + (words[0] in ("a", "one"))
    first_of = _plain(tokens, at)
    if first_of and _word(tokens, first_of[1]) in ("in", "out"):  # one in ten, two out of every hundred
        other = first_of[1] + 1
        while _word(tokens, other) in ("of", "every", "each"):
            other += 1
        found = _plain(tokens, other)
        if found and first_of[0] < found[0] < 1_900:
            return Number(first_of[0] / found[0], "Q", at, found[1])
    part = FRACTIONS.get(_word(tokens, first))
    return Number(part, "Q", at, first + 1) if part else None


def _word(tokens: Sequence[Token], at: int) -> str:
    return tokens[at].text if 0 <= at < len(tokens) else ""
