"""The admission path: a sweep before and one after, and the full factorial that the article could not run.

Two limits stand in front of the engine: the router's (`concurrency_target` in the article's deployment) and
the replica's (`predict_concurrency`). A *cell* is a setting of both, named `router/replica`: `low/low` is
before the article's change, `high/high` after it. Where the target lets us, our own gateway holds the limits;
an endpoint whose limits are not ours takes the label of the cell it is deployed as, is run once for each
deployment, and the cells are merged from what the earlier runs retained.
"""

import random
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from nlqlib.analysis.factorial import CELLS, Cell
from nlqlib.artifacts import Record
from nlqlib.experiments.path_level import PathLevel, counted, path_level, retained, spec
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import FULL_REQUESTS, QUICK_REQUESTS, QUICK_WAVES, Level, at, levels
from nlqlib.progress import progress
from nlqlib.records import Json
from nlqlib.serving.target import TargetError

LOW, HIGH = 1, 32
"""The article does not say its settings; 1 is what its curve shows, 32 what its engine may run at once."""
SWEPT: Mapping[str, Mapping[str, Sequence[int]]] = {
    "full": {"low/low": (1, 2, 4, 8, 16, 32), "high/high": (1, 2, 4, 8, 12, 16, 20, 24, 32)},
    "quick": {"low/low": (1, 4, 16), "high/high": (1, 4, 16)},
}
"""Concurrencies of both sweeps: the article's before, and after it those that its objectives choose from."""
TOGETHER = {"full": 32, "quick": 4}
"""In flight in every cell of the factorial."""
REPEATS = {"full": 3, "quick": 2}
LEAST_REQUESTS = 8
"""Of a level of a quick sweep: X(16) / X(1) is what the page is about, and four answers do not give X(1)."""
ENDS_AGAIN = 3
"""Further measurements of the ends of the sweep before, where a machine drifts."""
LEAST_AT_ENDS = 5
"""Of each of them in a quick sweep, at least one for each in flight: behind a limit each costs seconds."""
COLD_REQUESTS = 10
"""So few that one cold prompt moves p95, which is nearly their slowest."""
AS_DEPLOYED = "as deployed"
NAMES = {"low/low": "before", "high/high": "after"}


@dataclass(frozen=True)
class Design:
    """What the page measures: the values of the two settings, the load, and whose limits they are."""

    low: int = LOW
    high: int = HIGH
    together: int = 0
    """Requests in flight in every cell of the factorial; 0: the profile's own."""
    n: int = 0
    """Requests of each level; 0: the profile's own."""
    seed: int = 0
    cell: str = ""
    """What an endpoint whose limits are not ours is deployed as; empty: nobody says."""


def label(cell: Cell) -> str:
    """`low/high`: the router's setting, then the replica's."""
    return "/".join(cell)


LABELS = tuple(label(cell) for cell in CELLS)


def design(
    study: Study,
    low: int = LOW,
    high: int = HIGH,
    together: int = 0,
    n: int = 0,
    cell: str = "",
) -> Design:
    """The design of a page's parameters. Raises `TargetError` for ones that measure nothing."""
    if not 1 <= low < high:
        raise TargetError(f"low and high are limits with 1 ≤ low < high, not {low} and {high}")
    if cell and sets_limits(study):
        raise TargetError("cell names how an endpoint is deployed; on this target the limits are set by us")
    if cell and cell not in LABELS:
        raise TargetError(f"a cell is one of {', '.join(LABELS)} (router/replica), not {cell!r}")
    return Design(low, high, together or TOGETHER[study.profile], n, cell=cell)


def sets_limits(study: Study) -> bool:
    """Whether the limits are ours to set, by a gateway in front of the engine."""
    return "set_limits" in study.target.can


def behind(study: Study, cell: str, wanted: Design) -> Study:
    """`study` behind a gateway with the limits of `cell`; as it is where the limits are not ours."""
    if not sets_limits(study) or cell not in LABELS:
        return study
    value = {"low": wanted.low, "high": wanted.high}
    router, replica = cell.split("/")
    return replace(study, target=study.target.limited(router=value[router], replica=value[replica]))


def sweep_levels(study: Study, cell: str, wanted: Design) -> list[PathLevel]:
    """The levels of the sweep of one cell; one as deployed is swept like that after."""
    swept = SWEPT[study.profile]
    concurrency = swept.get(cell, swept["high/high"])
    name = NAMES.get(cell, cell.replace("/", "-") or "deployed")
    found = levels(study, name, concurrency, n=wanted.n, seed=wanted.seed)
    if study.quick and not wanted.n:
        found = [replace(x, requests=max(x.requests, LEAST_REQUESTS)) for x in found]
    return [path_level(x, cell) for x in [*found, *_ends_again(study, cell, name, wanted)]]


def _ends_again(study: Study, cell: str, name: str, wanted: Design) -> list[Level]:
    """The smallest and the largest concurrency before, in pairs of random order; none on the twin.

    A machine whose speed drifts over minutes makes a flat throughput look like a trend: neighbours in time
    share the drift, and the order within a pair follows from the design's seed.
    """
    swept = SWEPT[study.profile].get(cell, ())
    if study.target.kind == "twin" or cell != "low/low" or len(swept) < 2:
        return []
    pairs, order = [], random.Random(wanted.seed)
    for r in range(1, ENDS_AGAIN + 1):
        pair = levels(study, name, (swept[0], swept[-1]), n=wanted.n, seed=wanted.seed + r)
        if study.quick and not wanted.n:
            pair = [replace(x, requests=max(x.concurrency, LEAST_AT_ENDS)) for x in pair]
        order.shuffle(pair)
        pairs += [replace(x, repeat=r) for x in pair]
    return pairs


def factorial_levels(study: Study, cell: str, wanted: Design) -> list[PathLevel]:
    """The repeats of one cell of the factorial, each with a seed of its own: the article's 150 requests."""
    n = wanted.n or (max(QUICK_REQUESTS, QUICK_WAVES * wanted.together) if study.quick else FULL_REQUESTS)
    name = f"cell-{cell.replace('/', '-')}"
    repeats = REPEATS[study.profile]
    found = levels(study, name, (wanted.together,), n=n, repeats=repeats, seed=wanted.seed)
    return [path_level(x, cell) for x in found]


def cold_levels(study: Study, wanted: Design) -> list[PathLevel]:
    """A short level on an engine that has seen no prompt yet; on a fresh twin only."""
    if study.target.kind != "twin":
        return []
    found = levels(study, "cold", (1,), n=COLD_REQUESTS, seed=wanted.seed)
    return [path_level(x, "low/low", warm=False) for x in found]


def swept_cells(study: Study, wanted: Design) -> tuple[str, ...]:
    """The cells whose sweep a run measures or looks for."""
    if sets_limits(study):
        return tuple(NAMES)
    return tuple(dict.fromkeys([*NAMES, wanted.cell]))


def named(cell: str) -> str:
    """`before`, `after`, the cell's own label, or `as deployed`."""
    return NAMES.get(cell, cell or AS_DEPLOYED)


def sweeps(study: Study, wanted: Design) -> dict[str, list[Record]]:
    """The sweep of each cell that can be had, by its name: measured now, or kept by an earlier run.

    `before` and `after` where the limits are ours; else the deployment's own, and those of other deployments
    that carried their label.
    """
    asked = {cell: sweep_levels(study, cell, wanted) for cell in swept_cells(study, wanted)}
    found = {named(cell): measured_cell(study, cell, wanted, of) for cell, of in asked.items()}
    return {name: sorted(records, key=_place) for name, records in found.items() if records}


def measured_cell(study: Study, cell: str, wanted: Design, asked: Sequence[PathLevel]) -> list[Record]:
    """The levels `asked` of one cell: measured where the cell is this deployment, else as retained."""
    if not sets_limits(study) and cell != wanted.cell:
        return [r for level in asked if (r := retained(study, level)) is not None]
    there = behind(study, cell, wanted)
    with ExitStack() as stack, progress(len(asked), f"{named(cell)}, concurrency") as bar:
        if there is not study:
            stack.enter_context(closing(there.target))
        return [counted(there, level, bar) for level in asked]


def cold(study: Study, wanted: Design) -> list[Record]:
    """The short cold level, where an engine can be had that has seen no prompt yet."""
    return measured_cell(study, "low/low", wanted, cold_levels(study, wanted))


def cells(study: Study, wanted: Design) -> dict[Cell, list[Record]]:
    """The factorial: the repeats of each cell that can be had, measured in one shuffled order.

    The order follows from the design's seed, so that nothing that drifts passes for an effect of a limit.
    """
    ours = sets_limits(study)
    mine = [cell for cell in CELLS if ours or label(cell) == wanted.cell]
    order = [(cell, level) for cell in mine for level in factorial_levels(study, label(cell), wanted)]
    random.Random(wanted.seed).shuffle(order)
    found: dict[Cell, list[Record]] = {cell: [] for cell in mine}
    with ExitStack() as stack, progress(len(order), "factorial, concurrency") as bar:
        there = {cell: behind(study, label(cell), wanted) for cell in mine}
        for variant in there.values() if ours else ():
            stack.enter_context(closing(variant.target))
        for cell, level in order:
            found[cell].append(counted(there[cell], level, bar))
    others = {cell: _kept(study, cell, wanted) for cell in CELLS if cell not in mine}
    every = {**found, **others}
    return {cell: sorted(every[cell], key=_repeat) for cell in CELLS if every[cell]}


def _kept(study: Study, cell: Cell, wanted: Design) -> list[Record]:
    asked = factorial_levels(study, label(cell), wanted)
    return [r for level in asked if (r := retained(study, level)) is not None]


def _place(record: Record) -> tuple[int, int]:
    return int(record.params["concurrency"]), _repeat(record)


def _repeat(record: Record) -> int:
    return int(record.params["repeat"])


def planned(study: Study, level: PathLevel, wanted: Design) -> Spec:
    """The point for the plan: behind a limit a real engine has no more requests at once than it admits."""
    found = spec(level)
    if study.target.kind == "twin" or not level.cell:
        return found
    admitted = wanted.low if "low" in level.cell else wanted.high
    return replace(found, concurrency=min(found.concurrency, admitted))


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point that the page measures under its `params`, each with the study of its variant."""
    wanted = design(
        study,
        low=int(params["low"]),
        high=int(params["high"]),
        together=int(params["together"]),
        n=int(params["n_requests"]),
        cell=str(params["cell"]),
    )
    ours = sets_limits(study)
    asked = {cell: sweep_levels(study, cell, wanted) for cell in swept_cells(study, wanted)}
    for cell in LABELS:
        asked[cell] = [*asked.get(cell, []), *factorial_levels(study, cell, wanted)]
    asked["low/low"] += cold_levels(study, wanted)
    return [
        (at(behind(study, cell, wanted), level), planned(study, level, wanted))
        for cell, of in asked.items()
        if ours or cell == wanted.cell
        for level in of
    ]
