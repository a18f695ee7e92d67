"""A notebook's process that is ended, by us or in the middle of a line, still has an outcome."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from nlqlib.notebook_run import Notebook, Points, Running


def test_a_notebook_that_was_killed_is_finished_without_an_error(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; sys.stdin.read(); sys.stdin.read()"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True)
    (tmp_path / "manifest").touch()
    (tmp_path / "log").touch()
    running = Running(Notebook(tmp_path / "05_knee.ipynb"), tmp_path, tmp_path / "log", process)
    running.kill()
    found = running.finished()
    assert found is not None and found.status == "interrupted"


def told(**changed: object) -> bytes:
    """One line of a manifest."""
    event = {"event": "failed", "path": "a.json", "notebook": "05_knee", "point": "a", "comparison": None}
    return json.dumps(event | changed, ensure_ascii=False).encode() + b"\n"


def ended(folder: Path, manifest: bytes) -> Running:
    """A notebook whose process has ended well and left this manifest."""
    command = [sys.executable, "-c", 'print(\'{"status": "success"}\')']
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    process.wait()
    (folder / "manifest").write_bytes(manifest)
    return Running(Notebook(folder / "05_knee.ipynb"), folder, folder / "log", process)


@pytest.mark.parametrize("cut", [b'{"event": "meas', b'{"event": "gr\xc3', b'{"event": "meas\n', b"\n"])
def test_a_line_that_was_cut_is_no_event_and_the_others_count(cut: bytes, tmp_path: Path) -> None:
    running = ended(tmp_path, told(event="started", path="b.json") + told() + cut)
    assert [event["event"] for event in running.events()] == ["started", "failed"]
    found = running.finished()
    assert found is not None and (found.status, found.points) == ("failed", Points(failed=1, open=1))


def test_what_unicode_calls_a_line_end_stays_in_an_event(tmp_path: Path) -> None:
    running = ended(tmp_path, told(error="a\u2028b\u0085c"))
    assert [event["error"] for event in running.events()] == ["a\u2028b\u0085c"]
    found = running.finished()
    assert found is not None and found.points == Points(failed=1)
