"""Held-out evaluation: every condition on every set of questions, and what their answers say together.

Which sets count as held out is in `heldout_sets`. The condition that is called best is chosen on the sets in
`CHOSEN_ON` alone, and only then read on the others.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nlqlib.analysis.evaluation import Share, share
from nlqlib.artifacts import Record
from nlqlib.experiments.answers import Asking
from nlqlib.experiments.condition_report import changes_of
from nlqlib.experiments.conditions import CONDITIONS, conditions
from nlqlib.experiments.heldout_sets import CHOSEN_ON, there
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.semantics import evaluate_all
from nlqlib.experiments.study import Spec, Study
from nlqlib.nlq import guardrail
from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.equality import compare
from nlqlib.nlq.intent import parse_intent
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import ANSWERED, Json

NOTEBOOK = "13_heldout_semantics"
ASKS_BACK = frozenset({"clarifier"})
"""Conditions that may ask the user: their accuracy is never set beside that of the others."""
Found = dict[str, dict[str, Record]]
"""The evaluations, by set and then by condition."""


def evaluated(study: Study, sets: Sequence[str], names: str = "all", concurrency: int = 16) -> Found:
    """Every one of `sets` under every condition of `names`; conditions that ask alike are asked once.

    A set of ours whose file is not there is left out.
    """
    hows = conditions(names)
    return {question_workload(s).name: evaluate_all(study, s, hows, concurrency) for s in there(sets)}


def answered(found: Found) -> Found:
    """`found` without sets of which no request was answered; all of it where none was."""
    left = unheard_sets(found)
    kept = {source: by for source, by in found.items() if source not in left}
    return kept or found


def unheard_sets(found: Mapping[str, Mapping[str, Record]]) -> list[str]:
    """The sets of `found` that were asked and not answered at all, as on a twin without recordings."""
    asked = {s: [by[n] for n in by if CONDITIONS[n].asks] for s, by in found.items()}
    return [source for source, records in asked.items() if records and not any(map(rows, records))]


def specs(study: Study, params: Json) -> list[Spec]:
    """What the notebook asks for under its `params`: the answers to each set, once for each way of asking.

    Judging them sends nothing.
    """
    ways = {how.prompt: how for how in conditions(params["conditions"]) if how.asks}
    catalog, at = lookups(study), int(params["concurrency"])
    return [Asking.of(s, how, catalog, at).spec() for s in there(params["sets"]) for how in ways.values()]


def heard(study: Study, sets: Sequence[str], names: str = "all", concurrency: int = 16) -> list[Record]:
    """The retained answers that the evaluations of `sets` are judged from: what was measured."""
    planned = specs(study, {"sets": sets, "conditions": names, "concurrency": concurrency})
    return [record for spec in planned if (record := study.store.find(study.key(spec))) is not None]


def report(record: Record) -> Json:
    """Everything that is reported of one condition on one set."""
    told: Json = record.results["report"]
    return told


def rows(record: Record) -> list[Json]:
    """The answered questions of one condition on one set; failed requests are no answers."""
    return [row for row in record.samples() if row["outcome"] in ANSWERED]


def is_forced(name: str) -> bool:
    """Does the condition called `name` answer without asking the user?"""
    return name not in ASKS_BACK


def forced(by_condition: Mapping[str, Record]) -> dict[str, Record]:
    """The conditions that answer without asking the user."""
    return {name: record for name, record in by_condition.items() if is_forced(name)}


def correctness(record: Record) -> Share:
    """Strict accuracy of what is answered without asking anybody."""
    return Share(**report(record)["forced strict accuracy"])


def best(found: Found) -> str | None:
    """The forced condition with a model that is best on the sets it is chosen on; of equals, the shortest.

    Of those that were heard on every set, since it is read on the others. `None` where no set to choose on
    was answered.
    """
    heard = {name for name in CONDITIONS if all(_heard(by.get(name)) for by in found.values())}
    on = [by for source, by in found.items() if source in CHOSEN_ON]
    return leading([{name: by[name] for name in by if name in heard} for by in on])


def _heard(record: Record | None) -> bool:
    return record is not None and bool(rows(record))


def unheard(found: Found) -> list[tuple[str, str, str]]:
    """Set, condition and reason where a request failed, so that its evaluation is not retained."""
    return [
        (source, name, str(record.body["error"]))
        for source, by_condition in found.items()
        for name, record in by_condition.items()
        if record.status != "success"
    ]


def leading(evaluations: Sequence[Mapping[str, Record]]) -> str | None:
    """The forced condition with a model that answers most of these sets rightly; of equals, the shortest."""
    ranked = []
    for name in _asking(evaluations):
        each = [by_condition[name] for by_condition in evaluations]
        told = [correctness(record) for record in each]
        if all(one.n for one in told):
            ranked.append((-sum(one.k for one in told), sum(map(_tokens, each)), name))
    return min(ranked)[-1] if ranked else None


def _asking(evaluations: Sequence[Mapping[str, Record]]) -> list[str]:
    shared = [n for n in CONDITIONS if evaluations and all(n in found for found in evaluations)]
    return [n for n in shared if is_forced(n) and CONDITIONS[n].asks]


def _tokens(record: Record) -> float:
    mean: float | None = report(record)["serving"]["output_tokens"]["mean"]
    return float("inf") if mean is None else mean


@dataclass(frozen=True)
class Ceiling:
    """How far a guard can come that only ever turns a ranking into a breakdown, at best."""

    raw: Share
    fired: Share
    """What the article's guard makes of the answers."""
    oracle: Share
    """Its rewriting, applied exactly where it makes a wrong answer right."""
    free: Share
    """A one-way guard that also knows order and limit: right wherever nothing else was wrong."""


def ceiling(record: Record, catalog: Catalog) -> Ceiling:
    """The bounds from the rows of a condition whose correction is the article's guardrail."""
    changes, n = changes_of(record.samples()), len(changes_of(record.samples()))
    saved = sum(not row["raw_strict"] and _rewritten_right(row, catalog) for row in rows(record))
    right = sum(c.raw_right for c in changes)
    return Ceiling(
        raw=share("raw", right, n),
        fired=share("the article's guard", sum(c.final_right for c in changes), n),
        oracle=share("its rewriting, only where it helps", right + saved, n),
        free=share("any one-way guard, order and limit free", right + sum(c.fixable for c in changes), n),
    )


def _rewritten_right(row: Json, catalog: Catalog) -> bool:
    """Would the guard's rewriting of the raw ranking be right?"""
    if row["raw"] is None:
        return False
    golds = tuple(_intent(gold, catalog) for gold in (row["gold"], *row["accept"]))
    # an empty question holds no cue, so the guard rewrites whatever ranks
    rewritten, _ = guardrail.correct("", _intent(row["raw"], catalog), catalog)
    return compare(rewritten, golds, catalog).strict


def _intent(wire: Json, catalog: Catalog) -> Any:
    return parse_intent(json.dumps(wire), catalog)


def lookups(study: Study) -> Catalog:
    """The catalog with the values that live in the warehouse."""
    with open_warehouse() as warehouse:
        return warehouse.lookups(study.catalog)


def kinds(source: str) -> dict[str, int]:
    """How many questions of the set `source` ask for each kind."""
    golds = [question.golds[0].query_type for question in load_questions(source)]
    return {kind: golds.count(kind) for kind in dict.fromkeys(golds)}


def in_pairs(source: str) -> int:
    """How many questions of the set `source` belong to a contrast pair."""
    clusters = [question.cluster for question in load_questions(source)]
    return sum(bool(cluster) and clusters.count(cluster) > 1 for cluster in clusters)


__all__ = [
    "ASKS_BACK",
    "NOTEBOOK",
    "Ceiling",
    "Found",
    "answered",
    "best",
    "ceiling",
    "correctness",
    "evaluated",
    "forced",
    "heard",
    "in_pairs",
    "is_forced",
    "kinds",
    "leading",
    "lookups",
    "report",
    "rows",
    "specs",
    "unheard",
    "unheard_sets",
]
