"""How a command ends whose output is full, that is interrupted, or whose input is odd text."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from nlqlib import __main__ as command_line
from nlqlib import paths
from nlqlib.experiments import journal as journals
from nlqlib.experiments.chats import load_chats
from nlqlib.experiments.journal import Journal
from nlqlib.experiments.questions import load_questions
from nlqlib.files import text_lines
from nlqlib.nlq.warehouse import open_file
from nlqlib.records import Completion
from nlqlib.twin.clock import DeadlockError

LINE_ENDS = "\u2028\u2029\u0085\u000b\u000c\u001c"
"""What `str.splitlines` takes for ends of lines, and JSON does not."""


GOLD = json.loads((paths.QUESTIONS / "dev.jsonl").read_text("utf-8").split("\n")[0])["gold"]


NO_SPACE = "No space left on device{}; free some space, then run again"


def begun(*argv: str, out: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "nlqlib", *argv]
    return subprocess.Popen(command, cwd=paths.ROOT, stdout=out, stderr=subprocess.PIPE, text=True)


def test_an_output_that_is_full_is_one_line(tmp_path: Path) -> None:
    intent = tmp_path / "intent.json"
    intent.write_text(json.dumps(GOLD))
    with open("/dev/full", "w") as full, begun("sql", str(intent), out=full.fileno()) as process:
        told = process.communicate(timeout=60)[1]
    assert told == f"nlqlib: {NO_SPACE.format(', for the output or for a file that was written')}\n"
    assert process.returncode == 2


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    readable, writable = os.pipe()
    os.close(readable)
    with begun("claims", out=writable) as process:
        os.close(writable)
        told = process.communicate(timeout=60)[1]
    assert told == "" and process.returncode == 2


def test_ctrl_c_is_one_line_whatever_it_interrupts(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stopped(argv: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(command_line, "_run", stopped)
    assert command_line.main([]) == 130
    assert capsys.readouterr().err == "nlqlib: interrupted\n"


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_a_full_disk_anywhere_is_one_line(
    number: int, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(argv: object) -> int:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(command_line, "_run", full)
    monkeypatch.setattr(command_line, "_say_no_more", lambda: None)
    assert command_line.main([]) == 2
    assert capfd.readouterr().err.count("\n") == 1


def test_a_deadlock_in_virtual_time_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    def stuck() -> int:
        raise DeadlockError("nothing can wake what waits")

    assert command_line.guarded(stuck) == 2
    assert capsys.readouterr().err == "nlqlib: nothing can wake what waits\n"


def test_lines_end_at_line_feeds_alone() -> None:
    assert text_lines(f"a{LINE_ENDS}b\nc") == [f"a{LINE_ENDS}b", "c"]
    assert (text_lines(""), text_lines("a\n")) == ([], ["a"])


def test_what_unicode_calls_a_line_end_stays_in_a_question_a_chat_and_an_answer(tmp_path: Path) -> None:
    said = f"revenue{LINE_ENDS[:3]}by region"
    row = json.loads((paths.QUESTIONS / "dev.jsonl").read_text("utf-8").split("\n")[0]) | {"question": said}
    chat = {"messages": [{"role": "user", "content": said}]}
    for name, line in (("questions", row), ("chats", chat)):
        text = json.dumps(line, ensure_ascii=False) + "\n"
        (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
    journal = Journal.open({"of": "this"}, tmp_path)
    journal.add("k", Completion("k", "ok", said))
    assert [q.question for q in load_questions(tmp_path / "questions.jsonl")] == [said]
    assert load_chats(tmp_path / "chats.jsonl")[0][0].messages[0]["content"] == said
    assert Journal.open({"of": "this"}, tmp_path).answers["k"].text == said


@pytest.mark.parametrize("content", [b"\xff\xfe\x00", b"[" * 100_000, b"{", b'"text"'])
@pytest.mark.parametrize("argv", [["sql"], ["evaluate"], ["guard", "dev", "--raw"]], ids=lambda a: a[0])
def test_a_file_of_anything_else_is_refused_in_one_line(
    argv: list[str], content: bytes, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    odd = tmp_path / "odd.jsonl"
    odd.write_bytes(content)
    assert command_line.main([*argv, str(odd)]) == 2
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.count("\n") == 1 and "odd.jsonl" in shown.err


@pytest.mark.parametrize("number", [10**19, -(10**40), 10**400])
@pytest.mark.parametrize(("field", "op"), [("revenue", "gt"), ("product", "in"), ("region", "in")])
def test_a_number_that_no_database_holds_is_refused_in_one_line(
    field: str, op: str, number: int, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    intent = tmp_path / "intent.json"
    intent.write_text(json.dumps(GOLD | {"filters": [{"field": field, "op": op, "values": [number]}]}))
    assert command_line.main(["sql", str(intent)]) == 2
    assert f"a number of {field} is beyond 1e+18" in capsys.readouterr().err


@pytest.mark.parametrize("text", ['{"metrics": [], "metrics": []}', '{"a": NaN}', '{"a": "\\ud800"}'])
def test_an_intent_that_json_does_not_allow_is_refused_as_a_models_answer_is(
    text: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    intent = tmp_path / "intent.json"
    intent.write_text(text)
    assert command_line.main(["sql", str(intent)]) == 2
    assert "intent.json is not JSON" in capsys.readouterr().err


def test_no_rows_are_said_in_words(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    nothing = {"field": GOLD["metrics"][0], "op": "gt", "values": [10**15]}
    intent = tmp_path / "intent.json"
    intent.write_text(json.dumps(GOLD | {"filters": [nothing]}))
    assert command_line.main(["sql", str(intent)]) == 0
    assert capsys.readouterr().out.endswith("no rows: nothing in the data matches\n")


@pytest.mark.parametrize("argv", [["evaluate", "dev", "--target", "twin"], ["calibrate", "--target", "twin"]])
def test_a_place_that_cannot_be_written_is_said_before_anything_is_asked(
    argv: list[str], capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def asked(*_: object) -> None:
        raise AssertionError("something was asked")

    monkeypatch.setattr("nlqlib.commands_evaluate._found", asked)
    monkeypatch.setattr("nlqlib.commands_calibrate.calibrate", asked)
    (tmp_path / "file").write_text("no folder")
    assert command_line.main([*argv, "--out", str(tmp_path / "file" / "mine.json")]) == 2
    assert capsys.readouterr().err.count("\n") == 1


@pytest.mark.parametrize("row", [{"text": 5}, {"intent": None, "belief": {"said": "series"}}])
def test_an_answer_of_another_shape_is_an_answer_or_one_line(
    row: dict[str, object], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "asked.jsonl").write_text('{"id": "q", "question": "revenue by region"}\n')
    (tmp_path / "raw.jsonl").write_text(json.dumps({"id": "q"} | row))
    command_line.main(["guard", str(tmp_path / "asked.jsonl"), "--raw", str(tmp_path / "raw.jsonl")])
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err + shown.out and shown.err.count("\n") <= 1


def test_a_folder_that_cannot_be_made_is_named_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("no folder")
    monkeypatch.setattr(journals, "FOLDER", tmp_path / "file" / "answered")
    monkeypatch.setenv("MODEL", "m")
    assert command_line.main(["evaluate", "dev", "--target", "http://127.0.0.1:9/v1"]) == 2
    told = capsys.readouterr().err
    assert told == f"nlqlib: Not a directory: {tmp_path}/file/answered\n"


@pytest.mark.parametrize("named", [None, "/somewhere/rows"])
def test_a_full_disk_is_not_said_of_the_output_alone(
    named: str | None, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(argv: object) -> int:
        return command_line.guarded(lambda: refuse(OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), named)))

    monkeypatch.setattr(command_line, "_run", full)
    monkeypatch.setattr(command_line, "_say_no_more", lambda: None)
    assert command_line.main([]) == 2
    where = f": {named}" if named else ", for the output or for a file that was written"
    assert capfd.readouterr().err == f"nlqlib: {NO_SPACE.format(where)}\n"


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (ConnectionRefusedError(errno.ECONNREFUSED, "Connection refused"), "Connection refused"),
        (TimeoutError(), "TimeoutError"),
        (PermissionError(errno.EACCES, "Permission denied", "/cache"), "Permission denied: /cache"),
    ],
)
def test_what_the_system_refuses_is_one_line(
    error: OSError, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command_line.guarded(lambda: refuse(error)) == 2
    assert capsys.readouterr().err == f"nlqlib: {told}\n"


def refuse(error: OSError) -> int:
    raise error


def test_a_damaged_warehouse_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "damaged.duckdb").write_bytes(b"no database")
    monkeypatch.setattr("nlqlib.commands.open_warehouse", lambda: open_file(tmp_path / "damaged.duckdb"))
    intent = tmp_path / "intent.json"
    intent.write_text(json.dumps(GOLD))
    assert command_line.main(["sql", str(intent)]) == 2
    told = capsys.readouterr().err
    assert "damaged.duckdb cannot be read" in told and told.count("\n") == 1


@pytest.mark.parametrize("number", ["0", "-1", "four", "2.5"])
@pytest.mark.parametrize("argv", [["evaluate", "dev"], ["record"]], ids=lambda a: a[0])
def test_a_concurrency_with_which_nothing_is_sent_is_refused(
    argv: list[str], number: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        command_line.main([*argv, "--concurrency", number])
    assert ended.value.code == 2
    assert f"give a whole number of at least 1, not '{number}'" in capsys.readouterr().err
