"""Retained points of a sweep as the rows that the diagnosis looks at, whoever measured them.

What a point does not hold is missing. A point that must not be believed (foreign traffic, a restart in
between, another model, an overlap with another run) is kept and says why.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

from nlqlib.analysis.continuity import COUNTERS_GREW, SAME_ENGINE
from nlqlib.analysis.diagnosis_levels import SweepLevel, level
from nlqlib.analysis.staircase import ControlledStaircase
from nlqlib.analysis.window import FINISHED, IN_FLIGHT, PAGES_READ
from nlqlib.artifact_record import Record, load_record
from nlqlib.experiments.staircase_result import AS_IT_IS, ONE_AT_A_TIME, judge, staircases
from nlqlib.load.health import CLIENT
from nlqlib.records import OUTCOMES, Completion, Json, Rule
from nlqlib.runs import overlapping

POOL = f"{CLIENT}connection pool / N"
POOL_WAITS = f"{CLIENT}requests that waited for a connection"
SERVED = ("ok", "length", "bad_json", "schema_violation", "constraint_not_applied")
"""Outcomes of a whole generation: what its words are worth is no matter of concurrency."""
VOIDS = {
    FINISHED: "the server finished more requests than were sent: others used it",
    IN_FLIGHT: "the server held more requests than were in flight: others used it",
    SAME_ENGINE: "another engine answered at the end than at the beginning",
    COUNTERS_GREW: "the server's counters fell: it restarted in between",
}
"""Rules whose failure voids a point, and what that means."""
ONE_MODEL = "answers name one model"
"""Of a level; its value is what they name."""
RUNNING = ("running", "max")
"""The metric that tells how often the engine was asked."""
WHOLE = 0.9
"""Of the answers: `/metrics` that count fewer show one replica of several, or are late."""
ENGINE = (
    *("running_mean", "running_max", "waiting_mean", "waiting_max", "running_samples"),
    *("engine_queue_s", "kv_usage"),
)


def sweep_records(folder: Path) -> list[Record]:
    """Every measured level under `folder`, at whatever depth it was kept. Raises `ArtifactError`."""
    bodies = (path for path in sorted(folder.rglob("*.json")) if not path.name.endswith(".run.json"))
    return [record for path in bodies if is_level(record := load_record(path))]


def is_level(record: Record) -> bool:
    """A measured point of a closed loop, with its requests; other JSON is none."""
    body = record.body
    return (
        body.get("status") == "success"
        and body.get("kind") == "point"
        and isinstance(body.get("params", {}).get("concurrency"), int)
        and bool(body.get("samples"))
    )


def saved_staircase(folder: Path, like: Record) -> ControlledStaircase | None:
    """The staircase of independent processes under `folder` that was measured on the deployment of `like`.

    Of one test measured again the latest counts. `None` without one, or where tests of several names match.
    Raises `ArtifactError`.
    """
    bodies = (path for path in sorted(folder.rglob("*.json")) if not path.name.endswith(".run.json"))
    tests = [r for path in bodies if _is_staircase(r := load_record(path))]
    found = [(r, run) for r in tests if (run := _run_like(r, like)) is not None]
    names = {r.body.get("point") for r, _ in found}
    return controlled_staircase(*max(found, key=_completed)) if len(names) == 1 else None


def _completed(found: tuple[Record, str]) -> str:
    return str(found[0].run.get("completed_at") or "")


def controlled_staircase(record: Record, run: str = AS_IT_IS) -> ControlledStaircase:
    """One run of a staircase test, by default the endpoint as it was deployed, beside both controls.

    Raises `ArtifactError`.
    """
    return judge(staircases(record))[run]


def _is_staircase(record: Record) -> bool:
    body = record.body
    return body.get("status") == "success" and AS_IT_IS in (body.get("results") or {}).get("runs", [])


LOAD = ("clock", "words", "output_tokens", "output_sd", "seed")
"""Of the twin's identity: in which time it answers and how much, not who answers."""


def _run_like(test: Record, like: Record) -> str | None:
    """The run of `test` on the deployment of `like`: the same endpoint, behind the same first limit.

       `None` where there is none.
    A test is made without a gateway of ours and once more behind a router limit of 1. Limits that let all of
       its processes through are as good as none, and behind a router of 1 no further limit is ever reached.
    """
    if _endpoint(test) != _endpoint(like) or not _one_cell(test, like):
        return None
    was, limits = _admission(test), _admission(like)
    if was == limits:
        return AS_IT_IS
    if not was and limits.get("router") == 1:
        return ONE_AT_A_TIME if ONE_AT_A_TIME in test.results["runs"] else None
    wide = all(isinstance(k, int) and k >= test.params.get("processes", 0) for k in limits.values())
    return AS_IT_IS if not was and wide and test.params.get("processes") else None


def _endpoint(record: Record) -> tuple[str, Json]:
    """Who answered: the target, and its identity without the limits in front and without the load."""
    told = record.body["identity"] or {}
    return record.body["target"], {k: v for k, v in told.items() if k not in ("admission", *LOAD)}


def _admission(record: Record) -> Json:
    return dict((record.body["identity"] or {}).get("admission") or {})


def _one_cell(test: Record, like: Record) -> bool:
    """Whether no label says that the endpoint was deployed in another way."""
    labels = {name for r in (test, like) if not _admission(r) and (name := r.params.get("cell"))}
    return len(labels) < 2


def sweep_name(record: Record) -> str:
    """The sweep that a level belongs to: target, notebook, settings in force but for the level's own."""
    asked = record.params.get("sweep") or record.params.get("cell") or ""
    admission = (record.body.get("identity") or {}).get("admission") or {}
    parts = [f"{record.body['target']}/{record.body['notebook']}", str(asked)]
    parts += [f"{k}={v}" for k, v in sorted(admission.items())]
    return " ".join(part for part in parts if part)


def levels_of(records: Sequence[Record]) -> list[SweepLevel]:
    """One row for each record. Raises `ArtifactError` when rows of requests are missing or altered."""
    overlaps = {r.path for pair in overlapping(records) for r in pair}
    told = zip(*map(_models, records), strict=True)
    models = [next(filter(None, names), None) for names in told]
    return [_level(r, overlaps, models) for r in records]


def _level(record: Record, overlaps: set[Path], models: Sequence[str | None]) -> SweepLevel:
    rules, outcomes = record.validity, record.requests
    hidden = _hidden(record)
    return level(
        completions_of(record),
        int(record.params["concurrency"]),
        **dict.fromkeys(ENGINE) if hidden else _engine(record),
        hidden=hidden,
        client_rules=tuple(r for r in rules if r.rule.startswith(CLIENT)),
        pool_waits=_whole(_value(rules, POOL_WAITS)),
        pool_ceiling=_ceiling(rules, int(record.params["concurrency"])),
        invalid=_invalid(record, overlaps, models),
        unusable={k: v for k, v in outcomes.items() if k in SERVED and k != "ok" and v},
    )


def _engine(record: Record) -> Json:
    """What `/metrics` says of the engine, or of all of them together."""
    return {
        "running_mean": record.value("running", "mean"),
        "running_max": record.value("running", "max"),
        "waiting_mean": record.value("waiting", "mean"),
        "waiting_max": record.value("waiting", "max"),
        "running_samples": next((m.n for m in record.metrics if (m.name, m.stat) == RUNNING), None) or None,
        "engine_queue_s": record.value("queue", "mean"),
        "kv_usage": _first(record.value("kv_usage", "max"), record.value("kv_usage", "last")),
        # pages that account for every answer are those of every replica
        "replica_count": _whole(_value(record.validity, PAGES_READ)) if _counted(record) else None,
    }


def _counted(record: Record) -> float | None:
    """Requests that the server says it finished."""
    return _value(record.validity, FINISHED)


def _hidden(record: Record) -> str | None:
    """Why `/metrics` cannot be that of everything that answered; `None`: it can, or there is none."""
    finished, answered = _counted(record), sum(record.requests.get(k, 0) for k in SERVED)
    if finished is None or finished >= WHOLE * answered:
        return None
    return (
        f"/metrics count {finished:g} of {answered} answers, so other replicas are hidden behind one URL "
        "(name each in METRICS_URLS), or the page is late"
    )


def completions_of(record: Record) -> list[Completion]:
    """The requests of a level; whatever was served to its end is good here, of use or not."""
    return [_completion(row) for row in record.samples() if row["outcome"] in OUTCOMES]


def _completion(row: Json) -> Completion:
    return Completion(
        request_id=str(row["id"]),
        outcome="ok" if row["outcome"] in SERVED else row["outcome"],
        start_s=row.get("start_s"),
        end_s=row.get("end_s"),
        output_tokens=row.get("output_tokens"),
        prompt_tokens=row.get("prompt_tokens"),
        router_queue_s=row.get("router_queue_s"),
        replica_queue_s=row.get("replica_queue_s"),
        replica=row.get("replica"),
        retry_after_s=row.get("retry_after_s"),
    )


def _invalid(record: Record, overlaps: set[Path], models: Sequence[str | None]) -> str | None:
    broken = next((r for r in record.validity if r.ok is False and r.rule in VOIDS), None)
    if broken is not None:
        told = broken.rule == SAME_ENGINE and isinstance(broken.value, str)
        return str(broken.value) if told else VOIDS[broken.rule]
    if record.path in overlaps:
        return "another run used the same endpoint at the same time"
    return _another_model(record, models)


def _another_model(record: Record, models: Sequence[str | None]) -> str | None:
    """Whether this level was not answered by the model of the first one."""
    several = next((r for r in record.validity if r.rule == ONE_MODEL and r.ok is False), None)
    if several is not None:
        return f"several models answered: {several.value}"
    pairs = zip(_models(record), models, strict=True)
    other = next(((here, first) for here, first in pairs if here and first and here != first), None)
    return None if other is None else f"another model answered: {other[0]} instead of {other[1]}"


def _models(record: Record) -> tuple[str | None, str | None]:
    """The model as the endpoint lists it, and as its answers name it; `None`: not told."""
    named = next((r.value for r in record.validity if r.rule == ONE_MODEL), None)
    listed = record.server.model if record.server else None
    return listed or None, str(named) if named else None


def _value(rules: Iterable[Rule], name: str) -> float | None:
    value = next((r.value for r in rules if r.rule == name), None)
    return value if isinstance(value, int | float) else None


def _ceiling(rules: Iterable[Rule], concurrency: int) -> int | None:
    """The pool's size, from the rule that holds it in concurrencies."""
    share = _value(rules, POOL)
    return None if share is None else round(share * concurrency)


def _whole(value: float | None) -> int | None:
    return None if value is None else round(value)


def _first(*values: float | None) -> float | None:
    return next((v for v in values if v is not None), None)
