"""The numbers of the article's section on the knee and on saturation beside ours, each with its verdict."""

from collections.abc import Mapping, Sequence

import pandas as pd

from nlqlib.analysis.slo import Choice
from nlqlib.analysis.stats import Interval
from nlqlib.article import Verdict, claim, comparison_table, verdict
from nlqlib.experiments.bend_page import ARTICLE_P95, ARTICLE_X, bend
from nlqlib.experiments.operating_page import (
    ARTICLE_PRICE,
    COST,
    EFFICIENCY,
    REPEATED_EFFICIENCY,
    chosen,
    cost,
    efficiency,
)
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Place, Records, places, rows, x1
from nlqlib.twin.limits import EngineError
from nlqlib.twin.model import load

POLICIES = {
    "operating.p95_below_4": "p95 below 4 seconds",
    "operating.p95_below_4.5": "p95 below 4.5 seconds",
    "operating.cheapest_below_5": "lowest cost per query with p95 below 5 seconds",
}
BEYOND = (32, 40, 48)
"""The article's sweep beyond the limit."""


def fitted(study: Study) -> Mapping[str, frozenset[int]]:
    """Quantity → concurrencies whose row the twin was fitted on; empty for what is measured."""
    if study.target.kind != "twin":
        return {}
    try:
        seen = load(study.target.declared.get("twin", "")).observations
    except EngineError:
        return {}
    return {
        quantity: frozenset(o.load.concurrency for o in seen if o.fit and o.quantity == quantity)
        for quantity in {o.quantity for o in seen}
    }


def tag(study: Study, concurrency: int, quantity: str = "throughput_run") -> str:
    """`measured`, or on the twin `fitted` for a row of its calibration and `predicted` for every other."""
    if study.target.kind != "twin":
        return "measured"
    return "fitted" if concurrency in fitted(study).get(quantity, frozenset()) else "predicted"


def against_article(sweeps: Mapping[str, Records], study: Study, found: Sequence[Choice]) -> pd.DataFrame:
    """Every row of both sweeps, of efficiency and cost, the policies and the knee.

    `sweeps`: `dense` and `repeated` records, each compared with the article's sweep of that name.
    """
    by_name = {name: {p.concurrency: p for p in places(r)} for name, r in sweeps.items()}
    judged = [
        *(_throughput(c, by_name, study) for c in ARTICLE_X),
        *(_p95(c, by_name, study) for c in ARTICLE_P95),
        *_derived(sweeps, study),
        *_operating([*sweeps["dense"], *sweeps["repeated"]], study, found),
    ]
    return comparison_table(judged, target=study.target.name)


def _row(claim_id: str, by_name: Mapping[str, Mapping[int, Place]]) -> tuple[int, Place | None]:
    """Concurrency and place of ours: the repeated sweep for its rows, the dense one for the others."""
    n = int(claim(claim_id).condition["concurrency"])
    name = "repeated" if claim_id.startswith("repeated") else "dense"
    return n, by_name[name].get(n)


def _throughput(claim_id: str, by_name: Mapping[str, Mapping[int, Place]], study: Study) -> Verdict:
    n, place = _row(claim_id, by_name)
    return _judged(claim_id, *_x(place), tag(study, n), study)


def _p95(claim_id: str, by_name: Mapping[str, Mapping[int, Place]], study: Study) -> Verdict:
    n, place = _row(claim_id, by_name)
    return _judged(claim_id, *_tail(place), tag(study, n, "p95_s"), study)


def _judged(claim_id: str, value: float | None, interval: Interval | None, how: str, study: Study) -> Verdict:
    return verdict(claim_id, value, interval, how, study.target.name)


def _derived(sweeps: Mapping[str, Records], study: Study) -> list[Verdict]:
    """Efficiency by our own X(1), cost at the article's price, and the linear throughput at 16."""
    dense, repeated = (places(sweeps[name]) for name in ("dense", "repeated"))
    one = x1(dense)[0]
    alone = [p for p in dense if p.concurrency == 1]
    shares = {
        **dict.fromkeys(EFFICIENCY, efficiency(dense)),
        **dict.fromkeys(REPEATED_EFFICIENCY, efficiency([*alone, *repeated])),
        **dict.fromkeys(COST, cost(dense, ARTICLE_PRICE)),
    }
    found = [
        _judged(c, values.get(n), None, tag(study, n), study)
        for c, values in shares.items()
        for n in [int(claim(c).condition["concurrency"])]
    ]
    linear = None if one is None else 16 * one
    return [*found, _judged("linear.16", linear, None, tag(study, 1), study)]


def _operating(records: Records, study: Study, found: Sequence[Choice]) -> list[Verdict]:
    at = bend(records).knee
    how = tag(study, 0)
    return [
        _judged("operating.knee", at.at, at.interval, how, study),
        *(_judged(c, chosen(found, name), None, how, study) for c, name in POLICIES.items()),
    ]


def beyond_article(records: Records, study: Study, saturated_at: float | None) -> pd.DataFrame:
    """The rows beyond 32, the plateau, the tail, and where throughput ends to grow."""
    found = {p.concurrency: p for p in places(records)}
    table = rows(records)
    medians = table.groupby("concurrency")["p50"].mean().to_dict() if len(table) else {}
    judged = [_judged(f"saturation.throughput.{n}", *_x(found.get(n)), tag(study, n), study) for n in BEYOND]
    for n in BEYOND:
        how = tag(study, n, "p50_s")
        judged.append(_judged(f"saturation.p50.{n}", medians.get(n), None, how, study))
    for n in BEYOND:
        how = tag(study, n, "p95_s")
        judged.append(_judged(f"saturation.p95.{n}", *_tail(found.get(n)), how, study))
    return comparison_table([*judged, *_plateau(found, study, saturated_at)], target=study.target.name)


def _plateau(found: Mapping[int, Place], study: Study, saturated_at: float | None) -> list[Verdict]:
    """The level and the tail beyond the limit, and where saturation begins."""
    past = [found[n] for n in BEYOND[1:] if n in found]
    level = [p.x_run for p in past if p.x_run is not None]
    tails = [p.p95_s for p in past if p.p95_s is not None]
    mean = sum(level) / len(level) if level else None
    how = tag(study, 0)
    return [
        _judged("saturation.plateau", mean, None, how, study),
        _judged("saturation.tail", min(tails, default=None), None, how, study),
        _judged("operating.saturation", saturated_at, None, how, study),
    ]


def _x(place: Place | None) -> tuple[float | None, Interval | None]:
    return (place.x_run, place.x_run_interval) if place else (None, None)


def _tail(place: Place | None) -> tuple[float | None, Interval | None]:
    return (place.p95_s, place.p95_interval) if place else (None, None)
