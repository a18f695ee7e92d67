"""`sweep` prints a table or JSON, keeps its points, and refuses what cannot be measured."""

import json
from pathlib import Path

import pytest
from sweep_records import level

from nlqlib.__main__ import main
from nlqlib.artifacts import Record
from nlqlib.commands_sweep import _status, table

ARGS = ("sweep", "--target", "twin", "--concurrency", "1,2", "--requests", "12")


def test_it_prints_a_row_per_level(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(ARGS) == 0
    shown = capsys.readouterr()
    assert "target twin (times modelled); answers synthetic" in shown.out
    heading = next(line for line in shown.out.splitlines() if "concurrency" in line and "X_run" in line)
    assert heading.split() == [
        *("concurrency", "repeat", "n", "ok", "failed", "X_run", "X_window"),
        *("p50_s", "p95_s", "mean_s", "running", "waiting", "validity"),
    ]
    rows = [line.split() for line in shown.out.splitlines() if line.endswith("held")]
    assert [(r[0], r[2], r[3]) for r in rows] == [("1", "12", "12"), ("2", "12", "12")]
    assert float(rows[0][5]) == pytest.approx(0.31, rel=0.03)


def test_out_keeps_the_points_and_a_second_run_reuses_them(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    args = [*ARGS, "--concurrency", "2", "--repeats", "2", "--out", str(tmp_path), "--json"]
    assert main(args) == 0
    told = json.loads(capsys.readouterr().out)
    kept = sorted((tmp_path / "twin" / "sweep").glob("sweep-n*.json"))
    bodies = [p for p in kept if not p.name.endswith(".run.json")]
    assert sorted(t["artifact"] for t in told) == [str(p) for p in bodies]
    assert sorted((t["params"]["concurrency"], t["params"]["repeat"]) for t in told) == [(2, 1), (2, 2)]
    before = {p: p.stat().st_mtime_ns for p in kept}
    assert main(args) == 0
    assert {p: p.stat().st_mtime_ns for p in kept} == before


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (["--concurrency", "1,x"], "numbers such as 1,8,16, not '1,x'"),
        (["--concurrency", "0,1"], "from 1 on"),
        (["--concurrency", "8,8"], "different numbers"),
        (["--concurrency", "16"], "fewer than 16 in flight"),
        (["--requests", "-1"], "from 1 on"),
        (["--repeats", "0"], "from 1 on"),
        (["--target", "nowhere"], "unknown target 'nowhere'"),
    ],
)
def test_what_cannot_be_measured_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], change: list[str], said: str
) -> None:
    assert main([*ARGS, *change]) == 2
    shown = capsys.readouterr()
    assert shown.out == ""
    assert said in shown.err
    assert shown.err.count("\n") == 1


def test_broken_rules_and_failures_are_named_and_no_success(capsys: pytest.CaptureFixture[str]) -> None:
    found: list[Record] = [level(8, 2.2, failed={"timeout": 2}), level(16, 4.0, broken=["foreign traffic"])]
    assert _status(found) == 1
    told = capsys.readouterr().err
    assert "concurrency 8: failed: 2 timeout" in told
    assert "concurrency 16: broken: foreign traffic" in told
    assert table(found)["validity"].tolist() == ["held", "foreign traffic"]


@pytest.mark.parametrize(
    ("more", "sent"),
    [(["--concurrency", "1,2"], 48), (["--rate", "2"], 24)],
    ids=["closed", "open"],
)
def test_a_sweep_beyond_a_hard_limit_sends_nothing(
    more: list[str],
    sent: int,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    args = ["sweep", "--target", "twin", "--requests", "12", "--out", str(tmp_path), *more]
    monkeypatch.setenv("MAX_REQUESTS", str(sent - 1))
    assert main(args) == 2
    assert f"may need {sent} but MAX_REQUESTS allows {sent - 1}" in capsys.readouterr().err
    assert not list(tmp_path.rglob("*.json"))
    monkeypatch.setenv("MAX_REQUESTS", str(sent))
    monkeypatch.setenv("MAX_TOKENS", "1000")
    assert main(args) == 2
    assert "but MAX_TOKENS allows 1,000" in capsys.readouterr().err
    monkeypatch.delenv("MAX_TOKENS")
    assert main(args) == 0
    assert f"{sent} requests in" in capsys.readouterr().err
    assert main(args) == 0, "what is retained is not sent again"
    assert ": 0 requests in" in capsys.readouterr().err
