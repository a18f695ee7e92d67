"""Does an answer mean the right thing? Answers of a model, judged under each condition by today's rules.

What was said is measured and retained in `answers`; how it is judged is in `judging`, what is reported in
`condition_report`. A judgement is retained too, for tables and queries, and is replaced by a new one from the
same answers as soon as anything of the rules, their vocabulary or the golds has changed.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from glob import escape
from pathlib import Path
from typing import Any

from nlqlib import paths
from nlqlib.analysis.evaluation import Judged
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Measured, PointKey, Record, source_digest
from nlqlib.experiments.answers import Answers, Asking, answers, unfinished
from nlqlib.experiments.asking import Asked, ask_all, read_all
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
from nlqlib.experiments.judging import Run, executor, final_of, judge, raw_of
from nlqlib.experiments.questions import asked_workload, question_workload
from nlqlib.experiments.rejudging import todays_rows
from nlqlib.experiments.study import Spec, Study
from nlqlib.files import plain, slug
from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.warehouse import open_warehouse
from nlqlib.records import Json, Metric, MetricTag, ServerIdentity
from nlqlib.serving.identity import identify

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
    "replace_older",
    "requests",
]

MODULES = (
    "nlqlib.experiments.semantics",
    "nlqlib.analysis.evaluation",
    "nlqlib.twin.app",
    "nlqlib.nlq.pipeline",
)
JUDGING = (
    "nlqlib.experiments.asking",
    "nlqlib.experiments.judging",
    "nlqlib.experiments.condition_report",
)
"""What a judgement runs through, whatever the target."""
VOCABULARY = ("catalog*.toml", "english*.toml", "prompts/planner_prior.toml")
"""Rules are data too."""


def evaluation_spec(point: str, source: str, how: Condition, concurrency: int) -> Spec:
    """Asking and judging the set `source` under `how`, as one point."""
    workload = question_workload(source)
    params = {**how.params(), "max_tokens": MAX_TOKENS, "concurrency": concurrency}
    sent = workload.n * requests_per_question(how)
    return Spec(point, params, MODULES, workload, "evaluation", sent, concurrency)


def evaluate_all(study: Study, source: str, hows: Sequence[Condition], concurrency: int) -> dict[str, Record]:
    """The evaluations of the set `source` under each of `hows`, by name, as points `<set>-<name>`.

    Conditions that ask in the same way are asked once, and so judged on the very same answers. Where a
    request failed, the evaluation of the rest is handed back and not retained (its status is `error`).
    """
    with open_warehouse() as warehouse:
        catalog = warehouse.lookups(study.catalog)
        run = executor(warehouse, catalog)
        heard: dict[tuple[str, str], Answers] = {}
        found = {}
        for how in hows:
            asking, way = Asking.of(source, how, catalog, concurrency), (how.prompt, how.contract)
            if way not in heard:
                heard[way] = answers(study, asking) if how.asks else Answers({})
            found[how.name] = judged(study, asking, heard[way], run)
    return found


def judged(study: Study, asking: Asking, heard: Answers, run: Run) -> Record:
    """The evaluation of what was `heard`: retained with these rules already, or judged now."""
    key = _key(study, asking, heard)

    def measure() -> Measured:
        asked = read_all(asking.questions, heard.heard, asking.how, asking.catalog)
        rows = judge_all(asked, asking.how, asking.catalog, run)
        told = measured(rows, heard.server, heard.waited_s, _tag(study, asking.how))
        return replace(told, validity=[heard.quiet] if heard.quiet else [])

    if heard.failed:
        return _unretained(key, measure(), heard.reason)
    record = study.store.measure(key, measure)
    if not record.reused and not study.store.remeasure:
        replace_older(record)
    return record


def _key(study: Study, asking: Asking, heard: Answers) -> PointKey:
    """The judgement of these very answers; its source is that of the rules, on a real endpoint too."""
    name = f"{Path(asking.source).stem}-{asking.how.name}"
    spec = evaluation_spec(name, asking.source, asking.how, asking.concurrency)
    spec = replace(spec, params={**spec.params, "answers": heard.sha256})
    return replace(study.key(spec), source=rules_digest())


@lru_cache(maxsize=1)
def rules_digest() -> str:
    """sha256 of everything that decides a judgement: code, vocabulary and catalog."""
    digest = hashlib.sha256(source_digest(JUDGING, follow=True).encode())
    for path in sorted(p for pattern in VOCABULARY for p in paths.DATA.glob(pattern)):
        digest.update(path.name.encode() + path.read_bytes())
    return digest.hexdigest()


def replace_older(kept: Record) -> list[Path]:
    """Remove the judgements that `kept` replaces, a judgement itself; the paths of what was removed.

    Those of its point, judged by other rules from the same answers or from answers that are not retained any
    more: none is a measurement, and each would be counted beside `kept`.
    """
    answers_here = _answers_beside(kept.path)
    replaced = []
    for path in sorted(kept.path.parent.glob(f"{escape(slug(kept.body['point']))}-????????.json")):
        if path != kept.path and _replaced(load_record(path).params, kept.params, answers_here):
            for suffix in (".json", ".run.json", ".jsonl"):
                path.with_suffix(suffix).unlink(missing_ok=True)
            replaced.append(path)
    return replaced


def _answers_beside(path: Path) -> set[str]:
    """The hashes of the answers that are retained in the folder of `path`."""
    kept = [load_record(p) for p in path.parent.glob("answers-*-????????.json")]
    return {str(record.body["samples"]["sha256"]) for record in kept if record.body["samples"]}


def _replaced(old: Json, new: Json, answers_here: set[str]) -> bool:
    """Do `new` parameters make a judgement of `old` ones obsolete? Without a model there are no answers."""
    if {**old, "answers": None} != {**new, "answers": None}:
        return False
    return old.get("answers") == new.get("answers") or old.get("answers") not in answers_here


def _tag(study: Study, how: Condition) -> MetricTag:
    """How shares of answers came about: what asks no model is computed here, on the twin too."""
    return study.target.tag if how.asks else "measured"


@dataclass(frozen=True)
class Unretained(Record):
    """An evaluation that is shown and not kept, because a request failed."""

    rows: tuple[Json, ...] = ()

    def samples(self) -> list[Json]:
        """Rows per question, those of failed requests among them."""
        return [dict(row) for row in self.rows]


def _unretained(key: PointKey, told: Measured, reason: str) -> Record:
    body = {
        "status": "error",
        "kind": key.kind,
        "target": key.target,
        "notebook": key.notebook,
        "point": key.point,
        "params": key.params,
        "workload": key.workload,
        "fingerprint": "",
        "server": told.server,
        "requests": told.requests,
        "metrics": told.metrics,
        "validity": told.validity,
        "results": told.results,
        "samples": None,
        "scrapes": {},
        "error": reason,
    }
    return Unretained(Path("not retained"), plain(body), {}, rows=tuple(plain(told.samples)))


def evaluate(study: Study, source: str, how: Condition, concurrency: int, point: str) -> Record:
    """Every question of the set `source` under `how`, asked and judged, as one retained point.

    Raises `RuntimeError` where a request failed: nothing is retained then.
    """

    def measure() -> Measured:
        with open_warehouse() as warehouse:
            catalog = warehouse.lookups(study.catalog)
            asking = Asking.of(source, how, catalog, concurrency)
            journal = unfinished(study.target, asked_workload(source), how)
            ask = ask_all(study.target, asking.questions, how, catalog, concurrency, study.client, journal)
            asked, waited_s = study.run(ask)
            rows = judge_all(asked, how, catalog, executor(warehouse, catalog))
        lost = [one for one in asked if not one.answered]
        if lost:
            raise RuntimeError(
                f"{len(lost)} of {len(asked)} requests failed ({lost[0].outcome}: {lost[0].invalid}); "
                "nothing was retained: the next run asks only for these"
            )
        if journal:
            journal.close()
        return measured(rows, study.run(identify(study.target)), waited_s, _tag(study, how))

    return study.point(evaluation_spec(point, source, how, concurrency), measure)


def judge_all(asked: Sequence[Asked], how: Condition, catalog: Catalog, run: Run) -> list[Json]:
    """One row for each question, in their order."""
    return [judge(one, how, catalog, run) for one in asked]


def measured(
    rows: list[Json], server: ServerIdentity | None, waited_s: float, tag: MetricTag, prices: Prices = FREE
) -> Measured:
    """The evaluation as it is retained: counts by outcome, the report, one row per question.

    `tag`: how the answers came about, and so every share of them.
    """
    outcomes: dict[str, int] = {}
    for row in rows:
        outcomes[row["outcome"]] = outcomes.get(row["outcome"], 0) + 1
    told = report(rows, prices)
    metrics = [Metric(s["name"], "share", "share", s["value"], s["n"], tag) for s in told["final"]]
    metrics += [Metric(f"raw {s['name']}", "share", "share", s["value"], s["n"], tag) for s in told["raw"]]
    metrics += _acted(told["interventions"], tag)
    tokens = told["serving"]["output_tokens"]
    metrics.append(Metric("output_tokens", "tokens", "mean", tokens["mean"], tokens["n"], tag))
    results = {"scores": told["final"], "report": told, "rate_limit_wait_s": waited_s}
    return Measured(
        server=server,
        requests={"total": len(rows), **outcomes},
        metrics=metrics,
        samples=rows,
        results=results,
    )


def _acted(told: Mapping[str, Any], tag: MetricTag) -> list[Metric]:
    shares = ("precision", "harm", "recall", "fixable_recall", "abstained", "refused")
    found = [Metric(told[k]["name"], "share", "share", told[k]["value"], told[k]["n"], tag) for k in shares]
    return [Metric("interventions", "count", "count", told["interventions"], told["answered"], tag), *found]


def judged_rows(record: Record) -> list[Judged]:
    """The final answers of a retained evaluation, judged by today's rules."""
    return [final_of(row) for row in todays_rows(record)]


def raw_rows(record: Record) -> list[Judged]:
    """The model's own answers, judged by today's rules."""
    return [raw_of(row) for row in todays_rows(record)]
