"""What of the prompt helps? Its variants on development questions, each judged as every evaluation is.

Held-out questions are never asked here: a prompt chosen on them would be tuned on them.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.ablation_variants import (
    AS_IS,
    BASE,
    VARIANTS,
    Variant,
    as_wire,
    contract,
    system_text,
)
from nlqlib.experiments.asking import Asked, ask_with
from nlqlib.experiments.conditions import CONDITIONS, MAX_TOKENS, requests
from nlqlib.experiments.judging import executor
from nlqlib.experiments.questions import Question, load_questions, question_workload
from nlqlib.experiments.semantics import judge_all, measured
from nlqlib.experiments.study import Spec, Study
from nlqlib.files import canonical_json
from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import ChatRequest, Completion, Json
from nlqlib.serving.client import Client
from nlqlib.serving.identity import identify
from nlqlib.serving.twin_target import recordings

MODULES = (
    "nlqlib.experiments.ablations",
    "nlqlib.analysis.evaluation",
    "nlqlib.twin.app",
    "nlqlib.nlq.pipeline",
)
SET = "dev"
HOW = CONDITIONS[BASE]
CONCURRENCY = 8
ANSWER_S = 4.0
"""For the plan of a real engine on two cores: seconds of an answer, eight of them at a time."""


def asked_as(request: ChatRequest, variant: Variant, catalog: Catalog) -> ChatRequest:
    """The baseline `request` in the form of `variant`; only what the variant changes is changed."""
    if variant is AS_IS:
        return request
    system = {**request.messages[0], "content": system_text(variant, catalog)}
    return replace(request, messages=(system, *request.messages[1:]), contract=contract(variant, catalog))


def asked(variant: Variant, catalog: Catalog) -> list[ChatRequest]:
    """The requests of `variant` for every development question."""
    return [asked_as(one, variant, catalog) for one in requests(load_questions(SET), HOW, catalog)]


def spec(study: Study, variant: Variant) -> Spec:
    """One variant as a point."""
    workload = question_workload(SET)
    digest = hashlib.sha256()
    for request in asked(variant, study.catalog):
        digest.update(canonical_json(request.body("")).encode() + b"\n")
    params: Json = {
        "variant": variant.name,
        "max_tokens": MAX_TOKENS,
        "concurrency": CONCURRENCY,
        "requests_sha256": digest.hexdigest(),
    }
    about_s = workload.n * ANSWER_S if study.target.kind == "local" else None
    name = f"ablation-{variant.name}"
    return Spec(name, params, MODULES, workload, "evaluation", workload.n, CONCURRENCY, about_s)


def heard(study: Study) -> list[Variant]:
    """The variants that this target can be asked: the twin must have them recorded."""
    if study.target.kind != "twin":
        return list(VARIANTS)
    kept = recordings()
    known = [all(kept.find(r.body(kept.model)) for r in asked(v, study.catalog)) for v in VARIANTS]
    return [variant for variant, there in zip(VARIANTS, known, strict=True) if there]


def specs(study: Study) -> list[Spec]:
    """Every variant as a point, for the plan."""
    return [spec(study, variant) for variant in heard(study)]


def evaluated(study: Study) -> dict[str, Record]:
    """Every variant on the development questions, by name: retained already, or asked now."""
    return {v.name: study.point(spec(study, v), partial(_measure, study, v)) for v in heard(study)}


def _measure(study: Study, variant: Variant) -> Measured:
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(study.catalog)
        said, waited_s, spoken = study.run(_ask(study, load_questions(SET, catalog), variant, catalog))
        rows = judge_all(said, HOW, catalog, executor(warehouse, catalog))
    told = [row | _said(spoken[row["question_id"]]) for row in rows]
    return measured(told, study.run(identify(study.target)), waited_s, tag=study.target.tag)


def _said(done: Completion) -> Json:
    """The words themselves, and their tokens where the server tells them: what a recording needs."""
    tokens = {} if done.token_ids is None else {"token_ids": list(done.token_ids)}
    return {"said": done.text, **tokens}


async def _ask(
    study: Study, questions: Sequence[Question], variant: Variant, catalog: Catalog
) -> tuple[list[Asked], float, Mapping[str, Completion]]:
    client = Varied(study.target.client("wire"), variant, study.catalog, study.target.kind == "local")
    try:
        return *await ask_with(client, questions, HOW, catalog, CONCURRENCY), client.spoken
    finally:
        await client.aclose()


@dataclass
class Varied:
    """A client that asks in the form of `variant` and hands back what was said in wire form."""

    client: Client
    variant: Variant
    catalog: Catalog
    want_token_ids: bool
    spoken: dict[str, Completion] = field(default_factory=dict)
    """What was really said, by request id."""

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        """The completion of `request`."""
        varied = replace(asked_as(request, self.variant, self.catalog), want_token_ids=self.want_token_ids)
        done = await self.client.complete(varied, planned_s)
        self.spoken[request.request_id] = done
        return replace(done, text=as_wire(done.text, self.variant))

    async def aclose(self) -> None:
        """Close the client behind it."""
        await self.client.aclose()
