"""Ruling out KV pressure: usage foretold and sampled, with and without sharing, and under pressure."""

from collections.abc import Mapping, Sequence
from functools import lru_cache

from nlqlib import tokens
from nlqlib.analysis.kv import InFlight, ModelShape
from nlqlib.artifacts import Record
from nlqlib.experiments.arm import Arm, arm, measure
from nlqlib.experiments.arm import points as planned
from nlqlib.experiments.conditions import CONDITIONS, requests
from nlqlib.experiments.model_data import Machine, UnknownModelError, machine, model_shape
from nlqlib.experiments.questions import load_questions
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import SET, levels
from nlqlib.nlq.catalog import load_catalog
from nlqlib.records import Json
from nlqlib.twin.model import load

LOADS: Mapping[str, Sequence[int]] = {"full": (1, 8, 16, 28), "quick": (1, 4, 16)}
ARTICLE_CONCURRENCY = 28
UNSHARED: Mapping[str, tuple[int, int]] = {"full": (28, 140), "quick": (4, 4)}
"""In flight and requests when nothing is shared: every prompt is computed whole, 27 s each on two cores."""
PRESSED_BLOCKS = 300
"""Of 16 tokens, where 28 requests need about 350: so few that pressure must show (the twin only)."""
PRESSED_REQUESTS = 140


def load_arms(study: Study, loads: Sequence[int], n: int, seed: int) -> list[Arm]:
    """The article's workload with `loads` in flight, by default the profile's own."""
    return [arm(x) for x in levels(study, "shared", loads or LOADS[study.profile], n=n, seed=seed)]


def unshared_arms(study: Study, seed: int) -> list[Arm]:
    """The same prompts, each request under a salt of its own: nothing is shared."""
    k, n = UNSHARED[study.profile]
    return [arm(x, unshared=True) for x in levels(study, "unshared", (k,), n=n, seed=seed)]


def pressed_arms(study: Study, seed: int) -> list[Arm]:
    """The positive control: an engine with too few KV blocks; on the twin, whose blocks are a setting."""
    if study.target.kind != "twin":
        return []
    found = levels(study, "pressed", (ARTICLE_CONCURRENCY,), n=PRESSED_REQUESTS, seed=seed)
    return [arm(x, num_blocks=PRESSED_BLOCKS) for x in found]


def under_load(study: Study, loads: Sequence[int] = (), n: int = 0, seed: int = 0) -> list[Record]:
    """The arms with a shared prefix, ascending as given."""
    return measure(study, load_arms(study, loads, n, seed))


def unshared(study: Study, seed: int = 0) -> list[Record]:
    """The arm in which nothing is shared."""
    return measure(study, unshared_arms(study, seed))


def pressed(study: Study, seed: int = 0) -> list[Record]:
    """The positive control, or nothing where the number of blocks is not ours to set."""
    return measure(study, pressed_arms(study, seed))


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`, each with the study of its variant."""
    n, seed = int(params["n_requests"]), int(params["seed"])
    wanted = [
        *load_arms(study, params["loads"], n, seed),
        *unshared_arms(study, seed),
        *pressed_arms(study, seed),
    ]
    return planned(study, wanted)


@lru_cache(maxsize=1)
def prompt_lengths() -> tuple[tuple[int, ...], int]:
    """Tokens of each prompt of the workload by Qwen's tokenizer, and of the beginning all have in common."""
    asked = requests(load_questions(SET), CONDITIONS["baseline"], load_catalog())
    ids = [tokens.encode(tokens.chat_text(r.messages)) for r in asked]
    return tuple(len(i) for i in ids), _common(ids)


def _common(ids: Sequence[Sequence[int]]) -> int:
    """How many leading tokens are the same in all."""
    first = ids[0]
    return next((i for i, t in enumerate(first) if any(other[i : i + 1] != [t] for other in ids)), len(first))


def in_flight(concurrency: int, output_tokens: float, prompt_tokens: float | None = None) -> InFlight:
    """The workload with `concurrency` in flight.

    `prompt_tokens`: the server's own mean; where its tokenizer is another, ours is scaled to it.
    """
    lengths, common = prompt_lengths()
    scale = 1.0 if prompt_tokens is None else prompt_tokens * len(lengths) / sum(lengths)
    scale = 1.0 if abs(scale - 1) < 0.002 else scale
    scaled = tuple(round(n * scale) for n in lengths)
    return InFlight(concurrency, scaled, min(round(common * scale), *scaled), max(1, round(output_tokens)))


def served_shape(study: Study, record: Record, name: str = "") -> tuple[ModelShape | None, str]:
    """The shape of the model served (on the twin: modelled) and its name, or `None` and why not.

    `name` overrides what target and server say.
    """
    server = record.server
    modelled = load(study.target.declared["twin"]).model if study.target.kind == "twin" else None
    wanted = name or modelled or study.target.declared.get("model") or (server.model if server else None)
    if not wanted:
        return None, "the model is not named: set MODEL or the notebook's model_config"
    try:
        return model_shape(str(wanted)), str(wanted)
    except UnknownModelError as unknown:
        return None, str(unknown)


def served_machine(study: Study, record: Record, name: str = "") -> tuple[Machine | None, str]:
    """The accelerator's peaks and its name, or `None` and why not; `name` overrides what the server says."""
    told = load(study.target.declared["twin"]).accelerator if study.target.kind == "twin" else None
    server = record.server
    wanted = name or told or (server.accelerator if server else None) or ""
    if not wanted:
        return None, "the endpoint does not say its accelerator: set the notebook's accelerator"
    try:
        return machine(wanted), wanted
    except UnknownModelError as unknown:
        return None, str(unknown)
