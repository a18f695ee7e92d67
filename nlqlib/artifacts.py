"""Retained runs: every measured point is one JSON file, reused when its fingerprint matches.

`artifacts/<target>/<notebook>/<point>-<fingerprint8>.json` holds what was measured and nothing that changes
from run to run; times, machine and versions are in `….run.json` beside it, rows per request in `….jsonl`, raw
scrapes in `….<name>.prom.gz`. What is written last is the body, so a body that says `success` is complete.
"""

import asyncio
import contextlib
import json
import os
import uuid
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from glob import escape
from pathlib import Path

from nlqlib import paths
from nlqlib.artifact_record import OTHER_CODE, ArtifactError, Record, compress, load_record, sha256
from nlqlib.files import (
    WriteError,
    append_line,
    canonical_json,
    plain,
    pretty_json,
    slug,
    sweep,
    write_atomic,
    write_if_changed,
)
from nlqlib.fingerprint import PointKey, fingerprint, settings_fingerprint, source_digest
from nlqlib.locking import EndpointLock, one_at_a_time, utc_now
from nlqlib.provenance import provenance
from nlqlib.records import Json, Metric, Rule, ServerIdentity, Status
from nlqlib.redaction import redact, redact_all, secrets
from nlqlib.remeasured import Comparison, begun_since, compare, run_mark

__all__ = [
    "ArtifactError",
    "Measured",
    "PointKey",
    "Record",
    "Store",
    "fingerprint",
    "source_digest",
]

SCHEMA_VERSION = 1
ERROR_LIMIT = 2000
"""Characters kept of an error's text."""
MANIFEST = "NLQLIB_MANIFEST"
"""Environment variable naming the file in which a notebook lists its points, for the driver."""
PASSED = "NLQLIB_PARAMS_PASSED"
"""Environment variable with the parameters given by the user, as JSON; the others are the notebook's own."""


@dataclass(frozen=True)
class Measured:
    """What a measuring function hands back for one point."""

    server: ServerIdentity | None = None
    requests: Json = field(default_factory=dict)
    """Counts: `total`, `ok`, and one per failing outcome."""
    metrics: list[Metric] = field(default_factory=list)
    samples: list[Json] = field(default_factory=list)
    """One row per request."""
    validity: list[Rule] = field(default_factory=list)
    results: Json = field(default_factory=dict)
    """What no metric holds: per-question rows, decisions, fits."""
    scrapes: dict[str, bytes] = field(default_factory=dict)
    """Raw /metrics texts by name (`before`, `after` …)."""
    instance: str | None = None
    """Names the very process that answered, so that points of one instance can be checked for overlap."""
    interval_s: tuple[float, float] | None = None
    """First request and last answer by the endpoint's own clock, seconds since 1970."""


@dataclass(frozen=True)
class Store:
    """The retained points under `root`."""

    root: Path = paths.ARTIFACTS
    remeasure: bool = False
    """Measure every point anew into `remeasured_root` and compare it with the retained one."""
    remeasured_root: Path = paths.BUILD / "remeasured"
    since: str | None = None
    """With `remeasure`, when the run began, UTC: what was measured anew since then is not measured again."""

    @classmethod
    def from_environment(cls) -> "Store":
        """The project's own store; `REMEASURE=1` in the environment measures anew.

        A time there is the start of the run, which the driver gives to its kernels and to a resumed run.
        """
        told = os.environ.get("REMEASURE", "")
        return cls(remeasure=told not in ("", "0"), since=run_mark(told))

    def find(self, key: PointKey) -> Record | None:
        """The retained success of `key`; else one `recorded with other code` (see its `note`); else `None`.

        Touches nothing but files. Raises `ArtifactError` for a damaged artifact.
        """
        folder = _folder(self.root, key)
        found = [load_record(p) for p in sorted(folder.glob(f"{escape(slug(key.point))}-????????.json"))]
        done = [r for r in found if r.status == "success"]
        exact, settings = fingerprint(key), settings_fingerprint(key)
        for record in done:
            if record.body.get("fingerprint") == exact:
                return record.verified()
        others = [r for r in done if r.body.get("settings_fingerprint") == settings]
        latest = max(others, key=lambda r: str(r.run.get("completed_at")), default=None)
        return replace(latest, note=OTHER_CODE) if latest else None

    def measure(
        self, key: PointKey, fn: Callable[[], Measured], endpoint: str | None = None, lock: str | None = None
    ) -> Record:
        """The point `key`: reused when retained, else measured by `fn` and retained.

        `endpoint` names the endpoint instance that must not be measured by two at once; `lock`, what is held
        where that name is not enough. Without one (an endpoint of one's own) a second run that wants the
        point waits for it and reuses it. What `fn` raises is recorded and raised again. Raises
        `LockedError`, `WriteError`, and `ArtifactError` for a damaged one.
        """
        retained = self.find(key)
        if done := self._done(key, retained):
            return _reused(key, done)
        root = self.remeasured_root if self.remeasure else self.root
        with EndpointLock(lock or endpoint) if endpoint else one_at_a_time(str(_path(root, key))):
            if meanwhile := self._done(key, self.find(key)):
                return _reused(key, meanwhile)
            record = _Writer(root, key, endpoint).run(fn)
        compared = compare(record, retained) if self.remeasure else None
        _announce(key, "measured", record.path, compared)
        return _shown(record, retained, compared)

    def has(self, key: PointKey) -> bool:
        """Whether `measure` would reuse `key`; decided from files alone."""
        return self._done(key, self.find(key)) is not None

    def _done(self, key: PointKey, retained: Record | None) -> Record | None:
        """What need not be measured: `retained`, or with `remeasure` what was measured anew already."""
        if not self.remeasure:
            return retained if retained and retained.current else None
        anew = self._anew(key)
        return _shown(anew, retained, compare(anew, retained)) if anew else None

    def _anew(self, key: PointKey) -> Record | None:
        """What this run, or the one that it resumes, has measured."""
        path = _path(self.remeasured_root, key)
        if not self.since or not path.is_file():
            return None
        found = load_record(path)
        same = found.status == "success" and found.body.get("fingerprint") == fingerprint(key)
        return found.verified() if same and begun_since(found.run, self.since) else None


@dataclass(frozen=True)
class _Writer:
    """Measures one point and keeps its files in step with what happened."""

    root: Path
    key: PointKey
    endpoint: str | None
    run_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    started_at: str = field(default_factory=utc_now)

    @property
    def path(self) -> Path:
        return _path(self.root, self.key)

    def run(self, fn: Callable[[], Measured]) -> Record:
        sweep(self.path.parent)
        try:
            self._write("started", Measured())
            _announce(self.key, "started", self.path)
            return self._write("success", fn())
        except WriteError as error:
            self._announce_unwritten(str(error))
            raise
        except (KeyboardInterrupt, asyncio.CancelledError):
            self._close("cancelled", "interrupted before the end")
            raise
        except Exception as error:  # every failure is recorded, and none is swallowed
            self._close("error", f"{type(error).__name__}: {error}")
            raise

    def _announce_unwritten(self, error: str) -> None:
        """The disk that refused the point may refuse this line too: the first error counts."""
        with contextlib.suppress(WriteError):
            _announce(self.key, "failed", self.path, error=redact(error))

    def _close(self, status: Status, text: str) -> None:
        error = redact(text)[:ERROR_LIMIT]
        self._write(status, Measured(), error)
        event = "cancelled" if status == "cancelled" else "failed"
        _announce(self.key, event, self.path, error=error)

    def _write(self, status: Status, measured: Measured, error: str | None = None) -> Record:
        """Write the files of the point, its body last."""
        hidden = secrets()
        body = redact_all(plain(self._body(status, measured, error)), hidden)
        body["samples"] = self._write_samples(measured, hidden)
        body["scrapes"] = {name: self._write_scrape(name, measured, hidden) for name in measured.scrapes}
        run = redact_all(plain(self._sidecar(status, measured)), hidden)
        write_atomic(self.path.with_suffix(".run.json"), pretty_json(run).encode())
        write_if_changed(self.path, pretty_json(body).encode())
        return Record(self.path, body, run)

    def _body(self, status: Status, measured: Measured, error: str | None) -> Json:
        key = self.key
        return {
            "schema_version": SCHEMA_VERSION,
            "status": status,
            "kind": key.kind,
            "target": key.target,
            "notebook": key.notebook,
            "point": key.point,
            "params": key.params,
            "identity": key.identity,
            "workload": key.workload,
            "fingerprint": fingerprint(key),
            "settings_fingerprint": settings_fingerprint(key),
            "provenance": {"source": key.source},
            "server": measured.server,
            "requests": measured.requests,
            "metrics": measured.metrics,
            "validity": measured.validity,
            "results": measured.results,
            "error": error,
        }

    def _sidecar(self, status: Status, measured: Measured) -> Json:
        return {
            "schema_version": SCHEMA_VERSION,
            "run_id": self.run_id,
            "started_at": self.started_at,
            "completed_at": None if status == "started" else utc_now(),
            "params_passed": json.loads(os.environ.get(PASSED) or "{}"),
            "provenance": provenance(),
            "instance": measured.instance or self.endpoint,
            "interval_s": measured.interval_s,
        }

    def _write_samples(self, measured: Measured, hidden: tuple[str, ...]) -> Json | None:
        if not measured.samples:
            return None
        rows = [canonical_json(redact_all(plain(row), hidden)) + "\n" for row in measured.samples]
        data = "".join(rows).encode()
        path = self.path.with_suffix(".jsonl")
        write_if_changed(path, data)
        return {"path": path.name, "sha256": sha256(data), "n": len(rows)}

    def _write_scrape(self, name: str, measured: Measured, hidden: tuple[str, ...]) -> Json:
        text = measured.scrapes[name].decode("utf-8", "surrogateescape")
        data = redact(text, hidden).encode("utf-8", "surrogateescape")
        path = self.path.with_suffix(f".{slug(name)}.prom.gz")
        write_if_changed(path, compress(data))
        return {"path": path.name, "sha256": sha256(data)}


def _shown(measured: Record, retained: Record | None, compared: Comparison | None) -> Record:
    """What a page shows of `measured`: the retained point where that came back byte for byte."""
    same = retained is not None and compared is not None and compared.exact
    return replace(retained if retained and same else measured, comparison=compared)


def _reused(key: PointKey, retained: Record) -> Record:
    _announce(key, "reused", retained.path, retained.comparison)
    return replace(retained, reused=True)


def _folder(root: Path, key: PointKey) -> Path:
    return root / slug(key.target) / slug(key.notebook)


def _path(root: Path, key: PointKey) -> Path:
    return _folder(root, key) / f"{slug(key.point)}-{fingerprint(key)[:8]}.json"


def _announce(
    key: PointKey, event: str, path: Path, comparison: Comparison | None = None, error: str | None = None
) -> None:
    """Tell the driver's manifest what became of the point; without a driver, print a comparison."""
    manifest = os.environ.get(MANIFEST)
    if manifest:
        line = {
            "event": event,
            "target": key.target,
            "notebook": key.notebook,
            "point": key.point,
            "path": str(path),
            "comparison": asdict(comparison) if comparison else None,
            "error": error,
        }
        append_line(Path(manifest), canonical_json(line))
    elif comparison:
        print(f"{key.notebook} {key.point}: {comparison}", flush=True)
