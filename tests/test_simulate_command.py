"""`simulate`: a scenario file in, the times of every request out; every mistake is one line and status 2."""

import io
import json
import re
from pathlib import Path

import pytest

from nlqlib.__main__ import main

GOOD = {
    "engine": {"num_gpu_blocks": 100, "max_num_seqs": 8},
    "step_time": {"fixed_s": 0.01},
    "requests": [
        {"arrival_s": 0.0, "prompt_tokens": 100, "output_tokens": 5},
        {"arrival_s": 0.105, "prompt_tokens": 100, "output_tokens": 5, "id": "late"},
    ],
}


def scenario(tmp_path: Path, text: str | None = None) -> str:
    path = tmp_path / "scenario.json"
    path.write_text(json.dumps(GOOD) if text is None else text, encoding="utf-8")
    return str(path)


def with_last(**changes: object) -> str:
    """`GOOD` as text with its last request changed."""
    requests = [*GOOD["requests"][:-1], {**GOOD["requests"][-1], **changes}]
    return json.dumps({**GOOD, "requests": requests})


def refused(capsys: pytest.CaptureFixture[str], path: str) -> str:
    assert main(["simulate", path]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("nlqlib: ") and shown.err.count("\n") == 1
    return shown.err


def test_json_holds_the_times_that_follow_from_ten_millisecond_steps(capsys, tmp_path):
    assert main(["simulate", scenario(tmp_path), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    first, late = told["requests"]
    assert (first["id"], late["id"]) == ("0", "late")
    assert (first["scheduled_s"], first["first_token_s"], first["last_token_s"]) == pytest.approx(
        (0.0, 0.01, 0.05)
    )
    assert (late["queued_s"], late["first_token_s"], late["last_token_s"]) == pytest.approx(
        (0.105, 0.115, 0.155)
    )
    assert told["steps"] == 10


def test_the_table_has_a_row_for_each_request_with_units_and_totals(capsys, tmp_path):
    assert main(["simulate", scenario(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert re.split(r"\s{2,}", lines[0].strip())[:4] == [
        *("id", "queued (s)", "scheduled (s)", "first token (s)"),
    ]
    assert lines[2].split() == ["late", "0.105000", "0.105000", "0.115000", "0.155000", "100", "0", "5", "0"]
    assert lines[-1] == "2 requests, 10 steps, prefix cache 0 of 200 tokens, 0 preemptions"


def test_a_long_table_is_cut_and_says_so_while_json_holds_all(capsys, tmp_path):
    requests = [{"arrival_s": i / 10, "prompt_tokens": 10, "output_tokens": 2} for i in range(50)]
    path = scenario(tmp_path, json.dumps({**GOOD, "requests": requests}))
    assert main(["simulate", path]) == 0
    shown = capsys.readouterr().out
    assert "… and 10 more requests (all of them with --json)" in shown and "50 requests" in shown
    assert main(["simulate", path, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["requests"]) == 50


def test_the_same_file_gives_the_same_bytes(capsys, tmp_path):
    outputs = []
    for _ in range(2):
        assert main(["simulate", scenario(tmp_path), "--json"]) == 0
        outputs.append(capsys.readouterr().out)
    assert outputs[0] == outputs[1]


def test_a_scenario_may_come_from_standard_input(capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO(json.dumps(GOOD)))
    assert main(["simulate", "-"]) == 0
    assert "2 requests, 10 steps" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            with_last(arrival_s=-0.5),
            "requests[1].arrival_s is -0.5; it must be a finite number, not negative",
        ),
        (with_last(arrival_s=float("nan")), "NaN is not a number"),
        (with_last(arrival_s=0.1).replace("0.1,", "1e999,"), "finite"),
        (
            with_last(arrival_s=1e300),
            "requests[1].arrival_s is 1e+300; it must be a finite number, not negative, below 1e+12",
        ),
        (with_last(arrival_s=10**400), "below 1e+12"),
        (with_last(prompt_tokens=5000), "requests[1]: 5000 prompt tokens + 5 output tokens = 5005 exceed"),
        (with_last(output_tokens=0), "at least 1"),
        (with_last(arival_s=1), "did you mean 'arrival_s'?"),
        (json.dumps({**GOOD, "engine": {"num_gpu_blocks": 0}}), "num_gpu_blocks is 0; it must be at least 1"),
        (json.dumps({**GOOD, "engine": {"num_gpu_block": 9}}), "did you mean 'num_gpu_blocks'?"),
        (json.dumps({**GOOD, "step_time": {"fixed_s": -0.01}}), "step_time.fixed_s is -0.01"),
        (json.dumps({**GOOD, "step_times": {}}), "did you mean 'step_time'?"),
        (json.dumps({**GOOD, "requests": []}), "at least one request"),
        ("{", "not JSON"),
        ("[" * 100_000, "nested deeper than any scenario"),
        ("", "not JSON"),
    ],
)
def test_a_mistake_in_the_file_is_one_line_with_its_place(capsys, tmp_path, text, says):
    told = refused(capsys, scenario(tmp_path, text))
    assert "scenario.json" in told and says in told


def test_a_file_that_cannot_be_read_is_refused(capsys, tmp_path):
    assert "cannot read" in refused(capsys, str(tmp_path / "none.json"))
    assert "cannot read" in refused(capsys, str(tmp_path))
    (tmp_path / "latin.json").write_bytes(b'{"engine": "\xe9"}')
    assert "is not UTF-8 text" in refused(capsys, str(tmp_path / "latin.json"))
