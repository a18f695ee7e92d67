"""`diagnose`: where an endpoint loses concurrency.

It reads saved runs as well: the folder that `sweep --out`, `diagnose --out` or a notebook wrote.
"""

import json
import os
import sys
import tempfile
import textwrap
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from nlqlib.analysis.diagnosis import Diagnosis
from nlqlib.analysis.staircase import MIN_PROCESSES
from nlqlib.artifacts import Record, Store
from nlqlib.commands import InputError
from nlqlib.experiments import diagnose_limits, staircase
from nlqlib.experiments.chats import ChatsError, load_chats
from nlqlib.experiments.diagnose import NOTEBOOK, Plan, default_grid, of_records, sweep, verdict
from nlqlib.experiments.saved_levels import (
    controlled_staircase,
    saved_staircase,
    sweep_name,
    sweep_records,
)
from nlqlib.experiments.study import Profile, Study
from nlqlib.load.closed_loop import LoadError
from nlqlib.plan import LimitError
from nlqlib.records import Json
from nlqlib.run_settings import PROFILES
from nlqlib.serving.target import Target, open_target

WIDTH = 100


def diagnose(
    source: str | None,
    target: str,
    *,
    concurrency: str | None = None,
    requests: int = 0,
    workload: str | None = None,
    limits: Json | None = None,
    pool: int | None = None,
    workers: int = 1,
    processes: int = 0,
    profile: str | None = None,
    repeats: int = 0,
    points: str = "*",
    out: str | None = None,
    as_json: bool = False,
) -> int:
    """Diagnose the saved runs in the folder `source`, or else `target`, measured now; 1 if it cannot tell.

    `limits`: admission limits put in front of the target (`router`, `replica` …); `workers`: processes that
    share the load; `processes`: so many independent ones test the staircase as well, 0 for none; `profile`:
    full or quick, by default that of the target; `repeats`: so often, at most, every level is measured again
    while noise leaves the verdict open; `points`: a pattern that the names of saved points match.
    """
    if source is not None:
        saved = one_sweep(source, points)
        found = of_records(saved, saved_staircase(Path(source), saved[0]))
        named = f"saved runs in {source}"
    else:
        plan = _plan(concurrency, requests, workload, pool, repeats, workers)
        found, named = _measured(target, plan, limits or {}, out, processes, profile)
    print(_json(found, named) if as_json else text(found, named))
    return 1 if found.kind == "cannot tell" else 0


def _plan(
    concurrency: str | None, requests: int, workload: str | None, pool: int | None, repeats: int, workers: int
) -> Plan:
    chosen = tuple(sorted(_concurrencies(concurrency))) if concurrency else ()
    if requests < 0 or workers < 1 or (pool is not None and pool < 1):
        raise InputError("--requests, --workers and --pool take numbers from 1 on")
    if repeats < 0:
        raise InputError("--repeats takes a number from 0 on")
    if workers > 1 and pool is not None:
        raise InputError("--pool shows one process that limits, so it does not go with --workers")
    plan = Plan(chosen, requests, pool=pool, repeats=repeats, workers=workers)
    if workload is None:
        return plan
    try:
        chats, identity = load_chats(workload)
    except ChatsError as error:
        raise InputError(str(error)) from error
    return replace(plan, chats=tuple(chats), workload=identity)


def _concurrencies(told: str) -> set[int]:
    """`1,8,16` as numbers. Raises `InputError`."""
    try:
        found = {int(part) for part in told.split(",")}
    except ValueError as error:
        raise InputError(f"--concurrency takes numbers such as 1,2,4,8,16,32, not {told!r}") from error
    if min(found) < 1 or len(found) < 2:
        raise InputError(f"--concurrency takes several numbers from 1 on, such as 1,2,4,8, not {told!r}")
    return found


def _measured(
    target: str, plan: Plan, limits: Json, out: str | None, processes: int, profile: str | None
) -> tuple[Diagnosis, str]:
    """Sweep the target and diagnose it; the points are kept in `out`, or nowhere."""
    with ExitStack() as stack:
        opened = stack.enter_context(closing(open_target(target, progress=_tell)))
        _check_processes(processes, opened, plan)
        if plan.workers > 1 and opened.kind == "twin":
            raise InputError("workers need real time: run `serve twin`, and diagnose its address with them")
        there = stack.enter_context(closing(_behind(opened, limits)))
        root = Path(out) if out else Path(stack.enter_context(tempfile.TemporaryDirectory()))
        study = Study(NOTEBOOK, there, _profile(profile, there), "wire", Store(root))
        grid = plan.concurrency or default_grid(study)
        whole = replace(plan, concurrency=grid)
        try:
            diagnose_limits.check(study, whole, processes, os.environ)
            _tell(diagnose_limits.planned(study, whole, processes))
            swept = sweep(study, whole, _tell)
        except LimitError as error:
            raise InputError(str(error)) from error
        except LoadError as error:
            raise InputError(f"nothing was answered: {error}") from error
        stairs = None
        if processes:
            _tell(f"{processes} independent processes, and two controls beside them")
            stairs = controlled_staircase(staircase.measure(study, staircase.trial(study, processes)))
        return verdict(swept, stairs), f"target {there.name}, times {there.time_tag}"


def _profile(told: str | None, target: Target) -> Profile:
    """`full` or `quick`: as told, else as the environment's PROFILE says, else the target's own."""
    chosen: Any = told or os.environ.get("PROFILE") or target.profile
    if chosen not in PROFILES:
        raise InputError(f"unknown profile {chosen!r}: use full or quick")
    told_profile: Profile = chosen
    return told_profile


def _check_processes(processes: int, target: Target, plan: Plan) -> None:
    """Raise `InputError` where independent processes cannot be tried."""
    if processes and processes < MIN_PROCESSES:
        raise InputError(f"--processes takes {MIN_PROCESSES} or more: fewer show no staircase")
    if processes and target.kind == "twin":
        raise InputError("processes need real time: run `serve twin`, and diagnose its address with them")
    if processes and plan.chats:
        raise InputError("--processes sends the study's questions, so it does not go with --workload")


def _behind(target: Target, limits: Json) -> Target:
    """`target`, behind our own gateway where limits are asked for."""
    asked = {k: v for k, v in limits.items() if v is not None}
    return target.limited(**asked) if asked else target


def one_sweep(source: str, points: str) -> list[Record]:
    """The levels in the folder `source` that match, if they are one sweep. Raises `InputError`."""
    folder = Path(source)
    if not folder.is_dir():
        raise InputError(f"{source} is no folder; give the one that sweep or diagnose wrote with --out")
    found = [r for r in sweep_records(folder) if fnmatch(str(r.body["point"]), points)]
    if not found:
        raise InputError(f"no measured levels in {source} match {points!r}; `sweep --out` writes some")
    names = sorted({sweep_name(r) for r in found})
    if len(names) > 1:
        listed = "; ".join(names)
        raise InputError(
            f"{source} holds {len(names)} sweeps ({listed}): choose one by its folder or --points"
        )
    return found


def text(found: Diagnosis, named: str) -> str:
    """The diagnosis for people: the sentence, the evidence, the layers, the blind spots, what to do."""
    evidence = [(e.name, e.value, e.reading) for e in found.evidence]
    layers = [(row.name, row.state, row.finding) for row in found.layers]
    parts = [
        *wrapped(f"{found.sentence[:1].upper()}{found.sentence[1:]}."),
        f"({named})",
        "",
        "Evidence",
        *_rows(evidence),
        "",
        "Layers, from the outside in",
        *_rows(layers),
        "",
        "Not observable",
        *(line for gap in found.not_observable for line in wrapped(f"- {gap}")),
        "",
        *wrapped(f"Next experiment: {found.next_experiment}."),
    ]
    if found.remedy:
        parts += ["", "Where to change it", *_rows([(k, v) for k, v in found.remedy.items()])]
    return "\n".join(parts)


def _rows(rows: Sequence[tuple[str, ...]]) -> list[str]:
    """Columns side by side, the last one wrapped."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]) - 1)] if rows else []
    lines: list[str] = []
    for row in rows:
        head = "  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=False)) + "  "
        if len(head) > WIDTH // 2 and len(row) == 3:  # a long value gets a line of its own
            lines += wrapped(f"{row[0]}: {row[1]}", "  ") + wrapped(row[2], "      ")
        else:
            lines += textwrap.wrap(row[-1], WIDTH, initial_indent=head, subsequent_indent=" " * len(head))
    return lines


def wrapped(line: str, indent: str = "") -> list[str]:
    return textwrap.wrap(line, WIDTH, initial_indent=indent, subsequent_indent=indent + "  ")


def _json(found: Diagnosis, named: str) -> str:
    return json.dumps({"source": named, **found.as_json()}, indent=2, ensure_ascii=False)


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
