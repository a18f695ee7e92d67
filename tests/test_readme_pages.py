"""What README and the site's prose say of sets, machine, limits and repeats is what code and files say."""

import json
import re
from collections.abc import Iterator

import pytest

from nlqlib import paths
from nlqlib.experiments import admission, conditions, context_caps, sweep
from nlqlib.experiments.heldout_sets import SETS, standings
from nlqlib.experiments.plans import VARIANTS
from nlqlib.experiments.study import Study
from nlqlib.notebook_params import declared
from nlqlib.serving.target import TIMEOUT_S


def text(name: str) -> str:
    """A page of prose, its lines joined."""
    return " ".join((paths.ROOT / name).read_text("utf-8").split())


README, ENDPOINT, METHODS = (
    text(f) for f in ("README.md", "notebooks/your_endpoint.md", "notebooks/methods.md")
)


def test_the_set_that_counts_is_the_only_one_held_out() -> None:
    held = [one for one in standings(SETS).values() if one.held_out]
    assert [(one.name, one.questions) for one in held] == [("unseen", 100)]
    assert "What counts is the set *unseen* (100 questions) on page 13; the other three sets" in README


def test_the_machine_whose_runs_a_clone_brings_is_the_one_in_the_artifacts() -> None:
    [kept] = (paths.ARTIFACTS / "local" / "00_environment").glob("identity-*.run.json")
    machine = json.loads(kept.read_text("utf-8"))["provenance"]["machine"]
    assert f"our machine ({machine['cores']} cores, {machine['processor']})" in README


def test_answers_are_no_longer_than_the_page_about_the_endpoint_says() -> None:
    longest = max(context_caps.CAPS["full"])
    assert f"An answer may be {conditions.MAX_TOKENS} tokens long, on page 10 up to {longest}." in ENDPOINT


def test_every_cell_of_the_two_limits_has_its_command() -> None:
    assert re.findall(r"cell=(\w+/\w+)'", ENDPOINT) == ["low/low", "high/low", "low/high", "high/high"]
    assert set(re.findall(r"cell=(\w+/\w+)'", ENDPOINT)) == set(admission.LABELS)


def settings() -> Iterator[tuple[str, str]]:
    """Name and default of each row of the table of settings."""
    table = (paths.NOTEBOOKS / "your_endpoint.md").read_text("utf-8").partition("## Other settings")[2]
    yield from re.findall(r"^\| `(\w+)` \| (.*?) \|", table, re.MULTILINE)


@pytest.mark.parametrize("name", dict(settings()))
def test_a_setting_named_there_is_read_somewhere(name: str) -> None:
    sources = (path.read_text("utf-8") for path in (paths.ROOT / "nlqlib").rglob("*.py"))
    assert any(f'"{name}"' in source for source in sources)


def test_the_time_out_named_there_is_the_default() -> None:
    assert dict(settings())["TIMEOUT_S"] == f"{TIMEOUT_S:.0f}"


def test_the_lengths_drawn_are_those_named() -> None:
    assert f"drawn at {sweep.ANSWER_TOKENS} ± {sweep.ANSWER_SD} tokens" in METHODS


def test_the_pages_that_repeat_are_those_named() -> None:
    """On a real endpoint of ours, in the full profile."""
    [bullet] = re.findall(r"- Repeated are only: .*?(?= - A knee)", METHODS)
    named = set(re.findall(r"page (\d\d)", bullet))
    assert named == {name[:2] for name in VARIANTS if _repeats(name)}


def _repeats(name: str) -> bool:
    study = Study.open(name, "local", "full")
    found = VARIANTS[name](study, declared(paths.NOTEBOOKS / f"{name}.ipynb"))
    return any((spec.params.get("repeat") or 0) > 1 for _, spec in found)
