"""… and Saturation Point: what more requests in flight than the engine has places for buy, and cost."""

from collections.abc import Mapping, Sequence

from nlqlib.artifacts import Record
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import FULL_REQUESTS, Level, at, level_spec, levels, sweep
from nlqlib.records import Json

BEYOND: Mapping[str, Sequence[int]] = {"full": (24, 32, 40, 48), "quick": (16, 32, 40, 48)}
"""The article's 32, 40 and 48, after one level that throughput must still rise from."""
SHORT: Mapping[str, Sequence[int]] = {"full": (32, 40, 48), "quick": ()}
"""Levels measured once more with the article's number of requests; quick ones are shorter already."""
HEADLINE = 32
"""In the quick profile only the article's capacity region is repeated."""


def saturation_levels(
    study: Study, concurrency: Sequence[int], repeats: int, n: int, seed: int
) -> list[Level]:
    """The sweep in its shuffled order: each level `repeats` times, in the quick profile only `HEADLINE`."""
    chosen = concurrency or BEYOND[study.profile]
    wanted = levels(study, "beyond", chosen, n=n, repeats=repeats, seed=seed)
    return [w for w in wanted if not study.quick or w.repeat <= 1 or w.concurrency == HEADLINE]


def beyond(
    study: Study, concurrency: Sequence[int] = (), repeats: int = 3, n: int = 0, seed: int = 0
) -> list[Record]:
    """The levels around and beyond the engine's limit of running sequences."""
    return sweep(study, saturation_levels(study, concurrency, repeats, n, seed))


def short(study: Study, seed: int = 0) -> list[Record]:
    """The article's 150 requests at its three concurrencies; nothing in the quick profile."""
    return sweep(study, short_levels(study, seed))


def short_levels(study: Study, seed: int) -> list[Level]:
    """See `short`."""
    return levels(study, "short", SHORT[study.profile], n=FULL_REQUESTS, seed=seed)


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`, each with the study of its variant."""
    wanted = saturation_levels(
        study, params["beyond"], int(params["repeats"]), int(params["n_requests"]), int(params["seed"])
    )
    wanted += short_levels(study, int(params["seed"]))
    return [(at(study, level), level_spec(level)) for level in wanted]
