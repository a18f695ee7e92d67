"""A folder for the length of one run, named by its process, so that a killed run's can be removed."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from nlqlib.files import alive


@contextmanager
def scratch_folder(parent: Path) -> Iterator[Path]:
    """A fresh folder under `parent`, removed at the end; those that killed runs left are removed first."""
    parent.mkdir(parents=True, exist_ok=True)
    for old in parent.glob("run-*"):
        pid = old.name.removeprefix("run-")
        if not pid.isdigit() or not alive(int(pid)) or int(pid) == os.getpid():
            shutil.rmtree(old, ignore_errors=True)
    folder = parent / f"run-{os.getpid()}"
    folder.mkdir()
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)
