"""Whether an executed notebook still shows what running it again would show: decided from files alone.

A page follows from the suite's code and data, its own notebook and parameters, the settings, the machine and
the artifacts it reads. After a run that succeeded their digest is kept in `build/inputs/`; while it stays the
same the page is kept as it is, which a change of any of them, or of the executed notebook, ends.
"""

import hashlib
import json
import platform
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from nlqlib import paths
from nlqlib.files import canonical_json, pretty_json, write_atomic
from nlqlib.notebook_run import Notebook, Points
from nlqlib.provenance import machine
from nlqlib.records import Json
from nlqlib.run_settings import PLACES, RESUMED

READS: Mapping[str, tuple[str, ...]] = {
    "03_admission": ("02_serialization_staircase",),
    "14_candidates": ("13_heldout_semantics",),
}
"""Notebooks whose artifacts a notebook reads beside its own."""
LAST = ("17_", "99_")
"""Notebooks that read what all others measured."""
SETTINGS = (
    *("TARGET", "TARGET_URL", "PROFILE", "CLIENT", "MAX_REQUESTS", "MAX_TOKENS", "TWIN"),
    *RESUMED,
    *PLACES,
)
"""Variables that decide what a page shows, beside every address (`…_URL`)."""
SOURCES = (("nlqlib", "*.py"), ("data", "*"))
LOCK = "requirements.lock"


@dataclass(frozen=True)
class Kept:
    """A page that need not be run again."""

    since: str
    """When it was executed, UTC."""
    points: int
    """How many retained points it shows."""


@dataclass(frozen=True)
class Page:
    """A notebook with everything but the artifacts that decides what it shows."""

    notebook: Notebook
    executed: Path
    """Where the executed notebook lies."""
    note: Path
    """Where the digest of its inputs lies."""
    environment: Mapping[str, str]
    artifacts: Path

    def kept(self) -> Kept | None:
        """What is known of the executed notebook, if nothing it follows from has changed."""
        try:
            told = json.loads(self.note.read_bytes())
            same = told["executed"] == _file(self.executed)
            folders = [Path(folder) for folder in told["folders"]]
            if not same or told["inputs"] != self._inputs(folders):
                return None
            return Kept(str(told["since"]), int(told["points"]))
        except (OSError, ValueError, KeyError, TypeError):  # none yet, or cut: the page is run
            return None

    def keep(self, points: Points, touched: Iterable[Path], since: str) -> bool:
        """Remember that this page has just been executed, unless it read what may have changed meanwhile.

        `touched`: folders of the artifacts it used. Returns whether it was. Raises `WriteError`.
        """
        own = self._own()
        folders = set(touched)
        if not self.reads_all and any(f not in own and f.is_relative_to(self.artifacts) for f in folders):
            self.note.unlink(missing_ok=True)
            return False
        told: Json = {
            "executed": _file(self.executed),
            "inputs": self._inputs(folders),
            "folders": sorted(map(str, folders)),
            "points": points.measured + points.reused,
            "since": since,
        }
        write_atomic(self.note, pretty_json(told).encode())
        return True

    @property
    def reads_all(self) -> bool:
        """Does it read the artifacts of every notebook?"""
        return self.notebook.name.startswith(LAST)

    def _own(self) -> set[Path]:
        """The folders this notebook may read, whether they are there or not."""
        names = (self.notebook.name, *READS.get(self.notebook.name, ()))
        targets = self.artifacts.iterdir() if self.artifacts.is_dir() else ()
        return {target / name for target in targets for name in names}

    def _inputs(self, folders: Iterable[Path]) -> str:
        read = {self.artifacts} if self.reads_all else self._own()
        return _digest(
            suite(),
            _file(self.notebook.path),
            canonical_json(self.notebook.parameters),
            canonical_json(settings(self.environment)),
            *(_tree(folder) for folder in sorted(read | set(folders))),
        )


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Those variables of `environment` that decide what a page shows; empty ones count as not set."""
    named = {name for name in environment if name in SETTINGS or name.endswith("_URL")}
    return {name: environment[name] for name in sorted(named) if environment[name]}


@lru_cache(maxsize=1)
def suite() -> str:
    """Digest of the suite's code, data and pinned packages, and of the machine; read once per process."""
    trees = (_tree(paths.ROOT / folder, pattern) for folder, pattern in SOURCES)
    lock = paths.ROOT / LOCK
    told = canonical_json({**machine(), "python": platform.python_version()})
    return _digest(*trees, _file(lock) if lock.is_file() else "", told)


def _tree(folder: Path, pattern: str = "*") -> str:
    """Digest of the files below `folder` that fit, with their names; of nothing where it is missing."""
    files = sorted(p for p in folder.rglob(pattern) if p.is_file() and "__pycache__" not in p.parts)
    return _digest(*(part for p in files for part in (p.relative_to(folder).as_posix(), _file(p))))


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
