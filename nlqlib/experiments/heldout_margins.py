"""When the clarifier should ask: what other margins would have asked and mended, on the sets it is tuned on.

Nothing is sent: the recorded answers of the clarifier are read again with each margin.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from nlqlib.analysis.evaluation import Share, share
from nlqlib.experiments.condition_report import shown
from nlqlib.experiments.heldout import Found, rows
from nlqlib.experiments.heldout_sets import CHOSEN_ON
from nlqlib.nlq import cues
from nlqlib.nlq.belief import Belief
from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.clarifier import MARGIN_NATS, chosen_by_gold, clarification
from nlqlib.nlq.intent import Intent, parse_intent
from nlqlib.records import Json

MARGINS = (0.0, 0.25, 0.5, MARGIN_NATS, 2.0, 4.0, math.inf)
"""Nats; with the last one every difference between rules and model is asked about."""
CLARIFIER = "clarifier"


@dataclass(frozen=True)
class Margin:
    """One set, asked about with one margin."""

    nats: float
    asked: int
    mended: int
    """Questions wrong if forced, and right once the user was asked."""
    right: Share
    """If the user always knows what was meant."""


def margins(found: Found, catalog: Catalog) -> dict[str, list[Margin]]:
    """Every margin on each set of `found` that the clarifier may be tuned on."""
    return {
        source: [_with(rows(by[CLARIFIER]), nats, catalog) for nats in MARGINS]
        for source, by in found.items()
        if source in CHOSEN_ON and CLARIFIER in by
    }


def _with(answered: Sequence[Json], nats: float, catalog: Catalog) -> Margin:
    told = [_asking(row, nats, catalog) for row in answered]
    forced = [bool(row["forced_strict"]) for row in answered]
    right = [alone if asked is None else asked for alone, asked in zip(forced, told, strict=True)]
    mended = sum(now and not alone for alone, now in zip(forced, right, strict=True))
    asked_of = sum(asked is not None for asked in told)
    return Margin(nats, asked_of, mended, share("right", sum(right), len(right)))


def _asking(row: Json, nats: float, catalog: Catalog) -> bool | None:
    """Is the answer right once asked? `None`: with this margin nothing is asked."""
    if row["refused"]:
        return None
    rules, _ = cues.correct(row["question"], None, catalog)
    belief = Belief(**row["belief"]) if row["belief"] else None
    raw = _intent(row["raw"], catalog) if row["raw"] else None
    asked = clarification(rules, raw, belief, catalog, nats)
    if asked is None:
        return None
    golds = [_intent(gold, catalog) for gold in (row["gold"], *row["accept"])]
    return row["forced_strict"] if chosen_by_gold(asked, golds, catalog) is None else True


def _intent(wire: Json, catalog: Catalog) -> Intent:
    return parse_intent(json.dumps(wire), catalog)


def margins_table(told: Mapping[str, Sequence[Margin]]) -> pd.DataFrame:
    """By set and margin: questions asked, mended by asking, and right with a user who is always right."""
    table = {
        (source, _nats(one.nats)): {
            "asked": one.asked,
            "wrong if forced, right once asked": one.mended,
            "strict, the user always right": shown(vars(one.right)),
        }
        for source, each in told.items()
        for one in each
    }
    return pd.DataFrame.from_dict(table, orient="index").rename_axis(["set", "margin (nats)"])


def _nats(nats: float) -> str:
    given = "any" if math.isinf(nats) else f"{nats:g}"
    return f"{given} (in use)" if nats == MARGIN_NATS else given


def margins_sentence(told: Mapping[str, Sequence[Margin]]) -> str:
    """Whether these questions can tell one margin from another at all."""
    parts = [_decided(source, each) for source, each in told.items() if each[0].right.n]
    return " ".join(parts) or "The clarifier was not asked on any set it may be tuned on."


def _decided(source: str, each: Sequence[Margin]) -> str:
    most = max(one.right.k for one in each)
    best = [one for one in each if one.right.k == most]
    least = min(best, key=lambda one: one.asked)
    if len(best) == len(each):
        return (
            f"Every margin leaves {most} of {each[0].right.n} right on {source}, so these questions cannot "
            f"choose one: {MARGIN_NATS:g} nats is set by hand."
        )
    other = f"while {MARGIN_NATS:g} nats, set by hand, is in use"
    verdict = "and is in use" if least.nats == MARGIN_NATS else other
    return (
        f"On {source} a margin of {_nats(least.nats).split(' ')[0]} nats is the one that asks least "
        f"({least.asked} questions) of those that leave most right ({most} of {least.right.n}), {verdict}."
    )
