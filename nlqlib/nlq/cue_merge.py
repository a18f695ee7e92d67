"""The rules in order, piece by piece: of a question that corrects itself the last piece wins."""

import re
from collections.abc import Sequence
from dataclasses import replace

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_board import Board, Fact
from nlqlib.nlq.cue_compare import values
from nlqlib.nlq.cue_nouns import nouns
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


def facts_of(items: Sequence[Item], catalog: Catalog, polar: bool = False) -> tuple[list[Fact], list[Item]]:
    """The facts of one piece, and the items that no rule has used."""
    board = Board(list(items), catalog, polar=polar)
    for rule in RULES:
        rule(board)
    return board.facts, board.items


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


def merged(items: Sequence[Item], catalog: Catalog, polar: bool = False) -> list[Fact]:
    """The facts of a question: of its pieces in order, where a later piece replaces what it speaks of."""
    items = _instead(_bare_no(items))
    for at in range(len(items) - 1, -1, -1):
        if items[at].code != "C":
            continue
        before = merged(items[:at], catalog, polar)
        later, left = facts_of([item for item in items[at + 1 :] if item.code != "C"], catalog)
        if items[at].value == "reset" and _stands_alone(later):
            return later
        unsaid = {item.code for item in items[:at]} & {"^", "R"} and not any(f.slot == "rank" for f in later)
        if not before and not unsaid and _stands_alone(later):
            return later
        changed = _changed(before, later, left, catalog)
        if changed is not None:
            return changed
        return merged([*items[:at], *items[at + 1 :]], catalog, polar)
    return facts_of(items, catalog, polar)[0]


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
