"""How the page on output tokens shows what became of the wish for compact output, question by question."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nlqlib import plots
from nlqlib.analysis.compactness import EFFECTS, Effect, Pair, effects, pairs
from nlqlib.experiments.compact import said
from nlqlib.experiments.compact_page import Records
from nlqlib.experiments.output_contracts import FORMS, PRETTY
from nlqlib.experiments.study import Study
from nlqlib.plots_labels import luminance

WHOLE: tuple[Effect, ...] = ("honoured", "partly", "ignored", "backfired")
COLOURS: Mapping[Effect, str] = {
    "honoured": "#009E73",
    "partly": "#56B4E9",
    "ignored": "#8C8C8C",
    "backfired": "#D55E00",
    "cut": "#000000",
    "failed": "#CC79A7",
    "unpaired": "#E69F00",
}
NAMED_SHARE = 0.18
"""Of the longest row: a part at least so long has room for its name."""
MIDDLE = 0.179
"""The luminance at which black and white are equally far in contrast: (L + 0.05)² = 1.05 · 0.05."""


def paired(found: Records) -> dict[str, list[Pair]]:
    """Every form but the pretty one, question by question against it."""
    first = said(found[PRETTY.name])
    return {name: pairs(first, said(record)) for name, record in found.items() if name != PRETTY.name}


def effects_table(found: Records) -> pd.DataFrame:
    """How often each form was honoured, ignored or backfired."""
    rows = {name: dict(effects(both)) for name, both in paired(found).items()}
    table = pd.DataFrame.from_dict(rows, orient="index", columns=list(EFFECTS)).rename_axis("form")
    return table.loc[:, [c for c in EFFECTS if c in WHOLE or table[c].any()]]


def effects_sentence(found: Records) -> str:
    """Honoured, ignored and backfired, for what is asked and for what is enforced."""
    counted = {name: effects(both) for name, both in paired(found).items()}
    asked = [_counted(name, c) for name, c in counted.items() if FORMS[name].enforced == "nothing"]
    forced = {name: c for name, c in counted.items() if FORMS[name].enforced != "nothing"}
    full = [n for n, c in forced.items() if 0 < c["honoured"] == sum(c.values()) - c["unpaired"]]
    rest = [_counted(name, c) for name, c in forced.items() if name not in full]
    parts = [f"Asked for in the prompt: {'; '.join(asked)}."] if asked else []
    parts += (
        [f"Enforced and honoured for every question with a pretty answer: {', '.join(full)}."] if full else []
    )
    parts += [f"Enforced, but not for every question: {'; '.join(rest)}."] if rest else []
    return " ".join(parts)


def _counted(name: str, counts: Mapping[Effect, int]) -> str:
    named = ", ".join(f"{word} {n}" for word, n in counts.items() if n)
    return f"{name} of {sum(counts.values())}: {named}"


def effects_figure(found: Records, study: Study) -> Figure:
    """Stacked counts of effects, one row per form, each part named where it lies or at the row's end."""
    rows = {name: effects(both) for name, both in paired(found).items()}
    size = {"width_in": 8.4, "height_in": 1.2 + 0.45 * len(rows)}
    fig, ax = plots.figure(study.target.name, study.target.tag, **size)
    longest = max((sum(row.values()) for row in rows.values()), default=1)
    for at, row in enumerate(rows.values()):
        _effects_row(ax, at, {effect: n for effect in EFFECTS if (n := row[effect])}, longest)
    ax.set_yticks(range(len(rows)), list(rows))
    ax.set_xlim(0, longest * 1.4)
    ax.set_xticks([t for t in MaxNLocator(6, integer=True).tick_values(0, longest) if t <= longest])
    ax.invert_yaxis()
    ax.grid(False, axis="y")
    plots.name_axes(ax, "questions", "")
    return fig


def _effects_row(ax: Axes, at: int, counts: Mapping[Effect, int], longest: int) -> None:
    """One bar of parts; a part too short for its name has its number, and its name behind the bar."""
    left, behind = 0, []
    for effect, n in counts.items():
        fits = n >= NAMED_SHARE * longest
        ax.barh(at, n, left=left, color=COLOURS[effect])
        told = f"{effect} {n}" if fits else str(n)
        style: Any = {"color": on(COLOURS[effect]), "fontsize": 9.5, "ha": "center", "va": "center"}
        ax.text(left + n / 2, at, told, **style)
        behind += [] if fits else [f"{effect} {n}"]
        left += n
    ax.text(left + 0.01 * longest, at, ", ".join(behind), va="center", fontsize=9.5, color=plots.GREY)


def on(colour: str) -> str:
    """Black or white, whichever is read better on `colour`."""
    return "white" if luminance(np.array(to_rgb(colour))) < MIDDLE else "black"


def effects_alt(found: Records, study: Study) -> str:
    """Alternative text of `effects_figure`."""
    parts = "; ".join(_counted(name, effects(both)) for name, both in paired(found).items())
    return f"Questions by what compact output did to them, target {study.target.name}. {parts}."
