"""What a page's banner says of the twin's answers is what its points ask for: replayed, drawn, or both."""

import ast
from functools import cache

import nbformat
import pytest

from nlqlib import paths
from nlqlib.experiments import staircase_page
from nlqlib.experiments.plans import PLANS, points
from nlqlib.experiments.study import Profile, Spec, Study
from nlqlib.notebook_params import declared
from nlqlib.plan import Asked
from nlqlib.site_reader import banner, kinds_of

OWN = "02_serialization_staircase"
"""Its twin answers in real time, in one length, and its page says so in a sentence of its own."""
SILENT = "99_summary"
BANNERS = sorted(set(PLANS) - {OWN, SILENT})
REPLAYED = ("09_compact_json", "13_heldout_semantics", "14_candidates")
"""Pages on meaning: what they ask is the same in every profile, and takes seconds to be planned."""
HEARD = {"recordings": "replayed", "synthetic": "drawn"}


def study(notebook: str, profile: Profile = "full") -> Study:
    return Study.open(notebook, "twin", profile)


@cache
def planned(notebook: str, profile: Profile) -> list[tuple[Study, Spec]]:
    """The page's points, each with the study of its variant."""
    params = declared(paths.NOTEBOOKS / f"{notebook}.ipynb")
    return points(study(notebook, profile), Asked(notebook, "twin", profile, None, params, remeasure=False))


def asked_for(notebook: str, profile: Profile) -> set[str]:
    """How the twin answers the requests of the page's points."""
    found = planned(notebook, profile)
    return {HEARD[where.target.declared["words"]] for where, spec in found if spec.requests}


@cache
def said(notebook: str) -> tuple[str, ...]:
    """What the notebook's call of `banner` names."""
    nb = nbformat.read(paths.NOTEBOOKS / f"{notebook}.ipynb", as_version=4)
    code = "\n".join(cell.source for cell in nb.cells if cell.cell_type == "code")
    [call] = [
        node
        for node in ast.walk(ast.parse(code))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "banner"
    ]
    return tuple(ast.literal_eval(argument) for argument in call.args)


@pytest.mark.parametrize("notebook", BANNERS)
def test_a_page_says_how_its_points_are_answered(notebook: str) -> None:
    assert set(said(notebook) or ["replayed"]) == asked_for(notebook, "full")


@pytest.mark.parametrize("notebook", [n for n in BANNERS if n not in REPLAYED])
def test_a_quick_run_is_answered_in_the_same_way(notebook: str) -> None:
    assert asked_for(notebook, "quick") == asked_for(notebook, "full")


@pytest.mark.parametrize("notebook", BANNERS)
def test_the_box_on_the_site_says_the_same(notebook: str) -> None:
    statement = study(notebook).statement(*said(notebook))  # type: ignore[arg-type]
    assert set(kinds_of({"target": "twin", "what": statement})) == {"modelled", *asked_for(notebook, "full")}


@pytest.mark.parametrize("notebook", ["03_admission", "06_saturation"])
def test_a_page_without_recorded_words_claims_none(notebook: str) -> None:
    statement = study(notebook).statement(*said(notebook))  # type: ignore[arg-type]
    box = banner({"target": "twin", "what": statement})
    assert "Modelled, not measured" in box and "replayed" not in box and "115 ± 3 tokens" in box


@pytest.mark.parametrize("notebook", [n for n in BANNERS if n not in REPLAYED])
def test_lengths_are_drawn_as_the_banner_says_unless_it_says_that_some_are_fixed(notebook: str) -> None:
    for where, spec in planned(notebook, "full"):
        told = where.target.declared
        if told["words"] == "synthetic":
            assert (told["output_tokens"], told["output_sd"]) == (115, 3), spec.name
            assert not spec.params.get("output_tokens") or len(said(notebook)) == 2, spec.name


def test_the_staircase_says_that_its_answers_say_nothing() -> None:
    assert kinds_of({"target": "twin", "what": staircase_page.statement(study(OWN))}) == ("modelled",)
    assert "recordings" not in asked_for(OWN, "full") and asked_for(OWN, "full") == {"drawn"}


@pytest.mark.parametrize("notebook", [BANNERS[0], "06_saturation"])
def test_elsewhere_everything_is_measured_whatever_the_twin_does(notebook: str) -> None:
    there = Study.open(notebook, "local", "quick")
    statement = there.statement(*said(notebook))  # type: ignore[arg-type]
    assert kinds_of({"target": "local", "what": statement}) == ("measured",)
