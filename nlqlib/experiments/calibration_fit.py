"""From measured probes to a twin: observations, a first guess, the fit, and the document. Pure.

Which coefficients a set of points determines is found out by the fit, and the others are named. What no point
can show at all without the server's own metrics is named as well.
"""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass

from nlqlib.experiments.probes import Probed
from nlqlib.records import Json
from nlqlib.twin.calibrate import Calibration, CalibrationError, Observation, fit
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.load import Load
from nlqlib.twin.model import with_calibration
from nlqlib.twin.step_time import StepTime

FREE = ("weights_s", "token_s", "sequence_s", "kv_logical_s", "attention_s", "mixed_s")
"""What seven short points can tell apart on any engine: a cost per step, per token computed, per sequence,
per KV token read, per pair of tokens attended to, and once per step that computes prompts."""
QUANTITIES = ("throughput_run", "itl_s", "ttft_s")
TWO_TOKENS = 2
"""Answers this short were asked for only to see the prompt computed."""
MOST_FITTED = 8


@dataclass(frozen=True)
class Engine:
    """What is known of the engine that was measured."""

    model: str
    version: str
    accelerator: str
    limits: EngineLimits
    assumed: tuple[str, ...]
    """Limits that the endpoint did not say, so that a default stands for them."""


@dataclass(frozen=True)
class Outside:
    """Seconds of a request outside the engine; 0 where the server does not let it be seen (`seen`)."""

    frontend_s: float
    network_s: float
    seen: bool


def outside(probed: Sequence[Probed]) -> Outside:
    """The way in and out, from single requests: client less server, and TTFT less queue and prefill."""
    alone = [p for p in probed if p.concurrency == 1]
    network = [p.e2e_s - p.server_e2e_s for p in alone if p.e2e_s is not None and p.server_e2e_s is not None]
    frontend = [
        p.server_ttft_s - p.queue_s - p.prefill_s
        for p in alone
        if p.server_ttft_s is not None and p.queue_s is not None and p.prefill_s is not None
    ]
    if not network or not frontend:
        return Outside(0.0, 0.0, False)
    return Outside(max(0.0, _median(frontend)), max(0.0, _median(network)), True)


def _median(values: Sequence[float]) -> float:
    return sorted(values)[len(values) // 2]


def observations(probed: Sequence[Probed], way: Outside) -> list[Observation]:
    """What each probe says, as the twin's own quantities."""
    return [seen for p in probed for seen in _observations(p, way)]


def _observations(p: Probed, way: Outside) -> list[Observation]:
    load = Load(
        concurrency=p.concurrency,
        requests=p.requests,
        prompt_tokens=p.prompt_tokens,
        shared_tokens=p.shared_tokens,
        distinct=1 if p.shared_tokens == p.prompt_tokens else 0,
        output_tokens=p.output_tokens,
        output_sd=0.0,
        outside_s=way.frontend_s + way.network_s,
        frontend_s=way.frontend_s,
        apart_s=way.frontend_s,
        warm=p.shared_tokens > 0,
    )
    found = []
    for quantity in _quantities(p):
        value = measured_value(p, quantity)
        if value is not None:
            name = f"{quantity.removesuffix('_s').replace('_run', '')}, {p.name}"
            fitted = p.use == "fit" and not is_phase(p.concurrency, quantity)
            found.append(Observation(name, load, quantity, value, value, fitted, "measured here"))
    return found


def _quantities(p: Probed) -> tuple[str, ...]:
    """A prompt computed for two tokens shows its TTFT; a loop its throughput; all others also the ITL."""
    if p.output_tokens <= TWO_TOKENS:
        return ("ttft_s",)
    return ("itl_s", "ttft_s") if p.concurrency == 1 else ("throughput_run", "itl_s")


def is_phase(concurrency: int, quantity: str) -> bool:
    """Whether `quantity` depends on how requests fell in with each other, and not on the load alone.

    Equal requests may run in step, and then a prompt's computation delays nobody else's tokens, or out of
    step, and then it delays all. Throughput is the same either way; the gap between tokens is not.
    """
    return quantity == "itl_s" and concurrency > 1


def measured_value(p: Probed, quantity: str) -> float | None:
    """The measured counterpart of a quantity of the twin's `Summary`: the server's own where it has one."""
    if quantity == "ttft_s" and p.server_ttft_s is not None:
        return p.server_ttft_s
    found: float | None = getattr(p, quantity)
    return found


def first_guess(probed: Sequence[Probed]) -> StepTime:
    """Coefficients of the right size, from two kinds of points. Raises `CalibrationError` without them."""
    gaps = [p.itl_s for p in probed if p.concurrency == 1 and p.output_tokens > TWO_TOKENS and p.itl_s]
    rates = [p.ttft_s / p.prompt_tokens for p in probed if not p.shared_tokens and p.ttft_s]
    if not gaps or not rates:
        raise CalibrationError(
            "the points hold no gap between tokens or no cold prompt: does the endpoint stream, and count "
            "usage?"
        )
    gap, rate = min(gaps), min(rates)
    return StepTime(
        weights_s=0.8 * gap,
        token_s=0.8 * rate,
        sequence_s=0.05 * gap,
        kv_logical_s=0.05 * gap / 3000,
        attention_s=0.1 * rate / 1000,
        mixed_s=0.05 * gap,
    )


def calibrated(engine: Engine, probed: Sequence[Probed]) -> tuple[Calibration, Outside]:
    """The fit to the probes that are for fitting, and what it says to all of them."""
    if sum(p.use == "fit" for p in probed) > MOST_FITTED:
        raise CalibrationError(f"at most {MOST_FITTED} points are fitted")
    way = outside(probed)
    return fit(engine.limits, first_guess(probed), FREE, observations(probed, way)), way


def document(name: str, engine: Engine, calibration: Calibration, way: Outside) -> Json:
    """The twin as a document of `data/twins/`, its evidence included."""
    unknown = [*calibration.unknown, *([] if way.seen else ["frontend_s", "network_s"])]
    stored: Json = {
        "schema_version": 1,
        "name": name,
        "title": f"{engine.model.rsplit('/', 1)[-1]} on {engine.accelerator} under vLLM {engine.version}",
        "model": engine.model,
        "accelerator": engine.accelerator,
        "engine_version": engine.version,
        "is": "A vLLM v1 scheduler with these limits, and step times fitted to short points measured on "
        "this engine. Words and output lengths are not modelled: they are replayed or drawn.",
        "is_not": [
            "Power, clocks and other work on the machine: a step of one kind always takes the same time.",
            "Compiled graphs: a batch of 17 costs a little more than one of 16, never what 24 cost.",
            *(f"{limit}: the endpoint does not say it; a default was assumed." for limit in engine.assumed),
        ],
        "engine": _limits(engine.limits),
        "outside": {
            "frontend_s": way.frontend_s,
            "network_s": way.network_s,
            "apart_s": way.frontend_s,  # one thread prepares the prompts, so they enter one after another
        },
        "fit": {
            "free": list(calibration.free),
            "start": _coefficients(calibration.step_time),
            "unknown": unknown,
        },
    }
    fitted = with_calibration(stored, calibration)
    return fitted | {"fit": fitted["fit"] | {"unknown": unknown}}


def _limits(limits: EngineLimits) -> Json:
    default = EngineLimits(limits.num_gpu_blocks)
    always = ("num_gpu_blocks", "block_size", "max_num_batched_tokens", "max_num_seqs", "max_model_len")
    told = dataclasses.asdict(limits)
    return {k: v for k, v in told.items() if k in always or v != getattr(default, k)}


def _coefficients(step_time: StepTime) -> Json:
    return {k: v for k, v in dataclasses.asdict(step_time).items() if v}
