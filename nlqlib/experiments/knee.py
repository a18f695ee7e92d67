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
SHORT: Mapping[str, Sequence[int]] = {"full": (16, 24, 32), "quick": ()}
"""A quick level is shorter than the article's already."""


def dense_levels(study: Study, concurrency: Sequence[int], n: int, seed: int) -> list[Level]:
    """The dense sweep: `concurrency` or, when empty, the profile's own."""
    return levels(study, "dense", concurrency or DENSE[study.profile], n=n, seed=seed)


def repeated_levels(study: Study, concurrency: Sequence[int], repeats: int, n: int, seed: int) -> list[Level]:
    """The repeated sweep in its shuffled order; nothing when `repeats` is 0."""
    if not repeats:
        return []
    return levels(study, "repeated", concurrency or REPEATED[study.profile], n=n, repeats=repeats, seed=seed)


def short_levels(study: Study, seed: int) -> list[Level]:
    """The article's 150 requests at its larger concurrencies."""
    return levels(study, "short", SHORT[study.profile], n=FULL_REQUESTS, seed=seed)


def recorded_levels(study: Study, concurrency: Sequence[int], n: int, seed: int) -> list[Level]:
    """The dense sweep with recorded answers; only the twin has any."""
    if study.target.kind != "twin":
        return []
    chosen = concurrency or DENSE[study.profile]
    return levels(study, "recorded", chosen, n=n, seed=seed, words="recordings")


def dense(study: Study, concurrency: Sequence[int] = (), n: int = 0, seed: int = 0) -> list[Record]:
    """Each concurrency once, ascending as given."""
    return sweep(study, dense_levels(study, concurrency, n, seed))


def repeated(
    study: Study, concurrency: Sequence[int] = (), repeats: int = 3, n: int = 0, seed: int = 0
) -> list[Record]:
    """Each concurrency `repeats` times, in one order shuffled by `seed`."""
    return sweep(study, repeated_levels(study, concurrency, repeats, n, seed))


def short(study: Study, seed: int = 0) -> list[Record]:
    """150 requests at each of the larger concurrencies; nothing in the quick profile."""
    return sweep(study, short_levels(study, seed))


def recorded(study: Study, concurrency: Sequence[int] = (), n: int = 0, seed: int = 0) -> list[Record]:
    """The dense sweep over recorded answers; nothing where the model itself answers."""
    return sweep(study, recorded_levels(study, concurrency, n, seed))


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`, each with the study of its variant."""
    at_once, n, seed = params["dense"], int(params["n_requests"]), int(params["seed"])
    wanted = [
        *dense_levels(study, at_once, n, seed),
        *repeated_levels(study, params["repeated"], int(params["repeats"]), n, seed),
        *short_levels(study, seed),
        *recorded_levels(study, at_once, n, seed),
    ]
    beside = (
        [block_accounting.SPEC] if study.target.kind == "twin" else [calibration.SPEC, block_accounting.SPEC]
    )
    levels = [(at(study, level), level_spec(level)) for level in wanted]
    return [*levels, *((study, spec) for spec in beside)]
