"""`python -m nlqlib claims`: the table and its JSON."""

import json
from pathlib import Path

import pytest
from claims_world import knee

from nlqlib.__main__ import main
from nlqlib.article import claims


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("artifacts")
    knee(folder, "twin", faster=1.1)
    return folder


def test_it_prints_the_lines_asked_for_and_the_counts(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["claims", "--target", "twin", "--verdict", "differs", "--artifacts", str(root)]
    assert main(asked) == 0
    told = capsys.readouterr().out
    assert "dense.throughput.8" in told
    assert told.splitlines()[0] == "Targets: twin (modelled times, answers replayed or drawn)"
    assert all(text.endswith("differs") for text in told.splitlines()[2:-1])
    assert told.splitlines()[-1].startswith("On twin ")


def test_its_json_has_every_line_with_its_artifacts(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "--target", "twin", "--json", "--artifacts", str(root)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert len(told) == len(claims())
    first = next(x for x in told if x["claim"] == "dense.throughput.8")
    assert first["verdict"] == "differs"
    assert first["relative_difference"] == pytest.approx(0.1)
    assert first["artifacts"][0].startswith("twin/05_knee/dense-n08-")
    assert first["interval"] is None


def test_a_target_without_runs_is_not_measured(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["claims", "--target", "nobody", "--verdict", "differs", "--artifacts", str(root)]) == 0
    assert "no such line" in capsys.readouterr().out
