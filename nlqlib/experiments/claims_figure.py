"""The summary as one figure: how far each judged number lies from the article's, beside its tolerance."""

import re
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import Rectangle
from matplotlib.ticker import PercentFormatter

from nlqlib import plots, plots_data
from nlqlib.article_data import Claim, claims
from nlqlib.experiments.claims import Line, Summary
from nlqlib.experiments.claims_html import cells

EDGE = 0.30
"""A difference beyond this share is drawn at the edge, with its size."""
ROW_IN = 0.27
GLYPHS = ("●", "■", "▲", "▼")
"""The house's markers as characters."""


@dataclass(frozen=True)
class Row:
    """A section's heading (no lines), or one group of claims."""

    label: str
    lines: tuple[Line, ...] = ()


def group(c: Claim) -> str:
    """What claims of one row of the figure share: their id without its last part."""
    return ".".join(_parts(c)[:-1]) or c.id


def _parts(c: Claim) -> list[str]:
    """The parts of an id; the point of a number (`p95_below_4.5`) parts nothing."""
    return re.split(r"(?<!_\d)\.", c.id)


def drawable(found: Summary) -> tuple[Line, ...]:
    """The judged lines whose difference can be given as a share."""
    judged = found.results("differs", "reproduced")
    return tuple(x for x in judged if x.verdict.relative_difference is not None and x.claim.high)


def rows(found: Summary) -> list[Row]:
    """Headings and groups, as the article has them."""
    place = {c.id: i for i, c in enumerate(claims())}
    sections: dict[str, dict[str, list[Line]]] = {}
    for line in sorted(drawable(found), key=lambda x: place[x.claim.id]):
        sections.setdefault(line.claim.section, {}).setdefault(group(line.claim), []).append(line)
    return [
        row
        for section, groups in sections.items()
        for row in (Row(section), *(Row(name, tuple(of)) for name, of in groups.items()))
    ]


def differences_figure(found: Summary) -> Figure:
    """A dot per judged number and target; grey is the tolerance; what differs is named."""
    every = rows(found)
    shown = [t for t in found.targets if any(x.target == t for row in every for x in row.lines)]
    name, height_in = " and ".join(shown) or "none", 1.4 + ROW_IN * len(every)
    fig, ax = plots.figure(name, _kinds(shown), width_in=9.6, height_in=height_in)
    for at, row in enumerate(every):
        _draw(ax, at, row, found.targets)
    _axes(ax, every)
    _name_targets(ax, shown, found.targets)
    return fig


def _kinds(shown: Sequence[str]) -> tuple[plots.Kind, ...]:
    modelled: tuple[plots.Kind, ...] = ("modelled", "replayed") if "twin" in shown else ()
    measured: tuple[plots.Kind, ...] = ("measured",) if set(shown) != {"twin"} else ()
    return (*modelled, *measured)


def _draw(ax: Axes, at: int, row: Row, targets: Sequence[str]) -> None:
    if not row.lines:
        ax.axhline(at + 0.42, color=plots.GREY, lw=0.6)
        return
    width = min(max(_band(x.claim) for x in row.lines), EDGE)
    ax.add_patch(Rectangle((-width, at - 0.36), 2 * width, 0.72, color="#E3E3E3", lw=0, zorder=0.5))
    for line in row.lines:
        _dot(ax, at, line, targets.index(line.target))


def _band(c: Claim) -> float:
    """The tolerance as a share of the claim's value."""
    return c.tolerance.width(c.high) / abs(c.high)


def _dot(ax: Axes, at: int, line: Line, which: int) -> None:
    off = line.verdict.relative_difference or 0.0
    x = max(-EDGE, min(EDGE, off))
    y = at + 0.16 * (which - 0.5)
    fitted = line.verdict.tag in ("fitted", "by construction")
    colour = plots.PALETTE[which % len(plots.PALETTE)]
    face = "none" if fitted else colour
    ax.plot(
        [x], [y], plots.MARKERS[which % len(plots.MARKERS)], ms=5.5, mec=colour, mfc=face, label="_",
        zorder=3, gid=f"{plots_data.TOLD}{_told(line)}",
    )  # fmt: skip
    if line.word == "differs":
        name = _parts(line.claim)[-1] + (f" ({off:+.0%})" if abs(off) > EDGE else "")
        left = x > 0.6 * EDGE
        ax.annotate(
            name, (x, y), (-6 if left else 6, 0), textcoords="offset points", va="center",
            ha="right" if left else "left", fontsize=8.5, color=colour,
        )  # fmt: skip


def _told(line: Line) -> str:
    """`dense.throughput.24, twin: 5.53 req/s, article 5.60 req/s (-1.3%), reproduced`."""
    row = cells(line)
    off = f"({row['difference']} of {row['tolerance']} allowed)"
    return (
        f"{line.claim.id}, {line.target}: {row['value']} ({row['tag']}), article {row['article']} {off}: "
        f"{line.word}"
    )


def _axes(ax: Axes, every: Sequence[Row]) -> None:
    labels = [textwrap.shorten(row.label, 46, placeholder=" …") for row in every]
    ax.set_yticks(range(len(every)), labels)
    for text, row in zip(ax.get_yticklabels(), every, strict=True):
        text.set_fontsize(9.5)
        text.set_fontweight("normal" if row.lines else "bold")
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(every) - 0.3, -0.9)
    ax.set_xlim(-1.1 * EDGE, 1.1 * EDGE)
    ax.axvline(0, color="black", lw=1)
    ax.grid(False, axis="y")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    ax.set_xlabel("difference from the article's value (share of it; 0 within its own interval)")


def _name_targets(ax: Axes, shown: Sequence[str], targets: Sequence[str]) -> None:
    """What the markers are, on the figure's first line."""
    told = ", ".join(f"{GLYPHS[targets.index(t) % len(GLYPHS)]} {t}" for t in shown)
    ax.set_title(
        f"{told}; open: fitted; grey: widest tolerance of the row; named: differs", loc="left", fontsize=9.5
    )


def differences_alt(found: Summary) -> str:
    """The figure in words, with its main number."""
    drawn = drawable(found)
    if not drawn:
        return "No number of the article could be judged from the retained runs, so the figure has no dot."
    inside = sum(x.word == "reproduced" for x in drawn)
    far = max(drawn, key=lambda x: abs(x.verdict.relative_difference or 0.0))
    off = far.verdict.relative_difference or 0.0
    return (
        f"Relative difference of {len(drawn)} judged numbers from the article's, one row per group of claims "
        f"under the headings of its sections, on {' and '.join(found.targets)}: {inside} lie within their "
        f"tolerance and {len(drawn) - inside} outside; the farthest is {far.claim.id} on {far.target}, "
        f"{off:+.0%}."
    )
