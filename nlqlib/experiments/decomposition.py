"""Where request time goes: one warm request at a time, under load, streamed, and behind a gateway."""

from collections.abc import Mapping, Sequence

from nlqlib.artifacts import Record
from nlqlib.experiments.arm import Arm, arm, measure
from nlqlib.experiments.arm import points as planned
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import levels
from nlqlib.records import Json

LOADS: Mapping[str, Sequence[int]] = {"full": (8, 16, 32), "quick": (4, 16)}
STREAMED: Mapping[str, Sequence[int]] = {"full": (1, 16), "quick": (1, 4)}
STREAMED_REQUESTS, STREAMED_WAVES = 40, 5
"""Of a full streamed arm: two cycles of the questions; a token is an event, and means need no more."""
GATEWAY: Mapping[str, tuple[int, int, int]] = {"full": (16, 12, 8), "quick": (4, 3, 2)}
"""In flight, the router's limit and the replica's: a quarter waits at each."""


def alone_arms(study: Study, n: int, seed: int) -> list[Arm]:
    """One warm request at a time: the article's measurement."""
    return [arm(x) for x in levels(study, "alone", (1,), n=n, seed=seed)]


def load_arms(study: Study, loads: Sequence[int], n: int, seed: int) -> list[Arm]:
    """The same prompts with `loads` in flight, by default the profile's own."""
    return [arm(x) for x in levels(study, "load", loads or LOADS[study.profile], n=n, seed=seed)]


def streamed_arms(study: Study, n: int, seed: int) -> list[Arm]:
    """Streamed answers: the client sees its first token and the gaps between tokens itself."""
    found = []
    for k in STREAMED[study.profile]:
        wanted = n or (0 if study.quick else max(STREAMED_REQUESTS, STREAMED_WAVES * k))
        found += [arm(x, stream=True) for x in levels(study, "streamed", (k,), n=wanted, seed=seed)]
    return found


def gateway_arms(study: Study, n: int, seed: int) -> list[Arm]:
    """Behind a gateway of ours, where the limits are ours to set; else nothing."""
    if "set_limits" not in study.target.can:
        return []
    k, router, replica = GATEWAY[study.profile]
    return [arm(x, router=router, replica=replica) for x in levels(study, "gateway", (k,), n=n, seed=seed)]


def alone(study: Study, n: int = 0, seed: int = 0) -> Record:
    """The sequential arm; `n` requests, 0: the profile's own."""
    return measure(study, alone_arms(study, n, seed))[0]


def under_load(study: Study, loads: Sequence[int] = (), n: int = 0, seed: int = 0) -> list[Record]:
    """The arms under load, ascending as given."""
    return measure(study, load_arms(study, loads, n, seed))


def streamed(study: Study, n: int = 0, seed: int = 0) -> list[Record]:
    """The streamed arms."""
    return measure(study, streamed_arms(study, n, seed))


def gateway(study: Study, n: int = 0, seed: int = 0) -> list[Record]:
    """The arm behind a gateway, or nothing where none can be put there."""
    return measure(study, gateway_arms(study, n, seed))


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`, each with the study of its variant."""
    n, seed = int(params["n_requests"]), int(params["seed"])
    wanted = [
        *alone_arms(study, n, seed),
        *load_arms(study, params["loads"], n, seed),
        *streamed_arms(study, n, seed),
        *gateway_arms(study, n, seed),
    ]
    return planned(study, wanted)
