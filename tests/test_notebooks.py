"""Source notebooks keep to the house: anatomy, no outputs, few and short cells."""

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from nlqlib import paths

NOTEBOOKS = sorted(paths.NOTEBOOKS.glob("[0-9]*.ipynb"))


def cells(path: Path, kind: str | None = None) -> list[dict[str, Any]]:
    found = json.loads(path.read_text("utf-8"))["cells"]
    return [c for c in found if kind in (None, c["cell_type"])]


def source(cell: dict[str, Any]) -> str:
    return "".join(cell["source"])


@pytest.fixture(params=NOTEBOOKS, ids=lambda p: p.stem)
def notebook(request: pytest.FixtureRequest) -> Path:
    path: Path = request.param
    return path


def test_there_are_notebooks() -> None:
    assert {p.stem for p in NOTEBOOKS} >= {"00_environment", "01_pipeline"}


def test_it_has_no_outputs(notebook: Path) -> None:
    assert all(not c["outputs"] and c["execution_count"] is None for c in cells(notebook, "code"))


def test_it_opens_with_the_claim_and_what_to_see(notebook: Path) -> None:
    first = source(cells(notebook)[0])
    assert first.startswith("# ")
    assert "What you should see" in first


def test_one_cell_of_literal_parameters_each_with_a_comment(notebook: Path) -> None:
    [tagged] = [c for c in cells(notebook, "code") if "parameters" in c["metadata"].get("tags", [])]
    for line in source(tagged).splitlines():
        assert "#" in line, f"no comment: {line}"
        [statement] = ast.parse(line).body
        assert isinstance(statement, ast.Assign)
        ast.literal_eval(statement.value)


def test_it_is_short_and_defines_nothing(notebook: Path) -> None:
    code = [source(c) for c in cells(notebook, "code")]
    assert 16 <= len(cells(notebook)) <= 40
    assert all(len(text.splitlines()) <= 8 for text in code)
    assert not any(
        isinstance(n, ast.FunctionDef | ast.ClassDef) for text in code for n in ast.walk(ast.parse(text))
    )


def test_every_figure_has_alternative_text(notebook: Path) -> None:
    for text in (source(c) for c in cells(notebook, "code")):
        assert ".show(" not in text or "alt=" in text


def test_it_ends_with_the_article_limits_and_provenance(notebook: Path) -> None:
    headings = [
        line for c in cells(notebook, "markdown") for line in source(c).splitlines() if line.startswith("## ")
    ]
    assert headings[-3:] == ["## Against the article", "## Limits", "## Where these numbers come from"]


def test_its_target_is_the_twin_unless_told_otherwise(notebook: Path) -> None:
    [tagged] = [c for c in cells(notebook, "code") if "parameters" in c["metadata"].get("tags", [])]
    assert source(tagged).startswith('target = "twin"')
