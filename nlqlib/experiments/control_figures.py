"""The figures of the map: what was foretold beside what was observed, and one control at three settings."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from nlqlib import plots
from nlqlib.analysis.stats import t_interval
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.control_data import Direction
from nlqlib.experiments.control_observed import Finding, Outcome
from nlqlib.experiments.control_page import findings, label, map_sentence, observed, ordered
from nlqlib.experiments.control_verdict import Verdict
from nlqlib.experiments.study import Study
from nlqlib.plots_labels import ink

LOOKS: Mapping[Verdict, tuple[str, str]] = {
    "rejected": (plots.PALETTE[1], "s"),
    "rejected once": (plots.PALETTE[1], "s"),
    "confirmed": (plots.PALETTE[0], "o"),
    "confirmed once": (plots.PALETTE[0], "o"),
    "undecided": (plots.PALETTE[3], "^"),
    "holds by construction": (plots.GREY, "D"),
    "not observable here": (plots.GREY, "^"),
}
"""Colour and marker of a verdict; one that was seen once has an open marker."""
FORETOLD = "#D9D9D9"
ROW_IN = 0.4
LABEL_CHARS = 38
Line = tuple[str, Finding | None]
"""A line of the forest: its name, and what was found."""


def map_figure(found: Sequence[Outcome], study: Study) -> Figure:
    """One line for each row of the map: the signal that decides it."""
    lines = [(label(o.row, o.headline.predicted if o.headline else None), o.headline) for o in ordered(found)]
    return forest(lines, study)


def findings_figure(found: Sequence[Outcome], study: Study) -> Figure:
    """One line for each prediction of which a change was observed and that could have failed."""
    seen = [f for f in findings(found) if f.change and f.verdict != "holds by construction"]
    return forest([(label(f.row, f.predicted), f) for f in seen], study)


def forest(lines: Sequence[Line], study: Study) -> Figure:
    """What was foretold as a grey arrow (a band for no change), what was observed as a point."""
    height = 1.5 + ROW_IN * max(1, len(lines))
    fig, ax = plots.figure(study.target.name, kinds(study, "recordings"), width_in=8.4, height_in=height)
    for at, (_, finding) in enumerate(lines):
        _verdict(ax, at, finding)
        if finding is not None:
            _foretold(ax, at, finding.predicted.direction, finding.predicted.least)
            _seen(ax, at, finding)
    ax.axvline(0, color=plots.GREY, lw=1)
    ax.set_yticks(range(len(lines)), [textwrap.fill(name, LABEL_CHARS) for name, _ in lines])
    ax.set_ylim(max(1, len(lines)) - 0.4, -0.6)
    ax.set_xlim(-1.12, 1.12)
    ax.grid(False, axis="y")
    ax.xaxis.set_major_formatter(PercentFormatter(1.0))
    ax.set_xticks([-1, -0.5, 0, 0.5, 1])
    ax.set_xlabel("change, as a share of the larger value (grey: foretold)")
    return fig


def _foretold(ax: Axes, at: int, direction: Direction, least: float) -> None:
    if direction == "same":
        ax.barh(at, 2 * least, left=-least, height=0.56, color=FORETOLD, zorder=1)
        return
    sign = 1.0 if direction == "up" else -1.0
    arrow = {"arrowstyle": "-|>,head_width=0.35,head_length=0.5", "color": "#BDBDBD", "lw": 5}
    ax.annotate("", (sign * 1.06, at), (sign * least, at), arrowprops=arrow | {"shrinkA": 0, "shrinkB": 0})


def _seen(ax: Axes, at: int, finding: Finding) -> None:
    if finding.change is None:
        return
    colour, marker = LOOKS[finding.verdict]
    found = finding.change.share_interval
    if found:
        low, high = max(found.low, -1.1), min(found.high, 1.1)
        ax.hlines(at, low, high, color=colour, lw=2, zorder=3)
    edge: Any = {"mec": "white"} if found else {"mec": colour, "mfc": "white", "mew": 1.6}
    ax.plot([finding.change.share], [at], marker=marker, color=colour, ls="none", ms=7, zorder=4, **edge)


def _verdict(ax: Axes, at: int, finding: Finding | None) -> None:
    """The verdict at the right end of the line, in its colour."""
    verdict: Verdict = finding.verdict if finding else "not observable here"
    colour = ink(LOOKS[verdict][0]) if finding and finding.change else plots.GREY
    style: Any = {"va": "center", "color": colour, "fontsize": 9.5, "clip_on": False}
    ax.text(1.16, at, verdict if finding and finding.change else "not observed", **style)


def map_alt(found: Sequence[Outcome], study: Study) -> str:
    """Alternative text of `map_figure`: the counts, and the first line's numbers."""
    first = ordered(found)[0]
    lead = first.headline if first.headline and first.headline.change else None
    told = f" First line: {label(first.row, lead.predicted)}, {observed(lead)}." if lead else ""
    return (
        f"Foretold direction as an arrow and observed change with its interval, one line for each of "
        f"{len(found)} controls, on {named(study)}. {map_sentence(found)}{told}"
    )


def findings_alt(found: Sequence[Outcome], study: Study) -> str:
    """Alternative text of `findings_figure`."""
    seen = [f for f in findings(found) if f.change and f.verdict != "holds by construction"]
    largest = max(seen, key=lambda f: abs(f.change.share) if f.change else 0.0, default=None)
    told = (
        f" Largest change: {label(largest.row, largest.predicted)}, {observed(largest)}." if largest else ""
    )
    return (
        f"Foretold direction and observed change of {len(seen)} predictions that could have failed, on "
        f"{named(study)}.{told}"
    )


# ---- max_num_seqs ----------------------------------------------------------------------------------------

PANELS: tuple[tuple[str, str, str, str, float], ...] = (
    ("throughput", "req/s", "throughput_run", "mean", 1.0),
    ("running, mean", "sequences", "running", "mean", 1.0),
    ("waiting, mean", "sequences", "waiting", "mean", 1.0),
    ("time between tokens", "ms", "itl", "mean", 1e3),
)


def limits(records: Iterable[Record]) -> pd.DataFrame:
    """Mean and t interval of each of `PANELS` by `max_num_seqs`, ascending."""
    shown = []
    for sweep in ("seqs-08", "seqs-16", "seqs-32"):
        of = [r for r in records if r.params.get("sweep") == sweep]
        for title, unit, metric, stat, factor in PANELS:
            values = [factor * v for r in of if (v := r.value(metric, stat)) is not None]
            if values:
                found = t_interval(values)
                low, high = found if found else (None, None)
                shown.append(
                    (int(sweep[-2:]), title, unit, sum(values) / len(values), low, high, len(values))
                )
    return pd.DataFrame(shown, columns=["max_num_seqs", "signal", "unit", "mean", "low", "high", "runs"])


def limits_figure(records: Sequence[Record], study: Study) -> Figure:
    """One panel for each signal, over the engine's limit of running sequences."""
    table = limits(records)
    fig, axes = plots.panels(study.target.name, kinds(study), len(PANELS), width_in=9.6, height_in=2.9)
    for i, (ax, (title, unit, *_)) in enumerate(zip(axes, PANELS, strict=True)):
        of = table[table["signal"] == title]
        ax.set_title(title, loc="left")
        ax.set_xscale("log", base=2)
        ax.set_xticks([8, 16, 32], ["8", "16", "32"])
        ax.set_xlim(7, 37)
        if of.empty:
            ax.text(0.5, 0.5, "not observed", transform=ax.transAxes, ha="center", color=plots.GREY)
            continue
        colour = plots.PALETTE[i]
        ax.plot(of["max_num_seqs"], of["mean"], color=colour, marker=plots.MARKERS[i])
        whole = of.dropna(subset=["low", "high"])
        ax.vlines(
            whole["max_num_seqs"], whole["low"].astype(float), whole["high"].astype(float), color=colour
        )
        ax.set_ylim(bottom=0, top=1.15 * max(float(of["mean"].max()), 1e-9))
        plots.name_axes(ax, "max_num_seqs", "", y_unit=None)
        ax.set_ylabel(unit)
    return fig


def limits_sentence(records: Sequence[Record]) -> str:
    """What four times as many places buy at the same load."""
    table = limits(records).pivot(index="max_num_seqs", columns="signal", values="mean")
    if not {8, 32} <= set(table.index) or "throughput" not in table:
        return "Only one setting of max_num_seqs was measured here: its effect is not observable."
    x, gap = table["throughput"], table.get("time between tokens")
    slower = (
        "" if gap is None else f", while the time between tokens goes from {gap[8]:.1f} to {gap[32]:.1f} ms"
    )
    return (
        f"From 8 to 32 places throughput goes from {x[8]:.2f} to {x[32]:.2f} req/s ({x[32] / x[8] - 1:+.0%})"
        f"{slower}."
    )


def limits_alt(records: Sequence[Record], study: Study) -> str:
    """Alternative text of `limits_figure`."""
    what = f"Throughput, running, waiting and token gap over max_num_seqs at one load on {named(study)}."
    return f"{what} {limits_sentence(records)}"


# ---- prompt length ---------------------------------------------------------------------------------------

ASKED = {"computed whole": "prompt-{}-whole", "cached": "prompt-{}-cached"}


def lengths(records: Iterable[Record]) -> pd.DataFrame:
    """TTFT in seconds over exact prompt tokens, computed whole and cached; t intervals of the repeats."""
    shown = []
    for name, pattern in ASKED.items():
        for length in ("0.8k", "1.6k", "3.3k"):
            of = [r for r in records if r.params.get("sweep") == pattern.format(length)]
            values = [v for r in of if (v := r.value("client_ttft", "mean")) is not None]
            tokens = next((v for r in of if (v := r.value("prompt_tokens", "mean")) is not None), None)
            if values and tokens:
                found = t_interval(values)
                low, high = found if found else (None, None)
                shown.append((name, round(tokens), sum(values) / len(values), low, high))
    return pd.DataFrame(shown, columns=["prompt", "prompt tokens", "TTFT", "low", "high"])


def lengths_figure(records: Sequence[Record], study: Study) -> Figure:
    """TTFT over prompt tokens: of a prompt that nobody has computed, and of one that is kept."""
    return plots.curves(
        lengths(records),
        "prompt tokens",
        "TTFT",
        "prompt",
        target=study.target.name,
        kind=kinds(study),
        x_unit="tokens",
        y_unit="s",
    )


def lengths_sentence(records: Sequence[Record]) -> str:
    """How TTFT grows with the prompt, both ways."""
    table = lengths(records)
    told = []
    for name, of in table.groupby("prompt", sort=False):
        first, last = of.iloc[0], of.iloc[-1]
        told.append(
            f"{name}, {last['prompt tokens'] / first['prompt tokens']:.1f} times the tokens take "
            f"{last['TTFT'] / first['TTFT']:.2f} times as long ({first['TTFT']:.3f} → {last['TTFT']:.3f} s)"
        )
    return f"To the first token: {'; '.join(told)}." if told else "No prompt length was measured here."


def lengths_alt(records: Sequence[Record], study: Study) -> str:
    """Alternative text of `lengths_figure`."""
    return f"Time to first token over prompt tokens on {named(study)}. {lengths_sentence(records)}"
