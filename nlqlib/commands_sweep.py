"""`sweep`: throughput and latency of a closed loop at each concurrency, as a table, JSON, and artifacts."""

import json
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack, closing
from pathlib import Path

import pandas as pd

from nlqlib.artifacts import Record, Store
from nlqlib.commands import InputError
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import Level, Words, levels, measure_level
from nlqlib.experiments.sweep_rows import broken, failures, rows, told
from nlqlib.load.closed_loop import LoadError
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
    concurrency: str,
    requests: int,
    repeats: int,
    *,
    seed: int = 0,
    words: Words = "synthetic",
    out: str | None = None,
    as_json: bool = False,
) -> int:
    """Measure every level and show it; 1 when a request failed or a rule was broken."""
    chosen = _concurrencies(concurrency)
    _check(chosen, requests, repeats)
    with ExitStack() as stack:
        opened = stack.enter_context(closing(open_target(target, progress=_tell)))
        root = Path(out) if out else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        study = Study(NOTEBOOK, opened, opened.profile, "wire", Store(root))
        wanted = levels(
            study, NOTEBOOK, chosen, n=requests, repeats=repeats if repeats > 1 else 0, seed=seed, words=words
        )
        found = _measured(study, wanted)
        _show(found, study, out, as_json)
    return _status(found)


def _concurrencies(text: str) -> list[int]:
    """`1,8,16` as numbers. Raises `InputError`."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError as error:
        raise InputError(f"--concurrency takes numbers such as 1,8,16, not {text!r}") from error
    if min(found) < 1 or len(set(found)) < len(found):
        raise InputError(f"--concurrency takes different numbers from 1 on, such as 1,8,16, not {text!r}")
    return found


def _check(concurrency: Sequence[int], requests: int, repeats: int) -> None:
    if requests < 0 or repeats < 1:
        raise InputError("--requests and --repeats take numbers from 1 on")
    if 0 < requests < max(concurrency):
        raise InputError(
            f"--requests {requests} are fewer than {max(concurrency)} in flight: send at least so many, "
            "or leave it out"
        )


def _measured(study: Study, wanted: Sequence[Level]) -> list[Record]:
    found = []
    for i, level in enumerate(wanted, start=1):
        _tell(f"[{i}/{len(wanted)}] concurrency {level.concurrency}, {level.requests} requests")
        try:
            found.append(measure_level(study, level))
        except LoadError as error:
            raise InputError(f"concurrency {level.concurrency}: {error}") from error
    return found


def _show(found: Sequence[Record], study: Study, out: str | None, as_json: bool) -> None:
    if as_json:
        print(json.dumps([_told(r, out) for r in found], indent=2, ensure_ascii=False))
        return
    name, tag, words = study.target.name, study.target.time_tag, found[0].params["words"]
    print(f"target {name} (times {tag}); answers {words}; closed loop on a warm prefix\n")
    print(table(found).to_string(index=False))
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
    problems = [f"concurrency {r.params['concurrency']}: {p}" for r in found if (p := _problem(r))]
    for problem in problems:
        _tell(f"nlqlib: {problem}")
    return 1 if problems else 0


def _problem(record: Record) -> str:
    parts = [f"broken: {rule.rule}" for rule in broken(record)]
    failed = failures(record.requests)
    return "; ".join(([f"failed: {failed}"] if failed != "0" else []) + parts)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
