"""Lines appended to a file are whole, also where the disk is full in the middle of one."""

import subprocess
import sys
from pathlib import Path

import pytest

from nlqlib.files import WriteError, append_line

FILL = """
import resource, sys
from pathlib import Path
from nlqlib.files import WriteError, append_line
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
append_line(Path(sys.argv[1]), "a" * 50)
try:
    append_line(Path(sys.argv[1]), "b" * 80)
except WriteError as error:
    print(error)
append_line(Path(sys.argv[1]), "c" * 10)
"""
"""A file that may grow to 100 bytes: of the second line 49 would fit."""


def test_a_line_that_does_not_fit_is_refused_and_taken_back(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    done = subprocess.run([sys.executable, "-c", FILL, str(path)], capture_output=True, text=True)
    assert "no space left while writing" in done.stdout and done.stderr == ""
    assert path.read_text().splitlines() == ["a" * 50, "c" * 10]


def test_lines_of_several_processes_stand_below_each_other(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    path.write_text("first\n")
    append_line(path, "zweite ü")
    append_line(path, "\ud800")
    assert path.read_text("utf-8") == "first\nzweite ü\n\\ud800\n"


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"cannot write .*nowhere.lines"):
        append_line(tmp_path / "nowhere" / "lines", "a")
