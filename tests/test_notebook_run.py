"""A notebook's process that is ended by us still has an outcome."""

import subprocess
import sys
from pathlib import Path

from nlqlib.notebook_run import Notebook, Running


def test_a_notebook_that_was_killed_is_finished_without_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.stdin.read()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    (tmp_path / "manifest").touch()
    (tmp_path / "log").touch()
    running = Running(Notebook(tmp_path / "05_knee.ipynb"), tmp_path, tmp_path / "log", process)
    running.kill()
    found = running.finished()
    assert found is not None and found.status == "interrupted"
