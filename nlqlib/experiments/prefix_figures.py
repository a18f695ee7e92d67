"""The figures of the page on the prefix cache: hits as planned and counted, TTFT by tokens, every request."""

from collections.abc import Sequence

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from nlqlib import plots
from nlqlib.analysis.prefix_cache import Cell
from nlqlib.article import claim
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.prefix_cost import article_cells, cost_sentence
from nlqlib.experiments.prefix_page import (
    NOT_SEEN,
    counted_rate,
    equal,
    of,
    planned_rate,
    rates_sentence,
    scenario,
    study_cells,
    whole,
)
from nlqlib.experiments.prefix_price import cell, costs
from nlqlib.experiments.prompt_variants import ARTICLE_RATES, DIVERSE, LEADING, SHORT, article_rate
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import article_shown
from nlqlib.experiments.sweep_rows import Records, latencies, told

# ---- hit rates -------------------------------------------------------------------------------------------


def rates_figure(records: Records, study: Study) -> Figure:
    """A row for each scenario: the planned rate as a bar, the counted one as a dot, the article's beside."""
    shown = study_cells(records)
    fig, ax = plots.figure(study.target.name, kinds(study), width_in=8.2, height_in=1.2 + 0.5 * len(shown))
    for i, record in enumerate(shown):
        planned, counted = planned_rate(record), counted_rate(record)
        ax.barh(i, planned or 0.0, height=0.5, color=plots.PALETTE[4], alpha=0.55)
        if counted is not None:
            ax.plot(counted, i, "o", color=plots.PALETTE[0], ms=8, clip_on=False, zorder=4)
        plots.article_points(ax, [article_rate(scenario(record))], [i], label=None if i else "article")
        seen = NOT_SEEN if counted is None else told(counted, ".2%")
        ax.text(1.04, i, f"planned {told(planned, '.2%')}, counted {seen}", va="center", fontsize=9.5)
    ax.set_yticks(range(len(shown)), [scenario(r) for r in shown])
    ax.set_ylim(len(shown) - 0.4, -0.8)
    ax.set_xlim(0, 1)
    ax.grid(False, axis="y")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xlabel("prefix hit rate (share of prompt tokens): bar planned, dot counted")
    return fig


def rates_alt(records: Records, study: Study) -> str:
    """Alternative text of `rates_figure`."""
    rows = "; ".join(
        f"{scenario(r)} {told(planned_rate(r), '.1%')} planned, {told(counted_rate(r), '.1%')} counted"
        for r in study_cells(records)
    )
    return f"Prefix hit rate of each scenario on {named(study)}. {rows}. {rates_sentence(records)}"


def rates_reading(records: Records) -> str:
    """The span of hit rates, in one sentence."""
    shown = [(rate, scenario(r)) for r in study_cells(records) if (rate := planned_rate(r)) is not None]
    if not shown:
        return "No scenario was measured."
    (high, warm), (low, cold) = max(shown), min(shown)
    return f"From {high:.1%} ({warm}) to {low:.1%} ({cold}) of the same prompt can be reused."


# ---- TTFT ------------------------------------------------------------------------------------------------


def ttft_figure(records: Records, study: Study) -> Figure:
    """The server's TTFT over computed prompt tokens, with the fitted line and the article's points."""
    fig, ax = plots.figure(study.target.name, kinds(study), width_in=8.0, height_in=4.0)
    found = [c for r in records if (c := cell(r)) is not None]
    if not found:
        ax.text(0.5, 0.5, f"TTFT or cache counters: {NOT_SEEN}", ha="center", transform=ax.transAxes)
        return fig
    line, full = costs(records), [c for c in found if c.name != SHORT]
    if line and full:
        length = sum(c.cached + c.computed for c in full) / len(full)
        ends = [0.0, max(c.computed for c in full)]
        ys = [1e3 * line.ttft_s(length - x, x) for x in ends]
        ax.plot(ends, ys, color=plots.GREY, lw=1.2, marker="", ls="--", label="_line")
    for i, one in enumerate(found):
        ax.plot(one.computed, 1e3 * one.ttft_s, ls="none", marker=plots.MARKERS[i], color=plots.PALETTE[i])
    top = max(c.computed for c in found)
    for near in _together(found, NEAR * top):
        right = near[-1].computed > 0.8 * top
        ax.annotate(
            ", ".join(c.name for c in near), (near[-1].computed, 1e3 * near[0].ttft_s),
            (-10, 0) if right else (10, -10), textcoords="offset points",
            ha="right" if right else "left", va="center",
        )  # fmt: skip
    if article_shown(study):
        theirs = article_cells()
        plots.article_points(ax, [c.computed for c in theirs], [1e3 * c.ttft_s for c in theirs], label=None)
    said = "dashed: the fitted line" + ("; open diamonds: article" if article_shown(study) else "")
    ax.text(0.02, 0.93, said, transform=ax.transAxes)
    ax.set_xlim(left=-60)
    ax.set_ylim(bottom=0)
    plots.name_axes(ax, "computed prompt tokens", "TTFT, server mean", x_unit="per request", y_unit="ms")
    return fig


NEAR = 0.03
"""Share of the axis within which points are named together."""


def _together(found: Sequence[Cell], width: float) -> list[list[Cell]]:
    """The cells in ascending order of computed tokens, those closer than `width` in one group."""
    groups: list[list[Cell]] = []
    for one in sorted(found, key=lambda c: c.computed):
        if groups and one.computed - groups[-1][-1].computed < width:
            groups[-1].append(one)
        else:
            groups.append([one])
    return groups


def ttft_alt(records: Records, study: Study) -> str:
    """Alternative text of `ttft_figure`."""
    return f"TTFT over computed prompt tokens on {named(study)}. {cost_sentence(records, study)}"


def ttft_reading(records: Records) -> str:
    """How far the cells lie from a straight line."""
    line, found = costs(records), [c for r in records if (c := cell(r)) is not None]
    if line is None:
        return "No time to first token is observable here."
    far, name = max((abs(r), c.name) for r, c in zip(line.residuals_s, found, strict=True))
    return (
        f"TTFT grows with what is computed: all {len(found)} cells lie within {1e3 * far:.0f} ms of the "
        f"line, farthest {name}."
    )


# ---- every request ---------------------------------------------------------------------------------------


EVEN = 0.05
"""Share of the latency that the axis spans at least: equal latencies are one place, not a spread."""


def requests_frame(records: Records, study: Study) -> pd.DataFrame:
    """Client latency of every good answer, with the article's median of its scenario where it compares.

    A scenario without one has a row without a latency.
    """
    rows = []
    for record in study_cells(records):
        about = ARTICLE_RATES.get(scenario(record)) if article_shown(study) else None
        median = claim(about.replace("hit_rate", "client_p50")).value if about else None
        known: list[float | None] = [*latencies([record])]
        rows += [
            {"scenario": scenario(record), "latency": latency, "article": median}
            for latency in known or [None]
        ]
    return pd.DataFrame(rows, columns=["scenario", "latency", "article"]).astype({"latency": float})


def requests_figure(records: Records, study: Study) -> Figure:
    """Every request's latency at the client, a row for each scenario, medians marked."""
    frame = requests_frame(records, study)
    fig = plots.strip(
        frame, "latency", by="scenario", unit="s", target=study.target.name, kind=kinds(study),
        x="client E2E latency",
    )  # fmt: skip
    medians = frame.groupby("scenario", sort=False)["article"].first()
    for i, (name, median) in enumerate(medians.items()):
        shown = plots.article_points(fig.axes[0], [median], [i], label=None)
        if shown and name == DIVERSE:  # named where it stands alone
            fig.axes[0].annotate(
                plots.ARTICLE_LABEL, (median, i), (9, 0), textcoords="offset points", va="center"
            )
    drawn = frame[["latency", "article"]].astype(float).stack()  # a mark beyond the axis would take its room
    if not drawn.empty:
        low, high = float(drawn.min()), float(drawn.max())
        wide = max(high - low, EVEN * high) or 1.0
        fig.axes[0].set_xlim(low - 0.05 * wide, high + 0.15 * wide)
    return fig


def requests_reading(records: Records) -> str:
    """What a median stands for in the mixed scenario."""
    lead = of(records, LEADING)
    if lead is None:
        return "The scenario that mixes cold and warm requests was not measured."
    none, n = whole(lead)
    if not latencies([lead]):
        return f"No request of the {LEADING} has a good answer: its latencies are {NOT_SEEN}."
    planned = "" if equal(lead) == "yes" else " by the plan"
    return (
        f"With the {LEADING} requests fall into two groups{planned}, {none} of {n} computed whole and the "
        "others warm: a median lies in one of them, a mean in neither."
    )


def requests_alt(records: Records, study: Study) -> str:
    """Alternative text of `requests_figure`."""
    medians = requests_frame(records, study).groupby("scenario", sort=False)["latency"].median()
    told_all = ", ".join(
        f"{name} {NOT_SEEN}" if pd.isna(value) else f"{name} {value:.2f} s" for name, value in medians.items()
    )
    return f"Client latency of every request on {named(study)}. Medians: {told_all}."
