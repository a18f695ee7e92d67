"""No two labels of a figure lie on one another, whatever the numbers are."""

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from nlqlib import plots, plots_labels
from nlqlib.plots_apart import overlapping


def settled(fig):
    plots_labels.settle(fig)
    fig.draw_without_rendering()
    return overlapping(fig)


@pytest.mark.parametrize("top", [6.0, 60.0, 600.0])
def test_the_names_of_horizontal_lines_stand_side_by_side_where_the_lines_are_close(top):
    fig, ax = plots.figure("local", "measured")
    ax.plot([1, 8, 16], [3, top / 2, top], label="p95")
    for bound in (3, 4, 4.5, 5):
        ax.axhline(bound)
        ax.text(0.11, bound, f"{bound:g} s", transform=ax.get_yaxis_transform(), va="bottom")
    ax.set_ylim(0, top)
    plots.label_lines(ax)
    assert settled(fig) == []


@settings(max_examples=10, deadline=None)
@example([2.0, 2.0, 3.0, 1.6875, 0.25])  # what moving labels does to the layout pushed two together again
@given(st.lists(st.floats(0, 10), min_size=2, max_size=6))
def test_the_names_at_the_ends_of_lines_are_parted_in_the_final_layout(ends):
    fig, ax = plots.figure("twin", "modelled")
    for at, end in enumerate(ends):
        ax.plot([0, 1], [5, end], label=f"line {at}")
    plots.label_lines(ax)
    ax.set_ylim(0, 400)  # all ends now lie close together
    assert settled(fig) == []


def test_a_label_over_a_bar_gives_way_to_the_one_beside_it():
    fig, ax = plots.figure("twin", "modelled")
    ax.text(0.5, 0.50, "29.9 %")
    ax.text(0.5, 0.51, "sampled 29.7 %")
    assert settled(fig) == []


def test_labels_that_are_apart_stay_where_they_are():
    fig, ax = plots.figure("twin", "modelled")
    one = ax.annotate("one", (0.2, 0.2), (3, 3), textcoords="offset points")
    two = ax.text(0.8, 0.8, "two")
    before = two.get_transform()
    assert settled(fig) == [] and one.xyann == (3, 3) and two.get_transform() == before


def test_the_articles_own_label_keeps_off_the_points_of_a_curve():
    fig, ax = plots.figure("twin", "modelled")
    ax.plot([1, 8, 16], [1, 5, 9], marker="o")
    ax.vlines([1, 8, 16], [0.5, 4.5, 8.5], [1.5, 5.5, 9.5])
    plots.article_points(ax, [1, 8, 16], [1, 5, 9], label=None)
    label = ax.annotate(plots.ARTICLE_LABEL, (1, 1), (0, 0), textcoords="offset points")
    assert settled(fig) == []
    box = label.get_window_extent()
    for x, y in [(1, 1), (8, 5), (16, 9)]:
        assert not box.contains(*ax.transData.transform((x, y)))
