"""`ask --condition clarifier`: its question goes to standard error, and nobody has to answer it."""

import json
import os
import pty
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from nlqlib import paths
from nlqlib.__main__ import main
from nlqlib.commands_ask import UNCHOSEN
from nlqlib.experiments.questions import load_questions

CLOSE = next(q.question for q in load_questions("dev") if q.id == "dev-11")
"""The rules read a breakdown; the recorded model reads a series, and is hardly surer of it."""
ASK = ("ask", CLOSE, "--condition", "clarifier", "--target", "twin", "--json")


class Terminal:
    """A terminal at which somebody types; what is typed waits there to be read."""

    def __init__(self) -> None:
        self.keyboard, self.screen = pty.openpty()
        self.stdin = os.fdopen(self.screen, "r", encoding="utf-8")

    def type(self, keys: str) -> None:
        os.write(self.keyboard, keys.encode())

    def close(self) -> None:
        self.stdin.close()
        os.close(self.keyboard)


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Iterator[Terminal]:
    opened = Terminal()
    monkeypatch.setattr(sys, "stdin", opened.stdin)
    yield opened
    opened.close()


def asked(capsys: pytest.CaptureFixture[str]) -> tuple[dict[str, Any], str]:
    """The answer, which is all of standard output, and what is said beside it."""
    assert main(ASK) == 0
    shown = capsys.readouterr()
    return json.loads(shown.out), shown.err


@pytest.mark.parametrize(("typed", "kind"), [("1\n", "breakdown"), (" 2 \n", "time_series")])
def test_the_reading_that_is_chosen_is_answered(
    typed: str, kind: str, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.type(typed)
    told, beside = asked(capsys)
    assert told["intent"]["query_type"] == kind and UNCHOSEN not in told.get("unsure", "")
    assert "What do you mean?" in beside and beside.count("number: ") == 1


def test_something_else_is_answered_as_without_asking_and_said_to_be_unsure(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.type("3\n")
    told, _ = asked(capsys)
    assert told["intent"]["query_type"] == "breakdown" and told["unsure"] == UNCHOSEN


@pytest.mark.parametrize("typed", ["\n", "0\n", "4\n", "-1\n", "1.0\n", "²\n", "north\n"])
def test_what_is_no_option_is_one_line_and_no_choice(
    typed: str, terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.type(typed)
    told, beside = asked(capsys)
    assert told["unsure"] == UNCHOSEN
    assert f"{typed.strip()!r} is no number from 1 to 3: {UNCHOSEN}\n" in beside


def test_the_end_of_the_input_is_one_line_and_no_choice(
    terminal: Terminal, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal.type("\x04")
    told, beside = asked(capsys)
    assert told["unsure"] == UNCHOSEN and told["intent"]["query_type"] == "breakdown"
    assert beside.endswith(f"number: \nnlqlib: the input ended: {UNCHOSEN}\n")


def test_without_a_terminal_nothing_is_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "piped").write_text("2\n")
    with (tmp_path / "piped").open() as piped:
        monkeypatch.setattr(sys, "stdin", piped)
        told, beside = asked(capsys)
    assert told["intent"]["query_type"] == "breakdown" and told["unsure"] == UNCHOSEN
    assert "standard input is no terminal" in beside and "What do you mean?" not in beside


def test_a_real_process_without_standard_input_answers_and_says_why_nothing_was_asked() -> None:
    command = ["bash", "-c", 'exec "$@" <&-', "bash", sys.executable, "-m", "nlqlib", *ASK]
    done = subprocess.run(command, cwd=paths.ROOT, capture_output=True, text=True, timeout=120)
    assert (done.returncode, json.loads(done.stdout)["unsure"]) == (0, UNCHOSEN)
    assert "Traceback" not in done.stderr and done.stderr.count(UNCHOSEN) == 1
