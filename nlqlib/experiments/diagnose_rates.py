"""How often the diagnosis is right: sweeps of deployments whose limit is known, in a world of queues.

Nothing here is measured. Answers differ in length and the machine drifts from level to level, by stated
shares; each deployment is looked at with everything seen, from outside, and by its curve alone. The counts
are deterministic: the same code gives the same table.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from nlqlib.analysis.diagnosis import Diagnosis, SweepLevel, diagnose
from nlqlib.analysis.diagnosis_cause import Kind
from nlqlib.experiments.diagnose_engines import Engine, Prefilled, Shared, Slots, varied
from nlqlib.experiments.diagnose_world import Site, from_outside, of_the_curve, sweep

Judged = Literal["right", "number off", "cannot tell", "wrong"]
JUDGED: tuple[Judged, ...] = ("right", "number off", "cannot tell", "wrong")
LIMITING = ("limited", "serialised upstream")
SERVICE_S, NETWORK_S = 2.0, 0.02
SEEDS = (1, 2, 3)
NOISES = ((0.0, 0.0), (0.1, 0.0), (0.3, 0.0), (0.1, 0.05), (0.1, 0.1))
"""Relative standard deviations: of the answers' service times, and of the machine from level to level."""
VIEWS: dict[str, Callable[[SweepLevel], SweepLevel]] = {
    "everything seen": lambda row: row,
    "from outside": from_outside,
    "the curve alone": of_the_curve,
}
Make = Callable[[Callable[[int], float]], Engine]
"""An engine, from the service time of each request."""


@dataclass(frozen=True)
class Truth:
    """A deployment, and the verdict that is due."""

    name: str
    make: Make
    kinds: tuple[Kind, ...]
    """Verdicts that are right where everything is seen."""
    limit: int | None = None
    outside: tuple[Kind, ...] | None = None
    """Those right without headers and metrics, if they differ."""
    pool: int | None = None
    router: int | None = None
    replica: int | None = None
    replicas: int = 1
    failing: float = 0.0
    rejecting: int | None = None

    def due(self, view: str) -> tuple[Kind, ...]:
        """The verdicts that are right in `view`."""
        return self.kinds if self.outside is None or view == "everything seen" else self.outside


def _slots(service: Callable[[int], float]) -> Engine:
    return Slots(service)


def _collapsing(m: int) -> float:
    """How much slower each of `m` is: four exhaust the engine, and beyond eight it loses throughput."""
    return max(1.0, m / 4) * max(1.0, m / 8)


def _fading(slowing: float) -> Make:
    return lambda service: Shared(service, lambda m: 1 - slowing + slowing * m)


LIMITED: tuple[Kind, ...] = LIMITING  # type: ignore[assignment]
TRUTHS = (
    *(Truth(f"router limit {k}", _slots, LIMITED, k, router=k) for k in (1, 2, 4, 8)),
    Truth("replica limit 4, an engine that slows", _fading(0.1), LIMITED, 4, replica=4),
    Truth("two replicas of limit 2", _slots, LIMITED, 4, replica=2, replicas=2),
    Truth("router limit 4, a tenth fails", _slots, LIMITED, 4, router=4, failing=0.1),
    Truth("refuses more than 4", _slots, LIMITED, 4, rejecting=4),
    Truth("max_num_seqs 4", lambda s: Slots(s, 4), ("scheduler-limited",), 4, LIMITED),
    Truth("client pool of 8", _slots, ("client-limited",), 8, pool=8),
    Truth("no limit", _slots, ("batching works",)),
    Truth("no limit, throughput fades", _fading(0.3), ("batching works",)),
    Truth("no limit, exhausted at 6", lambda s: Shared(s, lambda m: max(1.0, m / 6)), ("batching works",)),
    Truth("no limit, collapses beyond 8", lambda s: Shared(s, _collapsing), ("batching works",)),
    Truth("as busy with one as with many", _fading(1.0), ("cannot tell",)),
    Truth(
        "prompts taken in turn",
        lambda s: Prefilled(SERVICE_S / 4, s),
        ("scheduler-limited", "cannot tell"),
        outside=("cannot tell", "batching works"),
    ),
    Truth(
        "prompts taken in turn, short answers",
        lambda s: Prefilled(SERVICE_S, lambda i: s(i) / 20),
        ("scheduler-limited", "cannot tell"),
        outside=("cannot tell",),
    ),
)
"""The last three have no limit on requests: naming one would be wrong, and silence is right."""


@dataclass(frozen=True)
class Case:
    """One diagnosis of one deployment, judged."""

    truth: str
    view: str
    spread: float
    drift: float
    seed: int
    judged: Judged
    said: str
    marked: bool
    """The verdict carries a reservation, such as what else would look the same."""


def cases(truths: Sequence[Truth] = TRUTHS, seeds: Sequence[int] = SEEDS) -> Iterator[Case]:
    """Every deployment under every noise, by every view."""
    for truth in truths:
        for spread, drift in NOISES:
            for seed in seeds:
                rows = sweep(_site(truth, spread, seed), at=_drifting(truth, spread, drift, seed))
                for view, look in VIEWS.items():
                    found = diagnose([look(row) for row in rows])
                    told = "cannot tell" if found.kind == "cannot tell" else found.verdict
                    yield Case(
                        truth.name, view, spread, drift, seed, judge(truth, view, found), told, found.marked
                    )


def judge(truth: Truth, view: str, found: Diagnosis) -> Judged:
    """Whether `found` is the verdict that was due."""
    due = truth.due(view)
    if found.kind in due:
        right = truth.limit is None or found.limit == truth.limit or found.kind == "cannot tell"
        return "right" if right else "number off"
    return "cannot tell" if found.kind == "cannot tell" else "wrong"


def _site(truth: Truth, spread: float, seed: int, slower: float = 1.0) -> Site:
    service = varied(SERVICE_S * slower, spread, seed)
    return Site(
        lambda: truth.make(service),
        truth.pool,
        truth.router,
        truth.replica,
        truth.replicas,
        NETWORK_S,
        truth.failing,
        truth.rejecting,
        seed=seed,
    )


def _drifting(truth: Truth, spread: float, drift: float, seed: int) -> Callable[[Site, int], Site]:
    """Each level finds the machine slower or faster by a log-normal factor of its own."""

    def at(site: Site, n: int) -> Site:
        if not drift:
            return site
        factor = math.exp(np.random.default_rng(1000 * seed + n).normal(0.0, drift))
        return replace(_site(truth, spread, seed, factor), seed=site.seed)

    return at
