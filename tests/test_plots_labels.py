"""Labels are legible, and the article's stands where nothing else is drawn."""

import numpy as np
import pytest
from matplotlib.colors import to_rgb

from nlqlib import plots, plots_labels


@pytest.mark.parametrize("colour", plots.PALETTE)
def test_text_in_every_colour_of_the_house_can_be_read_on_white(colour):
    assert 1.05 / (plots_labels.luminance(np.array(to_rgb(plots_labels.ink(colour)))) + 0.05) >= 4.5


def test_a_colour_that_can_be_read_is_left_alone():
    assert plots_labels.ink("#0072B2") == "#0072b2"


@pytest.mark.parametrize("up", [True, False])
def test_the_articles_label_lies_on_no_line_and_on_no_other_label(up):
    fig, ax = plots.figure("twin", "modelled")
    xs = np.array([1.0, 8, 16, 32])
    ys = xs if up else xs[::-1]
    for shift in (0, 1.5):
        ax.plot(xs, ys + shift, label=f"line {shift}")
    plots.article_points(ax, xs, ys)
    plots.label_lines(ax)
    plots_labels.settle(fig)
    [label] = [t for t in ax.texts if t.get_text() == "article"]
    fig.draw_without_rendering()
    box = label.get_window_extent()
    for line in ax.get_lines():
        assert not line.get_path().transformed(line.get_transform()).intersects_bbox(box, filled=False)
    assert not any(box.overlaps(t.get_window_extent()) for t in ax.texts if t is not label)
    assert all(ax.bbox.contains(*corner) for corner in label.get_window_extent().get_points())


def test_a_figure_without_the_article_is_left_as_it_is():
    fig, ax = plots.figure("twin", "modelled")
    ax.annotate("mine", (0.5, 0.5))
    plots_labels.settle(fig)
    assert [t.xy for t in ax.texts] == [(0.5, 0.5)]
