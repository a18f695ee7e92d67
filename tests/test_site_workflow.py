"""The workflow that publishes the site: only targets that exist, and no page that goes missing unsaid."""

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from nlqlib import paths

MAKEFILE = (paths.ROOT / "Makefile").read_text("utf-8")
MADE = re.compile(r"(?:^|\s)make ([a-z-]+)((?: [A-Z_]+=\S+)*)")
STUB = """#!/bin/bash
echo "$@" >> "$CALLS"
case "$*" in *NOTEBOOKS=*$STALE*) exit 2 ;; esac
mkdir -p build/executed/local
touch "build/executed/local/${4#NOTEBOOKS=}.ipynb"
"""


def workflow(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))
    return found


FILES = sorted((paths.ROOT / ".github" / "workflows").glob("*.yml"))
[SITE] = [path for path in FILES if path.name == "site.yml"]


def steps(path: Path) -> list[dict[str, Any]]:
    return [step for job in workflow(path)["jobs"].values() for step in job["steps"]]


def commands(path: Path) -> list[str]:
    return [step["run"] for step in steps(path) if "run" in step]


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_every_make_target_and_setting_that_a_workflow_names_exists(path: Path) -> None:
    called = [found for command in commands(path) for found in MADE.findall(command)]
    assert called
    settings = re.findall(r"^([A-Z_]+) \?=", MAKEFILE, re.MULTILINE)
    for target, passed in called:
        assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE), target
        assert {text.split("=")[0] for text in passed.split()} <= set(settings), passed


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.name)
def test_no_step_may_fail_unnoticed(path: Path) -> None:
    assert not [step for step in steps(path) if step.get("continue-on-error")]


def test_what_is_published_is_what_make_site_and_make_publish_leave() -> None:
    uploaded = [step["with"]["path"] for step in steps(SITE) if "upload" in step.get("uses", "")]
    assert uploaded == ["build/site", "build/site.zip"]
    made = [target for command in commands(SITE) for target, _ in MADE.findall(command)]
    assert made == ["reproduce", "reproduce", "site", "publish"]


def local_pages(tmp_path: Path, stale: str) -> subprocess.CompletedProcess[str]:
    """The step that makes the pages of the real engine, run with a `make` that fails where `stale`."""
    [command] = [text for text in commands(SITE) if "TARGET=local" in text]
    (tmp_path / "notebooks").mkdir()
    for name in ("05_knee", "06_saturation", "99_summary"):
        (tmp_path / "notebooks" / f"{name}.ipynb").touch()
    stub = tmp_path / "bin" / "make"
    stub.parent.mkdir()
    stub.write_text(STUB, "utf-8")
    stub.chmod(0o755)
    calls = {"CALLS": str(tmp_path / "calls"), "STALE": stale}
    env = {**os.environ, **calls, "PATH": f"{stub.parent}:{os.environ['PATH']}"}
    ran = ["bash", "-e", "-o", "pipefail", "-c", command]  # as the runner does
    return subprocess.run(ran, cwd=tmp_path, env=env, capture_output=True, text=True, check=False)


def test_a_stale_page_of_the_real_engine_is_left_out_and_named_and_the_others_are_made(
    tmp_path: Path,
) -> None:
    ran = local_pages(tmp_path, "06_saturation")
    assert ran.returncode == 0, ran.stderr
    warned = [line for line in ran.stdout.splitlines() if line.startswith("::warning")]
    assert len(warned) == 1 and "06_saturation of target local" in warned[0]
    made = sorted(path.stem for path in (tmp_path / "build/executed/local").iterdir())
    assert made == ["05_knee", "99_summary"]
    assert all("MAX_REQUESTS=0" in line for line in (tmp_path / "calls").read_text("utf-8").splitlines())


def test_without_a_single_page_of_the_real_engine_nothing_is_published(tmp_path: Path) -> None:
    assert local_pages(tmp_path, "_").returncode != 0
