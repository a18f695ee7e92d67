"""What each notebook will send, from the points it does not have yet."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from nlqlib.experiments import (
    ablations,
    admission,
    candidates,
    claims,
    compact,
    context,
    control,
    decomposition,
    environment,
    heldout,
    knee,
    kv_pressure,
    pipeline,
    prefix,
    propagation,
    quality_under_load,
    saturation,
    staircase,
)
from nlqlib.experiments.plans_tokens import OUTPUT_TOKENS, longest_question, sizes
from nlqlib.experiments.study import Spec, Study
from nlqlib.plan import Asked, Plan, PlanFunction, total
from nlqlib.records import Json
from nlqlib.serving.target import TargetError

Specs = Callable[[Study, Json], list[Spec]]


def _meaning(study: Study, params: Json) -> list[Spec]:
    """Page 13: every set under every condition, and the prompt's variants."""
    return [*heldout.specs(study, params), *ablations.specs(study)]


NOTEBOOKS: Mapping[str, Specs] = {
    "00_environment": environment.specs,
    "01_pipeline": pipeline.specs,
    "13_heldout_semantics": _meaning,
}
Points = Callable[[Study, Json], list[tuple[Study, Spec]]]
VARIANTS: Mapping[str, Points] = {
    "02_serialization_staircase": staircase.points,
    "03_admission": admission.points,
    "04_propagation": propagation.points,
    "05_knee": knee.points,
    "06_saturation": saturation.points,
    "07_latency_decomposition": decomposition.points,
    "08_prefix_cache": prefix.points,
    "09_compact_json": compact.points,
    "10_context_budget": context.points,
    "11_kv_pressure": kv_pressure.points,
    "12_quality_under_load": quality_under_load.points,
    "14_candidates": candidates.points,
    "17_control_to_signal": control.points,
    "99_summary": claims.points,
}
"""Notebooks whose points run on variants of the target: each point comes with the study of its own."""

SECONDS = {"twin": 0.02, "local": 20.0, "url": 4.0}
"""Seconds of one request on its own: processor time of the twin, measured on two cores, the article's."""
COLD_SECONDS = {"twin": 0.0, "local": 27.0, "url": 0.4}
"""Seconds of a prompt of which nothing is cached; prefill is arithmetic, so batching hardly helps."""
ALONE_SECONDS = {"twin": 0.0, "local": 1.3, "url": 0.0}
"""Of those of a request, what no batch shares: the tokens of its question, computed in turn. Measured on two
cores with answers of 16 tokens: 0.30 requests a second one at a time, 0.67 with 32 in flight and not more."""
SPEED_UP = 0.3
"""Each further request in flight adds this much of the single-stream decoding: batching on two cores."""


def plan(asked: Asked) -> Plan:
    """The plan of one notebook: requests, tokens and seconds of its missing points.

    Raises `TargetError` where its parameters cannot be used, before anything is sent.
    """
    client: Any = asked.params.get("client") or "wire"
    study = Study.open(asked.notebook, asked.target, asked.profile, client)
    try:
        found = points(study, asked)
    except TargetError as error:
        raise TargetError(f"{asked.notebook}: {error}") from error
    question = longest_question(asked.params.get("sets") or ())
    anew = asked.remeasure and not study.store.remeasure  # a resumed run knows what it has measured
    missing = [(w.target.kind, s) for w, s in found if anew or not w.retained(s)]
    return total({str(i): of_point(spec, kind, question) for i, (kind, spec) in enumerate(missing)})


def of_point(spec: Spec, kind: str, question: int = 0) -> Plan:
    """The plan of one point on a target of `kind`; `question`: the longest question's tokens, at most."""
    sent = sizes(spec, kind, question=question)
    seconds = duration_s(replace(spec, requests=sent.requests), kind, sent.output)
    prompt, output = (round(sent.requests * each) for each in (sent.prompt, sent.output))
    return Plan(sent.requests, prompt, output, seconds, max(0, sent.most - prompt - output))


def points(study: Study, asked: Asked) -> list[tuple[Study, Spec]]:
    """Every point of the notebook, with the study it is measured by."""
    if asked.notebook in VARIANTS:
        return VARIANTS[asked.notebook](study, asked.params)
    return [(study, spec) for spec in NOTEBOOKS[asked.notebook](study, asked.params)]


def duration_s(spec: Spec, kind: str, tokens: float | None = None) -> float:
    """About how long a point takes, in seconds; `tokens` of each answer, where the point does not say."""
    if spec.about_s is not None:
        return spec.about_s
    share = (tokens or spec.params.get("output_tokens") or OUTPUT_TOKENS) / OUTPUT_TOKENS
    own_s = COLD_SECONDS[kind] if spec.params.get("unshared") else ALONE_SECONDS[kind]
    decode_s = (SECONDS[kind] - ALONE_SECONDS[kind]) * share
    return spec.requests * (own_s + decode_s / (1 + SPEED_UP * (spec.concurrency - 1)))


PLANS: Mapping[str, PlanFunction] = dict.fromkeys([*NOTEBOOKS, *VARIANTS], plan)
