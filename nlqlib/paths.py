"""Where things are: absolute paths from this file, whatever the working directory."""

import os
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
DATA = ROOT / "data"
CATALOG = DATA / "catalog.toml"
QUESTIONS = DATA / "questions"
RECORDINGS = DATA / "recordings"
NOTEBOOKS = ROOT / "notebooks"
ARTIFACTS = ROOT / "artifacts"
BUILD = ROOT / "build"


def cache_dir() -> Path:
    """Engines and models, shared between clones: `NLQLIB_CACHE`, else the user's cache folder."""
    chosen = os.environ.get("NLQLIB_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "nlqlib"
