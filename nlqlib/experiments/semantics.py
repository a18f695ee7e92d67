"""Does an answer mean the right thing? A set of questions under one condition, as a retained evaluation.

How questions are asked is in `asking`, how they are judged in `judging`, what is reported in
`condition_report`; this module puts them together for a study.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from nlqlib.analysis.evaluation import Judged
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.asking import Asked, ask_all
from nlqlib.experiments.condition_report import FREE, Prices, report
from nlqlib.experiments.conditions import (
    CONDITIONS,
    MAX_TOKENS,
    Condition,
    condition,
    conditions,
    requests,
    requests_per_question,
)
from nlqlib.experiments.journal import Journal, identity
from nlqlib.experiments.judging import Run, executor, final_of, judge, raw_of
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.study import Spec, Study
from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import Json, Metric, Workload
from nlqlib.serving.identity import identify
from nlqlib.serving.target import Target

__all__ = [
    "CONDITIONS",
    "MAX_TOKENS",
    "MODULES",
    "Asked",
    "Condition",
    "Run",
    "ask_all",
    "condition",
    "conditions",
    "evaluate",
    "evaluate_all",
    "evaluation_spec",
    "executor",
    "judge",
    "judged_rows",
    "measured",
    "raw_rows",
    "requests",
    "unfinished",
]

MODULES = (
    "nlqlib.experiments.semantics",
    "nlqlib.analysis.evaluation",
    "nlqlib.twin.app",
    "nlqlib.nlq.pipeline",
)


def evaluation_spec(point: str, source: str, how: Condition, concurrency: int) -> Spec:
    """The evaluation of the set `source` under `how`, as a point."""
    workload = question_workload(source)
    params = {**how.params(), "max_tokens": MAX_TOKENS, "concurrency": concurrency}
    sent = workload.n * requests_per_question(how)
    return Spec(point, params, MODULES, workload, "evaluation", sent, concurrency)


def evaluate_all(study: Study, source: str, hows: Sequence[Condition], concurrency: int) -> dict[str, Record]:
    """The evaluations of the set `source` under each of `hows`, by name, as points `<set>-<name>`.

    Conditions that ask in the same way are asked once, and so judged on the very same raw answers.
    """
    found = {
        how.name: evaluate(
            study, source, how, concurrency, f"{question_workload(source).name}-{how.name}", True
        )
        for how in hows
    }
    for how in hows:
        if not found[how.name].reused and (kept := unfinished(study.target, question_workload(source), how)):
            kept.close()
    return found


def evaluate(
    study: Study, source: str, how: Condition, concurrency: int, point: str, keep: bool = False
) -> Record:
    """Every question of the set `source` under `how`, as one retained evaluation.

    With `keep` the answers stay at hand for another condition that asks in the same way.
    """

    def measure() -> Measured:
        journal = unfinished(study.target, question_workload(source), how)
        with open_warehouse() as warehouse:
            catalog = warehouse.lookups(study.catalog)
            questions = load_questions(source, catalog)
            asking = ask_all(study.target, questions, how, catalog, concurrency, study.client, journal)
            asked, waited_s = study.run(asking)
            rows = judge_all(asked, how, catalog, executor(warehouse, catalog))
        server = study.run(identify(study.target)) if how.asks else None
        if journal and not keep:
            journal.close()
        return measured(rows, server, waited_s)

    return study.point(evaluation_spec(point, source, how, concurrency), measure)


def judge_all(asked: Sequence[Asked], how: Condition, catalog: Catalog, run: Run) -> list[Json]:
    """One row for each question, in their order."""
    return [judge(one, how, catalog, run) for one in asked]


def unfinished(target: Target, workload: Workload, how: Condition) -> Journal | None:
    """What an interrupted evaluation has heard already; `None` on the twin, which asks nobody."""
    if target.kind == "twin" or not how.asks:
        return None
    asking = {"prompt": how.prompt, "contract": how.contract}
    return Journal.open({"target": identity(target), "set": workload.sha256, "asking": asking})


def measured(rows: list[Json], server: Any, waited_s: float, prices: Prices = FREE) -> Measured:
    """The evaluation as it is retained: counts by outcome, the report, one row per question."""
    outcomes: dict[str, int] = {}
    for row in rows:
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
    told = report(rows, prices)
    metrics = [Metric(s["name"], "share", "share", s["value"], s["n"]) for s in told["final"]]
    metrics += [Metric(f"raw {s['name']}", "share", "share", s["value"], s["n"]) for s in told["raw"]]
    metrics += _acted(told["interventions"])
    tokens = told["serving"]["output_tokens"]
    metrics.append(Metric("output_tokens", "tokens", "mean", tokens["mean"], tokens["n"]))
    results = {"scores": told["final"], "report": told, "rate_limit_wait_s": waited_s}
    return Measured(
        server=server,
        requests={"total": len(rows), **outcomes},
        metrics=metrics,
        samples=rows,
        results=results,
    )


def _acted(told: Mapping[str, Any]) -> list[Metric]:
    shares = ("precision", "harm", "recall", "fixable_recall", "abstained", "refused")
    found = [Metric(told[k]["name"], "share", "share", told[k]["value"], told[k]["n"]) for k in shares]
    return [Metric("interventions", "count", "count", told["interventions"], told["answered"]), *found]


def judged_rows(record: Record) -> list[Judged]:
    """The judgements of the final answers of a retained evaluation."""
    return [final_of(row) for row in record.samples()]


def raw_rows(record: Record) -> list[Judged]:
    """The judgements of the model's own answers."""
    return [raw_of(row) for row in record.samples()]
