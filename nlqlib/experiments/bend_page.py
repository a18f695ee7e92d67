"""Where the curve bends, as the page on the knee shows it: scaling law, two lines, the knee and its interval.

From records alone; fitted to the steady throughput where every level has one, else to whole runs.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.bend import Knee, knee
from nlqlib.analysis.scaling import UslFit, fit_usl
from nlqlib.analysis.stats import Floats
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import article_shown, draw_article
from nlqlib.experiments.sweep_rows import Records, rows, span, told

ARTICLE_X = (
    *(f"dense.throughput.{n}" for n in (1, 8, 16, 18, 24)),
    *(f"repeated.throughput.{n}" for n in (12, 16, 20, 24)),
    "after.throughput.32",
)
ARTICLE_P95 = (
    *(f"dense.p95.{n}" for n in (1, 8, 16, 18, 24)),
    *(f"repeated.p95.{n}" for n in (12, 16, 20, 24)),
    "after.p95.32",
)
"""The rows of the article's two sweeps, X and p95 of each in the same place."""
THROUGHPUTS = {"x_window": "steady", "x_run": "whole run"}


@dataclass(frozen=True)
class Bend:
    """Both fits through one throughput of a study: `x_window` (steady) or `x_run`."""

    column: str
    points: pd.DataFrame
    """Columns concurrency and x, a row per run."""
    law: UslFit | None
    knee: Knee


def bend(records: Records, column: str = "") -> Bend:
    """The fits through the valid levels of `records`; by default the steady throughput where all have one."""
    table = rows(records)
    chosen = column or ("x_window" if len(table) and table["x_window"].notna().all() else "x_run")
    good = table[table["valid"] & table[chosen].notna()] if len(table) else table
    n = good["concurrency"].to_numpy(float) if len(good) else np.array([])
    x = good[chosen].to_numpy(float) if len(good) else np.array([])
    law = fit_usl(n, x) if (x > 0).all() else None
    return Bend(chosen, pd.DataFrame({"concurrency": n, "x": x}), law, knee(n, x))


def bend_table(records: Records) -> pd.DataFrame:
    """Scaling law and knee, once through the steady throughput and once through that of whole runs."""
    return pd.DataFrame(
        {f"{name} throughput": _bend_column(bend(records, c)) for c, name in THROUGHPUTS.items()}
    ).rename_axis("quantity")


def _bend_column(found: Bend) -> dict[str, str]:
    law, at = found.law, found.knee
    return {
        "levels fitted": str(len(found.points)),
        "X(1) (req/s)": told(law.x1 if law else None, ".4f"),
        "contention σ": told(law.sigma if law else None, ".4f"),
        "σ, 95 % interval": span(law.sigma_interval if law else None, ".4f"),
        "coherency κ": told(law.kappa if law else None, ".2e"),
        "κ, 95 % interval": span(law.kappa_interval if law else None, ".1e"),
        "largest error of the law": told(law.worst_error if law else None, ".1%"),
        "the law's peak lies at": told(law.peak if law else None, ".0f"),
        "knee": at.status if at.at is None else f"{at.at:.1f}",
        "knee, 95 % interval": span(at.interval, ".1f"),
        "why": at.reason,
    }


def fit_kinds(study: Study) -> tuple[str, ...]:
    """How fitted numbers came about."""
    return (*(plots.KIND_WORDS[k] for k in kinds(study)), "fitted to them")


def bend_figure(records: Records, study: Study) -> Figure:
    """Throughput, the scaling law, the two lines with the knee between them, and linear growth."""
    found = bend(records)
    fig, ax = plots.figure(study.target.name, kinds(study), width_in=7.6, height_in=4.6)
    top = float(found.points["concurrency"].max()) if len(found.points) else 1.0
    grid = np.linspace(1, top, 200)
    if found.law:
        linear = grid[grid * found.law.x1 <= 1.08 * found.points["x"].max()]
        ax.plot(linear, linear * found.law.x1, color=plots.GREY, lw=1, ls="--", marker="", label="linear")
        law = [found.law.throughput(n) for n in grid]
        ax.plot(grid, law, color=plots.PALETTE[4], marker="", label="scaling law")
    _knee_lines(ax, found, grid)
    ax.plot(found.points["concurrency"], found.points["x"], "o", color=plots.PALETTE[0], label="runs")
    if article_shown(study):
        draw_article(ax, ARTICLE_X)
    ax.set_ylim(bottom=0)
    ax.set_xlim(left=0)
    what = f"throughput, {THROUGHPUTS[found.column]}"
    plots.name_axes(ax, "concurrency", what, x_unit="requests in flight", y_unit="req/s")
    plots.label_lines(ax)
    return fig


def _knee_lines(ax: Axes, found: Bend, grid: Floats) -> None:
    """The segmented fit, its break as a line and the interval of the break as a band."""
    at = found.knee.at
    if at is None:
        return
    pieces = np.column_stack([np.ones_like(grid), grid, np.maximum(0.0, grid - at)])
    n = found.points["concurrency"].to_numpy()
    terms = np.column_stack([np.ones_like(n), n, np.maximum(0.0, n - at)])
    coefficients = np.linalg.lstsq(terms, found.points["x"].to_numpy(), rcond=None)[0]
    ax.plot(grid, pieces @ coefficients, color=plots.PALETTE[1], lw=1.2, marker="", label="two lines")
    if found.knee.interval:
        ax.axvspan(*found.knee.interval, color=plots.PALETTE[1], alpha=0.12, lw=0)
    ax.axvline(at, color=plots.PALETTE[1], lw=1.2, ls=":")
    ax.annotate(
        f"knee {at:.1f}", (at, 0), (4, 6), textcoords="offset points", color=plots.PALETTE[1], fontsize=10
    )


def bend_alt(records: Records, study: Study) -> str:
    """Alternative text of `bend_figure`."""
    return f"Throughput over concurrency on {named(study)} with two fits. {bend_sentence(records)}"


def bend_sentence(records: Records) -> str:
    """Where the curve bends, in one sentence."""
    found = bend(records)
    kept = _kept(found.law)
    at = found.knee
    if at.at is None or at.interval is None:
        return f"{at.status.capitalize()}: {at.reason}.{kept}"
    return (
        f"The {THROUGHPUTS[found.column]} throughput bends at {at.at:.1f} requests in flight "
        f"(95 % interval {span(at.interval, '.1f')}): {at.reason}.{kept}"
    )


def _kept(law: UslFit | None) -> str:
    if law is None:
        return ""
    return f" The scaling law keeps {law.efficiency(law.largest):.0%} of linear at {law.largest:.0f}."
