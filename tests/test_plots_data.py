"""The table below a figure holds what the figure draws."""

import numpy as np
import pandas as pd

from nlqlib import plots, plots_data

TWIN = {"target": "twin", "kind": "modelled"}


def only(fig) -> pd.DataFrame:
    [panel] = plots_data.drawn(fig)
    return panel.frame


def test_lines_become_rows_with_their_names_and_intervals():
    frame = pd.DataFrame(
        {"n": [1, 8], "p95": [3.0, 4.0], "by": "after", "low": [2.5, 3.5], "high": [3.5, 4.5]}
    )
    table = only(plots.curves(frame, "n", "p95", "by", x_unit="requests", y_unit="s", log2_x=True, **TWIN))
    assert table.columns.tolist() == ["series", "n (requests)", "p95 (s)", "low", "high"]
    assert table.values.tolist() == [["after", 1.0, 3.0, 2.5, 3.5], ["after", 8.0, 4.0, 3.5, 4.5]]


def test_an_interval_that_is_missing_stays_missing():
    frame = pd.DataFrame(
        {"n": [1, 8], "p95": [3.0, 4.0], "by": "x", "low": [np.nan, 3.5], "high": [np.nan, 4.5]}
    )
    table = only(plots.curves(frame, "n", "p95", "by", x_unit="requests", y_unit="s", **TWIN))
    assert table["low"].tolist()[1] == 3.5 and np.isnan(table["low"].tolist()[0])


def test_the_article_is_a_series_of_its_own_and_reference_lines_are_none():
    fig, ax = plots.figure("twin", "modelled")
    plots.article_points(ax, [1, 8], [3.2, 3.6])
    ax.axhline(4.0)
    assert only(fig)["series"].tolist() == ["article", "article"]


def test_bars_are_named_by_their_rows():
    arms = pd.DataFrame(
        {"arm": ["plain", "json"], "share": [0.5, 1.0], "low": [0.3, 0.8], "high": [0.7, 1.0], "n": 20}
    )
    table = only(plots.share_bars(arms, **TWIN))
    assert table.values.tolist() == [[0.5, "plain", 0.3, 0.7], [1.0, "json", 0.8, 1.0]]


def test_many_dots_are_summarised_by_row():
    frame = pd.DataFrame({"arm": ["a"] * 50 + ["b"] * 50, "tokens": np.arange(100.0)})
    table = only(plots.strip(frame, "tokens", by="arm", unit="tokens", **TWIN))
    assert table[["row", "n", "least", "median", "greatest"]].values.tolist() == [
        ["a", 50, 0.0, 24.5, 49.0],
        ["b", 50, 50.0, 74.5, 99.0],
    ]


def test_a_smooth_curve_is_told_by_a_dozen_points():
    fig, ax = plots.figure("twin", "modelled")
    ax.plot(np.arange(500), np.arange(500), label="law", marker="")
    table = only(fig)
    assert len(table) == 12 and table.iloc[-1, 1] == 499


def test_a_matrix_keeps_its_rows_and_columns():
    fig, ax = plots.figure("twin", "modelled")
    ax.imshow([[7, 1], [0, 5]])
    ax.set_xticks([0, 1], ["breakdown", "top"])
    ax.set_yticks([0, 1], ["breakdown", "top"])
    ax.set_ylabel("asked")
    assert only(fig).values.tolist() == [["breakdown", 7.0, 1.0], ["top", 0.0, 5.0]]


def test_each_panel_has_its_own_table_and_a_figure_of_areas_alone_has_none():
    fig, (left, right) = plots.panels("twin", "modelled", 2)
    for ax, name in ((left, "throughput"), (right, "p95")):
        ax.plot([1, 2], [3, 4], label="x")
        ax.set_ylabel(name)
    assert [panel.caption for panel in plots_data.drawn(fig)] == ["throughput", "p95"]
    shaded, ax = plots.figure("twin", "modelled")
    ax.fill_between([0, 1], [1, 1])
    assert plots_data.below(shaded) == ""


def test_given_data_go_before_what_is_drawn_and_are_escaped():
    fig, ax = plots.figure("twin", "modelled")
    ax.plot([1], [2])
    ax.set_ylabel("a < b")
    made = plots_data.below(fig, pd.DataFrame({"seen": ["<i>"]}))
    assert made.startswith('<details class="figure-data">') and "&lt;i&gt;" in made and "a &lt; b" in made
