"""Fit step times to what was measured, and say how wrong the rest comes out. Pure: measuring is done
elsewhere.

Two kinds of evidence. *Observations* are summary numbers of a load (throughput at a concurrency, mean gap
between tokens), each an interval and a source, used to fit or only to judge. A *trace* is a list of requests
with measured times. Either way the engine is simulated with candidate coefficients and least squares moves
them, so a coefficient means what the simulator makes of it, queueing and batching included. Coefficients that
the evidence does not determine are named (`unknown`), never passed off as fitted.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from nlqlib.twin.drive import open_loop
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.load import Load, Summary, simulate
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence as Request
from nlqlib.twin.step_time import StepTime

Floats = npt.NDArray[np.float64]

TRACE_COEFFICIENTS = 4  # more would fit the noise of one run
_TRACE_WEIGHTS = {
    **{f"p99_{span}": 0.67 for span in ("queue", "ttft", "tpot", "e2e")},
    "p99_prefill": 0.0,  # a preemption before the first token, which is chance, decides it
}
_INSIDE = 0.2  # weight of a deviation that stays inside the observed interval
_STEPS = (0.1, 0.02)  # relative steps of the derivatives, coarse first: one request more per wave is a jump
_DETERMINED = 0.002  # singular values below this share of the largest are directions nothing was said about
_INVOLVED = 0.3  # share of such a direction above which a coefficient takes part in it


class CalibrationError(ValueError):
    """The evidence or the request does not allow a fit; the text says what is missing."""


@dataclass(frozen=True)
class Observation:
    """A measured `quantity` (a field of `Summary`) of a load, between `low` and `high`."""

    name: str
    load: Load
    quantity: str
    low: float
    high: float
    fit: bool
    """Used to fit; otherwise the twin's value is a prediction."""
    source: str


@dataclass(frozen=True)
class Prediction:
    """What the twin says to an observation. `error` is relative, 0 inside the observed interval."""

    observation: Observation
    value: float | None
    error: float | None

    @property
    def tag(self) -> str:
        return "fitted" if self.observation.fit else "predicted"


@dataclass(frozen=True)
class Calibration:
    """A fit: the coefficients moved, those nothing determined, every observation and what it comes to."""

    step_time: StepTime
    free: tuple[str, ...]
    unknown: tuple[str, ...]
    predictions: tuple[Prediction, ...]


def predict(
    limits: EngineLimits, step_time: StepTime, observations: Sequence[Observation]
) -> tuple[Prediction, ...]:
    """The twin's value for each observation; loads that several observations share are run once."""
    summaries: dict[Load, Summary] = {}
    predictions = []
    for seen in observations:
        if seen.load not in summaries:
            summaries[seen.load] = simulate(limits, step_time, seen.load)
        value = getattr(summaries[seen.load], seen.quantity)
        error = None if value is None else deviation(value, seen.low, seen.high)
        predictions.append(Prediction(seen, value, error))
    return tuple(predictions)


def deviation(value: float, low: float, high: float) -> float:
    """Relative distance of `value` from the interval: negative below it, 0 inside, positive above."""
    return value / low - 1 if value < low else value / high - 1 if value > high else 0.0


def fit(
    limits: EngineLimits, start: StepTime, free: Sequence[str], observations: Sequence[Observation]
) -> Calibration:
    """Move the `free` coefficients of `start` (their values there are the scale, so above 0) to the
    observations.
    """
    used = [seen for seen in observations if seen.fit]
    if not used:
        raise CalibrationError("no observation is marked for the fit; measure at least one point")

    def residuals(step_time: StepTime) -> list[float]:
        return [
            p.error + _INSIDE * (p.value / (0.5 * (p.observation.low + p.observation.high)) - 1)
            for p in predict(limits, step_time, used)
            if p.error is not None and p.value is not None
        ]

    step_time, unknown = _least_squares(start, free, residuals)
    return Calibration(step_time, tuple(free), unknown, predict(limits, step_time, observations))


# --- traces -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trace:
    """Requests in order of arrival and when they were scheduled, answered first and last (seconds)."""

    arrival_s: Floats
    prompt_tokens: tuple[int, ...]
    output_tokens: tuple[int, ...]
    scheduled_s: Floats
    first_token_s: Floats
    last_token_s: Floats


def replay(limits: EngineLimits, step_time: StepTime, measured: Trace) -> Trace:
    """The same arrivals through the twin. A trace does not say what prompts say, so they share nothing."""
    rows = zip(measured.arrival_s.tolist(), measured.prompt_tokens, measured.output_tokens, strict=True)
    made = [(at, Request(str(i), prompt, output)) for i, (at, prompt, output) in enumerate(rows)]
    times = np.array([seq.times() for seq in open_loop(Replica(limits, step_time), made)], dtype=float)
    _, scheduled, first, last = times.T
    return replace(measured, scheduled_s=scheduled, first_token_s=first, last_token_s=last)


def spans(trace: Trace) -> dict[str, Floats]:
    """Queue and prefill time, TTFT, TPOT and E2E latency of each request, in seconds; TPOT from two tokens
    on.
    """
    outputs = np.array(trace.output_tokens)
    gaps = np.maximum(outputs - 1, 1)
    return {
        "queue": trace.scheduled_s - trace.arrival_s,
        "prefill": trace.first_token_s - trace.scheduled_s,
        "ttft": trace.first_token_s - trace.arrival_s,
        "tpot": np.where(outputs > 1, (trace.last_token_s - trace.first_token_s) / gaps, np.nan),
        "e2e": trace.last_token_s - trace.arrival_s,
    }


def trace_errors(twin: Trace, measured: Trace, which: npt.NDArray[np.bool_]) -> dict[str, float]:
    """Relative errors of mean and P99 of every span over the requests `which`: `mean_ttft`, `p99_ttft`, …"""
    errors: dict[str, float] = {}
    ours, theirs = spans(twin), spans(measured)
    for name in ours:
        a, b = ours[name][which], theirs[name][which]
        errors[f"mean_{name}"] = float(np.nanmean(a) / np.nanmean(b) - 1)
        errors[f"p99_{name}"] = float(np.nanpercentile(a, 99) / np.nanpercentile(b, 99) - 1)
    return errors


def fit_trace(
    limits: EngineLimits,
    start: StepTime,
    free: Sequence[str],
    measured: Trace,
    which: npt.NDArray[np.bool_],
) -> tuple[StepTime, tuple[str, ...]]:
    """Coefficients for the requests `which` of a trace, and those of `free` it does not determine."""
    if len(free) > TRACE_COEFFICIENTS:
        raise CalibrationError(
            f"{len(free)} coefficients for one trace; at most {TRACE_COEFFICIENTS} are fitted"
        )

    def residuals(step_time: StepTime) -> list[float]:
        errors = trace_errors(replay(limits, step_time, measured), measured, which)
        return [_TRACE_WEIGHTS.get(name, 1.0) * error for name, error in errors.items()]

    return _least_squares(start, free, residuals)


# --- least squares ----------------------------------------------------------------------------------------


def _least_squares(
    start: StepTime, free: Sequence[str], residuals: Callable[[StepTime], list[float]]
) -> tuple[StepTime, tuple[str, ...]]:
    scales = {name: getattr(start, name) for name in free}
    if not all(scales.values()):
        raise CalibrationError("a free coefficient starts at 0; give it the value you would guess")

    def at(x: Floats) -> StepTime:
        moved: dict[str, Any] = {n: float(scales[n] * xi) for n, xi in zip(free, x, strict=True)}
        return replace(start, **moved)

    x = np.ones(len(free))
    for step in _STEPS:
        found = least_squares(
            lambda x: np.array(residuals(at(x))),
            x,
            bounds=(0, np.inf),
            diff_step=step,
            xtol=1e-4,
            ftol=1e-5,
            max_nfev=20,
        )
        x = found.x
    return at(found.x), undetermined(found.jac, free)


def undetermined(jacobian: Floats, names: Sequence[str]) -> tuple[str, ...]:
    """Coefficients that can change without moving a residual; `jacobian` is (residuals, coefficients)."""
    _, sizes, directions = np.linalg.svd(jacobian, full_matrices=True)
    sizes = np.concatenate((sizes, np.zeros(len(names) - len(sizes))))
    largest = max(float(sizes[0]), 1e-12)
    loose = directions[sizes < _DETERMINED * largest] if largest > 1e-9 else np.eye(len(names))
    return tuple(name for j, name in enumerate(names) if any(abs(row[j]) > _INVOLVED for row in loose))
