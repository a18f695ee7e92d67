"""The rules in order, piece by piece: of a question that corrects itself the last piece wins.

Every number, date, value and metric must land in a fact or be consumed by a rule that says why (a denied one,
a number that only counts what is named). What does neither is *left*, and is told with the facts.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_board import Board, Fact, Maker
from nlqlib.nlq.cue_compare import values
from nlqlib.nlq.cue_nouns import IDIOMS, nouns
from nlqlib.nlq.cue_numeric import in_unit, numbers_and_order
from nlqlib.nlq.cue_rank import ranks
from nlqlib.nlq.cue_tags import NUMBERS, Item, codes
from nlqlib.nlq.cue_time import time

RULES = (nouns, numbers_and_order, time, values, ranks)
"""The grammar, in the order in which it consumes words."""
TOGETHER = {
    "metric": ("metric", "rank metric", "threshold metric", "reserve"),
    "dimension": ("dimension", "entity", "rank among"),
    "rank": ("rank", "entity", "rank among"),
    "grain": ("grain", "trend"),
    "trend": ("grain", "trend"),
    "entity": ("entity", "dimension"),
}
"""Slots that a correction of one replaces together."""


WEIGHTY = f"{NUMBERS}VPM"
"""Codes of what may not vanish: numbers, values, periods, metrics. What may be a noun may carry."""


@dataclass(frozen=True)
class Merged:
    """What a question says, and the numbers, values, periods and metrics that found no place in it."""

    facts: tuple[Fact, ...]
    left: tuple[Item, ...] = ()


@dataclass
class _Watched(Board):
    """A board that knows which words a rule has consumed by a pattern, besides those that facts rest on."""

    consumed: set[int] = field(default_factory=set)

    def replace(self, pattern: str, make: Maker) -> None:
        before = self.items
        super().replace(pattern, make)
        if self.items != before:
            self.consumed |= _words(before) - _words(self.items)


def _words(items: Iterable[Item]) -> set[int]:
    return {at for item in items for at in range(item.start, item.end)}


def facts_of(
    items: Sequence[Item], catalog: Catalog, polar: bool = False
) -> tuple[list[Fact], list[Item], list[Item]]:
    """The facts of one piece, the items that no rule has used, and those that found no place in a fact."""
    board = _Watched(list(items), catalog, polar=polar)
    for rule in RULES:
        rule(board)
    told = _told(board.facts) | board.consumed
    weighty = [i for i, item in enumerate(items) if item.code in WEIGHTY and not _words([item]) <= told]
    left = [items[i] for i in weighty if not _says_again(items[i], items[i + 1 : i + 2], board)]
    return board.facts, board.items, left


def _says_again(item: Item, following: Sequence[Item], board: Board) -> bool:
    """Does `item` only say what a fact says: an idiom, a part of a formula, the number of what is named?"""
    if item.code == "M":
        measures = board.catalog.metrics[item.value].measures
        told = [f.value for f in board.facts if f.slot in ("metric", "rank metric", "threshold metric")]
        return item.words in IDIOMS or any(
            set(measures) <= set(board.catalog.metrics[m].measures) for m in told
        )
    if item.code != "N":
        return False
    named = [len(f.value[2]) for f in board.all("filter")]
    of = [board.catalog.dimensions[noun.value].values for noun in following if noun.code in "DE"]
    return item.value in (*named, *board.values("limit"), *map(len, of))  # each of the six segments


def _told(facts: Iterable[Fact]) -> set[int]:
    return {at for fact in facts for start, end in fact.spans for at in range(start, end)}


def _bare_no(items: Sequence[Item]) -> list[Item]:
    """`by month, no, by quarter`: a `no` corrects when what follows has been said in another way before."""
    out = list(items)
    for at, item in enumerate(out[1:-1], 1):
        if item.code != "!" or item.words != "no":
            continue
        before = out[at - 1]
        after = next((other for other in out[at + 1 :] if other.code not in "sf"), item)
        lacking = re.match("![sf]*[DE]k", codes(out[at:])) is not None  # no region recorded
        again = after.code in "b^>1Gd" and any(other.code == after.code for other in out[:at])
        if not lacking and (again or (after.code == before.code and after.code in "VPMDENKQX")):
            out[at] = replace(item, code="C", value="correction")
    return out


BEHIND = ("instead", "i mean", "i meant")
"""Corrections that may stand behind what they bring."""


def _instead(items: list[Item]) -> list[Item]:
    """`by orders. Hmm, by profit instead`: a correction behind what it brings stands before it."""
    match = re.search(r"[bf]?[\^N]*[MDEXVPGTUN](?:\+[MDEXVP])*C$", codes(items))
    if match is None or items[-1].words not in BEHIND or match.start() == 0:
        return items
    return [*items[: match.start()], items[-1], *items[match.start() : -1]]


def merged(items: Sequence[Item], catalog: Catalog, polar: bool = False) -> Merged:
    """What a question says: its pieces in order, where a later piece replaces what it speaks of."""
    items = _instead(_bare_no(items))
    for at in range(len(items) - 1, -1, -1):
        if items[at].code == "C":
            found = _corrected(items, at, catalog, polar)
            return found or merged([*items[:at], *items[at + 1 :]], catalog, polar)
    facts, _, left = facts_of(items, catalog, polar)
    return Merged(tuple(facts), tuple(left))


def _corrected(items: Sequence[Item], at: int, catalog: Catalog, polar: bool) -> Merged | None:
    """What is said before the correction at `at`, as changed by what stands behind it; `None`: it is none."""
    before = merged(items[:at], catalog, polar)
    behind = [item for item in items[at + 1 :] if item.code != "C"]
    later, open_items, left = facts_of(behind, catalog)
    if _stands_alone(later):
        unsaid = {item.code for item in items[:at]} & {"^", "R"} and not any(f.slot == "rank" for f in later)
        if items[at].value == "reset" or not (before.facts or unsaid):
            return Merged(tuple(later), tuple(left))
    changed = _changed(list(before.facts), later, open_items, catalog)
    if changed is None:
        return None
    placed = _told(changed)
    return Merged(tuple(changed), tuple(i for i in (*before.left, *left) if not _words([i]) <= placed))


def _stands_alone(facts: Sequence[Fact]) -> bool:
    return any(fact.slot in ("metric", "reserve", "rank metric") for fact in facts)


def _changed(before: list[Fact], later: list[Fact], left: list[Item], catalog: Catalog) -> list[Fact] | None:
    """`before` with what `later` says instead; `None` where it replaces nothing, and so is no correction."""
    numbers = [item for item in left if item.code in NUMBERS]
    ops = [item.value for item in left if item.code == ">"]
    marks = [item for item in left if item.code == "^"]
    if numbers or marks:
        renumbered = _renumbered(before, numbers, marks, ops, catalog)
        if renumbered is not None:
            before, later = renumbered, later
            return _replaced(before, later) or [*before, *later]
    return _replaced(before, later)


def _renumbered(
    before: list[Fact], numbers: list[Item], marks: list[Item], ops: list[str], catalog: Catalog
) -> list[Fact] | None:
    """A bare number replaces the limit, else the last threshold; a bare superlative the direction."""
    out = list(before)
    ranked = any(fact.slot in ("rank", "limit") for fact in before)
    for item in numbers:
        span = ((item.start, item.end),)
        if ranked and item.code == "N" and not ops:
            out = [f for f in out if f.slot != "limit"] + [Fact("limit", int(item.value), "correction", span)]
        elif any(f.slot == "threshold" for f in out):
            last = [f for f in out if f.slot == "threshold"][-1]
            field, op, _ = last.value
            _, value = in_unit(field, item, catalog)
            told = (field, ops[0] if ops else op, value)
            out = [f for f in out if f is not last] + [Fact("threshold", told, "correction", span)]
    for item in marks:
        if any(f.slot == "rank" for f in out):
            out = [f for f in out if f.slot != "rank"] + [
                Fact("rank", item.value, "correction", ((item.start, item.end),))
            ]
    return out if out != before else None


def _as_before(fact: Fact, before: list[Fact]) -> Fact:
    """`excluding West, I mean East`: a corrected value is still left out."""
    if fact.slot != "filter" or fact.rule != "filter":
        return fact
    ops = {f.value[1] for f in before if f.slot == "filter" and f.value[0] == fact.value[0]}
    return replace(fact, value=(fact.value[0], "not_in", fact.value[2])) if ops == {"not_in"} else fact


def _replaced(before: list[Fact], later: list[Fact]) -> list[Fact] | None:
    later = [_as_before(fact, before) for fact in later]
    said = {fact.slot for fact in later}
    fields = {(fact.slot, fact.value[0]) for fact in later if fact.slot in ("filter", "threshold")}
    gone = {
        slot for s in said for slot in TOGETHER.get(s, (s,)) if s not in ("filter", "threshold", "reserve")
    }
    if "dimension" in said and "rank" not in said:
        gone |= {"rank", "limit", "rank metric"}
    kept = [
        fact
        for fact in before
        if fact.slot not in gone
        and not (fact.slot in ("filter", "threshold") and (fact.slot, fact.value[0]) in fields)
    ]
    return [*kept, *later] if len(kept) < len(before) else None
