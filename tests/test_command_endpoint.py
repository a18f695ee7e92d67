"""A bad endpoint at the command line: one clear line with what to do, nothing lost, no key shown.

`ask` and `evaluate` against a server that misbehaves, and one run of the driver on a real notebook.
"""

import json
import re
import socket
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from fake_behaviours import Behaviour, Raw, Say, Status, completion, error_object, unknown_model
from fake_server import FakeServer, serve
from small_project import SETTINGS, contents, run, small_project

from nlqlib import paths
from nlqlib.__main__ import main
from nlqlib.experiments import journal

KEY = "sk-0123456789-secret"
ROWS = [json.loads(line) for line in (paths.QUESTIONS / "dev.jsonl").read_text("utf-8").splitlines()]
RIGHT = Say(json.dumps(ROWS[0]["gold"], indent=2), output_tokens=100)
HALF = json.dumps(completion(RIGHT)).encode()[:200]


@dataclass(frozen=True)
class Fault:
    """How the endpoint misbehaves, and what must be said about it."""

    behaviour: Behaviour
    outcome: str
    advice: str


REFUSED = Status(401, {"error": "Unauthorized"})
REPEATED = Status(401, error_object(401, f"Incorrect API key provided: {KEY}", "invalid_request_error"))
FAULTS = {
    "401": Fault(REFUSED, "unauthorized", "check the key in the configured environment variable"),
    "401 that repeats the key": Fault(REPEATED, "unauthorized", "check the key"),
    "wrong model": Fault(unknown_model("fake"), "wrong_model", "GET /models lists what this endpoint serves"),
    "another path": Fault(Status(404, {"detail": "Not Found"}), "http_4xx", "usually /v1"),
    "a page of HTML": Fault(
        Raw((b"<html>a gateway</html>",), content_type="text/html"), "bad_response", "usually /v1"
    ),
    "half a body": Fault(Raw((HALF,), length=2000, end="cut"), "disconnected", "see the server's log"),
    "500": Fault(Status(500, error_object(500, "broken", "Internal")), "http_5xx", "see the server's log"),
    "503": Fault(Status(503, "busy"), "http_503", "see the server's log"),
}
UNUSABLE = {
    "an answer in prose": Fault(Say("The North has."), "constraint_not_applied", "structured_outputs"),
    "broken JSON": Fault(Say('{"evidence": ""'), "bad_json", "in other words"),
    "a truncated answer": Fault(Say('{"evidence": "', finish_reason="length"), "length", "in other words"),
    "an empty answer": Fault(Say(""), "empty", "in other words"),
}
every_fault = pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS.keys())
each_unusable = pytest.mark.parametrize("fault", UNUSABLE.values(), ids=UNUSABLE.keys())


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("MODEL", "fake")
    monkeypatch.setenv("API_KEY_ENV", "FAULT_KEY")
    monkeypatch.setenv("FAULT_KEY", KEY)
    monkeypatch.setattr(journal, "FOLDER", tmp_path / "answered")


@dataclass(frozen=True)
class Ended:
    """How a command ended."""

    status: int
    out: str
    lines: tuple[str, ...]
    """Of its own on standard error: progress is no message."""


def ended(capsys: pytest.CaptureFixture[str], *argv: str) -> Ended:
    status = main(argv)
    shown = capsys.readouterr()
    assert "Traceback" not in shown.out + shown.err and KEY not in shown.out + shown.err
    return Ended(
        status, shown.out, tuple(line for line in shown.err.splitlines() if line.startswith("nlqlib: "))
    )


def nowhere() -> str:
    """The address of a port at which nothing listens."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"http://127.0.0.1:{probe.getsockname()[1]}/v1"


def asks(url: str) -> tuple[str, ...]:
    return ("ask", ROWS[0]["question"], "--condition", "baseline", "--target", url)


def refused_in_one_line(found: Ended, fault: Fault) -> None:
    assert found.status == 1 and found.out == ""
    [line] = found.lines
    assert fault.outcome in line and fault.advice in line


@every_fault
def test_ask_says_in_one_line_what_to_do(fault: Fault, capsys: pytest.CaptureFixture[str]) -> None:
    with serve(FakeServer(fault.behaviour)) as url:
        refused_in_one_line(ended(capsys, *asks(f"{url}/v1")), fault)


@each_unusable
def test_ask_gives_no_rows_for_an_answer_that_cannot_be_used(
    fault: Fault, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(FakeServer(fault.behaviour)) as url:
        refused_in_one_line(ended(capsys, *asks(f"{url}/v1")), fault)


def test_ask_says_that_nothing_listens(capsys: pytest.CaptureFixture[str]) -> None:
    url = nowhere()
    found = ended(capsys, *asks(url))
    assert (found.status, found.out) == (1, "")
    assert found.lines[0].endswith(f"connection refused: is the server running at {url[7:-3]}?")
    assert len(found.lines) == 1


@pytest.mark.parametrize("command", ["ask", "evaluate"])
def test_without_a_named_model_nothing_that_listens_is_said_as_well(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("MODEL")
    argv = {"ask": asks(nowhere()), "evaluate": ("evaluate", "dev", "--target", nowhere())}
    found = ended(capsys, *argv[command])
    assert (found.status, found.out) == (2, "")
    assert len(found.lines) == 1 and found.lines[0].endswith("is it running?")


@pytest.mark.parametrize("command", ["ask", "evaluate"])
def test_a_key_variable_that_is_not_set_is_named(
    command: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("FAULT_KEY")
    argv = {"ask": asks(nowhere()), "evaluate": ("evaluate", "dev", "--target", nowhere())}
    found = ended(capsys, *argv[command])
    assert (found.status, found.out) == (2, "")
    assert len(found.lines) == 1 and "the environment variable FAULT_KEY is not set" in found.lines[0]


@pytest.fixture
def three(tmp_path: Path) -> str:
    """Three development questions."""
    path = tmp_path / "three.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in ROWS[:3]), encoding="utf-8")
    return str(path)


def evaluates(three: str, url: str) -> tuple[str, ...]:
    return ("evaluate", three, "--target", url, "--concurrency", "1", "--json")


@every_fault
def test_evaluate_says_why_requests_failed_and_asks_only_for_the_rest_when_they_succeed(
    fault: Fault, three: str, capsys: pytest.CaptureFixture[str]
) -> None:
    server = FakeServer([RIGHT, fault.behaviour, fault.behaviour, RIGHT])
    with serve(server) as url:
        found = ended(capsys, *evaluates(three, f"{url}/v1"))
        again = ended(capsys, *evaluates(three, f"{url}/v1"))
    told = json.loads(found.out)
    assert (found.status, told["failed"], told["questions"]) == (1, 2, 3)
    kept, *why = found.lines
    assert "the same command asks only for the rest" in kept
    assert sum(int(re.search(r"(\d) of 3 requests failed", line)[1]) for line in why) == 2
    assert all(f"failed: {fault.outcome}: " in line and fault.advice in line for line in why)
    assert (again.status, json.loads(again.out)["failed"], again.lines) == (0, 0, ())
    assert len(server.seen) == 3 + 2


@each_unusable
def test_evaluate_counts_an_answer_that_cannot_be_used_as_wrong_and_not_as_failed(
    fault: Fault, three: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with serve(FakeServer(fault.behaviour)) as url:
        found = ended(capsys, *evaluates(three, f"{url}/v1"))
    told = json.loads(found.out)
    shares = {share["name"]: (share["k"], share["n"]) for share in told["final"]}
    assert (found.status, found.lines, told["failed"]) == (0, (), 0)
    assert shares["strict accuracy"] == shares["schema compliance"] == (0, 3)


def test_evaluate_says_that_nothing_listens(three: str, capsys: pytest.CaptureFixture[str]) -> None:
    found = ended(capsys, *evaluates(three, nowhere()))
    assert (found.status, json.loads(found.out)["failed"]) == (1, 3)
    assert len(found.lines) == 1 and "is the server running at" in found.lines[0]


ENOUGH = 3 + 1 + 20
"""Requests of notebook 00, of the example of 01 and of its first arm."""


def driven(home: Path, url: str, *argv: str, **more: str) -> tuple[int, dict[str, Any], str]:
    """Exit status, the final table by notebook, and what is said besides."""
    named = {"TARGET_NAME": "mine", "MODEL": "fake", "API_KEY_ENV": "FAULT_KEY", "FAULT_KEY": KEY} | more
    done = run(home, sys.executable, "-m", "nlqlib", "reproduce", "--target", url, "--json", *argv, **named)
    rows = json.loads(done.stdout) if done.stdout else []
    return done.returncode, {row["notebook"]: row for row in rows}, done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return small_project(tmp_path_factory.mktemp("project"), "00", "01")


def test_a_run_whose_key_is_refused_halfway_keeps_its_points_and_says_how_to_go_on(project: Path) -> None:
    server = FakeServer([*[RIGHT] * ENOUGH, REPEATED])
    with serve(server) as url:
        status, told, said = driven(project, f"{url}/v1")
        n_seen, server.behaviours = len(server.seen), RIGHT
        healed, after, _ = driven(project, f"{url}/v1", "--notebooks", "01")
    assert (status, healed) == (1, 0)
    assert told["00_environment"]["points"] == {"measured": 3, "reused": 0, "failed": 0}
    assert told["01_pipeline"]["points"] == {"measured": 2, "reused": 0, "failed": 1}
    [line] = [line for line in said.splitlines() if line.startswith("01_pipeline, below")]
    assert "20 of 20 requests failed (unauthorized" in line and "check the key" in line
    assert "Traceback" not in said
    assert f"make reproduce TARGET={url}/v1 NOTEBOOKS=01_pipeline TARGET_NAME=mine" in said
    assert after["01_pipeline"]["points"] == {"measured": 3, "reused": 2, "failed": 0}
    assert n_seen == ENOUGH + 20
    written = contents(project / "artifacts") | contents(project / "build")
    assert len(written) > 20 and KEY not in said
    assert not [name for name, data in written.items() if KEY.encode() in data or url.encode() in data]


def test_a_run_against_nothing_is_one_line_for_each_notebook_and_leaves_no_half_file(project: Path) -> None:
    status, told, said = driven(project, nowhere(), "--notebooks", "00", TARGET_NAME="gone")
    assert status == 1 and told["00_environment"]["points"]["measured"] == 0
    [line] = [line for line in said.splitlines() if line.startswith("00_environment, below")]
    assert line.endswith("is it running?") and "Traceback" not in said
    kept = contents(project / "artifacts" / "gone")
    assert {json.loads(data).get("status", "error") for data in kept.values()} <= {"error"}
