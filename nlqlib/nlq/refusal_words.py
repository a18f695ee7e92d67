"""Names that the catalog does not have, by their place in a question and in whatever case.

`In Germany` names such a value; `in general`, `for the record`, `in thousands` name none. Places of the world
and words of the asking are listed (`data/english_refusals.toml`); the form tells the rest.
"""

import re
import tomllib
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from nlqlib.nlq.cue_tags import Item, codes
from nlqlib.nlq.cue_text import Token
from nlqlib.paths import DATA

REFUSALS = DATA / "english_refusals.toml"
ELSEWHERE = re.compile(r"f\?|x\?(?![MX])")
"""Where a value stands, wherever in a question. Words of the asking stand there as well (`in thousands`)."""
OF_METRIC = re.compile(r"[MX]f\?(?![TU])")
"""Right behind a metric an article may stand before the name: `revenue of the hoverboard`."""
WORLD = re.compile(r"(?:[bfxzj!+/V]|^)\?|\?(?=\??[MX])")
"""Where a place of the world is meant: behind such a word or a value (`South Korea`), or before a metric."""
_FORMS = re.compile(
    r"(?:ly|wise|wide|ing|ed|ful|able|ible|ous|ive|less|ness|ity|[st]ion|ment|[ae]nce|[ae]ncy|ship|ism)$"
)
"""Endings of words that name no place, person or thing: adverbs, participles, adjectives, abstractions."""


@lru_cache(maxsize=1)
def refusals() -> Mapping[str, Any]:
    """The words and patterns of refusals, as they stand in their file."""
    return tomllib.loads(REFUSALS.read_text("utf-8"))


@lru_cache(maxsize=16)
def words_called(name: str) -> frozenset[str]:
    """The list of words called `name`: single words, or phrases between bars."""
    text: str = refusals()["words"][name]
    parts = re.split(r"[|\n]", text) if "|" in text else text.split()
    return frozenset(part.strip() for part in parts if part.strip())


def is_place(word: str, following: str = "") -> bool:
    """Does `word`, alone or with the one `following`, name a place of the world?"""
    return word in words_called("places") or f"{word} {following}" in words_called("pairs")


def is_ordinary(word: str) -> bool:
    """Is `word`, folded, one of the asking (`context`, `thousands`, `brevity`), and no name?"""
    return word in words_called("asking") or _FORMS.search(word) is not None


def unknown_name(items: Sequence[Item], words: Sequence[Token]) -> tuple[str, int, int] | None:
    """A name in the place of a value that nothing explains: it, its first word, the one behind its last."""
    said = codes(items)
    for match in ELSEWHERE.finditer(said):
        before, item = items[match.start()], items[match.end() - 1]
        between = ("the",) if OF_METRIC.match(said, max(0, match.start() - 1)) else ()
        if item.words not in words_called("asides") and _named_behind(before, item, words, between):
            return item.words, item.start, item.end
    for match in WORLD.finditer(said):
        item = next(item for item in items[match.start() : match.end()] if item.code == "?")
        following = words[item.end].text if item.end < len(words) else ""
        if is_place(item.words, following):
            return item.words, item.start, item.end
    return None


def _named_behind(before: Item, item: Item, words: Sequence[Token], between: Sequence[str]) -> bool:
    """Is `item` a name behind the preposition `before`, with no words but some of `between` between them?

    `For our offsite`, `for visual inspection` and `in thousands` name nothing; `of the hoverboard` does.
    """
    naming = before.code == "x" or before.words.split(" ")[-1] in words_called("naming")
    gap = words[before.end : item.start]
    alone = all(word.text in between for word in gap) and not any(w.apart for w in (*gap, words[item.start]))
    following = words[item.end] if item.end < len(words) else None
    led = following is not None and not following.apart and is_ordinary(following.text)
    return naming and alone and not led and not is_ordinary(item.words)
