"""What each notebook will send, from the points it does not have yet."""

from collections.abc import Callable, Mapping
from typing import Any

from nlqlib.experiments import environment, pipeline
from nlqlib.experiments.study import Spec, Study
from nlqlib.plan import Asked, Plan, PlanFunction
from nlqlib.records import Json

Specs = Callable[[Study, Json], list[Spec]]
NOTEBOOKS: Mapping[str, Specs] = {"00_environment": environment.specs, "01_pipeline": pipeline.specs}

PROMPT_TOKENS = 3_320
OUTPUT_TOKENS = 115
SECONDS = {"twin": 0.02, "local": 20.0, "url": 4.0}
"""Seconds of one request on its own: processor time of the twin, measured on two cores, the article's."""
SPEED_UP = 0.3
"""Each further request in flight adds this much of the single-stream throughput: batching on two cores."""


def plan(asked: Asked) -> Plan:
    """The plan of one notebook: requests, tokens and seconds of its missing points."""
    client: Any = asked.params.get("client") or "wire"
    study = Study.open(asked.notebook, asked.target, asked.profile, client)
    specs = NOTEBOOKS[asked.notebook](study, asked.params)
    missing = [s for s in specs if asked.remeasure or not study.retained(s)]
    requests = sum(s.requests for s in missing)
    each_s = SECONDS[study.target.kind]
    seconds = sum(s.requests * each_s / (1 + SPEED_UP * (s.concurrency - 1)) for s in missing)
    return Plan(requests, requests * PROMPT_TOKENS, requests * OUTPUT_TOKENS, seconds)


PLANS: Mapping[str, PlanFunction] = dict.fromkeys(NOTEBOOKS, plan)
