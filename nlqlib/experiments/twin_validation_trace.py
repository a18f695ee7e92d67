"""The twin against a measured run with preemption: fitted on its even requests, judged on its odd ones.

The run is one folder with `meta.json` (the engine's configuration) and `requests.jsonl` (lengths and times
of every request, seconds). It is not part of the project: `NLQLIB_FIXTURES` names the folder it lies in.
"""

import json
import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from nlqlib.experiments.twin_validation_check import Check, holds, not_run, within
from nlqlib.records import Json
from nlqlib.twin.calibrate import TRACE_COEFFICIENTS, Trace, fit_trace, replay, trace_errors
from nlqlib.twin.datasheet import LLAMA31_8B, RTX_4090, roofline
from nlqlib.twin.limits import EngineLimits, version_defaults

GROUP = "RTX 4090 run"
VARIABLE = "NLQLIB_FIXTURES"
RUN = "vllm-rtx4090-llama-3.1-8b"
FREE = ("fixed_s", "token_s", "sequence_s")
FIXED_S, SEQUENCE_S = 0.002, 1e-5
"""Where the fit starts what no data sheet tells: launching a step, sampling for a sequence."""
MEAN_BOUND, P99_BOUND = 0.02, 0.03


class TraceError(ValueError):
    """A run that cannot be read; the text says which file and what is missing."""


def checks() -> list[Check]:
    """Every mean and P99 over the odd requests, or one row that says why it was not run."""
    named = os.environ.get(VARIABLE)
    if not named:
        return [_not_run(f"set {VARIABLE} to the folder that holds {RUN}/")]
    folder = Path(named) / RUN
    if not folder.is_dir():
        return [_not_run(f"{VARIABLE} names a folder without {RUN}/")]
    try:
        limits, measured = read_run(folder)
    except TraceError as error:
        return [_not_run(str(error))]
    return judge(limits, measured)


def _not_run(why: str) -> Check:
    return not_run(GROUP, "means and P99 on odd requests", "≤ 2.0% and ≤ 3.0%", "predicted", why)


def judge(limits: EngineLimits, measured: Trace, free: tuple[str, ...] = FREE) -> list[Check]:
    """Fit `free` on the even requests of `measured` and judge the odd ones."""
    even = np.arange(len(measured.prompt_tokens)) % 2 == 0
    start = replace(roofline(LLAMA31_8B, RTX_4090), fixed_s=FIXED_S, sequence_s=SEQUENCE_S)
    found, unknown = fit_trace(limits, start, free, measured, even)
    errors = trace_errors(replay(limits, found, measured), measured, ~even)
    told = ", ".join(free) + (f"; not determined: {', '.join(unknown)}" if unknown else "")
    bound, ok = f"≤ {TRACE_COEFFICIENTS} coefficients", len(free) <= TRACE_COEFFICIENTS
    few = holds(GROUP, "fitted on even requests", bound, len(free), ok, "counted", told)
    return [few, *(_judged(name, error) for name, error in sorted(errors.items()))]


def _judged(name: str, error: float) -> Check:
    stat, span = name.split("_")
    bound = MEAN_BOUND if stat == "mean" else P99_BOUND
    return within(GROUP, f"{stat.replace('p99', 'P99')} {span}, odd requests", error, bound, "predicted")


def read_run(folder: Path) -> tuple[EngineLimits, Trace]:
    """The engine and the requests of the run in `folder`, in order of arrival. Raises `TraceError`.

    Arrivals are wall-clock time and everything else the engine's own clock; the request that got there
    fastest ties the two together.
    """
    try:
        meta = json.loads((folder / "meta.json").read_text("utf-8"))
        rows = [json.loads(line) for line in (folder / "requests.jsonl").read_text("utf-8").splitlines()]
        return _limits(meta), _trace(rows)
    except OSError as error:
        name = Path(error.filename or "").name
        raise TraceError(f"cannot read {folder.name}/{name}: {error.strerror}") from None
    except KeyError as error:
        raise TraceError(f"{folder.name} lacks the field {error}") from None
    except ValueError as error:
        raise TraceError(f"{folder.name} cannot be read: {error}") from None


def _limits(meta: Json) -> EngineLimits:
    engine, cache = meta["engine_kwargs"], meta["kv_cache"]
    return EngineLimits(
        cache["num_gpu_blocks"],
        block_size=cache["block_size"],
        max_num_seqs=engine["max_num_seqs"],
        max_num_batched_tokens=engine["max_num_batched_tokens"],
        max_model_len=engine["max_model_len"],
        enable_prefix_caching=cache["enable_prefix_caching"],
        **version_defaults(meta["vllm_version"]),
    )


def _trace(rows: list[Json]) -> Trace:
    if not rows:
        raise TraceError("the run has no requests")
    names = ("arrival_time", "queued_ts", "scheduled_ts", "first_token_ts", "last_token_ts")
    column = {name: np.array([row[name] for row in rows], dtype=float) for name in names}
    arrival = column["arrival_time"] + np.min(column["queued_ts"] - column["arrival_time"])
    zero = arrival[0]
    return Trace(
        arrival - zero,
        tuple(int(row["input_toks"]) for row in rows),
        tuple(int(row["output_toks"]) for row in rows),
        *(column[name] - zero for name in names[2:]),
    )
