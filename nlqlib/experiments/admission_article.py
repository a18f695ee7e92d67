"""The article's numbers before and after the admission limits were raised, beside ours, with verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pandas as pd

from nlqlib.analysis.factorial import Cell
from nlqlib.analysis.stats import summary
from nlqlib.article import Verdict, claim, comparison_table, verdict
from nlqlib.artifacts import Record
from nlqlib.experiments.admission_page import BEFORE_P95, BEFORE_X, p95_tolerance, regions
from nlqlib.experiments.factorial_page import values
from nlqlib.experiments.knee_article import POLICIES, tag
from nlqlib.experiments.operating_page import chosen
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Place, Records, places


def against_article(
    sweeps: Mapping[str, Records],
    cells: Mapping[Cell, Sequence[Record]],
    cold: Sequence[Record],
    study: Study,
) -> pd.DataFrame:
    """The before-table, its first row once more from a cold engine, the three runs after, and the objectives.

    `cells`: the factorial, whose cell high/high holds the article's three runs of 150 requests.
    """
    before = {p.concurrency: p for p in places(sweeps.get("before", ()))}
    after = sweeps.get("after", ())
    judged = [
        *(_before(c, before, "throughput_run", study) for c in BEFORE_X),
        *(_before(c, before, "p95_s", study) for c in BEFORE_P95),
        *_cold(cold, study),
        *_after(cells.get(("high", "high"), ()), study),
        *_regions(after, study),
    ]
    return comparison_table(judged, target=study.target.name)


def _before(claim_id: str, found: Mapping[int, Place], quantity: str, study: Study) -> Verdict:
    n = int(claim(claim_id).condition["concurrency"])
    place = found.get(n)
    value = None if place is None else place.x_run if quantity == "throughput_run" else place.p95_s
    how = tag(study, n if n == 1 else 0, quantity)  # above 1 its calibration holds only the sweep after
    return _judged(claim_id, value, how, study)


def _cold(cold: Sequence[Record], study: Study) -> list[Verdict]:
    """The first row again, as an engine gives it that has seen no prompt: an assumption, and named as one."""
    if not cold:
        return []
    found = _judged("before.p95.1", cold[0].value("e2e_latency", "p95"), "predicted", study)
    n = cold[0].requests["total"]
    return [replace(found, reason=f"assuming {n} requests to a cold engine: {found.reason}")]


def _after(records: Sequence[Record], study: Study) -> list[Verdict]:
    x, tail = summary(values(records, "X (req/s)")), summary(values(records, "p95 (s)"))
    n = int(records[0].params["concurrency"]) if records else 0
    if n != 32:
        return [_judged(c, None, tag(study, 32), study) for c in ("after.throughput.32", "after.p95.32")]
    return [
        verdict("after.throughput.32", x.mean, x.interval, tag(study, n), study.target.name),
        verdict("after.p95.32", tail.mean, tail.interval, tag(study, n, "p95_s"), study.target.name),
    ]


def _regions(after: Records, study: Study) -> list[Verdict]:
    """The objectives by our p95, and where they differ once more within the tolerance of a model's p95."""
    within, how = p95_tolerance(study), tag(study, 0)
    strict, eased = (regions(after, share) if after else () for share in (0.0, within))
    judged = []
    for c, name in POLICIES.items():
        plain, wide = chosen(strict, name), chosen(eased, name)
        judged.append(_judged(c, plain, how, study))
        if plain != wide:
            found = _judged(c, wide, how, study)
            judged.append(replace(found, reason=f"allowing p95 its {within:.0%}: {found.reason}"))
    return judged


def _judged(claim_id: str, value: float | None, how: str, study: Study) -> Verdict:
    return verdict(claim_id, value, None, how, study.target.name)
