"""The batch driver: checks, plans and runs the notebooks, and says what became of every point.

A run that fails or is interrupted ends with the command that resumes it; finished points are never
measured twice. Whether a point is done is read from its artifact, never from a notebook.
"""

import json
import signal
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from nlqlib import paths
from nlqlib.files import WriteError
from nlqlib.notebook_batch import Batch
from nlqlib.notebook_params import ParameterError, declared, pairs, passed
from nlqlib.notebook_run import Notebook
from nlqlib.plan import (
    HEADER,
    Asked,
    LimitError,
    Plan,
    PlanFunction,
    check_limits,
    most_line,
    plan_rows,
    table,
)
from nlqlib.run_report import report
from nlqlib.run_settings import RunSettings, SettingError, parse, select

EngineContext = Callable[[], AbstractContextManager[Mapping[str, str]]]
"""Starts the engine of `TARGET=local`; the mapping is what kernels must find in their environment."""


@dataclass(frozen=True)
class Places:
    """Where notebooks are read and results written."""

    notebooks: Path = paths.NOTEBOOKS
    build: Path = paths.BUILD
    artifacts: Path = paths.ARTIFACTS


def main(
    argv: Sequence[str],
    *,
    plans: Mapping[str, PlanFunction] | None = None,
    engine: EngineContext | None = None,
    places: Places | None = None,
) -> int:
    """Run the command `argv`, which begins with `reproduce` or `plan`; the exit status.

    0: all succeeded, 1: some notebooks failed, 2: nothing was begun, 130: interrupted. `plan` only prints
    what `reproduce` would send and how long that takes. `engine` starts the engine of `TARGET=local`; it
    is not entered when the plan sends nothing.
    """
    command = {"reproduce": _reproduce, "plan": _plan}[argv[0]]
    return _guarded(lambda: command(argv[1:], plans or {}, engine, places or Places()))


def _plan(
    argv: Sequence[str], plans: Mapping[str, PlanFunction], engine: EngineContext | None, places: Places
) -> int:
    settings = parse("plan", argv)
    planned = _announce_plan(settings, prepare(settings, places), plans)
    if settings.json:
        print(json.dumps({name: p.to_json() if p else None for name, p in planned.items()}, indent=2))
    return 0


def _guarded(call: Callable[[], int]) -> int:
    """The exit status of `call`; what the user can mend is one line."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        return call()
    except (SettingError, ParameterError, LimitError, WriteError) as error:
        print(f"nlqlib: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        where = f": {error.filename}" if error.filename else ""
        print(f"nlqlib: {error.strerror or error}{where}", file=sys.stderr)
        return 2


def _reproduce(
    argv: Sequence[str], plans: Mapping[str, PlanFunction], engine: EngineContext | None, places: Places
) -> int:
    settings = parse("reproduce", argv)
    notebooks = prepare(settings, places)
    planned = _announce_plan(settings, notebooks, plans)
    needed = settings.target == "local" and any(p is None or p.requests for p in planned.values())
    due = {name for name, p in planned.items() if p and p.requests}
    batch = Batch(settings, places.build, places.artifacts)
    started = time.monotonic()
    with _terminable():
        try:
            with engine() if engine and needed else nullcontext({}) as extra:
                results = batch.run(notebooks, extra, due)
        except KeyboardInterrupt:  # while the engine was started or ended
            results = batch.results(notebooks)
    return report(settings, results, time.monotonic() - started)


def prepare(settings: RunSettings, places: Places) -> list[Notebook]:
    """The selected notebooks with their checked parameters; starts nothing.

    Raises `SettingError` and `ParameterError`.
    """
    names = select([p.stem for p in places.notebooks.glob("[!.]*.ipynb")], settings.notebooks)
    known = {name: declared(places.notebooks / f"{name}.ipynb") for name in names}
    given = passed(pairs(settings.params), known)
    return [
        Notebook(places.notebooks / f"{name}.ipynb", {**settings.implied(known[name]), **given[name]})
        for name in names
    ]


def _announce_plan(
    settings: RunSettings, notebooks: Sequence[Notebook], plans: Mapping[str, PlanFunction]
) -> dict[str, Plan | None]:
    """Print the plan, and hold it to the limits."""
    planned = {n.name: plans[n.name](_asked(settings, n)) if n.name in plans else None for n in notebooks}
    settings.say(f"target {settings.target_name}, profile {settings.effective_profile}")
    settings.say(table(HEADER, plan_rows(planned)))
    if most := most_line(planned):
        settings.say(most)
    check_limits(planned, settings.max_requests, settings.max_tokens)
    return planned


def _asked(settings: RunSettings, notebook: Notebook) -> Asked:
    return Asked(
        notebook=notebook.name,
        target=settings.target,
        profile=settings.effective_profile,
        client=settings.client,
        params={**declared(notebook.path), **notebook.parameters},
        remeasure=settings.remeasure,
    )


@contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM and SIGHUP end the run as Ctrl-C does: points kept, no process left."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
