"""Says whether two points are the same measurement: the key of a point and its fingerprint."""

import ast
import hashlib
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Literal, NamedTuple

from nlqlib import paths
from nlqlib.files import canonical_json
from nlqlib.records import Json, Workload

Kind = Literal["point", "evaluation", "calibration", "diagnosis", "bench"]
PACKAGE = "nlqlib"
BESIDE = (
    "artifacts.py",
    "artifact_record.py",
    "files.py",
    "fingerprint.py",
    "locking.py",
    "plots.py",
    "progress.py",
    "provenance.py",
    "redaction.py",
    "remeasured.py",
    "runs.py",
    "serving/engine",
)
"""Files (beginnings of their paths) that retain, draw or install, and never decide what the twin answers."""


@dataclass(frozen=True)
class PointKey:
    """Everything that decides what a point measures."""

    target: str
    """Name of the target: `twin`, `local` or `TARGET_NAME`; names the artifact's folder."""
    notebook: str
    point: str
    """Name of the point within its notebook, for people and for the file's name."""
    kind: Kind
    params: Json
    """Parameters in force, JSON types only."""
    workload: Workload | None
    identity: Json
    """What the target declares before any contact: name, model, settings."""
    source: str
    """`source_digest` of the modules that a twin's point runs through; a real one's measurement version."""


def fingerprint(key: PointKey) -> str:
    """sha256 of the canonical `key`, in hex. Raises `ValueError` or `TypeError` for what JSON cannot hold."""
    return hashlib.sha256(canonical_json(asdict(key)).encode()).hexdigest()


def settings_fingerprint(key: PointKey) -> str:
    """`fingerprint` without the source: equal for one point measured with two versions of the code."""
    return fingerprint(replace(key, source=""))


def source_digest(modules: Iterable[str | ModuleType], *, follow: bool = False) -> str:
    """sha256 over the source of nlqlib `modules`, in hex; packages count with all their files.

    Blank lines, trailing blanks and the kind of newline do not count. With `follow` also everything of
    nlqlib that these modules import counts, except what only retains and draws (`BESIDE`). Raises
    `ValueError` for a module that has no source here.
    """
    names = {m if isinstance(m, str) else m.__name__ for m in modules}
    files = {path for name in names for path in _files(name)}
    if follow:
        files = _closure(files)
    digest = hashlib.sha256()
    for path in sorted(files, key=_place):
        digest.update(f"{_place(path)}\n{_read(path).text}\0".encode())
    return digest.hexdigest()


def normalised(source: str) -> str:
    """`source` without blank lines, trailing blanks and carriage returns."""
    return "\n".join(line for raw in source.splitlines() if (line := raw.rstrip()))


def _place(path: Path) -> str:
    return path.relative_to(paths.ROOT).as_posix()


def _files(name: str) -> list[Path]:
    """Source files of the module or package `name`."""
    if name != PACKAGE and not name.startswith(PACKAGE + "."):
        raise ValueError(f"{name!r} is no module of {PACKAGE}: its digest says nothing of a measurement")
    base = paths.ROOT.joinpath(*name.split("."))
    found = sorted(base.rglob("*.py")) if base.is_dir() else [base.with_suffix(".py")]
    if not found or not found[0].is_file():
        raise ValueError(f"{name!r} has no source file: name a module or package of {PACKAGE}")
    return found


def _closure(files: set[Path]) -> set[Path]:
    """`files` and every file of nlqlib that they import, directly or not."""
    known: set[Path] = set()
    waiting = set(files)
    while waiting:
        path = waiting.pop()
        known.add(path)
        waiting |= _imports(path) - known
    return known


def _imports(path: Path) -> frozenset[Path]:
    """Files of nlqlib that `path` imports: modules, and what is imported by name out of packages."""
    return _read(path).imports


class _Source(NamedTuple):
    """One source file: its normalised text, and the files of nlqlib that it imports."""

    text: str
    imports: frozenset[Path]


def _read(path: Path) -> _Source:
    """`path`, parsed again only when the file has changed: every point of a notebook asks for the same."""
    seen = path.stat()
    return _parsed(path, seen.st_mtime_ns, seen.st_size)


@lru_cache(maxsize=1024)
def _parsed(path: Path, _changed_ns: int, _size: int) -> _Source:
    text = path.read_text("utf-8")
    found: set[Path] = set()
    for node in ast.walk(ast.parse(text)):
        for name in _imported_names(node):
            base = paths.ROOT.joinpath(*name.split("."))
            candidates = (base.with_suffix(".py"), base / "__init__.py")
            found |= {c for c in candidates if c.is_file() and not _beside(c)}
    return _Source(normalised(text), frozenset(found))


def _beside(path: Path) -> bool:
    return path.relative_to(paths.ROOT / PACKAGE).as_posix().startswith(BESIDE)


def _imported_names(node: ast.AST) -> list[str]:
    """Dotted nlqlib names that an import statement may load."""
    names: list[str] = []
    if isinstance(node, ast.Import):
        names = [alias.name for alias in node.names]
    elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
        names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
    return [name for name in names if name == PACKAGE or name.startswith(PACKAGE + ".")]
