"""The stairs themselves: completions over their order, fitted lines, controls, the article's steps."""

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.staircase import Staircase
from nlqlib.analysis.stats import line
from nlqlib.article import claim
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.staircase_page import STEPS, UNIT
from nlqlib.experiments.staircase_result import CONTROLS, PARALLEL, SERIAL, judge, staircases
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import told


def stairs_figure(record: Record, study: Study) -> Figure:
    """Completion over its order, in service times of each run, with fitted lines; controls thin and grey."""
    fig, ax = plots.figure(study.target.name, kinds(study), height_in=4.2)
    found = staircases(record)
    for name, style in ((PARALLEL, ":"), (SERIAL, "-.")):
        xs, ys = _points(found[name])
        ax.plot(xs, ys, color=plots.GREY, ls=style, lw=1, marker="", label=name)
    own = {name: s for name, s in found.items() if name not in CONTROLS}
    for i, (name, s) in enumerate(own.items()):
        _draw(ax, s, name, i)
    steps = [claim(c) for c in STEPS]
    orders, values = [c.condition["order"] for c in steps], [c.value for c in steps]
    plots.article_points(ax, orders, values, label=None)
    below: Any = {"textcoords": "offset points", "va": "top", "fontsize": 9.5}
    ax.annotate(plots.ARTICLE_LABEL, (orders[-1], values[-1] or 0), (8, -6), **below)
    ax.set_ylim(bottom=0)
    ax.set_xticks(range(1, max(s.k for s in found.values()) + 1))
    plots.name_axes(ax, "order of completion", "completion", y_unit=UNIT)
    plots.label_lines(ax)
    return fig


def _points(s: Staircase) -> tuple[list[int], list[float]]:
    alone = s.service_s or 1.0
    return list(range(1, len(s.completions_s) + 1)), [t / alone for t in s.completions_s]


def _draw(ax: Axes, s: Staircase, name: str, i: int) -> None:
    xs, ys = _points(s)
    style: Any = {"color": plots.PALETTE[i], "marker": plots.MARKERS[i], "ls": "none"}
    ax.plot(xs, ys, label=name, **style)
    if fit := line(xs, ys):
        ends = [xs[0], xs[-1]]
        ax.plot(
            ends, [fit.intercept + fit.slope * x for x in ends], color=plots.PALETTE[i], lw=1.4, label="_fit"
        )


def stairs_alt(record: Record, study: Study) -> str:
    """The figure in words: slope and verdict of each run, then the controls."""
    judged, found = judge(staircases(record)), staircases(record)
    runs = "; ".join(
        f"{name} slope {told(c.endpoint.slope_share, '.2f')}, {c.verdict}" for name, c in judged.items()
    )
    aside = ", ".join(f"{name} {told(found[name].slope_share, '.2f')}" for name in CONTROLS)
    k = max(s.k for s in found.values())
    return (
        f"Completion times of {k} independent processes over their order, in service times, {named(study)}, "
        f"with fitted lines: {runs}. Controls: {aside}."
    )
