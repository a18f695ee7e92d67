"""All retained points as SQL relations, and the check that no two contaminated each other."""

from collections.abc import Iterable
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb

from nlqlib import paths
from nlqlib.artifact_record import Record, load_records
from nlqlib.files import canonical_json
from nlqlib.records import Json

SCHEMA = """
create table runs (
    path varchar, target varchar, notebook varchar, point varchar, kind varchar, status varchar,
    fingerprint varchar, source varchar, newest boolean,
    started_at timestamptz, completed_at timestamptz,
    model varchar, engine varchar, engine_version varchar, accelerator varchar,
    workload varchar, workload_sha256 varchar, n integer, seed integer,
    requests_total integer, requests_ok integer, valid boolean,
    params json, requests json, results json, server json, error varchar, git_commit varchar
);
create table run_metrics (
    path varchar, target varchar, notebook varchar, point varchar, name varchar, unit varchar, stat varchar,
    value double, n integer, tag varchar
);
"""


def connect_runs(root: Path = paths.ARTIFACTS) -> duckdb.DuckDBPyConnection:
    """A connection with the tables `runs` (one row per point) and `run_metrics` (one per metric).

    `newest` marks the latest success among points of equal settings measured with different code. Both
    tables are empty for an empty or missing folder. Raises `ArtifactError` for a damaged artifact.
    """
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    connection.execute(SCHEMA)
    found = list(load_records(root))
    newest = _newest(found)
    _insert(connection, "runs", [_run_row(r, root, r.path in newest) for r in found])
    _insert(connection, "run_metrics", [row for r in found for row in _metric_rows(r, root)])
    return connection


def runs(root: Path = paths.ARTIFACTS) -> duckdb.DuckDBPyRelation:
    """One row per retained point: `runs().filter("target = 'twin'").df()`."""
    return connect_runs(root).table("runs")


def run_metrics(root: Path = paths.ARTIFACTS) -> duckdb.DuckDBPyRelation:
    """One row per metric of every retained point."""
    return connect_runs(root).table("run_metrics")


def overlapping(records: Iterable[Record]) -> list[tuple[Record, Record]]:
    """Pairs of points of one endpoint instance whose intervals overlap: analysis must refuse them.

    Intervals are the endpoint's own where it told them, else the run's. A point that names no instance (the
    twin: each point has one of its own) overlaps with none.
    """
    by_instance: dict[str, list[tuple[float, float, Record]]] = {}
    for record in records:
        interval = _interval(record)
        instance = record.run.get("instance")
        if interval and instance:
            by_instance.setdefault(str(instance), []).append((*interval, record))
    return [pair for found in by_instance.values() for pair in _overlaps(found)]


def _overlaps(found: list[tuple[float, float, Record]]) -> list[tuple[Record, Record]]:
    """Overlapping pairs: each point against those that began while it, or a longer one before it, ran."""
    ordered = sorted(found, key=lambda item: (item[0], item[1]))
    return [
        (first, second)
        for i, (_, end, first) in enumerate(ordered)
        for start, _, second in ordered[i + 1 :]
        if start < end
    ]


def _interval(record: Record) -> tuple[float, float] | None:
    if told := record.run.get("interval_s"):
        return float(told[0]), float(told[1])
    start, end = record.run.get("started_at"), record.run.get("completed_at")
    if not start or not end:
        return None
    return datetime.fromisoformat(start).timestamp(), datetime.fromisoformat(end).timestamp()


def _newest(records: list[Record]) -> set[Path]:
    """Paths of the latest success per settings."""
    best: dict[str, Record] = {}
    for record in sorted(records, key=lambda r: str(r.run.get("completed_at") or "")):
        if record.status == "success":
            best[record.body["settings_fingerprint"]] = record
    return {record.path for record in best.values()}


def _run_row(record: Record, root: Path, newest: bool) -> list[Any]:
    body, run = record.body, record.run
    server, workload, requests = body["server"] or {}, body["workload"] or {}, body["requests"]
    checked = [rule["ok"] for rule in body["validity"]]
    return [
        *_place(record, root),
        *(body[name] for name in ("kind", "status", "fingerprint")),
        body["provenance"]["source"],
        newest,
        *(run.get(name) for name in ("started_at", "completed_at")),
        *(server.get(name) for name in ("model", "engine", "engine_version", "accelerator")),
        *(workload.get(name) for name in ("name", "sha256", "n", "seed")),
        *(requests.get(name) for name in ("total", "ok")),
        all(ok is not False for ok in checked),
        *(canonical_json(part) for part in (body["params"], requests, body["results"], server)),
        body["error"],
        (run.get("provenance") or {}).get("git_commit"),
    ]


def _metric_rows(record: Record, root: Path) -> list[list[Any]]:
    def row(metric: Json) -> list[Any]:
        return [metric[name] for name in ("name", "unit", "stat", "value", "n", "tag")]

    return [[*_place(record, root), *row(metric)] for metric in record.body["metrics"]]


def _place(record: Record, root: Path) -> list[str]:
    body = record.body
    return [record.path.relative_to(root).as_posix(), body["target"], body["notebook"], body["point"]]


def _insert(connection: duckdb.DuckDBPyConnection, table: str, rows: list[list[Any]]) -> None:
    if rows:
        marks = ", ".join("?" * len(rows[0]))
        connection.executemany(f"insert into {table} values ({marks})", rows)
