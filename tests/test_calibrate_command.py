"""`calibrate`: a document that opens as a twin, or one line, exit 2 and nothing overwritten."""

import json
from pathlib import Path

import pytest

from nlqlib import commands_calibrate
from nlqlib.__main__ import main
from nlqlib.experiments import calibration
from nlqlib.serving.target import Target, open_target
from nlqlib.twin.model import load


@pytest.fixture(autouse=True)
def drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes mean nothing, so the twin that is calibrated draws its lengths."""

    def opened(spec: str, progress: object = None) -> Target:
        window = {"max_model_len": 2048} if spec == "small" else {}
        return open_target("twin").engine(words="synthetic", **window)

    monkeypatch.setattr(commands_calibrate, "open_target", opened)


def test_a_calibration_is_a_twin_that_opens_and_says_how_wrong_it_is(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.json"
    assert main(["calibrate", "--target", "twin", "--out", str(out)]) == 0
    said = capsys.readouterr().out
    assert "worst error: fitted" in said and "predicted" in said
    assert load(out).name == "mine"


def test_as_json_every_point_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--target", "twin", "--out", str(tmp_path / "mine.json"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {row["tag"] for row in told["points"]} == {"fitted", "predicted"}
    assert told["unknown"] == ["kv_logical_s"]  # the modelled engine reads shared KV once: nothing shows it


def test_a_document_that_exists_stays(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "mine.json"
    out.write_text("precious", encoding="utf-8")
    assert main(["calibrate", "--target", "twin", "--out", str(out)]) == 2
    assert "replace it with --force" in capsys.readouterr().err
    assert out.read_text("utf-8") == "precious"


def test_an_endpoint_whose_answers_fail_leaves_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "mine.json"
    assert main(["calibrate", "--target", "small", "--out", str(out), "--force"]) == 2
    error = capsys.readouterr().err
    assert "context_overflow" in error and "nothing was fitted" in error
    assert not out.exists()


def test_a_twin_is_a_json_file(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["calibrate", "--target", "twin", "--out", "mine"]) == 2
    assert "a twin is a .json file" in capsys.readouterr().err


def test_probes_are_as_many_as_the_plan_says() -> None:
    assert calibration.SPEC.requests == sum(p.requests + bool(p.shared_tokens) for p in calibration.PROBES)
