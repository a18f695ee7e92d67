"""The open loops of `sweep`: what was asked for, checked, and the table they make."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from nlqlib.artifacts import Record
from nlqlib.commands import InputError
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import Words
from nlqlib.experiments.sweep_open import OpenLoad, as_offered, loads
from nlqlib.experiments.sweep_rows import broken, failures, told
from nlqlib.load.arrivals import TraceError, trace

CV = 2.0
COLUMNS = {
    "X_run": ("throughput_run", "mean", ".3f"),
    "p50_s": ("e2e_latency", "p50", ".3f"),
    "p95_s": ("e2e_latency", "p95", ".3f"),
    "p95_planned_s": ("e2e_latency_planned", "p95", ".3f"),
    "in_flight": ("in_flight", "peak", ".0f"),
    "running": ("running", "mean", ".1f"),
    "waiting": ("waiting", "mean", ".1f"),
}
"""Heading → name, statistic and format of a metric."""


@dataclass(frozen=True)
class Options:
    """What `sweep` was asked for beside the target; `None` and 0: not said."""

    requests: int = 0
    repeats: int = 1
    seed: int = 0
    words: Words = "synthetic"
    workers: int = 1
    rate: str | None = None
    arrivals: str | None = None
    cv: float | None = None
    trace: str | None = None

    @property
    def open_loop(self) -> bool:
        """Whether requests come by a plan."""
        return any(v is not None for v in (self.rate, self.arrivals, self.cv, self.trace))


def wanted(study: Study, name: str, asked: Options) -> list[OpenLoad]:
    """The loads that the options ask for. Raises `InputError`."""
    if asked.trace is not None:
        return _traced(study, name, asked)
    if asked.rate is None:
        raise InputError("--arrivals and --cv need a --rate")
    kind: Any = asked.arrivals or "poisson"
    if asked.cv is not None and kind != "gamma":
        raise InputError(f"--cv belongs to --arrivals gamma; {kind} arrivals have their own")
    how: Any = {"n": asked.requests, "cv": CV if asked.cv is None else asked.cv, "repeats": asked.repeats}
    try:
        return loads(study, name, kind, _rates(asked.rate), seed=asked.seed, words=asked.words, **how)
    except ValueError as error:
        raise InputError(str(error)) from error


def _traced(study: Study, name: str, asked: Options) -> list[OpenLoad]:
    """The trace, as often as it is to be repeated; only its first requests where fewer are asked for."""
    if any(other is not None for other in (asked.rate, asked.arrivals, asked.cv)):
        raise InputError("--trace holds every start, so it does not go with --rate, --arrivals or --cv")
    assert asked.trace is not None
    try:
        times = tuple(map(float, trace(asked.trace)))
    except TraceError as error:
        raise InputError(str(error)) from error
    times = times[: asked.requests or len(times)]
    once = OpenLoad(name, "trace", times, words=asked.words)
    every = range(1, asked.repeats + 1) if asked.repeats > 1 else (0,)
    return [as_offered(study, replace(once, repeat=r, seed=asked.seed + r)) for r in every]


def _rates(text: str) -> list[float]:
    """`1,2.5` as numbers. Raises `InputError`."""
    try:
        found = [float(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--rate takes requests per second such as 2 or 1,2,4, not {text!r}") from error
    if not all(math.isfinite(r) and r > 0 for r in found) or len(set(found)) < len(found):
        raise InputError(f"--rate takes different positive numbers such as 1,2,4, not {text!r}")
    return found


def table(found: Sequence[Record]) -> pd.DataFrame:
    """The loads as text; a dash is a missing value."""
    return pd.DataFrame([_row(record) for record in found])


def _row(record: Record) -> dict[str, object]:
    rules, counts = broken(record), record.requests
    return {
        "arrivals": record.params["arrivals"],
        "rate": told(record.value("offered_rate", "mean"), ".3g"),
        "repeat": record.params["repeat"],
        "n": counts.get("total", 0),
        "ok": counts.get("ok", 0),
        "failed": failures(counts),
        **{head: told(record.value(name, stat), form) for head, (name, stat, form) in COLUMNS.items()},
        "validity": "; ".join(rule.rule for rule in rules) or "held",
    }
