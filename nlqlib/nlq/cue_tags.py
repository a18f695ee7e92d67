"""A question as a row of tagged items: values, periods, numbers, trade words and cues, each word used once.

The longest phrase wins; where one phrase can be two things, its neighbours decide. Fillers leave no item; a
word that nothing explains is an item `?`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_lexicon import LONGEST, Entry, Lexicon, lexicon
from nlqlib.nlq.cue_numbers import Number, fraction_at, number_at
from nlqlib.nlq.cue_periods import periods_among
from nlqlib.nlq.cue_phrases import ARTICLES
from nlqlib.nlq.cue_text import Token

NUMBERS = "NKQ"
MOST = re.compile("max(imum)?|min(imum)?")
PRESENTED = ("", "breakdown", "split", "look")
_PAPER = re.compile(
    r"(my|our|your|the|this|their|his|her|next|upcoming|tomorrows|todays) (reports?|update|summary|close|deck"
    r"|overview|newsletter|email|digest|planning|budget|plan|accounts|dashboard|slides?|presentation|paper)"
)


@dataclass(frozen=True)
class Item:
    """A tagged stretch of words, from word `start` up to, but not including, word `end`."""

    code: str
    value: Any
    start: int
    end: int
    words: str = ""
    following: str = ""
    """The word behind it."""


def codes(items: Sequence[Item]) -> str:
    """One character for each item."""
    return "".join(item.code for item in items)


def tagged(tokens: Sequence[Token], catalog: Catalog) -> tuple[Item, ...]:
    """The items of `tokens`, in order, without the fillers."""
    return _Tagger(tokens, catalog).items()


class _Tagger:
    """One pass over the words of a question."""

    def __init__(self, tokens: Sequence[Token], catalog: Catalog) -> None:
        self.tokens = tokens
        self.catalog = catalog
        self.lexicon: Lexicon = lexicon(catalog)
        self.periods, self.values = {}, {}
        self.values = self._values()
        self.periods = self._periods()
        self.found: list[Item] = []

    def items(self) -> tuple[Item, ...]:
        at = 0
        while at < len(self.tokens):
            item = self._item(at)
            if item.code == "g" or (item.code in "bf" and self._presented(at, item.words)):
                del self.found[-2 if self.found[-1].code == "?" else -1 :]
            if item.code not in ".g":
                following = [token.text for token in self.tokens[item.end : item.end + 1]]
                self.found.append(replace(item, following="".join(following)))
            at = item.end
        return tuple(self.found)

    def _presented(self, at: int, words: str = "") -> bool:
        """Is what stands at word `at` what a superlative is said of: `best possible overview`?"""
        marked = re.search(r"[\^m1]\??$", codes(self.found)) is not None
        return marked and at - self.found[-1].end < 3 and words.split(" ")[0] in PRESENTED

    def _item(self, at: int) -> Item:
        if at in self.periods:
            return self.periods[at]
        phrase = self._phrase(at)
        number = self._number(at)
        if number and (phrase is None or phrase.end <= number.end):
            words = " ".join(token.text for token in self.tokens[at : number.end])
            return Item(number.code, number.value, at, number.end, words)
        if phrase:
            return phrase
        word = self.tokens[at].text
        if word in ARTICLES or not word.isalnum():
            return Item(".", None, at, at + 1)
        return self._misspelt(at) or Item("?", None, at, at + 1, word)

    def _number(self, at: int) -> Number | None:
        behind = bool(self.found) and self.found[-1].code in ">B" and self.found[-1].end == at
        number = number_at(self.tokens, at)
        part = fraction_at(self.tokens, at) if behind else None
        return part if part and (number is None or part.end > number.end) else number

    def _phrase(self, at: int) -> Item | None:
        """The longest phrase that begins at word `at` and can be something here."""
        for words, end in self._spellings(at):
            entries = self.lexicon.at(words)
            entry = self._chosen(entries, at, end) if entries else None
            if entry:
                return Item(entry.code, entry.value, at, end, " ".join(words))
        return None

    def _spellings(self, at: int) -> list[tuple[tuple[str, ...], int]]:
        """Phrases that begin at word `at`, the longest first, with and without possessives."""
        if self.tokens[at].text in ARTICLES:
            return []
        words: list[str] = []
        bases: list[str] = []
        found = []
        for end in range(at, min(at + LONGEST + 4, len(self.tokens))):
            token = self.tokens[end]
            if end > at and (end in self.periods or end in self.values):
                break
            if token.text in ARTICLES:
                continue
            words, bases = [*words, token.text], [*bases, token.base or token.text]
            found.append((tuple(words), end + 1))
            if bases != words:
                found.append(((*words[:-1], bases[-1]), end + 1))
                found.append((tuple(bases), end + 1))
        return sorted(found, key=lambda f: -len(f[0]))

    def _chosen(self, entries: Sequence[Entry], at: int, end: int) -> Entry | None:
        idle = Entry(".") if end == at + 1 and any(entry.code == "^" for entry in entries) else None
        return next((entry for entry in entries if self._fits(entry, entries, at, end)), idle)

    def _fits(self, entry: Entry, entries: Sequence[Entry], at: int, end: int) -> bool:
        """Can a phrase that could be `entries` be this `entry` here?"""
        before = self.found[-1].code if self.found else ""
        also = "".join(other.code for other in entries)
        if entry.code == "^" and not self._fits_formula(entry, before, at, end):
            return False
        if entry.code in "><Bi^f":
            return self._fits_number(entry, also, at, end)
        if "." in also and entry.code in "DEMV":
            return self._fits_common(entry, entries, before, end)
        if entry.code in "-÷":
            return self._fits_formula(entry, before, at, end)
        word = self.tokens[at]
        if entry.code == "w" and word.text == "who":
            return bool(self.found) and not word.apart  # who has the most orders
        if entry.code == "x" and word.text == "save" and end == at + 1:
            return any(e.code == "V" for e in self._entries_at(end))
        if entry.code == "b":
            return self._fits_split(also, before, at, end)
        if entry.code in "VM":
            return not any(token.apart for token in self.tokens[at + 1 : end])
        if entry.code == "=" and end - at > 1:
            return not any(e.code in "JMDEX" for e in self._entries_at(end))
        if entry.code == "g":
            return self._presented(at)
        if entry.code == "h":
            return before == "^" or re.search(r"\^[DETU]$", codes(self.found)) is not None
        if entry.code == "G":
            return not self._document(at, end)
        return not (entry.code == "p" and before != "V" and "x" in also)

    def _fits_number(self, entry: Entry, also: str, at: int, end: int) -> bool:
        """A word of comparison needs a number; `top` is one only before money or a share."""
        following = self._number_next(end, strict=self.tokens[at].text == "top")
        if entry.code in "^f":
            return not (">" in also and following)
        if entry.code == "<":
            return any(item.code in NUMBERS for item in self.found[-2:]) and not following
        if entry.code == "B":
            return following and (self.tokens[at].text != "from" or self._range_next(end))
        return following

    def _fits_common(self, entry: Entry, entries: Sequence[Entry], before: str, end: int) -> bool:
        """A common word (`good`, `people`, `other`) is a trade word only in its place."""
        if entry.code == "V":
            return self._among_values(entry, end, before)
        if entry.code == "M":
            return (before != "" and before in "q^>NKG") or self._beside_metric(end, entries)
        named = len(self.found) > 1 and before in "MJ" and self.found[-2].code == "^"
        subject = not before and any(e.code in "wA^" for e in self._entries_at(end))
        return named or subject or (before != "" and before in "bjW^NRaV")

    def _beside_metric(self, end: int, entries: Sequence[Entry]) -> bool:
        """Does a split follow, another metric, or a superlative: `costs by site`, `shipped most`?"""
        listed = codes(self.found[-2:]) in ("M+", "X+")
        following = {entry.code for entry in self._entries_at(end)}
        also = self._entries_at(end + 1) if "+" in following else ()
        most = "^" in following and Entry(".", "noun") not in entries
        return listed or most or "b" in following or any(entry.code in "MX" for entry in also)

    def _fits_formula(self, entry: Entry, before: str, at: int, end: int) -> bool:
        """`less` between two metrics, `per order` behind what is above."""
        if entry.code == "-":
            return before in ("M", "J") and any(e.code in "MXJ" for e in self._entries_at(end))
        if entry.code == "÷":
            near = [self.catalog.metrics.get(str(i.value)) for i in self.found[-4:] if i.code in "MJ"]
            above = [metric.measures[0] for metric in near if metric and metric.kind == "measure"]
            over = any(self.catalog.metrics[name].measures[0] in above for name in entry.value)
            return over and not self._longer_noun(at, end)
        if MOST.fullmatch(self.tokens[at].text) and set(codes(self.found[-2:])) & set(NUMBERS):
            return False
        return end - at > 1 or any(e.value != "noun" for e in self._entries_at(end) or (entry,))

    def _longer_noun(self, at: int, end: int) -> bool:
        """Does a dimension begin in words `at` to `end` and go on behind: `per visit type`?"""
        begun = (found for start in range(at + 1, end) for found in self._spellings(start) if found[1] > end)
        return any(entry.code in "DEX" for words, _ in begun for entry in self.lexicon.at(words))

    def _fits_split(self, also: str, before: str, at: int, end: int) -> bool:
        """`segment by`, `broken by` and `between` split only where no noun, value or number is meant."""
        first = "".join(e.code for e in self.lexicon.at((self.tokens[at].text,)))
        if end - at > 1 and before in ("^", "N", "W", "R", "j"):
            return "D" not in first
        if end - at > 1 and before in ("f", "x", "z", "/", "+"):
            return "V" not in first
        return not ("B" in also and self._number_next(end))

    def _document(self, at: int, end: int) -> bool:
        """`my weekly report` is a paper, no weekly series."""
        beside = (*self.tokens[max(at - 1, 0) : at], *self.tokens[end : end + 1])
        return _PAPER.fullmatch(" ".join(token.text for token in beside)) is not None

    def _number_next(self, at: int, strict: bool = False) -> bool:
        """Does a number begin at word `at`, articles aside? `strict`: money or a share."""
        near = ("about", "roughly", "the")
        while at < len(self.tokens) and self.tokens[at].text in near and at not in self.periods:
            at += 1
        if at >= len(self.tokens) or at in self.periods:
            return False
        number = number_at(self.tokens, at) or (None if strict else fraction_at(self.tokens, at))
        return number is not None and (not strict or number.code != "N")

    def _range_next(self, at: int) -> bool:
        """Do two numbers follow, as in `from 3 to 6`?"""
        number = number_at(self.tokens, at)
        if number is None or number.end >= len(self.tokens):
            return False
        return self.tokens[number.end].text in ("to", "and") and self._number_next(number.end + 1)

    def _among_values(self, entry: Entry, end: int, before: str) -> bool:
        """Is a common word (`other`) one of several values, or beside its dimension?"""
        last = self.found[-1] if self.found else None
        dimension = entry.value[0]
        if last and (
            (last.code == "V" and last.value[0] == dimension)
            or (last.code in "DE" and last.value == dimension)
        ):
            return True
        if before in ("+", "/") and len(self.found) > 1 and self.found[-2].code == "V":
            return self.found[-2].value[0] == dimension
        following = self._entries_at(end)
        if any(e.code in "DE" and e.value == dimension for e in following):
            return True
        open_end = end == len(self.tokens) or end in self.periods
        closed = open_end or any(e.code in "b+z/dfspCx!V" for e in following)
        return (
            closed and before != "" and before in "fxz+/!wWC" and not any(e.code in "MDEX" for e in following)
        )

    def _entries_at(self, at: int) -> Sequence[Entry]:
        while at < len(self.tokens) and self.tokens[at].text in ARTICLES:
            at += 1
        if at >= len(self.tokens):
            return ()
        return next((e for words, _ in self._spellings(at) if (e := self.lexicon.at(words))), ())

    def _values(self) -> dict[int, int]:
        """Where long values stand (two words or more): first word → end. They come before periods."""
        taken: dict[int, int] = {}
        at = 0
        while at < len(self.tokens):
            end = next(
                (
                    end
                    for words, end in self._spellings(at)
                    if len(words) > 1
                    and any(e.code == "V" for e in self.lexicon.at(words))
                    and not any(token.apart for token in self.tokens[at + 1 : end])
                ),
                at + 1,
            )
            if end > at + 1:
                taken[at] = end
            at = end
        return taken

    def _periods(self) -> dict[int, Item]:
        """Periods by the word they begin with; words of long values are out of bounds."""
        texts = ["".join(c for c in (t.base or t.text) if c != " ") for t in self.tokens]
        for start, end in self.values.items():
            texts[start:end] = ["_"] * (end - start)
        return {start: Item("P", told, start, end) for told, start, end in periods_among(texts, self.catalog)}

    def _misspelt(self, at: int) -> Item | None:
        """A word of the catalog with one slip of the finger."""
        found = self.lexicon.nearest(self.tokens[at].text)
        return Item(found[1].code, found[1].value, at, at + 1, found[0]) if found else None
