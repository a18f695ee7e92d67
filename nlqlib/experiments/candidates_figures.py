"""Accuracy of the candidates against latency and against cost, with the intervals of both."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from nlqlib import plots
from nlqlib.analysis.stats import percentile_estimate
from nlqlib.artifacts import Record
from nlqlib.experiments.candidates import Candidate, Measurements, cost, seconds
from nlqlib.experiments.candidates_notes import beside
from nlqlib.experiments.captions import kinds
from nlqlib.experiments.heldout import correctness, rows
from nlqlib.experiments.heldout_sets import ARTICLES_GATE, SETS, counted, standings
from nlqlib.experiments.study import Study

SEED = 14
Axis = Literal["seconds", "cost"]
AXES: dict[Axis, tuple[str, str]] = {
    "seconds": ("p50 latency of a question", "s"),
    "cost": ("cost of 1,000 questions", "USD"),
}


def figured(found: Measurements, wanted: str = "") -> str:
    """The set that the figures show: the one `wanted`, else the last that is held out, else `holdout`.

    Of those in `found`, and the last of these where neither is there.
    """
    held = [name for name, one in standings(SETS).items() if one.held_out]
    shown_sets = [name for name in (wanted, *reversed(held), "holdout") if name in found]
    return shown_sets[0] if shown_sets else list(found)[-1]


@dataclass(frozen=True)
class Point:
    """One candidate in a figure."""

    name: str
    x: float
    x_interval: tuple[float, float] | None
    y: float
    low: float
    high: float


def figure_points(
    found: Measurements, candidates: Sequence[Candidate], study: Study, source: str, axis: Axis
) -> list[Point]:
    """The forced candidates that were measured on `source`, with both intervals."""
    made = []
    for c in (c for c in candidates if c.forced):
        record = found[source].get(c.name)
        if record is None:
            continue
        right, (x, interval) = correctness(record), _x(c, record, study, axis)
        if x is not None and right.value is not None and right.low is not None and right.high is not None:
            made.append(Point(c.name, x, interval, right.value, right.low, right.high))
    return made


def _together(points: Sequence[Point]) -> list[Point]:
    """Points in one place as one, under all of their names: none hides another."""
    places: dict[tuple[float, float], list[Point]] = {}
    for p in points:
        places.setdefault((p.x, p.y), []).append(p)
    return [replace(same[0], name=" = ".join(p.name for p in same)) for same in places.values()]


def _x(
    c: Candidate, record: Record, study: Study, axis: Axis
) -> tuple[float | None, tuple[float, float] | None]:
    if axis == "cost":
        costs = cost(c, record, study.target.name)
        return costs.value, costs.interval
    spent = seconds(rows(record))
    told = percentile_estimate(spent, 50, seed=SEED) if spent else None
    return (told.value, told.interval) if told else (None, None)


def trade_figure(
    found: Measurements, candidates: Sequence[Candidate], study: Study, source: str, axis: Axis
) -> Figure:
    """Final strict accuracy on `source` against latency or cost, both with 95 % intervals, and the gate."""
    what, unit = AXES[axis]
    fig, ax = plots.figure(study.target.name, kinds(study, "recordings"))
    for i, p in enumerate(_together(figure_points(found, candidates, study, source, axis))):
        style: Any = {"color": plots.PALETTE[i % len(plots.PALETTE)]}
        ax.vlines(p.x, p.low, p.high, lw=1.4, **style)
        if p.x_interval:
            ax.hlines(p.y, *p.x_interval, lw=1.4, **style)
        ax.plot([p.x], [p.y], plots.MARKERS[i % len(plots.MARKERS)], label=p.name, ms=8, **style)
    ax.axhline(ARTICLES_GATE, color=plots.GREY, ls=":", lw=1.2)
    ax.text(
        0.005,
        ARTICLES_GATE - 0.06,
        "the article's gate",
        color=plots.GREY,
        fontsize=9,
        transform=ax.get_yaxis_transform(),
    )
    ax.set_ylim(0, 1.02)
    ax.set_xlim(left=0)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    plots.name_axes(ax, f"{what}{beside(found)}", "right in every field", x_unit=unit)
    ax.set_title(counted(source), loc="left")
    if ax.get_legend_handles_labels()[0]:  # direct labels, a dozen, would hide the intervals
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    else:
        ax.text(
            0.5, 0.3, f"no candidate measured here has a known {what}", ha="center", transform=ax.transAxes
        )
    return fig


def trade_alt(
    found: Measurements, candidates: Sequence[Candidate], study: Study, source: str, axis: Axis
) -> str:
    """Alternative text of `trade_figure`."""
    what, unit = AXES[axis]
    parts = [
        f"{p.name} {p.y:.0%} at {p.x:.3g} {unit}"
        for p in figure_points(found, candidates, study, source, axis)
    ]
    note = plots.target_note(study.target.name, kinds(study, "recordings"))
    return (
        f"Share of {counted(source)} right in every field against {what}{beside(found)}, "
        f"with 95 % intervals; {note}. "
        f"{'; '.join(parts) or 'No candidate was measured'}."
    )
