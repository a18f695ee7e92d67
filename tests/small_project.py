"""A copy of the project with a few of its notebooks and nothing retained, and `make` and the driver in it.

Whatever runs there writes there: artifacts, executed notebooks, the site.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

from nlqlib import paths

SETTINGS = (
    *("TARGET", "TARGET_URL", "TARGET_NAME", "PROFILE", "NOTEBOOKS", "CLIENT", "REMEASURE", "MODEL"),
    *("MAX_REQUESTS", "MAX_TOKENS", "PARAMS", "API_KEY_ENV", "METRICS_URL", "METRICS_URLS", "CA_FILE"),
    *("NLQLIB_MANIFEST", "NLQLIB_PROGRESS", "NLQLIB_PARAMS_PASSED"),
    *("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES"),
)
"""What a run takes from the environment, that of a `make test` around it included."""
BUILD_FILES = ("Makefile", "pyproject.toml", "requirements.lock", "requirements-ray.lock", "README.md")
PYTHON = """#!/bin/sh
exec '{python}' "$@"
"""


def small_project(home: Path, *notebooks: str) -> Path:
    """The project in `home` with the `notebooks` that begin so, and `.venv` standing for an installed one."""
    shutil.copytree(paths.ROOT / "nlqlib", home / "nlqlib")
    shutil.copytree(paths.DATA, home / "data")
    shutil.copytree(paths.NOTEBOOKS, home / "notebooks", ignore=shutil.ignore_patterns("[0-9]*.ipynb", ".*"))
    for name in notebooks:
        [source] = paths.NOTEBOOKS.glob(f"{name}*.ipynb")
        shutil.copy(source, home / "notebooks")
    for made in (paths.BUILD / "warehouse").glob("seed1-scale1.0-*.duckdb"):  # else it is drawn again
        (home / "build" / "warehouse").mkdir(parents=True, exist_ok=True)
        shutil.copy(made, home / "build" / "warehouse")
    build_files(home)
    _stand_in(home / ".venv")
    return home


def build_files(home: Path) -> Path:
    """In `home`, what `make` reads; nothing is installed there."""
    home.mkdir(parents=True, exist_ok=True)
    for name in BUILD_FILES:
        shutil.copy(paths.ROOT / name, home)
    return home


def _stand_in(venv: Path) -> None:
    """An environment whose Python is the one that runs the tests."""
    (venv / "bin").mkdir(parents=True)
    python = venv / "bin" / "python"
    python.write_text(PYTHON.format(python=sys.executable))
    python.chmod(0o755)
    (venv / ".installed").touch()


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a user in `home` who has set nothing but `more`."""
    kept = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    return kept | {"PYTHONPATH": str(home), "NLQLIB_CACHE": str(home / "cache")} | more


def run(home: Path, *command: str, **more: str) -> "subprocess.CompletedProcess[str]":
    """What `command` says and how it ends, in `home`."""
    return subprocess.run(
        command,
        cwd=home,
        env=environment(home, **more),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )


def contents(folder: Path, pattern: str = "*") -> dict[str, bytes]:
    """Every file below `folder` that fits, by its relative path."""
    found = (p for p in folder.rglob(pattern) if p.is_file())
    return {p.relative_to(folder).as_posix(): p.read_bytes() for p in found}
