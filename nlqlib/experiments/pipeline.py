"""The Workload: question → intent → SQL → rows, and the four concerns measured apart."""

from dataclasses import replace

import pandas as pd

from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.heard import fresh
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.semantics import CONDITIONS, Condition, evaluate, evaluation_spec, executor, requests
from nlqlib.experiments.semantics import MODULES as EVALUATION_MODULES
from nlqlib.experiments.study import Spec, Study
from nlqlib.nlq.intent import parse_intent
from nlqlib.nlq.sql import build
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import Completion, Json, Metric
from nlqlib.serving.identity import identify

MODULES = ("nlqlib.experiments.pipeline", *EVALUATION_MODULES)
ARMS = ("unconstrained", "guided_json", "structured_outputs")
SET = "dev"
QUICK_TIMED = 5
BASELINE = CONDITIONS["baseline"]


def arms(study: Study, concurrency: int) -> dict[str, Record]:
    """The development questions under each output contract."""
    return {arm: evaluate(study, SET, _asked(arm), concurrency, f"arm-{arm}") for arm in ARMS}


def _asked(arm: str) -> Condition:
    return replace(BASELINE, name=arm, contract=arm)


def example_spec() -> Spec:
    """One question on its way."""
    return Spec("example", {}, MODULES, question_workload(SET, n=1), requests=1)


def timing_spec(study: Study, n: int) -> Spec:
    """`n` questions in turn (0: all, or 5 in the quick profile)."""
    chosen = n or (QUICK_TIMED if study.quick else len(load_questions(SET)))
    params = {"n": chosen, "concurrency": 1}
    return Spec("timing", params, MODULES, question_workload(SET, chosen), requests=chosen + 1)


def specs(study: Study, params: Json) -> list[Spec]:
    """Every point of the notebook under its `params`."""
    at = int(params["concurrency"])
    evaluated = [evaluation_spec(f"arm-{arm}", SET, _asked(arm), at) for arm in ARMS]
    return [example_spec(), *evaluated, timing_spec(study, int(params["n_timed"]))]


def example(study: Study) -> Record:
    """The first development question, followed through every stage."""

    def measure() -> Measured:
        with open_warehouse() as warehouse:
            catalog = warehouse.lookups(study.catalog)
            question = load_questions(SET, catalog)[0]
            [completion] = study.run(_in_turn(study, 1))
            intent = parse_intent(completion.text or "", catalog)
            result = executor(warehouse, catalog)(intent)
            query = build(intent, catalog)
        stages = {
            "question": question.question,
            "answer": completion.text,
            "intent": intent.model_dump(mode="json"),
            "sql": query.sql,
            "values": [str(v) for v in query.params],
            "interpretation": query.interpretation,
            "columns": [c.name for c in query.columns],
            "rows": [[_plain(v) for v in row] for row in result.rows] if result else None,
        }
        return Measured(server=study.run(identify(study.target)), results=stages)

    return study.point(example_spec(), measure)


def _plain(value: object) -> str | float | int | None:
    return value if value is None or isinstance(value, int | float | str) else str(value)


async def _in_turn(study: Study, n: int) -> list[Completion]:
    """The first `n` questions, one after the other, on the wire client, after one that warms the prefix."""
    asked = requests(load_questions(SET)[:n], BASELINE, study.catalog)
    with fresh(study.target) as there:
        client = there.client("wire" if n > 1 else study.client)
        try:
            if n > 1:
                await client.complete(replace(asked[0], request_id="warm-up"))
            return [await client.complete(request) for request in asked]
        finally:
            await client.aclose()


def timing(study: Study, n: int = 0) -> Record:
    """The first `n` questions (0: all, or 5 in the quick profile) in turn, on a warm prefix."""
    spec = timing_spec(study, n)

    def measure() -> Measured:
        done = study.run(_in_turn(study, spec.params["n"]))
        times = pd.Series([c.e2e_s for c in done], dtype=float).dropna()
        stats = (
            {"p50": times.median(), "p95": times.quantile(0.95)} if len(times) else {"p50": None, "p95": None}
        )
        metrics = [
            Metric("e2e_latency", "s", k, None if v is None else float(v), len(times), study.target.time_tag)
            for k, v in stats.items()
        ]
        rows: list[Json] = [
            {"id": c.request_id, "outcome": c.outcome, "e2e_s": c.e2e_s, "output_tokens": c.output_tokens}
            for c in done
        ]
        return Measured(
            server=study.run(identify(study.target)),
            requests={"total": len(done), "ok": sum(c.ok for c in done)},
            metrics=metrics,
            samples=rows,
        )

    return study.point(spec, measure)
