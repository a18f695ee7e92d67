"""The notebooks' own comparisons with the article, applied to what was retained: one small function each.

A reader takes the points of one notebook and hands back the table of its page, or `None` where the points
that the comparison needs are missing. Its name stands as `by` in `data/article/reads.toml`.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pandas as pd

from nlqlib.analysis.compactness import effects, pairs
from nlqlib.article import Verdict, claim, comparison_table, verdict, verdicts_of
from nlqlib.artifacts import Record
from nlqlib.experiments import (
    admission_article,
    admission_page,
    compact_article,
    context_page,
    decomposition_article,
    heldout_article,
    knee_article,
    kv_signals,
    prefix_article,
    propagation_page,
    quality_under_load_compare,
    quality_under_load_page,
    saturation_page,
    staircase_page,
)
from nlqlib.experiments.claims_retained import Retained
from nlqlib.experiments.compact import TIMED_SET, Plan, said
from nlqlib.experiments.output_contracts import ASKED, FORMS, PRETTY
from nlqlib.experiments.study import Study

Reader = Callable[[Retained], pd.DataFrame | None]


def staircase(found: Retained) -> pd.DataFrame | None:
    """The steps behind our own limit, or of the endpoint as it is."""
    tests = found.named("staircase*")
    return staircase_page.against_article(tests[0], found.study) if tests else None


def admission(found: Retained) -> pd.DataFrame | None:
    """The sweeps before and after, and the cell with both limits high."""
    sweeps = {name: found.named(f"{name}-n*") for name in ("before", "after")}
    cells: Any = {("high", "high"): found.named("cell-high-high-*")}
    if not any(sweeps.values()):
        return None
    return admission_article.against_article(sweeps, cells, found.named("cold-n*"), found.study)


def propagation(found: Retained) -> pd.DataFrame | None:
    """The repeated runs, the scrape, and the level behind limits of one request."""
    runs, scrapes, before = (found.named(p) for p in ("run-n*", "scrape-n*", "before-n*"))
    if not runs or not scrapes:
        return None
    return propagation_page.against_article(runs, scrapes[0], next(iter(before), None), found.study)


def knee(found: Retained) -> pd.DataFrame | None:
    """Both sweeps, and what the article's policies choose on them."""
    sweeps = {name: found.named(f"{name}-n*") for name in ("dense", "repeated")}
    both = [r for records in sweeps.values() for r in records]
    if not both:
        return None
    return knee_article.against_article(sweeps, found.study, admission_page.regions(both))


def saturation(found: Retained) -> pd.DataFrame | None:
    """The levels around and beyond the limit."""
    levels = found.named("beyond-n*")
    if not levels:
        return None
    return knee_article.beyond_article(levels, found.study, saturation_page.saturated(levels).at)


def decomposition(found: Retained) -> pd.DataFrame | None:
    """One warm request at a time."""
    alone = found.named("alone-n*")
    return decomposition_article.against_article(alone[0], found.study) if alone else None


def kv(found: Retained) -> pd.DataFrame | None:
    """The arms with a shared prefix."""
    loaded = found.named("shared-n*")
    return kv_signals.against_article(loaded, found.study) if loaded else None


def heldout(found: Retained) -> pd.DataFrame | None:
    """Every condition on the held-out and the adversarial set."""
    by_set = _by_set(found)
    return heldout_article.against_article(by_set, found.study) if by_set else None


def prefix(found: Retained) -> pd.DataFrame | None:
    """Every scenario of prefix reuse."""
    cells = [r for r in found.records if "scenario" in r.params]
    return prefix_article.against_article(cells, found.study) if cells else None


def compact(found: Retained) -> pd.DataFrame | None:
    """The forms of output on the development questions, and the pairs timed in turn."""
    by_set, timed = _by_set(found), found.named("timing")
    dev = by_set.get(TIMED_SET, {})
    if not timed or not {PRETTY.name, ASKED[0]} <= set(dev):
        return None
    forms = tuple(FORMS[name] for name in timed[0].params["forms"])
    plan = Plan((), (TIMED_SET,), 0, forms, 0, 1)
    table = compact_article.against_article({TIMED_SET: dev}, timed[0], plan, found.study)
    counted = [*verdicts_of(table), *_obeyed(dev, found.study)]
    return comparison_table(counted, target=found.study.target.name)


def _obeyed(dev: Mapping[str, Record], study: Study) -> list[Verdict]:
    """What became of the wish for compact output, of as many trials as the article had."""
    counts = effects(pairs(said(dev[PRETTY.name]), said(dev[ASKED[0]])))
    total = sum(counts.values())
    found = []
    for word in ("honoured", "ignored", "backfired"):
        about = claim(f"output.instruction.{word}")
        trials = int(about.condition["n"])
        value = trials * counts[word] / total if total else None
        told = verdict(about, value, None, study.target.tag, study.target.name)
        found.append(
            replace(told, reason=f"{told.reason}; {counts[word]} of {total} questions, as of {trials}")
        )
    return found


def context(found: Retained) -> pd.DataFrame | None:
    """The requests at the edge of the smaller window."""
    probes = [r for r in found.named("probes-w*") if not r.params["clamping"]]
    if not probes:
        return None
    window = min(int(r.params["window"]) for r in probes)
    return context_page.against_article(probes, found.study, window)


def under_load(found: Retained) -> pd.DataFrame | None:
    """The same questions alone and under load."""
    records = found.named("quality-n*")
    if not records or records[0].params["concurrency"] != 1:
        return None
    return quality_under_load_page.against_article(quality_under_load_compare.levels(records), found.study)


def _by_set(found: Retained) -> dict[str, dict[str, Record]]:
    """Evaluations by set of questions, and then by the name of how they were asked."""
    by_set: dict[str, dict[str, Record]] = {}
    for record in found.records:
        if record.workload is not None and "name" in record.params:
            by_set.setdefault(record.workload.name, {})[str(record.params["name"])] = record
    return by_set


READERS: Mapping[str, Reader] = {
    reader.__name__: reader
    for reader in (
        *(staircase, admission, propagation, knee, saturation, decomposition, kv, heldout),
        *(prefix, compact, context, under_load),
    )
}
