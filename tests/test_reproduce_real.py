"""The suite's own notebooks 00 and 01, really executed by `make` in a path with spaces and braces.

They run on the twin in a copy of the project: where nothing is retained everything is measured, then
nothing, then everything again for comparison. From what was executed the site is built without a network.
"""

import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest
from site_browser import chromium, serving
from small_project import contents, run, small_project
from test_site import cut_off

NOTEBOOKS = "00,01"
NAMES = ("00_environment", "01_pipeline")
BODIES = {
    *(f"twin/00_environment/{point}" for point in ("identity", "preflight", "prompt_tokens")),
    *(f"twin/01_pipeline/arm-{arm}" for arm in ("guided_json", "structured_outputs", "unconstrained")),
    *(f"twin/01_pipeline/{point}" for point in ("example", "timing")),
}
"""The points of both notebooks."""


@dataclass(frozen=True)
class Project:
    """The copy, what its driver said in each run, and what it retained before and after the second."""

    home: Path
    measured: dict[str, Any]
    plain: dict[str, Any]
    """Run again, the executed notebooks having been removed."""
    remeasured: dict[str, Any]
    after: dict[str, Any]
    """The plain run after all was measured again."""
    told: str
    """What the run that measured again said besides."""
    kept: tuple[dict[str, bytes], dict[str, bytes]]


def reproduce(home: Path, *settings: str) -> tuple[dict[str, Any], str]:
    """The final table by notebook, and what was said besides."""
    done = run(home, "make", "reproduce", f"NOTEBOOKS={NOTEBOOKS}", "PARAMS=--json", *settings)
    assert done.returncode == 0, done.stderr
    return {row["notebook"]: row for row in json.loads(done.stdout)}, done.stderr


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Project:
    home = small_project(tmp_path_factory.mktemp("real") / "a {b} {0} ü", "00", "01")
    measured, _ = reproduce(home)
    first = contents(home / "artifacts")
    shutil.rmtree(home / "build" / "executed")
    plain, _ = reproduce(home)
    second = contents(home / "artifacts")
    remeasured, told = reproduce(home, "REMEASURE=1")
    after, _ = reproduce(home)
    return Project(home, measured, plain, remeasured, after, told, (first, second))


def points(told: dict[str, Any]) -> dict[str, dict[str, int]]:
    return {name: row["points"] for name, row in told.items()}


def test_where_nothing_is_retained_every_point_is_measured(project: Project) -> None:
    counts = {name: sum(f"/{name}/" in body for body in BODIES) for name in NAMES}
    assert points(project.measured) == {
        name: {"measured": n, "reused": 0, "failed": 0} for name, n in counts.items()
    }
    kept = {name.rpartition("-")[0] for name in project.kept[0] if not name.endswith(".run.json")}
    assert kept == BODIES


def test_then_nothing_is_measured_and_no_byte_changes(project: Project) -> None:
    assert [row["measured"] for row in points(project.plain).values()] == [0, 0]
    assert [row["failed"] for row in points(project.plain).values()] == [0, 0]
    assert {row["status"] for row in project.plain.values()} == {"ok"}
    assert project.kept[0] == project.kept[1]


def test_pages_whose_points_were_all_reproduced_need_not_be_run_again(project: Project) -> None:
    assert {name: row["status"] for name, row in project.after.items()} == dict.fromkeys(NAMES, "unchanged")
    assert points(project.after) == points(project.plain)


def test_measured_again_the_artifacts_are_the_same_bytes_with_times_stamped_apart(project: Project) -> None:
    again, before = contents(project.home / "build" / "remeasured"), project.kept[0]
    stamps = {name for name in before if name.endswith(".run.json")}
    assert again.keys() == before.keys() and len(stamps) == len(BODIES)
    assert {name for name in before if again[name] != before[name]} == stamps
    assert all(b'"completed_at": "20' in again[name] for name in stamps)
    assert project.told.count(": reproduced") == len(BODIES)


@pytest.mark.parametrize("name", NAMES)
def test_an_executed_notebook_is_whole_and_names_no_path_of_the_machine(project: Project, name: str) -> None:
    text = (project.home / "build" / "executed" / "twin" / f"{name}.ipynb").read_text("utf-8")
    code = [cell for cell in nbformat.reads(text, as_version=4).cells if cell.cell_type == "code"]
    assert code and all(cell.execution_count for cell in code)
    assert '"image/png"' in text and str(project.home) not in text


@pytest.fixture(scope="module")
def site(project: Project, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The pages, built where no process reaches a network."""
    prefix, cut = cut_off(tmp_path_factory.mktemp("cut"))
    blocked = cut.get("PYTHONPATH", "")
    seen = f"{blocked}:{project.home}" if "blocked" in blocked else str(project.home)
    python = [sys.executable, "-m", "nlqlib", "site"]
    done = run(project.home, *prefix, *python, PYTHONPATH=seen, LC_ALL="C")
    assert done.returncode == 0, done.stderr
    return project.home / "build" / "site"


@pytest.mark.site
def test_the_site_of_real_notebooks_needs_no_network_to_build_and_none_to_read(site: Path) -> None:
    pages = sorted(p.relative_to(site).as_posix() for p in site.rglob("*.html"))
    assert {"index.html", *(f"twin/{name}.html" for name in NAMES)} <= set(pages)
    with serving(site) as address, chromium() as browser:
        tab, wrong = browser.new_page(), []
        tab.on("console", lambda m: m.type in ("error", "warning") and wrong.append(m.text))
        tab.on("pageerror", lambda e: wrong.append(str(e)))
        tab.on("request", lambda r: r.url.startswith((address, "data:")) or wrong.append(f"outside: {r.url}"))
        tab.on("response", lambda r: r.status >= 400 and wrong.append(f"{r.status}: {r.url}"))
        for page in pages:
            tab.goto(address + page, wait_until="networkidle")
            broken = tab.evaluate("[...document.images].filter(i => !i.naturalWidth).map(i => i.src)")
            assert (wrong, broken) == ([], []), page
