"""House figures: one palette, direct labels, intervals wherever they exist, the target named in each figure.

Pure functions from pandas frames to a `Figure`; only `show` has an effect. Figures are made without pyplot,
so neither `MPLBACKEND` nor an open pyplot figure can drop or double one. Shares and intervals are computed in
`nlqlib.analysis` and arrive here as columns.
"""

import base64
import io
import textwrap
from collections.abc import Sequence
from typing import Any, Literal

import matplotlib
import pandas as pd
from cycler import cycler
from IPython.core.getipython import get_ipython
from IPython.display import display
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import PercentFormatter
from PIL import Image

from nlqlib import plots_alt, plots_data, plots_labels, plots_points
from nlqlib.plots_labels import label_lines

Kind = Literal["measured", "modelled", "replayed"]

# Okabe and Ito (2008), "Color universal design"; yellow is left out: it vanishes on white.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#000000")
MARKERS = ("o", "s", "^", "v", "P", "X", "*")
GREY = "#595959"  # 7:1 on white
ARTICLE_LABEL = "article"
HALO = [withStroke(linewidth=3.4, foreground="white")]
"""Around an interval, which would vanish on a dark bar."""
NOTE_ID = "target-note"
DPI = 144  # twice the CSS pixel grid of 72, so that figures are sharp on dense screens
CSS_PX_PER_IN = 96
MIN_ALT_CHARS = plots_alt.MIN_ALT_CHARS
KIND_WORDS = {"measured": "measured", "modelled": "modelled times", "replayed": "replayed answers"}

STYLE: Any = {
    "figure.facecolor": "white",  # opaque, so that a dark page does not swallow black labels
    "axes.facecolor": "white",
    "savefig.facecolor": "white",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": GREY,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": "#E3E3E3",
    "axes.prop_cycle": cycler(color=PALETTE, marker=MARKERS),
    "axes.titlesize": 11,
    "axes.labelsize": 11,
    "font.family": "DejaVu Sans",  # ships with matplotlib: the same on every machine
    "font.size": 10.5,
    "xtick.labelsize": 10.5,
    "ytick.labelsize": 10.5,
    "lines.linewidth": 1.8,
    "lines.markersize": 6,
}


def target_note(target: str, kind: Kind | Sequence[Kind]) -> str:
    """`target: twin (modelled times, replayed answers)`: what every figure says about its numbers."""
    kinds = (kind,) if isinstance(kind, str) else tuple(kind)
    unknown = [k for k in kinds if k not in KIND_WORDS]
    if unknown or not kinds or not target:
        raise ValueError(
            f"a figure needs a target and a kind of {', '.join(KIND_WORDS)}; got {target!r}, {kind!r}"
        )
    return f"target: {target} ({', '.join(KIND_WORDS[k] for k in kinds)})"


def panels(
    target: str,
    kind: Kind | Sequence[Kind],
    n: int = 1,
    *,
    width_in: float = 6.8,
    height_in: float = 3.6,
    sharey: bool = False,
) -> tuple[Figure, list[Axes]]:
    """A white figure of `n` panels side by side that names `target` and how its numbers came about."""
    with matplotlib.rc_context(STYLE):
        fig = Figure(figsize=(width_in, height_in), dpi=DPI, layout="constrained")
        axes = list(fig.subplots(1, n, squeeze=False, sharey=sharey)[0])
        note = target_note(target, kind)
        # as the figure's lowest line, so that the layout keeps room for it
        fig.supxlabel(note, x=0.995, ha="right", fontsize=8.5, color=GREY, gid=NOTE_ID)
    return fig, axes


def figure(
    target: str, kind: Kind | Sequence[Kind], *, width_in: float = 6.8, height_in: float = 3.6
) -> tuple[Figure, Axes]:
    """One panel of `panels`."""
    fig, axes = panels(target, kind, width_in=width_in, height_in=height_in)
    return fig, axes[0]


def name_axes(ax: Axes, x: str, y: str, *, x_unit: str | None = None, y_unit: str | None = None) -> None:
    """Label both axes as `quantity (unit)`; a `None` unit is a plain number."""
    ax.set_xlabel(f"{x} ({x_unit})" if x_unit else x)
    ax.set_ylabel(f"{y} ({y_unit})" if y_unit else y)


def article_points(ax: Axes, x: Sequence[Any], y: Sequence[Any], *, label: str | None = ARTICLE_LABEL) -> int:
    """Draw the article's own values as open black diamonds, named once; returns how many were drawn.

    Pairs in which either value is missing are left out.
    """
    pairs = [(a, b) for a, b in zip(x, y, strict=True) if pd.notna(a) and pd.notna(b)]
    if not pairs:
        return 0
    xs, ys = zip(*pairs, strict=True)
    style: Any = {"mfc": "none", "mec": "black", "mew": 1.5, "ms": 8, "zorder": 5, "clip_on": False}
    ax.plot(xs, ys, "D", ls="none", label="_article", **style)
    if label:
        ax.annotate(  # moved to a clear place when the figure is saved
            label, pairs[0], (0, 9), textcoords="offset points", ha="center", fontsize=9.5, zorder=6,
            bbox={"facecolor": "white", "edgecolor": "none", "alpha": 0.8, "pad": 0.5},
            gid=plots_labels.ARTICLE_ID,
        )  # fmt: skip
    return len(pairs)


def curves(
    frame: pd.DataFrame, x: str, y: str, by: str, *, target: str, kind: Kind | Sequence[Kind],
    x_unit: str | None = None, y_unit: str | None = None, low: str = "low", high: str = "high",
    article: str | None = None, log2_x: bool = False,
) -> Figure:  # fmt: skip
    """One line per value of `by`: `y` over `x`, with intervals from the columns `low` and `high` if present.

    `article` names a column with the article's value at the same `x`. Missing values leave a gap.
    """
    fig, ax = figure(target, kind)
    if log2_x:
        ax.set_xscale("log", base=2)
        ax.set_xticks(sorted(frame[x].unique()), [f"{v:g}" for v in sorted(frame[x].unique())])
    groups = list(frame.groupby(by, sort=False))
    if len(groups) > len(PALETTE):
        raise ValueError(f"{len(groups)} lines: split the figure, at most {len(PALETTE)} can be told apart")
    for (name, rows), colour, marker in zip(groups, PALETTE, MARKERS, strict=False):
        rows = rows.sort_values(x)
        ax.plot(rows[x], rows[y], color=colour, marker=marker, label=str(name))
        if {low, high} <= set(rows.columns):
            ax.vlines(rows[x], rows[low], rows[high], color=colour, lw=1.2)
        if article:
            article_points(ax, rows[x], rows[article])
    ax.set_ylim(bottom=0)
    name_axes(ax, x, y, x_unit=x_unit, y_unit=y_unit)
    label_lines(ax)
    return fig


def _rows(ax: Axes, labels: Sequence[str]) -> None:
    """Give `ax` one horizontal row per label, the first on top."""
    ax.set_yticks(range(len(labels)), [textwrap.fill(str(label), 22) for label in labels])
    ax.set_ylim(len(labels) - 0.4, -0.6)
    ax.grid(False, axis="y")


def _share_panel(ax: Axes, frame: pd.DataFrame, labels: Sequence[str], by: str) -> None:
    rows = frame.set_index(by)
    if rows.index.has_duplicates:
        raise ValueError(f"share_bars draws one row per {by} and panel; aggregate the frame first")
    for at, label in enumerate(labels):
        row = rows.loc[label] if label in rows.index else pd.Series(dtype=float)
        share, low, high, n = (row.get(c) for c in ("share", "low", "high", "n"))
        if pd.isna(share):
            ax.text(0.02, at, "not observed", va="center", color=GREY, style="italic")
            continue
        ax.barh(at, share, height=0.55, color=PALETTE[at % len(PALETTE)], alpha=0.85)
        if pd.notna(low) and pd.notna(high):
            ax.hlines(at, low, high, color="black", lw=1.6, clip_on=False, path_effects=HALO)
            ax.vlines(
                [low, high], at - 0.11, at + 0.11, color="black", lw=1.6, clip_on=False, path_effects=HALO
            )
        text = f"{share:.0%}" + (f"\nn = {n:.0f}" if pd.notna(n) else "")
        ax.text(1.06, at, text, va="center", fontsize=9.5, linespacing=1.1)
        article_points(ax, [row.get("article")], [at], label=ARTICLE_LABEL if at == 0 else None)


def share_bars(
    frame: pd.DataFrame, *, by: str = "arm", panel: str = "metric", target: str, kind: Kind | Sequence[Kind],
    x: str = "share of questions",
) -> Figure:  # fmt: skip
    """Horizontal bars of `share` in 0..1: one row per `by`, one panel per value of column `panel` (if any).

    Columns `low` and `high` (a Wilson interval of `nlqlib.analysis.stats`), `n` and `article` are drawn where
    given. A missing share reads *not observed*, never 0.
    """
    labels = list(dict.fromkeys(frame[by]))
    groups = list(frame.groupby(panel, sort=False)) if panel in frame else [("", frame)]
    fig, axes = panels(
        target,
        kind,
        len(groups),
        height_in=1.3 + 0.55 * len(labels),
        width_in=max(6.8, 3.1 * len(groups)),
        sharey=True,
    )
    for ax, (title, rows) in zip(axes, groups, strict=True):
        _rows(ax, labels)
        _share_panel(ax, rows, labels, by)
        ax.set_xlim(0, 1)
        ax.xaxis.set_major_formatter(PercentFormatter(1.0))
        ax.set_xticks([0, 0.5, 1])
        ax.set_xlabel(x)
        ax.set_title(str(title), loc="left")
    return fig


def strip(
    frame: pd.DataFrame, value: str, *, by: str, unit: str, target: str, kind: Kind | Sequence[Kind],
    x: str | None = None, article: str | None = None,
) -> Figure:  # fmt: skip
    """Every value of column `value` as a dot, one row per `by`, with the median marked and named.

    `unit` goes on the axis, `article` names a column with the article's value of the row. Rows without any
    value read *not observed*.
    """
    groups = list(frame.groupby(by, sort=False))
    fig, ax = figure(target, kind, height_in=1.3 + 0.6 * len(groups))
    _rows(ax, [str(name) for name, _ in groups])
    for at, (_, rows) in enumerate(groups):
        values = pd.to_numeric(rows[value]).dropna()
        if values.empty:
            ax.annotate("not observed", (0, at), (4, 0), textcoords="offset points", va="center", color=GREY)
            continue
        # golden-ratio offsets: even, without a random generator, so that the same data give the same picture
        offsets = [at + 0.5 * ((i * 0.618034) % 1 - 0.5) for i in range(len(values))]
        ax.scatter(values, offsets, s=22, color=PALETTE[at % len(PALETTE)], alpha=0.65, lw=0)
        median = float(values.median())
        ax.vlines(median, at - 0.34, at + 0.34, color="black", lw=2)
        ax.annotate(
            f"median {median:.4g}", (median, at - 0.34), (3, 1), textcoords="offset points", fontsize=9.5
        )
        if article:
            article_points(ax, rows[article].dropna().head(1), [at] * rows[article].notna().head(1).sum())
    ax.set_xlim(left=0)
    ax.set_xlabel(f"{x or value} ({unit})")
    return fig


def png(fig: Figure) -> bytes:
    """The figure as PNG of 256 colours, a third of the size; the same figure gives the same bytes."""
    drawn, small = io.BytesIO(), io.BytesIO()
    with matplotlib.rc_context(STYLE):
        plots_labels.settle(fig)
        fig.savefig(drawn, format="png", dpi=DPI, metadata={"Software": None})
    with Image.open(drawn) as image:
        image.convert("RGB").quantize(256, dither=Image.Dither.NONE).save(small, "PNG", dpi=(DPI, DPI))
    return small.getvalue()


def show(fig: Figure, alt: str, data: pd.DataFrame | None = None) -> None:
    """Display `fig` in the notebook with its alternative text, its numbers folded below, and clear it.

    `alt` says what is drawn and its main number, or that it is not observable; else `ValueError`. The numbers
    are those of `data`, else the ones drawn.
    """
    alt = " ".join(alt.split())
    if wrong := plots_alt.problem(alt):
        raise ValueError(wrong)
    if not any(ax.has_data() or ax.texts for ax in fig.axes):
        raise ValueError("the figure is empty: draw something before plots.show")
    image = base64.b64encode(png(fig)).decode("ascii")
    about = {"alt": alt, "width": round(fig.get_figwidth() * CSS_PX_PER_IN)}
    numbers = plots_data.below(fig, data)
    if numbers:  # inside the folded table, so that whoever lifts the table lifts the points
        numbers = numbers.replace("</details>", f"{plots_points.element(fig)}</details>")
    fig.clear()
    if get_ipython() is None:
        print(alt)
        return
    display({"image/png": image, "text/plain": alt}, raw=True, metadata={"image/png": about})
    if numbers:
        display({"text/html": numbers, "text/plain": plots_data.SUMMARY}, raw=True)
