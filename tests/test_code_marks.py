"""Code marks become elements, wherever text is, and text again."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.code_marks import MARKED, coded, uncoded
from nlqlib.experiments.captions import Table
from nlqlib.site_reader import boxed


def test_marks_in_text_become_code_and_attributes_stay():
    given_, wanted = (
        '<td title="`a`">set `a` to `b`</td>',
        '<td title="`a`">set <code>a</code> to <code>b</code></td>',
    )
    assert coded(given_) == wanted and coded(wanted) == wanted


@pytest.mark.parametrize(
    "kept", ["<pre>`a`</pre>", "<code>`a`</code>", "a ` alone", "```json", "``", "<b>`</b>`"]
)
def test_what_is_code_already_or_no_pair_is_left_alone(kept):
    assert coded(kept) == kept


@given(st.text(st.characters(exclude_characters="<>"), max_size=40))
def test_prose_comes_back_as_it_was(text):
    assert uncoded(coded(text)) == text


def test_a_captioned_table_shows_no_backtick_in_cells_caption_or_reading():
    frame = pd.DataFrame({"`x`": ["`a` & b"]}, index=pd.Index(["`r`"], name="`i`"))
    shown = Table(frame, "What `c` does", "It is `d`.")._repr_html_()
    assert not MARKED.search(shown) and "`" not in shown
    assert "<code>a</code> &amp; b" in shown and "<caption>What <code>c</code> does</caption>" in shown
    assert "<p>It is <code>d</code>.</p>" in shown


def test_a_table_that_was_made_elsewhere_is_coded_on_its_page_and_named_in_plain_words():
    shown = boxed("<table><caption>of `a`</caption><tr><td>`b`</td></tr></table>")
    assert 'aria-label="of a"' in shown and "<td><code>b</code></td>" in shown


def test_lines_of_a_cell_are_lines_on_the_page():
    shown = Table(pd.DataFrame({"p": ["one\ntwo"]}), "c")._repr_html_()
    assert "<td>one<br>two</td>" in shown


def test_the_name_of_the_rows_stands_in_the_one_line_of_headings():
    frame = pd.DataFrame({"p": [1]}, index=pd.Index(["r"], name="control"))
    shown = Table(frame, "c")._repr_html_()
    assert shown.count("<tr") == 2 and "<th>control</th>" in shown and frame.index.name == "control"
