"""What MyST-NB is given of an executed notebook: alt text, plain output, a banner."""

import pytest
from nbformat.v4 import new_notebook, new_output
from site_pages import ALT, ALT_2, code, figure, notebook, stream

from nlqlib import site_reader


def alts(nb) -> list[str | None]:
    return [
        c.metadata.get("mystnb", {}).get("image", {}).get("alt") for c in nb.cells if c.cell_type == "code"
    ]


def test_each_figure_of_a_cell_keeps_its_own_alt_text_and_the_source_is_shown_once():
    cell = code("two()", stream("before"), figure(), stream("between"), figure(ALT_2), tags=["hide-input"])
    nb = site_reader.prepare(notebook(cell))
    assert alts(nb) == [ALT, ALT_2]
    first, second = [c for c in nb.cells if c.cell_type == "code"]
    assert [o.output_type for o in first.outputs] == ["stream", "display_data", "stream"]
    assert second.metadata["mystnb"]["remove_code_source"] and second.metadata["tags"] == []
    assert first.metadata["tags"] == ["hide-input"]


def test_cell_options_survive_beside_the_alt_text():
    nb = site_reader.prepare(notebook(code("x", figure(), mystnb={"image": {"width": "200px"}})))
    cell = next(c for c in nb.cells if c.cell_type == "code")
    assert cell.metadata["mystnb"]["image"] == {"width": "200px", "alt": ALT}


def test_ansi_escapes_are_removed_from_streams_and_text():
    red = "\x1b[31mred\x1b[0m \x1b]"
    nb = site_reader.prepare(
        notebook(code("x", stream(red), new_output("execute_result", {"text/plain": red})))
    )
    outputs = next(c for c in nb.cells if c.cell_type == "code").outputs
    assert outputs[0].text == outputs[1].data["text/plain"] == "red \x1b]"[:4]


def test_the_banner_stands_under_the_title_and_names_target_and_run():
    nb = site_reader.prepare(
        notebook(code("1"), target="twin", run="20260101-01", what="Qwen2.5-3B on one L4")
    )
    title, banner, rest = nb.cells[0].source.split("\n\n", 2)
    assert (title, rest.strip()) == ("# Claim", "What to see.")
    assert "Target **twin**: Qwen2.5-3B on one L4." in banner and "Run 20260101-01." in banner


@pytest.mark.parametrize(
    ("about", "headline", "style"),
    [
        ({"target": "twin"}, "Modelled times, answers replayed or drawn", "warning"),
        ({"target": "twin", "what": "times modelled (an L4); drawn"}, "Modelled, not measured", "warning"),
        (
            {"target": "twin", "what": "times modelled (a GPU); words replayed"},
            "Modelled times, replayed answers",
            "warning",
        ),
        ({"target": "twin", "what": "times modelled; one length"}, "Modelled, not measured", "warning"),
        ({"target": "mine", "what": "everything measured; model m"}, "Measured", "note"),
        (
            {"target": "twin", "kinds": ["modelled", "replayed"]},
            "Modelled times, replayed answers",
            "warning",
        ),
        ({"target": "twin", "kinds": ["replayed"]}, "Replayed, not measured", "warning"),
        ({"target": "twin", "kinds": ["modelled"]}, "Modelled, not measured", "warning"),
        ({"target": "local"}, "Measured", "note"),
        ({"target": "my-l4", "kinds": ["measured", "replayed"]}, "Measured and replayed", "warning"),
    ],
)
def test_only_measured_pages_are_called_measured(about, headline, style):
    lines = site_reader.banner(about).splitlines()
    assert lines[0] == f"```{{admonition}} {headline}" and lines[1] == f":class: {style} nlqlib-banner"


@pytest.mark.parametrize(
    ("kinds", "told"),
    [
        (["replayed", "modelled"], "Answers on this page are replayed from recordings of a real model."),
        (["modelled", "drawn"], "Answers on this page have no meaning, only lengths, which are drawn."),
        (["replayed", "drawn", "modelled"], "Some answers are replayed from recordings of a real model;"),
    ],
)
def test_the_banner_says_in_one_sentence_how_answers_came_about(kinds, told):
    lines = site_reader.banner({"target": "twin", "kinds": kinds}).splitlines()
    assert sum("nswers" in line for line in lines[2:]) == 1 and any(x.startswith(told) for x in lines)
    assert any(line.startswith("Any time on this page comes from a model") for line in lines)


def test_a_page_without_answers_says_nothing_of_them():
    assert "nswers" not in site_reader.banner({"target": "twin", "kinds": ["modelled"]})


def test_a_notebook_without_a_title_still_gets_its_banner_first():
    nb = new_notebook(cells=[code("1")], metadata={"nlqlib": {"target": "local"}})
    assert "Target **local**" in site_reader.prepare(nb).cells[0].source


def test_metadata_of_the_run_does_not_reach_the_page():
    nb = notebook(code("1"), target="local")
    nb.metadata["papermill"] = {"output_path": "/home/ada/x.ipynb"}
    assert set(site_reader.prepare(nb).metadata) == {"kernelspec"}
