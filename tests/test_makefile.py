"""The Makefile: it documents itself, every target makes what it needs, and it works in any path."""

import re
from pathlib import Path

import pytest
from small_project import build_files, run, small_project

from nlqlib import paths

MAKEFILE = (paths.ROOT / "Makefile").read_text("utf-8")
TARGETS = re.search(r"^\.PHONY: (.+)$", MAKEFILE, re.MULTILINE)[1].split()
PROMISED = {
    *("env", "lab", "plan", "reproduce", "site", "test", "engine", "serve", "record", "lint", "clean"),
    *("help", "publish", "readme", "check-site"),
}
"""What the README and the design of the project promise."""
BARE = {"help", "clean"}
"""Targets that need nothing installed."""
INSTALL = "-m pip install --quiet --disable-pip-version-check -r requirements.lock"


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fresh checkout, as far as `make` looks at it."""
    return build_files(tmp_path_factory.mktemp("fresh") / "a {b} {0} ü")


def steps(home: Path, *words: str) -> list[str]:
    """The commands that `make` would run, in order."""
    done = run(home, "make", "-n", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def place(lines: list[str], text: str) -> int:
    """Where `text` stands first."""
    return next(i for i, line in enumerate(lines) if text in line)


def test_every_promised_target_exists() -> None:
    assert set(TARGETS) >= PROMISED and len(TARGETS) == len(set(TARGETS))


def test_help_lists_every_target_with_what_it_does(fresh: Path) -> None:
    done = run(fresh, "make", "help")
    listed = dict(re.findall(r"^  make ([a-z-]+) +(\S.+)$", done.stdout, re.MULTILINE))
    assert done.returncode == 0 and listed.keys() == set(TARGETS)
    assert all(len(text) > 15 for text in listed.values())


def test_make_alone_is_help(fresh: Path) -> None:
    assert run(fresh, "make").stdout == run(fresh, "make", "help").stdout


def test_help_names_every_setting_that_a_run_takes(fresh: Path) -> None:
    settings = set(re.findall(r"^([A-Z_]+) \?=", MAKEFILE, re.MULTILINE)) - {"PYTHON"}
    said = run(fresh, "make", "help").stdout
    named = {*settings, "TARGET_NAME", "MODEL", "API_KEY_ENV", "METRICS_URL", "CA_FILE", "TORCH_INDEX"}
    assert [name for name in sorted(named) if not re.search(rf"\b{name}\b", said)] == []


@pytest.mark.parametrize("target", sorted(set(TARGETS) - BARE))
def test_a_target_installs_what_is_missing_before_it_uses_it(target: str, fresh: Path) -> None:
    lines = steps(fresh, target)
    assert place(lines, "-m venv .venv") < place(lines, INSTALL) < place(lines, "--editable .")
    work = [line for line in lines[place(lines, "touch .venv/.installed") + 1 :] if ".venv/bin/" in line]
    assert work or target == "env"


@pytest.mark.parametrize("target", sorted(BARE))
def test_help_and_clean_install_nothing(target: str, fresh: Path) -> None:
    assert not [line for line in steps(fresh, target) if "venv" in line]


NEEDS = {
    "site": ("-m nlqlib reproduce", "-m nlqlib site"),
    "publish": ("-m nlqlib reproduce", "-m nlqlib site", "-m nlqlib publish"),
    "readme": ("-m nlqlib reproduce", "-m nlqlib readme"),
    "check-site": ("-m nlqlib reproduce", "-m nlqlib site", "tests/site_check.py"),
    "test": ("-m nlqlib engine", "-m pytest tests/engine", '-m "not engine"'),
    "serve": ("-m nlqlib engine", "-m nlqlib serve local"),
    "record": ("-m nlqlib engine", "-m nlqlib record"),
}


@pytest.mark.parametrize("target", NEEDS)
def test_a_target_makes_what_it_works_on_first(target: str, fresh: Path) -> None:
    lines = steps(fresh, target)
    places = [place(lines, text) for text in NEEDS[target]]
    assert places == sorted(places)


@pytest.mark.parametrize("target", ["site", "readme"])
def test_what_was_executed_is_not_executed_again(target: str, tmp_path: Path) -> None:
    home = build_files(tmp_path)
    (home / "build" / "executed" / "twin").mkdir(parents=True)
    (home / "build" / "executed" / "twin" / "00_environment.ipynb").write_text("{}")
    assert not [line for line in steps(home, target) if "-m nlqlib reproduce" in line]


def test_the_readme_is_renewed_from_the_twin_whatever_else_is_set(fresh: Path) -> None:
    said = "\n".join(steps(fresh, "readme", "TARGET=local", "NOTEBOOKS=03"))
    assert 'case "twin:$ended"' in said and 'case "local:' not in said


def test_a_target_that_does_not_exist_is_an_error(fresh: Path) -> None:
    assert run(fresh, "make", "reprodce").returncode == 2


def test_clean_removes_what_was_built_and_nothing_retained(tmp_path: Path) -> None:
    home = build_files(tmp_path / "a {b}")
    for folder in ("build/site", "artifacts/twin"):
        (home / folder).mkdir(parents=True)
    assert run(home, "make", "clean").returncode == 0
    assert not (home / "build").exists() and (home / "artifacts" / "twin").is_dir()


def test_make_works_in_a_path_with_spaces_and_braces(tmp_path: Path) -> None:
    home = small_project(tmp_path / "a {b} {0} ü", "00")
    done = run(home, "make", "plan", "NOTEBOOKS=00", LC_ALL="C")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^00_environment +3 ", done.stdout, re.MULTILINE)
