"""The figure of where request time goes: one stacked bar per arm."""

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.decomposition import INTAKE, LAYERS, REPLICA, ROUTER
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.decomposition_article import article_terms
from nlqlib.experiments.decomposition_page import RESIDUAL, name, terms, terms_sentence
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import article_shown
from nlqlib.experiments.sweep_rows import Records

COLOURS = {
    **{layer: plots.PALETTE[i] for layer, i in zip(LAYERS, (3, 5, 4, 1, 2, 0), strict=True)},
    RESIDUAL: plots.GREY,
}
PALE = (ROUTER, REPLICA)
WRITTEN = 0.075
"""Share of the widest bar from which a term has room for its name."""


def bars_figure(records: Records, study: Study, beside: bool = True) -> Figure:
    """One stacked bar per arm, client E2E in its terms; the article's row on top where it is comparable."""
    rows: dict[str, Mapping[str, float | None]] = {name(r): terms(r) for r in records}
    if beside and article_shown(study):
        rows = {"article, alone": article_terms(), **rows}
    height = 1.5 + 0.62 * len(rows)
    fig, ax = plots.figure(study.target.name, kinds(study), width_in=9.6, height_in=height)
    widest = max((_length(parts) for parts in rows.values()), default=0.0) or 1.0
    for at, parts in enumerate(rows.values()):
        _bar(ax, at, parts, widest, article_row=at == 0 and "article, alone" in rows)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_ylim(len(rows) - 0.45, -0.6)
    ax.set_xlim(0, 1.46 * widest)  # room for the small terms, written beside their bar
    ax.grid(False, axis="y")
    ax.set_xlabel("mean latency of a request (s)")
    return fig


def _length(parts: Mapping[str, float | None]) -> float:
    return sum(max(value or 0.0, 0.0) for value in parts.values())


def _bar(ax: Axes, at: int, parts: Mapping[str, float | None], widest: float, article_row: bool) -> None:
    left, small = 0.0, []
    for term, value in parts.items():
        if value is None:
            small.append(f"{term} not seen")
            continue
        wide = max(value, 0.0)
        style: dict[str, Any] = {"color": COLOURS[term]}
        if article_row:
            style = {"facecolor": "white", "edgecolor": COLOURS[term], "hatch": "//", "lw": 1.2}
        ax.barh(at, wide, left=left, height=0.6, **style)
        if wide >= WRITTEN * widest:
            text = f"{_called(term)}\n{value:.2f} s"
            box = {"facecolor": "white", "edgecolor": "none", "pad": 0.8} if article_row else None
            ax.text(
                left + wide / 2,
                at,
                text,
                ha="center",
                va="center",
                fontsize=8.5,
                linespacing=1.0,
                color="black" if article_row or term in PALE else "white",
                bbox=box,
            )
        elif abs(value) > 0.5e-3:
            small.append(f"{_called(term)} {value * 1e3:.0f} ms")
        left += wide
    ax.text(left + 0.01 * widest, at, "\n".join(_folded(small)), va="center", fontsize=8.5, color=plots.GREY)


def _called(term: str) -> str:
    """A term's name in the figure; the intake is a difference and says so."""
    return "intake (difference)" if term == INTAKE else term


def _folded(parts: Sequence[str], most: int = 2) -> list[str]:
    return [" · ".join(parts[i : i + most]) for i in range(0, len(parts), most)]


def bars_alt(records: Records, study: Study) -> str:
    """Alternative text of `bars_figure`."""
    return (
        f"Horizontal bars of a request's mean latency on {named(study)}, one per arm, stacked by term: "
        f"queues, prefill, decode and residual. {terms_sentence(records)}"
    )
