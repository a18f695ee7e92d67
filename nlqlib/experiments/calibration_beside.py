"""What a twin calibrated on an engine says to a sweep of that engine, which it was not fitted on."""

from collections.abc import Iterable, Mapping

import pandas as pd

from nlqlib.artifacts import Record
from nlqlib.experiments.calibration import record, results_of
from nlqlib.experiments.calibration_fit import is_phase
from nlqlib.experiments.probes import PROBES
from nlqlib.experiments.study import Study
from nlqlib.twin.load import Load, simulate
from nlqlib.twin.model import TwinModel, from_document

Predicted = tuple[int, Mapping[str, float | None], str]
"""Concurrency, what the calibrated twin says there, and whether a point like it was fitted."""
OWN_TOKENS = 40
"""End of a prompt that only its question has; within one block of the cache, so its size hardly matters."""


def for_engine(study: Study) -> Record | None:
    """The calibration of the study's engine; `None` on the twin, which would be a model of itself."""
    return None if study.target.kind == "twin" else record(study)


def twin_beside(calibrated: Record | None, levels: Iterable[Record]) -> list[Predicted] | None:
    """Throughput and p95 of each level, as the calibrated twin has them; a level measured twice counts once.

    A level whose concurrency was among the fitted points is tagged `fitted`, although it was measured apart.
    """
    if calibrated is None:
        return None
    twin = from_document(results_of(calibrated)["document"])
    fitted = {p.concurrency for p in PROBES if p.use == "fit"}
    by_concurrency = {level.params["concurrency"]: level for level in levels}
    return [
        (n, _says(twin, level), "fitted" if n in fitted else "predicted")
        for n, level in sorted(by_concurrency.items())
    ]


def _says(twin: TwinModel, level: Record) -> dict[str, float | None]:
    prompt, answer = level.value("prompt_tokens", "mean"), level.value("output_tokens", "mean")
    if prompt is None or answer is None:
        return {}
    load = Load(
        concurrency=level.params["concurrency"],
        requests=level.params["requests"],
        prompt_tokens=round(prompt),
        shared_tokens=max(0, round(prompt) - OWN_TOKENS),
        output_tokens=answer,
        output_sd=0.0,
        outside_s=twin.outside_s,
        frontend_s=twin.frontend_s,
        apart_s=twin.apart_s,
    )
    found = simulate(twin.limits, twin.step_time, load)
    return {"throughput_run": found.throughput_run, "p95_s": found.p95_s}


def points_table(calibrated: Record | None) -> pd.DataFrame:
    """Every point of a calibration: measured, the twin's value, and its relative error."""
    if calibrated is None:
        return pd.DataFrame({"not shown, because": ["this target is the twin"]}, index=["calibration"])
    rows = [
        {
            "point": row["name"],
            "quantity": row["quantity"],
            "measured": f"{row['measured']:.4g}",
            "twin": f"{row['value']:.4g}",
            "error": f"{row['error']:+.1%}",
            "the twin's value is": row["tag"],
        }
        for row in results_of(calibrated)["predictions"]
    ]
    return pd.DataFrame(rows).set_index("point")


def points_sentence(calibrated: Record | None) -> str:
    """The largest error of the points that were not fitted, and what no point determines."""
    if calibrated is None:
        return "A twin has no engine to be calibrated on."
    found = results_of(calibrated)
    bounded = [r for r in found["predictions"] if not is_phase(r["concurrency"], r["quantity"])]
    errors = [abs(r["error"]) for r in bounded if r["tag"] == "predicted"]
    unknown = found["document"]["fit"]["unknown"]
    named = f" Not determined by these points: {', '.join(unknown)}." if unknown else ""
    return (
        f"Of {len(errors)} throughputs and times to first token it never saw, the worst is off by "
        f"{max(errors):.1%}. The gap between tokens of several requests is shown and not judged: it depends "
        f"on how they fall in with each other, and differs between repeats of the engine itself.{named}"
    )
