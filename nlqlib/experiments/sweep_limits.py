"""How much a sweep sends at most, held against MAX_REQUESTS and MAX_TOKENS before anything is sent."""

from collections.abc import Mapping, Sequence

from nlqlib.experiments.plans import duration_s
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import Level, at, level_spec, offered
from nlqlib.experiments.sweep_open import OpenLoad, as_level, open_spec
from nlqlib.experiments.sweep_workers import SharedLevel, shared_spec
from nlqlib.plan import LimitError, duration, limit_of
from nlqlib.tokens import count_chat

Load = Level | OpenLoad


def spec_of(load: Load) -> Spec:
    """The point that `load` becomes."""
    if isinstance(load, OpenLoad):
        return open_spec(load)
    return shared_spec(load) if isinstance(load, SharedLevel) else level_spec(load)


def sends(study: Study, wanted: Sequence[Load]) -> int:
    """Requests that `wanted` sends, warming included; loads that are retained send none."""
    return sum(spec_of(load).requests for load in _missing(study, wanted))


def most_tokens(study: Study, wanted: Sequence[Load]) -> int:
    """Prompt and output tokens of the same, every answer as long as it may be; prompts by Qwen2.5's count."""
    return sum(_tokens(study, load) for load in _missing(study, wanted))


def planned(study: Study, wanted: Sequence[Load]) -> str:
    """What is about to be sent, and about how long it takes, in one line."""
    seconds = sum(duration_s(spec_of(load), study.target.kind) for load in _missing(study, wanted))
    return (
        f"target {study.target.name}, profile {study.profile}: {sends(study, wanted):,} requests in "
        f"{len(wanted)} loads, warming included, of at most {most_tokens(study, wanted):,} tokens; about "
        f"{duration(seconds)}"
    )


def check(study: Study, wanted: Sequence[Load], environment: Mapping[str, str]) -> None:
    """Raise `LimitError` where the environment's limits do not allow the sweep, or are no numbers."""
    for name, count in (("MAX_REQUESTS", sends), ("MAX_TOKENS", most_tokens)):
        limit = limit_of(name, environment)
        if limit is not None and (needed := count(study, wanted)) > limit:
            raise LimitError(
                f"the sweep may need {needed:,} but {name} allows {limit:,}: raise it, or give fewer levels "
                "or fewer --requests; nothing was sent"
            )


def _missing(study: Study, wanted: Sequence[Load]) -> list[Load]:
    return [load for load in wanted if not at(study, _level(load)).retained(spec_of(load))]


def _tokens(study: Study, load: Load) -> int:
    level, asked = _level(load), offered(study, _level(load))
    whole = [count_chat(r.messages) + r.max_tokens for r in asked]
    warming = spec_of(load).requests - level.requests
    return sum(whole[i % len(whole)] for i in range(level.requests)) + sum(
        count_chat(r.messages) + 1 for r in asked[:warming]
    )


def _level(load: Load) -> Level:
    return as_level(load) if isinstance(load, OpenLoad) else load
