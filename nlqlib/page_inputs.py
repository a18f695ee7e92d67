"""Whether an executed notebook still shows what running it again would show: decided from files alone.

A page follows from the suite's code and data, its own notebook and parameters, the settings, the machine and
the artifacts it reads. After a run that succeeded their digest is kept in `build/inputs/`; while it stays the
same the page is kept as it is, which a change of any of them, or of the executed notebook, ends.
"""

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from nlqlib import paths
from nlqlib.files import TEMPORARY, canonical_json, pretty_json, write_atomic
from nlqlib.notebook_run import Notebook, Points
from nlqlib.provenance import provenance
from nlqlib.records import Json
from nlqlib.run_settings import PLACES, RESUMED

READS: Mapping[str, tuple[str, ...]] = {
    "03_admission": ("02_serialization_staircase",),
    "14_candidates": ("13_heldout_semantics",),
}
"""Notebooks whose artifacts a notebook reads beside its own."""
LAST = ("17_", "99_")
"""Notebooks that read what all others measured."""
SETTINGS = {"TARGET", "TARGET_URL", "PROFILE", "CLIENT", "TWIN", *RESUMED, *PLACES}
"""Variables that decide what a page shows, beside every address (`…_URL`)."""
SOURCES = (("nlqlib", "*.py"), ("data", "*"))


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

    def keep(self, begun: str, points: Points, touched: Iterable[Path], since: str) -> bool:
        """Remember that this page has just been executed, unless what it follows from may be another by now.

        `begun`: its `sources` when it was started; `touched`: folders of the artifacts it used. Returns
        whether it was. Raises `WriteError`, and `OSError` or `ValueError` for what cannot be read.
        """
        own = self._own()
        folders = set(touched)
        strange = any(f not in own and f.is_relative_to(self.artifacts) for f in folders)
        if (strange and not self.reads_all) or begun != self.sources():
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

    def sources(self) -> str:
        """Digest of all but the artifacts. Raises `OSError` or `ValueError` for what cannot be read."""
        return _digest(
            suite(),
            _file(self.notebook.path),
            canonical_json(self.notebook.parameters),
            canonical_json(settings(self.environment)),
        )

    def _inputs(self, folders: Iterable[Path]) -> str:
        read = {self.artifacts} if self.reads_all else self._own()
        return _digest(self.sources(), *(_tree(folder) for folder in sorted(read | set(folders))))


def settings(environment: Mapping[str, str]) -> dict[str, str]:
    """Those variables of `environment` that decide what a page shows; empty ones count as not set."""
    named = {name for name in environment if name in SETTINGS or name.endswith("_URL")}
    return {name: environment[name] for name in sorted(named) if environment[name]}


def suite() -> str:
    """Digest of the suite's code and data, of the packages it runs with, and of the machine."""
    trees = (_tree(paths.ROOT / folder, pattern) for folder, pattern in SOURCES)
    told = {name: provenance()[name] for name in ("python", "packages", "machine")}
    return _digest(*trees, canonical_json(told))


def _tree(folder: Path, pattern: str = "*") -> str:
    """Digest of the files below `folder` that fit, with their names; of nothing where it is missing.

    Linked folders are followed; what is being written and what Python made does not count.
    """
    found = (Path(here, name) for here, _, names in os.walk(folder, followlinks=True) for name in names)
    files = sorted(p for p in found if p.match(pattern) and _counts(p))
    return _digest(*(part for p in files for part in (p.relative_to(folder).as_posix(), _file(p))))


def _counts(path: Path) -> bool:
    return "__pycache__" not in path.parts and not TEMPORARY.fullmatch(path.name) and path.is_file()


def _file(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _digest(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()
