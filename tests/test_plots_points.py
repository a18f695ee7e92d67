"""What a figure's points say, and that they lie where they are drawn."""

import json
import re

import numpy as np
import pandas as pd
import pytest

from nlqlib import plots, plots_data, plots_points

TWIN = {"target": "twin", "kind": "modelled"}


def test_a_point_says_its_series_its_values_with_units_and_its_interval():
    frame = pd.DataFrame({"concurrency": [1, 8], "throughput": [0.3, 2.2], "by": "steady"})
    frame = frame.assign(low=[0.2, 2.1], high=[0.4, 2.3])
    fig = plots.curves(frame, "concurrency", "throughput", "by", x_unit="in flight", y_unit="req/s", **TWIN)
    fig.draw_without_rendering()
    said = [text for _, _, text in plots_points.points(fig)]
    assert said[1] == "steady: concurrency 8 in flight, throughput 2.2 req/s (2.1 to 2.3)"


def test_points_lie_where_they_are_drawn():
    fig, ax = plots.figure("twin", "modelled")
    ax.plot([0, 1], [0, 1], "o", label="x")
    ax.set(xlim=(0, 1), ylim=(0, 1))
    fig.draw_without_rendering()
    (left, bottom, _), (right, top, _) = plots_points.points(fig)
    at = ax.get_position()
    assert (left, right) == pytest.approx((100 * at.x0, 100 * at.x1), abs=0.02)
    assert (bottom, top) == pytest.approx((100 - 100 * at.y0, 100 - 100 * at.y1), abs=0.02)


def test_who_draws_a_point_may_word_it():
    fig, ax = plots.figure("twin", "modelled")
    ax.plot([1], [2], "o", gid=f"{plots_data.TOLD}the claim and its verdict")
    fig.draw_without_rendering()
    assert [text for _, _, text in plots_points.points(fig)] == ["the claim and its verdict"]


def test_too_many_points_are_left_to_the_table():
    fig, ax = plots.figure("twin", "modelled")
    ax.scatter(np.arange(400), np.arange(400))
    fig.draw_without_rendering()
    assert plots_points.points(fig) == [] and plots_points.element(fig) == ""


def test_the_element_holds_the_points_as_escaped_json():
    fig, ax = plots.figure("twin", "modelled")
    ax.plot([1], [2], "o", label='a "quoted" <name>')
    fig.draw_without_rendering()
    [told] = re.findall(r'data-points="([^"]*)"', plots_points.element(fig))
    assert json.loads(told.replace("&quot;", '"').replace("&lt;", "<").replace("&gt;", ">"))[0][2].startswith(
        'a "quoted" <name>: '
    )
