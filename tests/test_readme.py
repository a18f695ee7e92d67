"""The README: what it names exists, and its blocks are renewed without touching the rest."""

import re

import pytest
from front_pages import admission, knee

from nlqlib import __main__ as command_line
from nlqlib import front_page, front_page_lift, front_page_readme, paths

README = (paths.ROOT / "README.md").read_text("utf-8")
PAGES = [paths.ROOT / "README.md", *sorted(paths.NOTEBOOKS.glob("*.md"))]


def test_every_picture_and_page_it_links_to_exists_and_pictures_have_alternative_text():
    for alt, link in re.findall(r"(?:!\[([^\]]*)\]|\[[^\]]+\])\(([^)]+)\)", README):
        assert (paths.ROOT / link).exists(), link
        assert not link.endswith(".png") or len(alt) > 30


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_make_target_it_names_exists(page):
    there = set(re.findall(r"^([a-z-]+):", (paths.ROOT / "Makefile").read_text(), re.MULTILINE))
    assert (
        set(re.findall(r"`?\bmake ([a-z-]+)\b(?=[ `.,]|$)", page.read_text("utf-8"), re.MULTILINE)) - WORDS
        <= there
    )


WORDS = {"it", "a", "no"}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_command_it_names_exists(page):
    named = set(re.findall(r"python -m nlqlib ([a-z-]+)", page.read_text("utf-8")))
    assert named <= set(command_line.parser()._subparsers._group_actions[0].choices)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_every_file_it_names_exists(page):
    for name in re.findall(r"`((?:nlqlib|data|notebooks|tests|docs)/[\w./-]+)`", page.read_text("utf-8")):
        if "NAME" not in name and "NN" not in name:
            assert (paths.ROOT / name).exists(), name


def test_it_says_what_why_targets_costs_limits_and_how_to_cite():
    for words in (
        "**Why.**",
        "**What.**",
        "## Two commands",
        "## Three targets",
        "### What a run costs",
        "## Limits",
        "## How to cite",
    ):
        assert words in README


def test_its_blocks_are_renewed_and_the_rest_is_left(tmp_path):
    readme = tmp_path / "README.md"
    readme.write_text(
        "a\n<!-- story -->\nold\n<!-- /story -->\nb\n<!-- plan url -->\n<!-- /plan url -->\nc\n"
    )
    loaded = {"twin/03_admission": admission(), "twin/05_knee": knee()}
    written = front_page_readme.renew(readme, loaded, {"plan url": "| x |"})
    text = readme.read_text()
    assert (
        "old" not in text
        and text.startswith("a\n<!-- story -->\n**Does more buy more?**")
        and text.endswith("\nc\n")
    )
    assert "<!-- plan url -->\n| x |\n<!-- /plan url -->" in text and all(path.is_file() for path in written)
    assert front_page_readme.renew(readme, loaded, {"plan url": "| x |"}) and readme.read_text() == text


LIFTED = front_page_lift.LiftedFigure("p", "Q", "alt", 300, b"", "It is so.", "")


@pytest.mark.parametrize(
    ("told", "shown"),
    [
        ("03 02 03 05 06 07 08 13", "03 02 03 05 06 13"),
        ("03 02 03 05 06 07 08", "03 02 03 05 06 07"),
        ("03 13", "03 13"),
        ("", ""),
    ],
)
def test_its_story_is_the_first_steps_and_the_one_about_meaning(told, shown):
    steps = [(front_page.Scene(number), LIFTED) for number in told.split()]
    assert [scene.notebook for scene, _ in front_page_readme.chosen(steps)] == shown.split()


def test_a_missing_block_is_an_error_that_names_it():
    with pytest.raises(ValueError, match="no block story"):
        front_page_readme.with_blocks("text", {"story": "x"})
