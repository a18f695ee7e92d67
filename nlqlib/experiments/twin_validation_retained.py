"""The twin against the real engine on this machine, from retained points: nothing is measured here.

Two points are read, the newest success of each: `calibration` of notebook 05_knee on target local (what a
twin calibrated on that engine predicted, beside what was measured) and `block-accounting` (prefix-cache
counters of the engine beside those the twin's block table gives for the same requests).
"""

from pathlib import Path

from nlqlib import paths
from nlqlib.artifact_record import Record, load_records
from nlqlib.experiments.twin_validation_check import Check, holds, not_run, within
from nlqlib.records import Json

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
    rows = [] if record is None else record.body["results"].get("predictions", [])
    predicted = [row for row in rows if row["tag"] == "predicted"]
    if not predicted:
        why = f"no retained calibration with predictions on target local: {MEASURE}"
        return [not_run(ENGINE_GROUP, "worst prediction", f"≤ {PREDICTED_BOUND:.1%}", "predicted", why)]
    return [_few(record, rows), *(_predicted(row) for row in predicted)]


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
