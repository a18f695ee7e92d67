"""How a page shows the diagnosis of its sweeps: layers, verdicts, evidence, blind spots and remedies."""

from collections.abc import Mapping

import pandas as pd

from nlqlib.analysis.diagnosis import Diagnosis
from nlqlib.analysis.staircase import ControlledStaircase
from nlqlib.experiments.diagnose import of_records
from nlqlib.experiments.saved_levels import saved_staircase
from nlqlib.experiments.sweep_rows import Records
from nlqlib.records import Json

STAIRCASE = "02_serialization_staircase"
"""The notebook whose retained test says whether independent processes queue as well."""


def diagnoses(sweeps: Mapping[str, Records]) -> dict[str, Diagnosis]:
    """The verdict on each sweep, with the target's retained staircase where its deployment was the same."""
    return {name: of_records(records, _staircase(records)) for name, records in sweeps.items()}


def _staircase(records: Records) -> ControlledStaircase | None:
    """The staircase test retained beside the notebook that `records` are from. Raises `ArtifactError`."""
    return saved_staircase(records[0].path.parent.parent / STAIRCASE, records[0]) if records else None


def layers_table(found: Mapping[str, Diagnosis]) -> pd.DataFrame:
    """The article's table of layers, filled in from every sweep."""
    shown: dict[str, Json] = {}
    for name, diagnosis in found.items():
        for layer in diagnosis.layers:
            row = shown.setdefault(layer.name, {"question": layer.question})
            row[name] = f"{layer.state}: {layer.finding}"
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("layer")


def verdicts_table(found: Mapping[str, Diagnosis]) -> pd.DataFrame:
    """The verdict on each sweep, whether it was seen or inferred, and what to try next."""
    shown = {
        name: {
            "verdict": d.verdict,
            "layer": d.layer or "—",
            "the layer is": "seen" if d.seen else "inferred or not observable",
            "next experiment": d.next_experiment,
        }
        for name, d in found.items()
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("sweep")


def evidence_table(found: Diagnosis) -> pd.DataFrame:
    """Everything the verdict rests on."""
    shown = [{"evidence": e.name, "value": e.value, "reading": e.reading} for e in found.evidence]
    return pd.DataFrame(shown, columns=["evidence", "value", "reading"]).set_index("evidence")


def unseen_sentence(found: Diagnosis) -> str:
    """What the diagnosis could not have seen."""
    return "Not observable here: " + "; ".join(found.not_observable) + "." if found.not_observable else ""


def remedy_table(found: Diagnosis) -> pd.DataFrame:
    """The setting to change, in each platform's own words."""
    shown = [{"platform": name, "setting": text} for name, text in found.remedy.items()]
    return pd.DataFrame(shown, columns=["platform", "setting"]).set_index("platform")


def main_diagnosis(found: Mapping[str, Diagnosis]) -> Diagnosis | None:
    """The one a reader came for: of the sweep before, else of the endpoint as it is."""
    return found.get("before") or next(iter(found.values()), None)
