"""Signs in print: a true minus where a number is negative, and nowhere else."""

import pytest
from site_pages import code, figure, notebook, stream

from nlqlib.site_signs import signed, typeset


@pytest.mark.parametrize(
    ("typed", "printed"),
    [
        ("it changes by -14%", "it changes by −14%"),
        ("(-14% to +3%)", "(−14% to +3%)"),
        ("+3 % and -3 %", "+3% and −3%"),
        ("<td>-0.5</td>", "<td>−0.5</td>"),
        ("-0.03 s found", "−0.03 s found"),
        ("1.2 → -3", "1.2 → −3"),
        (
            '<div hidden data-points="[[1, 2, &quot;a (-7%)&quot;]]">',
            '<div hidden data-points="[[1, 2, &quot;a (−7%)&quot;]]">',
        ),
    ],
)
def test_a_negative_number_gets_a_minus(typed: str, printed: str) -> None:
    assert signed(typed) == printed


@pytest.mark.parametrize(
    "text",
    [
        "qwen2.5-3b, 2024-01-05, 3-7 s",
        "`limit -1`",
        '<code>{"limit": -1}</code>',
        '<td style="margin: -2px">x</td>',
        "- 5 questions",
        "95 % intervals, 81 % of them",
    ],
)
def test_names_dates_ranges_code_and_shares_stay(text: str) -> None:
    assert signed(text) == text


def test_signing_twice_is_signing_once() -> None:
    once = signed("by -14 % (-2 to -1), `-1`")
    assert signed(once) == once


def test_a_notebooks_alt_texts_are_set_and_its_streams_and_sources_stay() -> None:
    cell = code("x = -1", figure("Twelve levels; the largest change is -14%."), stream("x -1"))
    set_, *_ = [c for c in typeset(notebook(cell)).cells if c.cell_type == "code"]
    assert set_.outputs[0].metadata["image/png"]["alt"].endswith("−14%.")
    assert set_.source == "x = -1" and set_.outputs[1].text == "x -1"
