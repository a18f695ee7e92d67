"""Confirming that concurrency reaches the scheduler: repeated runs at 32, and a scrape under 28 in flight.

The three runs have different seeds, so that on the twin their answers differ in length. Beside them one level
is measured behind limits of one request, for the gain, and one whose metrics are scraped in its middle.
"""

from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace

from nlqlib.artifacts import Record
from nlqlib.experiments.admission import Design, behind, planned, sets_limits
from nlqlib.experiments.path_level import PathLevel, counted, path_level
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import FULL_REQUESTS, QUICK_REQUESTS, QUICK_WAVES, at, levels
from nlqlib.progress import progress
from nlqlib.records import Json
from nlqlib.serving.target import TargetError

CONCURRENCY = {"full": 32, "quick": 16}
SCRAPED = {"full": 28, "quick": 14}
"""In flight while the metrics are scraped, as in the article, or the same share of the quick concurrency."""
BEFORE = {"full": 32, "quick": 4}
"""In flight behind limits of one request; the throughput there is the same at any concurrency."""
LIFTED, LOST = "high/high", "low/low"


@dataclass(frozen=True)
class Asked:
    """What the page measures."""

    concurrency: int
    scraped: int
    runs: int
    n: int
    """Requests of each run; 0: the profile's own."""
    seed: int


def asked(study: Study, concurrency: int, scraped: int, runs: int, n: int, seed: int) -> Asked:
    """The page's parameters, with the profile's own values for 0. Raises `TargetError`."""
    if runs < 1:
        raise TargetError(f"runs is how often the level is measured: 1 or more, not {runs}")
    return Asked(concurrency or CONCURRENCY[study.profile], scraped or SCRAPED[study.profile], runs, n, seed)


def requests_of(study: Study, wanted: Asked, concurrency: int) -> int:
    """Requests of a level: the article's 150, or two for each in flight in the quick profile."""
    quick = max(QUICK_REQUESTS, QUICK_WAVES * concurrency)
    return wanted.n or (quick if study.quick else FULL_REQUESTS)


def run_levels(study: Study, wanted: Asked) -> list[PathLevel]:
    """The repeated runs, each with a seed of its own."""
    n = requests_of(study, wanted, wanted.concurrency)
    found = levels(study, "run", (wanted.concurrency,), n=n, repeats=wanted.runs, seed=wanted.seed)
    return sorted((path_level(x, LIFTED) for x in found), key=lambda level: level.repeat)


def scrape_level(study: Study, wanted: Asked) -> PathLevel:
    """The level in whose middle the metrics are scraped."""
    n = requests_of(study, wanted, wanted.scraped)
    [found] = levels(study, "scrape", (wanted.scraped,), n=n, seed=wanted.seed)
    return path_level(found, LIFTED)


def before_level(study: Study, wanted: Asked) -> PathLevel:
    """One level behind limits of one request."""
    concurrency = BEFORE[study.profile]
    n = requests_of(study, wanted, concurrency)
    [found] = levels(study, "before", (concurrency,), n=n, seed=wanted.seed)
    return path_level(found, LOST)


def runs(study: Study, wanted: Asked) -> list[Record]:
    """The repeated runs with the limits lifted."""
    return _measured(study, LIFTED, wanted, run_levels(study, wanted))


def scraped(study: Study, wanted: Asked) -> Record:
    """The level with the scrape in its middle."""
    [found] = _measured(study, LIFTED, wanted, [scrape_level(study, wanted)])
    return found


def before(study: Study, wanted: Asked) -> Record | None:
    """The level behind limits of one request; `None` where the limits are not ours to set."""
    if not sets_limits(study):
        return None
    [found] = _measured(study, LOST, wanted, [before_level(study, wanted)])
    return found


def _measured(study: Study, cell: str, wanted: Asked, asked_for: Sequence[PathLevel]) -> list[Record]:
    there = behind(study, cell, Design())
    with ExitStack() as stack, progress(len(asked_for), "concurrency") as bar:
        if there is not study:
            stack.enter_context(closing(there.target))
        return [counted(there, own(study, level), bar) for level in asked_for]


def own(study: Study, level: PathLevel) -> PathLevel:
    """`level` without the name of a cell where the limits are not ours: it is measured as deployed."""
    return level if sets_limits(study) else replace(level, cell="")


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the page under its `params`, each with the study of its variant."""
    names = ("concurrency", "scraped", "runs", "n_requests", "seed")
    wanted = asked(study, *(int(params[name]) for name in names))
    lifted = [own(study, x) for x in (*run_levels(study, wanted), scrape_level(study, wanted))]
    lost = [before_level(study, wanted)] if sets_limits(study) else []
    return [
        (at(behind(study, cell, Design()), level), planned(study, level, Design()))
        for cell, of in ((LIFTED, lifted), (LOST, lost))
        for level in of
    ]
