"""One retained point as it is read back."""

import contextlib
import gzip
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path

from nlqlib.files import WriteError, append_line, text_lines
from nlqlib.records import Json, Metric, Rule, ServerIdentity, Workload
from nlqlib.remeasured import Comparison

OTHER_CODE = "recorded with other code"
READ = "NLQLIB_READ"
"""Environment variable naming the file in which a notebook lists the folders it read artifacts from."""


class ArtifactError(RuntimeError):
    """A retained file is damaged; says which, and how to get it back."""


@dataclass(frozen=True)
class Record:
    """A point: its body, and the sidecar of the run that measured it."""

    path: Path
    body: Json
    run: Json
    """Volatile facts: times, machine, versions; `{}` when the sidecar is missing."""
    reused: bool = False
    note: str | None = None
    """`recorded with other code`, or `None`."""
    comparison: Comparison | None = None
    """With REMEASURE=1: how it compares with the retained point."""

    @property
    def status(self) -> str:
        return str(self.body["status"])

    @property
    def current(self) -> bool:
        """Whether the code that measured it is the present one."""
        return self.note is None

    @property
    def params(self) -> Json:
        return dict(self.body["params"])

    @property
    def results(self) -> Json:
        return dict(self.body["results"])

    @property
    def requests(self) -> Json:
        return dict(self.body["requests"])

    @property
    def server(self) -> ServerIdentity | None:
        told = self.body["server"]
        return ServerIdentity(**told) if told else None

    @property
    def workload(self) -> Workload | None:
        told = self.body["workload"]
        return Workload(**told) if told else None

    @cached_property
    def metrics(self) -> tuple[Metric, ...]:
        return tuple(Metric(**m) for m in self.body["metrics"])

    @property
    def validity(self) -> tuple[Rule, ...]:
        return tuple(Rule(**r) for r in self.body["validity"])

    def value(self, name: str, stat: str) -> float | None:
        """The metric's value; `None` when it could not be observed or was not measured."""
        return next((m.value for m in self.metrics if (m.name, m.stat) == (name, stat)), None)

    def samples(self) -> list[Json]:
        """Rows per request. Raises `ArtifactError` when the file is missing or altered."""
        told = self.body["samples"]
        if not told:
            return []
        data = self._checked(told, _read(self.path.parent / told["path"]))
        return [json.loads(line) for line in text_lines(data.decode())]

    def scrapes(self) -> dict[str, bytes]:
        """Raw scrapes by name. Raises `ArtifactError` when one is missing or altered."""
        return {name: self._scrape(told) for name, told in self.body["scrapes"].items()}

    def verified(self) -> "Record":
        """The record itself, when its samples and scrapes are what was measured; else `ArtifactError`."""
        if told := self.body["samples"]:
            self._checked(told, _read(self.path.parent / told["path"]))
        self.scrapes()
        return replace(self)

    def _scrape(self, told: Json) -> bytes:
        path = self.path.parent / told["path"]
        try:
            data = gzip.decompress(_read(path))
        except (OSError, EOFError) as error:
            raise ArtifactError(_damaged(path, str(error))) from error
        return self._checked(told, data)

    def _checked(self, told: Json, data: bytes) -> bytes:
        if sha256(data) != told["sha256"]:
            raise ArtifactError(_damaged(self.path.parent / told["path"], "its hash is not the recorded one"))
        return data


def load_record(path: Path) -> Record:
    """The record whose body is at `path`. Raises `ArtifactError` for a damaged file.

    Under the driver its folder is noted: a page has to be run again once what it reads has changed.
    """
    _note_read(path.parent)
    sidecar = path.with_suffix(".run.json")
    return Record(path, _load(path), _load(sidecar) if sidecar.is_file() else {})


def load_records(root: Path) -> Iterator[Record]:
    """Every record under `root`, in the order of paths; nothing when the folder is empty or missing."""
    for path in sorted(root.glob("*/*/*.json")):
        if not path.name.endswith(".run.json"):
            yield load_record(path)


def sha256(data: bytes) -> str:
    """Hash of `data`, in hex."""
    return hashlib.sha256(data).hexdigest()


def compress(data: bytes) -> bytes:
    """`data` gzipped without a time stamp, so that equal texts give equal files."""
    return gzip.compress(data, mtime=0)


def _note_read(folder: Path) -> None:
    if note := os.environ.get(READ):
        _append_folder(note, str(folder))


@lru_cache(maxsize=256)
def _append_folder(note: str, folder: str) -> None:
    with contextlib.suppress(WriteError):  # reading goes on where the disk is full
        append_line(Path(note), json.dumps(folder))


def _load(path: Path) -> Json:
    try:
        loaded = json.loads(_read(path))
    except ValueError as error:
        raise ArtifactError(_damaged(path, f"not JSON, {error}")) from error
    if not isinstance(loaded, dict):
        raise ArtifactError(_damaged(path, "no JSON object"))
    return loaded


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ArtifactError(_damaged(path, error.strerror or str(error))) from error


def _damaged(path: Path, why: str) -> str:
    return (
        f"the artifact {path} is damaged ({why}): restore it from version control, or delete the point's "
        "files to measure it again"
    )
