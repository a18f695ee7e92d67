"""`sweep`: throughput and latency of a closed loop at each concurrency, or of an open loop.

As a table, JSON, and artifacts; see `commands_sweep_open` for the open loop.
"""

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import pandas as pd

from nlqlib import commands_sweep_open
from nlqlib.artifacts import Record, Store
from nlqlib.commands import InputError
from nlqlib.commands_sweep_arguments import CLOSED
from nlqlib.commands_sweep_open import Options
from nlqlib.experiments import sweep_limits
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import Level, levels, measure_level
from nlqlib.experiments.sweep_open import OpenLoad, measure_open
from nlqlib.experiments.sweep_rows import broken, failures, rows, told
from nlqlib.experiments.sweep_workers import SharedLevel, measure_shared, shared
from nlqlib.load.closed_loop import LoadError
from nlqlib.plan import LimitError
from nlqlib.records import Json
from nlqlib.serving.target import open_target

NOTEBOOK = "sweep"
"""Names the folder of the points under `--out`."""
COLUMNS = {
    "x_run": ("X_run", ".3f"),
    "x_window": ("X_window", ".3f"),
    "p50": ("p50_s", ".3f"),
    "p95": ("p95_s", ".3f"),
    "mean": ("mean_s", ".3f"),
    "running": ("running", ".1f"),
    "waiting": ("waiting", ".1f"),
}
"""Column of `rows` → its heading and format; throughputs in valid answers per second."""


def run(
    target: str,
    concurrency: str | None,
    requests: int,
    repeats: int,
    *,
    out: str | None = None,
    as_json: bool = False,
    **options: Any,
) -> int:
    """Measure every level and show it; 1 when a request failed or a rule was broken.

    `options`: the other fields of `commands_sweep_open.Options`. Raises `InputError`.
    """
    asked = Options(requests, repeats, **options)
    if asked.open_loop and (concurrency is not None or asked.workers != 1):
        raise InputError("an open loop has no --concurrency and no --workers: requests come when they come")
    chosen = [] if asked.open_loop else _concurrencies(concurrency or CLOSED)
    _check(chosen, asked)
    with ExitStack() as stack:
        opened = stack.enter_context(closing(open_target(target, progress=_tell)))
        root = Path(out) if out else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        study = Study(NOTEBOOK, opened, opened.profile, "wire", Store(root))
        wanted = _wanted(study, chosen, asked)
        _limited(study, wanted)
        found = _measured(study, wanted)
        _show(found, study, out, as_json)
    return _status(found)


def _limited(study: Study, wanted: Sequence[Level | OpenLoad]) -> None:
    """Say what will be sent. Raises `InputError` where that is more than is allowed."""
    try:
        sweep_limits.check(study, wanted, os.environ)
    except LimitError as error:
        raise InputError(str(error)) from error
    _tell(sweep_limits.planned(study, wanted))


def _wanted(study: Study, chosen: Sequence[int], asked: Options) -> Sequence[Level | OpenLoad]:
    if asked.open_loop:
        return commands_sweep_open.wanted(study, NOTEBOOK, asked)
    repeats = asked.repeats if asked.repeats > 1 else 0
    found = levels(
        study, NOTEBOOK, chosen, n=asked.requests, repeats=repeats, seed=asked.seed, words=asked.words
    )
    if asked.workers == 1:
        return found
    if study.target.kind == "twin":
        raise InputError("workers need real time: run `serve twin`, and sweep its address with them")
    return [shared(level, asked.workers) for level in found]


def _concurrencies(text: str) -> list[int]:
    """`1,8,16` as numbers. Raises `InputError`."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--concurrency takes numbers such as 1,8,16, not {text!r}") from error
    if min(found) < 1 or len(set(found)) < len(found):
        raise InputError(f"--concurrency takes different numbers from 1 on, such as 1,8,16, not {text!r}")
    return found


def _check(concurrency: Sequence[int], asked: Options) -> None:
    if asked.requests < 0 or asked.repeats < 1 or asked.workers < 1:
        raise InputError("--requests, --repeats and --workers take numbers from 1 on")
    if 0 < asked.requests < max(concurrency, default=0):
        raise InputError(
            f"--requests {asked.requests} are fewer than {max(concurrency)} in flight: send at least so "
            "many, or leave it out"
        )
    if concurrency and asked.workers > max(concurrency):
        raise InputError(
            f"{asked.workers} workers share at most {max(concurrency)} requests in flight: take fewer"
        )


def _measured(study: Study, wanted: Sequence[Level | OpenLoad]) -> list[Record]:
    found = []
    for i, load in enumerate(wanted, start=1):
        _tell(f"[{i}/{len(wanted)}] {_named(load)}")
        try:
            found.append(_measure(study, load))
        except LoadError as error:
            raise InputError(f"{_named(load).split(',')[0]}: {error}") from error
    return found


def _named(load: Level | OpenLoad) -> str:
    if isinstance(load, OpenLoad):
        rate = (
            "the times of a trace"
            if load.rate is None
            else f"{load.arrivals} arrivals at {load.rate:g} req/s"
        )
        return f"{rate}, {len(load.times_s)} requests over {load.times_s[-1]:.0f} s"
    by = f" by {load.workers} processes" if isinstance(load, SharedLevel) else ""
    return f"concurrency {load.concurrency}, {load.requests} requests{by}"


def _measure(study: Study, load: Level | OpenLoad) -> Record:
    if isinstance(load, OpenLoad):
        return measure_open(study, load)
    return measure_shared(study, load) if isinstance(load, SharedLevel) else measure_level(study, load)


def _show(found: Sequence[Record], study: Study, out: str | None, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_told(r, out) for r in found], indent=2, ensure_ascii=False))
        return
    name, tag, words = study.target.name, study.target.time_tag, found[0].params["words"]
    kind, shown = ("open", commands_sweep_open.table) if "arrivals" in found[0].params else ("closed", table)
    print(f"target {name} (times {tag}); answers {words}; {kind} loop on a warm prefix\n")
    print(shown(found).to_string(index=False))
    if out:
        print(f"\n{len(found)} points in {out}")


def table(found: Sequence[Record]) -> pd.DataFrame:
    """The levels as text; a dash is a missing value."""
    seen = rows(found)
    shown = {name: seen[name] for name in ("concurrency", "repeat", "n", "ok", "failed")}
    for column, (heading, form) in COLUMNS.items():
        shown[heading] = seen[column].map(lambda v, form=form: told(v, form))
    verdicts = ["held" if not broken(r) else "; ".join(rule.rule for rule in broken(r)) for r in found]
    return pd.DataFrame({**shown, "validity": verdicts})


def _told(record: Record, out: str | None) -> Json:
    """One level as JSON: everything that was asked and found, and where it is kept."""
    return {
        "target": record.body["target"],
        "params": record.params,
        "requests": record.requests,
        "metrics": record.body["metrics"],
        "validity": record.body["validity"],
        "artifact": str(record.path) if out else None,
    }


def _status(found: Sequence[Record]) -> int:
    problems = [f"{_place(r)}: {p}" for r in found if (p := _problem(r))]
    for problem in problems:
        _tell(f"nlqlib: {problem}")
    return 1 if problems else 0


def _place(record: Record) -> str:
    asked = record.params
    return f"concurrency {asked['concurrency']}" if "concurrency" in asked else str(record.body["point"])


def _problem(record: Record) -> str:
    parts = [f"broken: {rule.rule}" for rule in broken(record)]
    failed = failures(record.requests)
    return "; ".join(([f"failed: {failed}"] if failed != "0" else []) + parts)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
