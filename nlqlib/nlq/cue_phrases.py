"""Phrases: patterns with choices written out, plurals and singulars, and words with a slip in them."""

import re
from collections.abc import Iterator
from itertools import product

from nlqlib.nlq.cue_text import tokens

ARTICLES = frozenset({"a", "an", "the", "our", "their", "its"})
"""Words that stand between others without meaning anything: left out of phrases and questions alike."""
Phrase = tuple[str, ...]


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


def phrases_of(text: str) -> Iterator[str]:
    """The phrases of a block: a new one at every ` | ` outside brackets and at every line."""
    for line in text.splitlines():
        for pattern in re.split(r"\s\|\s(?![^(\[]*[)\]])", line):
            if pattern.strip():
                yield from expanded(pattern.strip())


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


def plural_head(phrase: Phrase) -> Phrase:
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
