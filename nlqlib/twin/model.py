"""A twin as data: `data/twins/NAME.json` holds an engine, its coefficients, and the evidence for them."""

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlqlib import paths
from nlqlib.records import Json
from nlqlib.twin import step_time as times
from nlqlib.twin.calibrate import Calibration, Observation, Prediction, fit
from nlqlib.twin.limits import EngineError, EngineLimits
from nlqlib.twin.load import Load, Summary
from nlqlib.twin.step_time import StepTime

TWINS = paths.DATA / "twins"
DEFAULT = "l4-qwen2.5-3b"
_PLAIN_LIST = re.compile(r"\[((?:\s*-?[\d.e-]+,?)+)\s*\]")


@dataclass(frozen=True)
class TwinModel:
    """One modelled endpoint."""

    name: str
    title: str
    model: str
    accelerator: str
    engine_version: str
    limits: EngineLimits
    step_time: StepTime
    frontend_s: float
    """Between the HTTP server and the engine, before the first token: part of TTFT, not of prefill."""
    network_s: float
    """Outside the server; with `frontend_s` it is what a client sees beyond the engine's own time."""
    observations: tuple[Observation, ...]
    apart_s: float = 0.0
    """Requests reach the engine at least this far apart: its frontend reads one at a time."""

    @property
    def outside_s(self) -> float:
        return self.frontend_s + self.network_s


def load(name: str | Path = DEFAULT) -> TwinModel:
    """The twin of that name, or in that file; raises `EngineError` with the names there are."""
    return from_document(document(name))


def document(name: str | Path = DEFAULT) -> Json:
    """The stored form of a twin: everything, its evidence and what it is not good for."""
    path = Path(name) if str(name).endswith(".json") else TWINS / f"{name}.json"
    try:
        found: Json = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        there = ", ".join(sorted(p.stem for p in TWINS.glob("*.json"))) or "none"
        raise EngineError(f"no twin {str(name)!r}; there are: {there}") from None
    except ValueError as error:
        raise EngineError(f"{path.name} is not JSON ({error}); restore it or calibrate again") from None
    return found


def from_document(stored: Mapping[str, Any]) -> TwinModel:
    """The twin that a document describes; raises `EngineError` naming a field that is missing."""
    try:
        return TwinModel(
            name=stored["name"],
            title=stored["title"],
            model=stored["model"],
            accelerator=stored["accelerator"],
            engine_version=stored["engine_version"],
            limits=EngineLimits(**stored["engine"]),
            step_time=times.from_json(stored["step_time"]),
            frontend_s=stored["outside"]["frontend_s"],
            network_s=stored["outside"]["network_s"],
            observations=tuple(_observation(row) for row in stored["observations"]),
            apart_s=stored["outside"].get("apart_s", 0.0),
        )
    except KeyError as error:
        raise EngineError(f"the twin's file lacks {error}; see an existing one in data/twins/") from None


def _observation(row: Mapping[str, Any]) -> Observation:
    if row["quantity"] not in Summary.__dataclass_fields__:
        known = ", ".join(Summary.__dataclass_fields__)
        raise EngineError(f"{row['name']}: {row['quantity']!r} is not a quantity; known are {known}")
    return Observation(
        row["name"], Load(**row["load"]), row["quantity"], row["low"], row["high"], row["fit"], row["source"]
    )


def refit(stored: Json) -> tuple[Json, Calibration]:
    """Fit `stored` anew to its own observations, from the start and with the freedom it declares."""
    twin = from_document(stored)
    start = times.from_json(stored["fit"]["start"])
    calibration = fit(twin.limits, start, stored["fit"]["free"], twin.observations)
    return with_calibration(stored, calibration), calibration


def with_calibration(stored: Json, calibration: Calibration) -> Json:
    """`stored` with the coefficients and the predictions of `calibration`."""
    coefficients = {k: v for k, v in dataclasses.asdict(calibration.step_time).items() if v}
    rows = [_row(prediction) for prediction in calibration.predictions]
    return stored | {
        "step_time": {k: list(v) if isinstance(v, tuple) else v for k, v in coefficients.items()},
        "fit": stored["fit"] | {"unknown": list(calibration.unknown)},
        "observations": rows,
    }


def _row(prediction: Prediction) -> Json:
    row = dataclasses.asdict(prediction.observation)
    default = dataclasses.asdict(Load(1, 1))
    row["load"] = {
        k: v for k, v in row["load"].items() if k in ("concurrency", "requests") or v != default[k]
    }
    return row | {"value": prediction.value, "error": prediction.error, "tag": prediction.tag}


def dumps(stored: Json) -> str:
    """`stored` as text: one line per entry, plain lists on one line, the same bytes for the same content."""
    text = json.dumps(stored, indent=1, ensure_ascii=False, allow_nan=False)
    return (
        _PLAIN_LIST.sub(lambda found: "[" + ", ".join(found.group(1).split()).replace(",,", ",") + "]", text)
        + "\n"
    )
