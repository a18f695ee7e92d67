"""The two figures of the page on the context budget: lengths with the window's budget, and both windows."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter
from numpy.typing import NDArray

from nlqlib import plots
from nlqlib.analysis.comparison import Change, common
from nlqlib.analysis.headroom import Budget
from nlqlib.experiments import context_lengths as lengths
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.context import Deployment
from nlqlib.experiments.context_caps import SHOWN
from nlqlib.experiments.context_lengths import Length
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import draw
from nlqlib.experiments.sweep_rows import places
from nlqlib.plots_labels import ink

Counts = NDArray[np.float64]
PARTS = ("prompt", "max_tokens", "left")
"""Of a window, from the left."""


def lengths_figure(study: Study, found: Sequence[Length], budgets: Sequence[Budget]) -> Figure:
    """Prompt lengths, answer lengths with the limits as lines, and each window as a bar of three parts."""
    kind: plots.Kind = "replayed" if lengths.own_words(study) else "measured"
    fig, (isl, osl, bars) = plots.panels(study.target.name, kind, 3, width_in=11.4, height_in=4.0)
    _histogram(isl, {"": [x.isl for x in found]}, 12)
    whole, lost = lengths.whole(found), [x.osl for x in found if x.outcome == "length" and x.osl]
    _histogram(osl, {"valid": whole, "cut when recorded": lost}, 16)
    for limit in SHOWN:
        if limit <= 1.1 * max([*whole, *lost, 1]):
            osl.axvline(limit, color=plots.GREY, lw=1, ls=":")
            osl.annotate(
                f"{limit}", (limit, 1), (-3, -2), xycoords=osl.get_xaxis_transform(),
                textcoords="offset points", ha="right", va="top", color=plots.GREY, fontsize=9.5,
            )  # fmt: skip
    osl.set_xlim(left=0)
    plots.name_axes(isl, "prompt length, ISL", "questions", x_unit="tokens")
    plots.name_axes(osl, "answer length, OSL", "questions", x_unit="tokens")
    _windows(bars, budgets)
    return fig


def _histogram(ax: Axes, values: Mapping[str, Sequence[int]], bins: int) -> None:
    kept = {name: found for name, found in values.items() if found}
    if not kept:
        ax.text(0.5, 0.5, "no answers", transform=ax.transAxes, ha="center", color=plots.GREY)
        return
    colours = plots.PALETTE[: len(kept)]
    tops, edges, _ = ax.hist(list(kept.values()), bins=bins, stacked=True, color=colours)
    ax.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    if len(kept) > 1:
        _name_stacks(ax, list(kept), np.asarray(tops), np.asarray(edges))


def _name_stacks(ax: Axes, names: Sequence[str], tops: Counts, edges: Counts) -> None:
    """Each series named over its tallest bin, in its colour; `tops` are heights with what lies below."""
    for i, name in enumerate(names):
        own = tops[i] - (tops[i - 1] if i else 0)
        tallest = int(np.argmax(own))
        right = edges[tallest] > (edges[0] + edges[-1]) / 2  # there the name would leave the panel
        at = (edges[tallest + 1] if right else edges[tallest], tops[-1][tallest])
        ax.annotate(
            name, at, (-3 if right else 0, 4), textcoords="offset points", ha="right" if right else "left",
            va="bottom", fontsize=9.5, color=ink(plots.PALETTE[i]),
        )  # fmt: skip
    ax.set_ylim(top=1.2 * float(tops[-1].max()))  # the limits are named above


def _windows(ax: Axes, budgets: Sequence[Budget]) -> None:
    """Horizontal bars, each as long as its window."""
    for at, b in enumerate(budgets):
        begin = 0
        for part, colour in zip(PARTS, plots.PALETTE, strict=False):
            wide = max(0, getattr(b, part))
            ax.barh(at, wide, left=begin, height=0.5, color=colour)
            if wide > 0.3 * max(x.window for x in budgets):
                told = f"{part} {wide:,}"
                ax.text(begin + wide / 2, at, told, ha="center", va="center", color="white", fontsize=9.5)
            begin += wide
        said = f"then max_tokens {b.max_tokens:,}, left {b.left:,}"
        ax.text(0, at - 0.28, said, va="bottom", fontsize=9.5)
    ax.set_yticks(range(len(budgets)), [f"{b.window:,}" for b in budgets])
    ax.set_ylim(len(budgets) - 0.6, -1.0)
    ax.grid(False, axis="y")
    ax.set_xlim(left=0)
    ax.xaxis.set_major_locator(MaxNLocator(4))
    ax.xaxis.set_major_formatter("{x:,.0f}")
    plots.name_axes(ax, "tokens of one request", "window", y_unit="tokens")


def lengths_alt(study: Study, found: Sequence[Length], budgets: Sequence[Budget]) -> str:
    """Alternative text of `lengths_figure`."""
    osl = lengths.whole(found)
    seen = f"valid answers have {min(osl)} to {max(osl)} tokens" if osl else "there is no valid answer"
    parts = "; ".join(
        f"a window of {b.window:,} is {b.prompt:,} of prompt, {b.max_tokens} of answer and {b.left:,} left"
        for b in budgets
    )
    what = f"Histograms of prompt and answer lengths and bars of the window, target {study.target.name}"
    return f"{what}: {seen}; {parts}."


# ---- both windows ----------------------------------------------------------------------------------------


def windows_figure(study: Study, found: Iterable[Deployment], changed: Sequence[Change]) -> Figure:
    """Throughput and p95 of each window, and the differences between them, pair by pair and shared by all."""
    fig, (left, middle, right) = plots.panels(
        study.target.name, kinds(study), 3, width_in=12.4, height_in=4.0
    )
    for colour, there in enumerate(found):
        label = f"{there.window:,}"
        draw(left, places(there.sweep), "x_run", label, colour)
        draw(middle, places(there.sweep), "p95_s", label, colour)
        for line in (*left.get_lines(), *middle.get_lines()) if colour else ():
            if line.get_label() == label:  # open and dashed, so that a curve below it stays visible
                line.set(linestyle="--", markerfacecolor="none", markersize=10)
    for ax, name, unit in ((left, "throughput, whole run", "req/s"), (middle, "p95 of E2E latency", "s")):
        ax.set_ylim(0, 1.05 * ax.get_ylim()[1])
        ax.set_xlim(left=0)
        plots.name_axes(ax, "concurrency", name, x_unit="requests in flight", y_unit=unit)
        plots.label_lines(ax)
    left.set_title("by window, in tokens", loc="left")
    middle.set_title("by window, in tokens", loc="left")
    _differences(right, changed)
    right.set_title(_legend(study, changed), loc="left")
    return fig


def _legend(study: Study, changed: Sequence[Change]) -> str:
    """What the marks of the differences are, as far as they are drawn."""
    equal = "equal by construction" if study.target.kind == "twin" else ""
    marks = "filled: mean; open: one pair of runs" if any(c.by_pair for c in changed) else ""
    band = "band: throughput over all levels, 95 %" if common(changed, "throughput") else ""
    return "\n".join(filter(None, [equal, marks, band]))


def _differences(ax: Axes, changed: Sequence[Change]) -> None:
    """After less before as a share of before, throughput and p95 side by side: means and pairs."""
    step = 0.02 * max((c.concurrency for c in changed), default=1)
    for i, quantity in enumerate(("throughput", "p95 latency")):
        rows = [c for c in changed if c.quantity == quantity and c.before and c.difference is not None]
        for c in rows:
            _difference(ax, c, c.concurrency + step * (2 * i - 1), i)
        if rows:
            last = max(rows, key=lambda c: c.concurrency)
            at = (last.concurrency + step, (last.difference or 0.0) / (last.before or 1.0))
            style: Any = {"color": ink(plots.PALETTE[2 + i]), "va": "center", "annotation_clip": False}
            ax.annotate(quantity, at, (8, 0), textcoords="offset points", fontsize=9.5, **style)
    _band(ax, changed)
    if not ax.get_lines():
        ax.text(0.5, 0.5, "nothing to compare: one window was measured", transform=ax.transAxes, ha="center")
    ax.axhline(0, color=plots.GREY, lw=1)
    ends = [abs(v) for v in ax.get_ylim()]
    ax.set_ylim(-max(*ends, 0.01), max(*ends, 0.01))
    ax.set_xlim(left=0)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=1))
    plots.name_axes(ax, "concurrency", "larger window − smaller", x_unit="requests in flight", y_unit="share")


def _difference(ax: Axes, c: Change, x: float, i: int) -> None:
    """The mean as a full mark, every pair of runs as a small open one."""
    colour: Any = {"color": plots.PALETTE[2 + i], "label": "_"}
    ax.plot([x], [(c.difference or 0.0) / (c.before or 1.0)], plots.MARKERS[i], **colour)
    pairs = [ratio - 1 for ratio in c.by_pair]
    ax.plot([x] * len(pairs), pairs, plots.MARKERS[i], markersize=4, markerfacecolor="none", **colour)


def _band(ax: Axes, changed: Sequence[Change]) -> None:
    """The interval of the change of throughput that all concurrencies share."""
    if found := common(changed, "throughput"):
        ax.axhspan(*found.interval, color=plots.PALETTE[2], alpha=0.15, lw=0)


def windows_alt(study: Study, sentence: str) -> str:
    """Alternative text of `windows_figure`."""
    what = "Throughput, p95 and their differences for both windows over concurrency"
    return f"{what} on {named(study)}. {sentence}"
