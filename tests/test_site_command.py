"""What the commands about pages decide: whose pages, what is left out, what a run costs."""

import nbformat
import pytest
from front_pages import admission, notebook
from nbformat.v4 import new_output
from site_pages import code

from nlqlib import commands_site, site, site_gate
from nlqlib.plan import Plan


@pytest.fixture
def mine(monkeypatch):
    monkeypatch.setenv("TARGET", "https://inner.host/v1")
    monkeypatch.setenv("TARGET_NAME", "My L4")


def test_a_configured_endpoint_gets_a_site_of_its_own_without_what_failed(mine):
    assert commands_site._own_target([]) == ["--partial", "--target", "My-L4"]


def test_named_targets_go_before_the_configured_one(mine):
    assert commands_site._own_target(["--target", "twin"]) == []


def test_without_an_endpoint_every_target_is_shown(monkeypatch):
    monkeypatch.setenv("TARGET", "twin")
    assert commands_site._own_target([]) == []


FAILED = code("1/0", new_output("error", ename="ZeroDivisionError", evalue="x", traceback=[]))


@pytest.mark.parametrize(
    ("nb", "whole"),
    [
        (admission(), True),
        (notebook("m", FAILED), False),
        (notebook("m", code("x", count=None)), False),
        (notebook("m"), False),
    ],
)
def test_a_notebook_ran_to_its_end_if_every_cell_did(nb, whole):
    assert site_gate.ran_to_its_end(nb) is whole


def test_a_partial_site_of_nothing_that_ran_is_refused_with_what_to_do(tmp_path):
    (tmp_path / "m").mkdir()
    nbformat.write(notebook("m", FAILED), tmp_path / "m/03_admission.ipynb")
    with pytest.raises(site.SiteError, match="no notebook ran to its end: `make reproduce` says why"):
        site.build_site(tmp_path, tmp_path / "out", partial=True)


def test_the_front_page_is_about_an_endpoint_before_twin_and_local():
    pages = ["twin/01_a", "local/01_a", "mine/01_a"]
    assert site._front(pages, None) == "mine" and site._front(pages[:2], None) == "twin"
    assert site._front(pages, "local") == "local"
    with pytest.raises(site.SiteError, match="no executed notebooks of other"):
        site._front(pages, "other")


def test_costs_are_those_of_the_plan(monkeypatch):
    asked = []

    def planned(wanted):
        asked.append(wanted)
        return Plan(3, 100, 10, 12.0)

    monkeypatch.setattr(commands_site, "PLANS", {"05_knee": planned})
    table = commands_site.plan_table(commands_site.ANY_URL, "full")
    assert "| 05_knee | 3 | 100 | 10 | 12 s |" in table and "| 06_saturation | unknown |" in table
    assert asked[0].remeasure and asked[0].target == commands_site.ANY_URL
