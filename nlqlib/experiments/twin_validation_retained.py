"""The twin against the real engine on this machine, from retained points: nothing is measured here.

Two points are read, the newest success of each: `calibration` of notebook 05_knee on target local (what a
twin calibrated on that engine predicted, beside what was measured) and `block-accounting` (prefix-cache
counters of the engine beside those the twin's block table gives for the same requests).
"""

from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from nlqlib import paths
from nlqlib.artifact_record import Record, load_records
from nlqlib.experiments.calibration import results_of
from nlqlib.experiments.calibration_fit import is_phase
from nlqlib.experiments.twin_validation_check import Check, holds, not_run, shown, within
from nlqlib.records import Json
from nlqlib.twin.calibrate import CalibrationError

ENGINE_GROUP = "real CPU engine"
COUNTER_GROUP = "hit-rate counters"
CALIBRATION, ACCOUNTING = "calibration", "block-accounting"
PREDICTED_BOUND = 0.10
SHORT_POINTS = 8
MEASURE = "make reproduce TARGET=local PROFILE=quick NOTEBOOKS=05"


def newest(point: str, root: Path = paths.ARTIFACTS) -> Record | None:
    """The latest success of `point` on target local."""
    found = [r for r in load_records(root) if _is(r, point)]
    return max(found, key=lambda r: str(r.run.get("completed_at")), default=None)


def _is(record: Record, point: str) -> bool:
    body = record.body
    return (body["target"], body["point"], body["status"]) == ("local", point, "success")


def engine_checks(root: Path = paths.ARTIFACTS) -> list[Check]:
    """Every prediction of the twin calibrated on the real engine, each against the bound."""
    record = newest(CALIBRATION, root)
    try:
        rows = [] if record is None else results_of(record)["predictions"]
    except CalibrationError as error:
        bound = f"≤ {PREDICTED_BOUND:.1%}"
        return [_few(record, []), not_run(ENGINE_GROUP, "worst prediction", bound, "predicted", str(error))]
    predicted = [row for row in rows if row["tag"] == "predicted"]
    if not predicted:
        why = f"no retained calibration with predictions on target local: {MEASURE}"
        return [not_run(ENGINE_GROUP, "worst prediction", f"≤ {PREDICTED_BOUND:.1%}", "predicted", why)]
    bounded = [row for row in predicted if not is_phase(row["concurrency"], row["quantity"])]
    return [_few(record, rows), *(_predicted(row) for row in bounded), *_phases(rows, root)]


def _phases(rows: Iterable[Json], root: Path) -> list[Check]:
    """Gaps between tokens under load, beside how far the engine's own repeats of one level lie apart."""
    found = [row for row in rows if is_phase(row["concurrency"], row["quantity"])]
    spread = repeat_spread(load_records(root))
    beside = "" if spread is None else f"; the engine's own repeats of one level differ by {spread:.0%}"
    return [
        shown(ENGINE_GROUP, f"{r['name']}, {r['quantity']}", f"{r['error']:+.2%}{beside}", "predicted")
        for r in found
    ]


def repeat_spread(records: Iterable[Record]) -> float | None:
    """Largest relative difference of the mean gap between tokens among repeats of a level of 05 on local."""
    repeats: dict[int, list[float]] = defaultdict(list)
    for record in records:
        itl = record.value("itl", "mean") if record.body["status"] == "success" else None
        here = (record.body["target"], record.body["notebook"], record.params.get("sweep"))
        if here == ("local", "05_knee", "repeated") and itl is not None:
            repeats[record.params["concurrency"]].append(itl)
    spreads = [max(found) / min(found) - 1 for found in repeats.values() if len(found) > 1]
    return max(spreads, default=None)


def _few(record: Record | None, rows: list[Json]) -> Check:
    """How many points were fitted: those retained with the calibration, else the fitted rows."""
    kept = [] if record is None else record.samples()
    fitted = [s for s in kept if s.get("use") == "fit"] or [row for row in rows if row["tag"] == "fitted"]
    bound, ok = f"≤ {SHORT_POINTS}", len(fitted) <= SHORT_POINTS
    return holds(ENGINE_GROUP, "points calibrated on", bound, len(fitted), ok, "counted")


def _predicted(row: Json) -> Check:
    what = f"{row['name']}, {row['quantity']}"
    told = f"measured {row['measured']}, twin {row['value']}"
    return within(ENGINE_GROUP, what, row["error"], PREDICTED_BOUND, "predicted", told)


def counter_checks(root: Path = paths.ARTIFACTS) -> list[Check]:
    """Queries and hits, in tokens, of every retained case: planned by the twin, counted by the engine."""
    record = newest(ACCOUNTING, root)
    rows = [] if record is None else record.body["results"].get("rows", [])
    if not rows:
        why = f"no retained point {ACCOUNTING} on target local: {MEASURE}"
        return [not_run(COUNTER_GROUP, "tokens queried and hit", "exact", "predicted", why)]
    return [_counted(row, kind) for row in rows for kind in ("hits", "queries")]


def _counted(row: Json, kind: str) -> Check:
    planned, measured = row[f"planned_{kind}"], row[f"measured_{kind}"]
    return holds(
        COUNTER_GROUP, f"{row['case']}, {kind}", f"= {measured}", planned, planned == measured, "predicted"
    )
