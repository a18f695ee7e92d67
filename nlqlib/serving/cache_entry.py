"""A folder of the cache is whole or is not there: sealed last, verified before use, built by one process.

The seal is a file written when everything else is. It holds the facts of the build and what every file was;
a folder without a seal, or one that differs from it, is removed and built anew.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from nlqlib.records import Json
from nlqlib.serving.engine_settings import EngineError

SEAL = "nlqlib-seal.json"
SCHEMA_VERSION = 1
Progress = Callable[[str], None]


@dataclass(frozen=True)
class Entry:
    """One folder of the cache and how its contents are proved."""

    folder: Path
    facts: Json
    """What it was built from; other facts mean another build."""
    inventory: Callable[[Path, Json | None], Json]
    """What the files are, given the earlier inventory (to spare hashing what was not touched)."""
    needs_gib: float
    """Free disk space that a build takes."""

    def intact(self) -> bool:
        """Whether the folder is sealed, from the same facts, and unchanged since."""
        seal = self.seal()
        if not seal or seal.get("facts") != self.facts or seal.get("schema_version") != SCHEMA_VERSION:
            return False
        try:
            return self.inventory(self.folder, seal["files"]) == seal["files"]
        except (OSError, KeyError):
            return False

    def seal(self) -> Json | None:
        """What the seal says; `None` if the folder is missing or half made."""
        try:
            seal = json.loads((self.folder / SEAL).read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return None
        return seal if isinstance(seal, dict) else None

    def ensure(self, name: str, build: Callable[[Path], Json], progress: Progress) -> Json:
        """The seal of the intact folder, built by `build(folder)` → notes where it is not; says which it was.

        Raises `EngineError` when the disk is too full. A failed build leaves nothing sealed.
        """
        begin = time.monotonic()
        with file_lock(self.folder.with_name(f"{self.folder.name}.lock"), name, progress):
            if self.intact():
                progress(f"engine: {name} verified in {time.monotonic() - begin:.1f} s")
            else:
                self._build(name, build, progress)
        return self.seal() or {}

    def _build(self, name: str, build: Callable[[Path], Json], progress: Progress) -> None:
        begin = time.monotonic()
        if self.folder.exists():
            progress(f"engine: {self.folder} is half made, damaged or outdated; building it again")
            shutil.rmtree(self.folder)
        _check_space(self.folder.parent, self.needs_gib, name)
        self.folder.mkdir(parents=True)
        try:
            notes = build(self.folder)
            self._write_seal(notes)
        except OSError as error:
            raise EngineError(f"cannot build {name} in {self.folder}: {error.strerror or error}") from error
        progress(f"engine: {name} ready in {time.monotonic() - begin:.0f} s")

    def _write_seal(self, notes: Json) -> None:
        seal = {
            "schema_version": SCHEMA_VERSION,
            "facts": self.facts,
            "notes": notes,
            "files": self.inventory(self.folder, None),
        }
        draft = self.folder / f"{SEAL}.draft"
        with draft.open("w", encoding="utf-8") as handle:
            json.dump(seal, handle, indent=1, sort_keys=True)
            handle.flush()
            os.fsync(handle.fileno())
        draft.replace(self.folder / SEAL)


@contextlib.contextmanager
def file_lock(path: Path, name: str, progress: Progress) -> Iterator[None]:
    """Hold `path` as a lock between processes, saying so when it has to wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as handle:
        told = False
        while not _try_lock(handle.fileno()):
            if not told:
                progress(f"engine: waiting for another process that prepares {name}")
            told = True
            time.sleep(0.2)
        yield


def hashed_inventory(folder: Path, earlier: Json | None) -> Json:
    """Size, time and SHA-256 of every file; a file whose size and time are as before is not read again."""
    known = earlier or {}
    return {name: _proof(folder / name, known.get(name)) for name in _names(folder)}


def listed_inventory(folder: Path, earlier: Json | None) -> Json:
    """One digest over names and sizes: an environment of 50,000 files, checked in half a second."""
    return {"listing": listing_digest(folder)}


def listing_digest(folder: Path) -> str:
    """SHA-256 over the relative names and sizes of all files, compiled Python and the seal aside."""
    digest = hashlib.sha256()
    for name in _names(folder):
        line = f"{name}\0{(folder / name).lstat().st_size}\n"
        digest.update(line.encode("utf-8", "surrogateescape"))
    return digest.hexdigest()


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, read in pieces."""
    with path.open("rb") as handle:
        return hashlib.file_digest(handle, "sha256").hexdigest()


def _proof(path: Path, known: Json | None) -> Json:
    """What `path` is; the earlier proof if it is the same file, only touched perhaps."""
    status = path.stat()
    size, mtime_ns = status.st_size, status.st_mtime_ns
    if known and (known["size"], known["mtime_ns"]) == (size, mtime_ns):
        return known
    proof = {"size": size, "mtime_ns": mtime_ns, "sha256": sha256_of(path)}
    return known if known and known["sha256"] == proof["sha256"] else proof


def _names(folder: Path) -> list[str]:
    """Relative names of all files, sorted; compiled Python and the seal aside."""
    found = []
    for place, folders, names in os.walk(folder):
        folders[:] = [f for f in folders if f != "__pycache__"]
        found += [str(Path(place, n).relative_to(folder)) for n in names if n not in (SEAL, f"{SEAL}.draft")]
    return sorted(found)


def _check_space(parent: Path, needs_gib: float, name: str) -> None:
    parent.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(parent).free / 2**30
    if free < needs_gib:
        raise EngineError(
            f"{name} needs {needs_gib:.1f} GiB but {parent} has {free:.1f} GiB free; "
            "make room, or set NLQLIB_CACHE to a folder on another disk"
        )


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
