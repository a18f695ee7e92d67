"""The Operating Knee: the dense sweep, the clean repeated sweep, and what they are held against.

Beside the article's two sweeps stand a *short* one, with the article's 150 requests at every level, to see
how much of the bend is ramp and drain, and on the twin a *recorded* one, whose answers have the lengths of a
real model's instead of the article's.
"""

from collections.abc import Mapping, Sequence

from nlqlib.artifacts import Record
from nlqlib.experiments import block_accounting, calibration
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import FULL_REQUESTS, Level, at, level_spec, levels, sweep
from nlqlib.records import Json

DENSE: Mapping[str, Sequence[int]] = {"full": (1, 8, 16, 18, 24, 32), "quick": (1, 2, 4, 8, 16, 32)}
REPEATED: Mapping[str, Sequence[int]] = {"full": (12, 16, 20, 24), "quick": (8, 16)}
REPEATS = 3
"""The least that have an interval."""
SHORT: Mapping[str, Sequence[int]] = {"full": (16, 24, 32), "quick": ()}
"""A quick level is shorter than the article's already."""


def dense_levels(study: Study, concurrency: Sequence[int], n: int) -> list[Level]:
    """The dense sweep: `concurrency` or, when empty, the profile's own."""
    return levels(study, "dense", concurrency or DENSE[study.profile], n=n)


def repeated_levels(study: Study, concurrency: Sequence[int], n: int) -> list[Level]:
    """The repeated sweep in its shuffled order."""
    chosen = concurrency or REPEATED[study.profile]
    return levels(study, "repeated", chosen, n=n, repeats=REPEATS)


def short_levels(study: Study) -> list[Level]:
    """The article's 150 requests at its larger concurrencies."""
    return levels(study, "short", SHORT[study.profile], n=FULL_REQUESTS)


def recorded_levels(study: Study, concurrency: Sequence[int], n: int) -> list[Level]:
    """The dense sweep with recorded answers; only the twin has any."""
    if study.target.kind != "twin":
        return []
    return levels(study, "recorded", concurrency or DENSE[study.profile], n=n, words="recordings")


def dense(study: Study, concurrency: Sequence[int] = (), n: int = 0) -> list[Record]:
    """Each concurrency once, ascending as given; `n` requests each (0: the profile's own)."""
    return sweep(study, dense_levels(study, concurrency, n))


def repeated(study: Study, concurrency: Sequence[int] = (), n: int = 0) -> list[Record]:
    """Each concurrency `REPEATS` times, in one shuffled order."""
    return sweep(study, repeated_levels(study, concurrency, n))


def short(study: Study) -> list[Record]:
    """150 requests at each of the larger concurrencies; nothing in the quick profile."""
    return sweep(study, short_levels(study))


def recorded(study: Study, concurrency: Sequence[int] = (), n: int = 0) -> list[Record]:
    """The dense sweep over recorded answers; nothing where the model itself answers."""
    return sweep(study, recorded_levels(study, concurrency, n))


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`, each with the study of its variant."""
    at_once, n = params["dense"], int(params["n_requests"])
    wanted = [
        *dense_levels(study, at_once, n),
        *repeated_levels(study, params["repeated"], n),
        *short_levels(study),
        *recorded_levels(study, at_once, n),
    ]
    beside = [(block_accounting.at(study), block_accounting.SPEC)]
    if study.target.kind != "twin":
        beside.append((study, calibration.SPEC))
    return [*((at(study, level), level_spec(level)) for level in wanted), *beside]
