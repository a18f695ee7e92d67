"""Where and by what a point was measured: commit, versions, machine. No host or person is named."""

import importlib.metadata
import os
import platform
import subprocess
from functools import cache
from pathlib import Path

from nlqlib import paths
from nlqlib.records import Json

PACKAGES = ("duckdb", "httptools", "numpy", "openai", "pandas", "papermill", "pydantic", "scipy", "uvloop")
"""Packages whose version can change a result."""
TRACKED = ("nlqlib", "data", "notebooks", "requirements.lock")
"""Changes elsewhere, such as a new artifact, do not make the code dirty."""


@cache
def provenance() -> Json:
    """Commit, whether the code differs from it, Python, packages and machine; read once per process."""
    return {
        "git_commit": _git("rev-parse", "HEAD") or None,
        "git_dirty": dirty(),
        "python": platform.python_version(),
        "packages": {name: _version(name) for name in PACKAGES},
        "machine": machine(),
    }


def machine() -> Json:
    """Processor, cores usable, memory in bytes and operating system; `None` for what is not told."""
    return {
        "processor": _cpu_model() or platform.machine() or None,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "memory_bytes": _memory_bytes(),
        "system": f"{platform.system()} {platform.release()}",
    }


def dirty() -> bool | None:
    """Whether the sources differ from the commit; `None` outside a git checkout."""
    status = _git("status", "--porcelain", "--", *TRACKED)
    return None if status is None else bool(status)


def _git(*arguments: str) -> str | None:
    """Output of git in the checkout; `None` where there is no git or no repository."""
    environment = {**os.environ, "GIT_OPTIONAL_LOCKS": "0"}
    try:
        done = subprocess.run(
            ["git", *arguments],
            cwd=paths.ROOT,
            env=environment,
            capture_output=True,
            text=True,
            encoding="utf-8",
            errors="replace",
            timeout=10,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str | None:
    """Model name from /proc/cpuinfo; `None` where there is no such file."""
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8", "replace").splitlines()
    except OSError:
        return None
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), None)


def _memory_bytes() -> int | None:
    names = os.sysconf_names
    if "SC_PHYS_PAGES" not in names or "SC_PAGE_SIZE" not in names:
        return None
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
