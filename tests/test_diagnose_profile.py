"""`diagnose` says what it will send, as the profile decides, before anything is sent."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_behaviours import Say
from fake_server import FakeServer, serve

from nlqlib.__main__ import main

SMALL = ["--target", "twin", "--concurrency", "1,4", "--repeats", "0", "--json"]


def run(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[str, Any]:
    """What was announced first, and the verdict."""
    capsys.readouterr()
    assert main(["diagnose", *SMALL, *more]) in (0, 1)
    shown = capsys.readouterr()
    return shown.err.splitlines()[0], json.loads(shown.out)


def test_the_profile_decides_how_much_is_sent(capsys: pytest.CaptureFixture[str]) -> None:
    full, _ = run(capsys)
    quick, _ = run(capsys, "--profile", "quick")
    assert full.startswith("target twin, profile full: 92 requests in 2 levels, warming included")
    assert quick.startswith("target twin, profile quick: 32 requests in 2 levels, warming included")


def test_the_environment_decides_where_no_option_does(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROFILE", "quick")
    assert "profile quick" in run(capsys)[0]
    assert "profile full" in run(capsys, "--profile", "full")[0]


def test_a_profile_that_is_none_is_refused_before_anything_is_sent(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    server = FakeServer(Say())
    with serve(server) as root:
        assert main(["diagnose", "--target", f"{root}/v1", "--profile", "fast"]) == 2
    assert "unknown profile 'fast': use full or quick" in capsys.readouterr().err
    assert not server.seen


def test_the_plan_is_told_before_the_first_level(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    capsys.readouterr()
    options = ["--target", "twin", "--concurrency", "1,4", "--profile", "quick", "--out", str(tmp_path)]
    assert main(["diagnose", *options]) in (0, 1)
    first, second, *_ = capsys.readouterr().err.splitlines()
    assert "about" in first and "tokens" in first and "--repeats 2" in first
    assert second.startswith("[1/2] 1 in flight")
    assert main(["diagnose", *options]) in (0, 1)
    assert ": 0 requests in 2 levels" in capsys.readouterr().err.splitlines()[0]


def test_a_negative_number_of_repeats_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["diagnose", "--target", "twin", "--repeats", "-1"]) == 2
    assert "--repeats takes a number from 0 on" in capsys.readouterr().err
