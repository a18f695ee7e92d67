"""The runs behind the control-to-signal map: one control changed at a time, on as few engines as possible.

Runs that need the same settings of the engine share one, since a real engine takes the better part of a
minute to start; the predictions are written down before the first of them.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from itertools import groupby
from typing import Any

from nlqlib.artifacts import Measured, Record
from nlqlib.experiments import control_answers as answers
from nlqlib.experiments import control_run, sweep
from nlqlib.experiments.context_engine import make_room
from nlqlib.experiments.control_data import digest, rows, statements
from nlqlib.experiments.control_run import Trial
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import Words
from nlqlib.progress import Progress, progress
from nlqlib.records import Json
from nlqlib.serving.target import Target, TargetError

STANDARD = "standard"
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    STANDARD: {},
    "seqs-08": {"max_num_seqs": 8},
    "seqs-16": {"max_num_seqs": 16},
    "budget-4096": {"max_num_batched_tokens": 4096},
    "chunks-off": {"enable_chunked_prefill": False, "max_num_batched_tokens": 4096},
    "caching-off": {"enable_prefix_caching": False},
}
"""Settings of the engine by name. Without chunks a whole prompt must fit into one step, so that the window of
4,096 tokens sets the budget of a step; `budget-4096` changes the budget alone."""
TWIN_ONLY = frozenset({"budget-4096"})
"""A restart more, for a comparison that matters less: not on a real engine."""
FULL, QUICK = "full", "quick"
TOGETHER = 32
WHOLE = 0
LENGTHS: Mapping[str, int] = {"0.8k": 800, "1.6k": 1600, "3.3k": WHOLE}
"""Prompts by name and the tokens wanted; `WHOLE`: the article's own prompt of about 3,300."""
BATCH: Mapping[str, Mapping[str, Any]] = {
    FULL: {"n": 320, "repeats": 3, "prompt": WHOLE, "tokens": None},
    QUICK: {"n": 64, "repeats": 1, "prompt": LENGTHS["0.8k"], "tokens": 16},
}
"""What is sent to batch. In the quick profile the prompt is short: a whole one costs 27 s on every start."""
ALONE: Mapping[str, Mapping[str, Any]] = {
    FULL: {"n": 10, "repeats": 3, "cold": {"0.8k": 3, "1.6k": 3, "3.3k": 3}, "off": 3},
    QUICK: {"n": 1, "repeats": 3, "cold": {"0.8k": 3, "1.6k": 2, "3.3k": 1}, "off": 2},
}
"""One request at a time: how many in a row, how often; `cold` is how often each length is computed whole."""
SHORT_ANSWER, LONG_ANSWER = 16, 64
INTERRUPTED: Mapping[str, Json] = {FULL: {"repeats": 3}, QUICK: {"repeats": 1}}
POINT = "predictions"
WHOLE_TOKENS, COLD_TOKENS_PER_S, TOKEN_S, RESTART_S = 3_300, 120.0, 0.08, 45.0
"""For the plan of a real engine on two cores: a whole prompt, prefill, one token alone, and a start."""


# ---- what is run -----------------------------------------------------------------------------------------


def trials(study: Study, seed: int = 0) -> list[Trial]:
    """Every run of the profile on this target, those of one engine together."""
    found = [
        *_batched(study, STANDARD, "client-01", seed, concurrency=1),
        *_alone(study, seed),
        *_batched(study, STANDARD, "seqs-32", seed),
        *_interrupted(study, STANDARD, "chunks-on", seed),
        *_batched(study, "seqs-08", "seqs-08", seed),
        *_batched(study, "seqs-16", "seqs-16", seed),
        *_interrupted(study, "budget-4096", "budget-4096", seed),
        *_interrupted(study, "chunks-off", "chunks-off", seed),
        *_uncached(study, seed),
    ]
    named = digest()
    on_twin = study.target.kind == "twin"
    return [replace(t, predictions=named) for t in found if on_twin or t.variant not in TWIN_ONLY]


def _batched(study: Study, variant: str, name: str, seed: int, concurrency: int = TOGETHER) -> list[Trial]:
    """A closed loop against the engine's limit, `TOGETHER` in flight."""
    load = BATCH[study.profile]
    n = load["n"] if concurrency > 1 else max(4, load["n"] // 16)
    return _trials(
        study,
        name,
        seed,
        load["repeats"],
        concurrency=concurrency,
        requests=n,
        variant=variant,
        prompt=load["prompt"],
        output_tokens=load["tokens"],
    )


def _alone(study: Study, seed: int) -> list[Trial]:
    """Prompts of each length, cached and computed whole, and a longer answer: one request at a time."""
    load, found = ALONE[study.profile], []
    one: Json = {"concurrency": 1, "output_tokens": SHORT_ANSWER, "stream": True}
    for name, wanted in LENGTHS.items():
        cached = {**one, "requests": load["n"], "prompt": wanted}
        found += _trials(study, f"prompt-{name}-cached", seed, load["repeats"], **cached)
    long = {**one, "requests": load["n"], "prompt": LENGTHS["0.8k"], "output_tokens": LONG_ANSWER}
    found += _trials(study, "answer-long", seed, load["repeats"], **long)
    for name, wanted in LENGTHS.items():
        whole = {**one, "requests": 1, "prompt": wanted, "unshared": True}
        found += _trials(study, f"prompt-{name}-whole", seed, load["cold"][name], **whole)
    return found


def _uncached(study: Study, seed: int) -> list[Trial]:
    """The short prompt, repeated, on an engine without a prefix cache."""
    load = ALONE[study.profile]
    asked: Json = {"concurrency": 1, "requests": load["n"], "prompt": LENGTHS["0.8k"], "stream": True}
    asked |= {"output_tokens": SHORT_ANSWER, "variant": "caching-off"}
    return _trials(study, "caching-off", seed, load["off"], **asked)


def _interrupted(study: Study, variant: str, name: str, seed: int) -> list[Trial]:
    """Answers in progress, and a long prompt that comes in between."""
    asked: Json = {"concurrency": 4, "requests": 4, "prompt": LENGTHS["0.8k"], "stream": True}
    asked |= {"output_tokens": LONG_ANSWER, "variant": variant, "interrupted": True}
    return _trials(study, name, seed, INTERRUPTED[study.profile]["repeats"], **asked)


def _trials(study: Study, name: str, seed: int, repeats: int, **fields: Any) -> list[Trial]:
    """One run and its repeats, each with a seed of its own; on the twin lengths are drawn or fixed."""
    words: Words = "synthetic" if study.target.kind == "twin" else "served"
    return [Trial(sweep=name, repeat=r, seed=seed + r, words=words, **fields) for r in range(1, repeats + 1)]


# ---- running it ------------------------------------------------------------------------------------------


def predicted(study: Study) -> Record:
    """The predictions, written down: a point that is started before any run, and then never again."""
    return study.point(prediction_spec(), lambda: Measured(results={"rows": [r.id for r in rows()]}))


def prediction_spec() -> Spec:
    """The point that holds what the measurements can refute; it sends nothing."""
    params = {"digest": digest(), "statements": statements()}
    return Spec(POINT, params, ("nlqlib.experiments.control_data",), about_s=0.0)


def measure(study: Study, cell: str = "", seed: int = 0) -> list[Record]:
    """The predictions, then every run that this target allows, each retained already or measured now.

    `cell`: the settings under which an endpoint that is not ours is deployed, a name of `VARIANTS`; runs of
    other cells are those that earlier deployments retained. Raises `TargetError` for an unknown one.
    """
    _check(study, cell)
    found = [predicted(study)]
    wanted = trials(study, seed)
    with progress(len(wanted) + len(answers.ASKED), "run") as bar:
        for variant, group in groupby(wanted, key=lambda t: t.variant):
            found += _group(study, variant, list(group), cell, bar)
    return found


def _group(study: Study, variant: str, wanted: Sequence[Trial], cell: str, bar: Progress) -> list[Record]:
    """The runs on one engine, and on the standard one the questions as well."""
    if study.target.kind == "url" and variant != (cell or STANDARD):
        return _kept(study, wanted)
    found = []
    with closing(target_of(study, variant)) as target:
        there = replace(study, target=target)
        if study.target.kind == "local" and variant != STANDARD and _missing(there, wanted):
            make_room(study.target)
        for trial in wanted:
            found.append(control_run.measure(sweep.at(there, trial), trial))
            bar.advance(trial.point)
        if variant == STANDARD:
            found += answers.measure(there, bar)
    return found


def _missing(there: Study, wanted: Iterable[Trial]) -> bool:
    """Whether anything of these runs still has to be measured."""
    return any(not there.retained(control_run.spec(t)) for t in wanted)


def target_of(study: Study, variant: str) -> Target:
    """The target with the engine's settings of `variant`; an endpoint that is not ours stays as it is."""
    if study.target.kind == "url":
        return study.target
    return study.target.engine(**VARIANTS[variant])


def _kept(study: Study, wanted: Iterable[Trial]) -> list[Record]:
    """What earlier runs, against other deployments of the same endpoint, have kept."""
    found = (study.store.find(study.key(control_run.spec(t))) for t in wanted)
    return [r for r in found if r is not None and r.current]


def _check(study: Study, cell: str) -> None:
    if cell and study.target.kind != "url":
        raise TargetError("cell names how an endpoint is deployed; on this target the settings are ours")
    if cell and cell not in VARIANTS:
        raise TargetError(f"a cell is one of {', '.join(VARIANTS)}, not {cell!r}")


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`, each with the study of its variant.

    Raises `TargetError` for a cell that there is not.
    """
    _check(study, str(params.get("cell") or ""))
    cell, url = str(params.get("cell") or STANDARD), study.target.kind == "url"
    found: list[tuple[Study, Spec]] = [(study, prediction_spec())]
    for trial in trials(study, int(params["seed"])):
        if not url or trial.variant == cell:
            there = replace(study, target=target_of(study, trial.variant))
            found.append((sweep.at(there, trial), _timed(study, trial)))
    if not url or cell == STANDARD:
        standard = replace(study, target=target_of(study, STANDARD))
        found += [(standard, spec) for spec in answers.specs(standard)]
    return found


def _timed(study: Study, trial: Trial) -> Spec:
    """The point with the seconds it takes on a real engine here; elsewhere its requests decide."""
    plain = control_run.spec(trial)
    if study.target.kind != "local":
        return plain
    length = trial.prompt or WHOLE_TOKENS
    whole = trial.requests if trial.unshared or trial.variant == "caching-off" else 0
    cold_s = (length * whole + WHOLE_TOKENS * trial.interrupted) / COLD_TOKENS_PER_S
    tokens = trial.requests * (trial.output_tokens or LONG_ANSWER)
    alone_s = tokens * TOKEN_S / (1 + 0.15 * (trial.concurrency - 1))
    first = trial.repeat == 1 and trial.sweep in VARIANTS
    return replace(plain, about_s=cold_s + alone_s + RESTART_S * first)
