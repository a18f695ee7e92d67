"""The board on which rules work: items that are still open, and facts that rules have made of the others.

A rule matches a regular expression over the codes of the open items and consumes what it has explained, so
that each word counts once. Every fact says which slot it fills and on which words it rests.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_tags import Item, codes


@dataclass(frozen=True)
class Fact:
    """One thing the question says: a slot, its value, the rule that read it, and the words it stands on."""

    slot: str
    value: Any
    rule: str
    spans: tuple[tuple[int, int], ...] = ()
    """Stretches of words, end exclusive."""


@dataclass(frozen=True)
class Values:
    """Values of one dimension named side by side, and the codes of what joins them."""

    dimension: str
    names: tuple[Any, ...]
    joins: str = ""


@dataclass
class Board:
    """The state of one reading."""

    items: list[Item]
    catalog: Catalog
    facts: list[Fact] = field(default_factory=list)
    polar: bool = False
    """Does it begin like a question for yes or no (`did Web or Store …`)?"""

    @property
    def codes(self) -> str:
        """One character for each open item."""
        return codes(self.items)

    def has(self, pattern: str) -> bool:
        """Do the open items hold `pattern`?"""
        return re.search(pattern, self.codes) is not None

    def find(self, pattern: str, group: str) -> Item | None:
        """The first item of `group` in the first match of `pattern`, left where it is."""
        match = re.search(pattern, self.codes)
        return self.items[match.start(group)] if match and match.start(group) >= 0 else None

    def all(self, slot: str) -> list[Fact]:
        """The facts of `slot`, in the order in which they were read."""
        return [fact for fact in self.facts if fact.slot == slot]

    def values(self, slot: str) -> list[Any]:
        """The distinct values of `slot`, in that order."""
        return list(dict.fromkeys(fact.value for fact in self.all(slot)))

    def note(self, slot: str, value: Any, rule: str, items: Iterable[Item]) -> None:
        """Add a fact that rests on `items`."""
        self.facts.append(Fact(slot, value, rule, tuple((item.start, item.end) for item in items)))

    def replace(self, pattern: str, make: "Maker") -> None:
        """Where `pattern` matches, put what `make` returns in its place; `None` leaves it as it is."""
        out: list[Item] = []
        at = 0
        for match in re.finditer(pattern, self.codes):
            if match.start() < at or match.end() == match.start():
                continue
            made = make(Match(match, self.items))
            if made is not None:
                out += [*self.items[at : match.start()], *made]
                at = match.end()
        self.items = [*out, *self.items[at:]]

    def take(self, pattern: str, make: "Maker", rounds: int = 8) -> None:
        """`replace` until nothing changes, for matches that become possible by others."""
        for _ in range(rounds):
            before = self.items
            self.replace(pattern, make)
            if self.items == before:
                return


class Match:
    """A match of a pattern over codes, in terms of items."""

    def __init__(self, match: re.Match[str], items: Sequence[Item]) -> None:
        self.match = match
        self.before = items[: match.start()]
        self.after = items[match.end() :]
        self.items = list(items[match.start() : match.end()])
        self._all = items

    def __getitem__(self, group: str) -> list[Item]:
        start, end = self.match.span(group) if group in self.match.re.groupindex else (-1, -1)
        return list(self._all[start:end]) if start >= 0 else []

    def one(self, group: str) -> Item | None:
        """The single item of `group`, or `None`."""
        found = self[group]
        return found[0] if found else None

    def codes_before(self) -> str:
        """Codes of all items before the match."""
        return codes(self.before)

    def codes_after(self) -> str:
        """Codes of all items after the match."""
        return codes(self.after)


Maker = Callable[[Match], list[Item] | None]


def joined(items: Sequence[Item], code: str, value: Any) -> Item:
    """One item in the place of several."""
    words = " ".join(item.words for item in items if item.words)
    return Item(code, value, min(i.start for i in items), max(i.end for i in items), words)
