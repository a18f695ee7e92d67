"""The house: imports run downwards only, and each room keeps to its own business."""

import ast
from pathlib import Path

import pytest

from nlqlib import paths

PACKAGE = paths.ROOT / "nlqlib"
FLOORS = {
    "__main__": 6,
    "commands": 6,
    "experiments": 5,
    "load": 4,
    "reproduce": 4,
    "notebook_": 4,
    "page_inputs": 4,
    "run_": 4,
    "plan": 4,
    "serving": 3,
    "analysis": 3,
    "nlq": 2,
    "twin": 2,
    "artifact": 2,
    "runs": 2,
    "remeasured": 2,
    "plots": 2,
    "article": 2,
    "site": 2,
    "front_page": 2,
    "publish": 2,
    "progress": 1,
    "records": 1,
    "paths": 1,
    "tokens": 1,
    "files": 1,
    "fingerprint": 1,
    "locking": 1,
    "metric_names": 1,
    "provenance": 1,
    "redaction": 1,
    "scratch": 1,
    "cpu_clock": 1,
    "code_marks": 1,
    "wall_clock": 1,
}
MODULES = sorted(p for p in PACKAGE.rglob("*.py") if p.name != "__init__.py")


def room(module: str) -> str:
    """`serving` of `nlqlib.serving.wire`; `site_` modules and the like by their beginning."""
    return module.split(".")[1]


def floor(module: str) -> int:
    name = room(module)
    exact = FLOORS.get(name)
    return exact if exact is not None else next(n for key, n in FLOORS.items() if name.startswith(key))


def module_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)


def imports(path: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            found |= (
                {f"{node.module}.{a.name}" for a in node.names} if node.module == "nlqlib" else {node.module}
            )
        elif isinstance(node, ast.Import):
            found |= {a.name for a in node.names}
    return found


@pytest.mark.parametrize("path", MODULES, ids=module_of)
def test_imports_run_downwards(path: Path) -> None:
    here = floor(module_of(path))
    ours = {name for name in imports(path) if name.startswith("nlqlib.")}
    assert {name for name in ours if floor(name) > here} == set()


@pytest.mark.parametrize("path", MODULES, ids=module_of)
def test_files_stay_under_300_lines(path: Path) -> None:
    assert len(path.read_text("utf-8").splitlines()) <= 300


def names_in(folder: str) -> set[str]:
    return {name for path in (PACKAGE / folder).glob("*.py") for name in imports(path)}


def test_the_question_side_knows_nothing_of_serving_or_the_twin() -> None:
    assert not {n for n in names_in("nlq") if n.startswith(("nlqlib.serving", "nlqlib.twin"))}


def test_the_analysis_knows_nothing_of_http_or_notebooks() -> None:
    foreign = ("httpx", "aiohttp", "starlette", "openai", "papermill", "nlqlib.serving")
    assert not {n for n in names_in("analysis") if n.startswith(foreign)}


def test_the_twin_is_an_endpoint_that_knows_no_client() -> None:
    assert not {n for n in names_in("twin") if n.startswith(("nlqlib.serving", "nlqlib.load"))}
