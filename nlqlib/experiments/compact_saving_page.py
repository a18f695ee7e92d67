"""How the page on output tokens shows what is saved: tokens × inter-token latency against time."""

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.compactness import Effect, Pair, Saving, pairs, saving
from nlqlib.analysis.stats import percentile
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import kinds
from nlqlib.experiments.compact import Plan, itl_s, timed_said
from nlqlib.experiments.compact_effects_page import WHOLE
from nlqlib.experiments.compact_page import mean_tokens, told
from nlqlib.experiments.output_contracts import PRETTY
from nlqlib.experiments.study import Study

NOT_SEEN = "not observable here (no pair of whole, timed answers)"


def savings(timed: Record, plan: Plan, only: Sequence[Effect] = WHOLE) -> dict[str, Saving]:
    """What each timed form saves against the pretty one, over the pairs whose effect is in `only`."""
    first = timed_said(timed, PRETTY.name)
    names = [name for name in _timed_forms(timed, plan) if name != PRETTY.name]
    return {name: saving(pairs(first, timed_said(timed, name)), itl_s(timed), only) for name in names}


def _timed_forms(timed: Record, plan: Plan) -> list[str]:
    """The forms that were timed on the set of `timed`."""
    there = {row["form"] for row in timed.samples()}
    return [form.name for form in plan.timed if form.name in there]


def savings_table(timings: Mapping[str, Record], plan: Plan) -> pd.DataFrame:
    """Tokens saved × inter-token latency against the difference of latencies: honoured pairs, then all."""
    rows = [
        {"set": source, "form": name, "pairs": f"{over} ({one.n})", **_saving_row(one)}
        for source, timed in timings.items()
        for over, only in (("honoured", ("honoured",)), ("all whole", WHOLE))
        for name, one in savings(timed, plan, only).items()
    ]
    index = ["set", "form", "pairs"]
    table = pd.DataFrame(rows, columns=None if rows else index)
    return table.sort_values(["set", "form"], kind="stable").set_index(index)


def _saving_row(one: Saving) -> dict[str, str]:
    within = one.measured.interval
    return {
        "tokens saved": told(one.tokens.value, ".1f"),
        "predicted (s)": told(one.predicted_s, ".3f"),
        "found (s)": told(one.measured.value, ".3f"),
        "95 % interval": "—" if within is None else f"{within.low:.3f} to {within.high:.3f}",
        "found / predicted": told(one.ratio, ".3f"),
    }


def savings_sentence(timings: Mapping[str, Record], plan: Plan, study: Study) -> str:
    """How well tokens × ITL foretells the saving on each set."""
    return " ".join(
        f"Set {source} ({plan.timed_of(source)}): {_foretells(timed, plan, study)}"
        for source, timed in timings.items()
    )


def _foretells(timed: Record, plan: Plan, study: Study) -> str:
    each = itl_s(timed)
    found = {name: one for name, one in savings(timed, plan).items() if one.ratio is not None}
    if each is None or not found:
        return "no pair of whole, timed answers, nothing is foretold."
    ratios = [one.ratio for one in found.values() if one.ratio is not None]
    return (
        f"at {1000 * each:.1f} ms a token ({study.target.time_tag}; pretty answers, first token excluded) "
        f"the difference of latencies is {min(ratios):.2f} to {max(ratios):.2f} times what tokens foretell."
    )


def savings_figure(timed: Record, plan: Plan, study: Study) -> Figure:
    """Every pair: seconds foretold by its tokens against seconds found."""
    fig, ax = plots.figure(study.target.name, kinds(study, "recordings"), height_in=4.0)
    each = itl_s(timed)
    clouds = {name: _foretold(both, each) for name, both in _timed_pairs(timed, plan).items()}
    if not any(clouds.values()):
        return _unseen(fig, ax)
    ends = [0.0]
    looks = zip(plots.PALETTE * 2, plots.MARKERS * 2, strict=True)
    for (name, known), (colour, marker) in zip(clouds.items(), looks, strict=False):
        x, y = [a for a, _ in known], [b for _, b in known]
        ax.scatter(x, y, s=24, color=colour, marker=marker, alpha=0.7, label=name)
        ends += [*x, *y]
    low, high = min(ends), max(ends)
    ax.plot([low, high], [low, high], color=plots.GREY, lw=1, marker="", label="_foretold = found")
    beside: Any = {"textcoords": "offset points", "ha": "right", "color": plots.GREY, "fontsize": 9.5}
    ax.annotate("foretold = found", (high, high), (-12, 0), **beside)
    plots.name_axes(ax, "tokens saved × inter-token latency", "latency saved", x_unit="s", y_unit="s")
    # a legend: the clouds of all forms lie on one another along the line, so no place names one alone
    ax.legend(frameon=False, fontsize=9.5)
    return fig


def _unseen(fig: Figure, ax: Axes) -> Figure:
    """No pair of whole, timed answers, or no time of a token."""
    ax.text(0.5, 0.5, NOT_SEEN, transform=ax.transAxes, ha="center", color=plots.GREY)
    ax.set_axis_off()
    return fig


def _foretold(both: Sequence[Pair], each_s: float | None) -> list[tuple[float, float]]:
    """Seconds foretold and found of each whole pair; none where no time of a token is known."""
    if each_s is None:
        return []
    known = [(p.tokens_saved, p.saved_s) for p in both]
    return [(saved * each_s, found) for saved, found in known if saved is not None and found is not None]


def _timed_pairs(timed: Record, plan: Plan) -> dict[str, list[Pair]]:
    first = timed_said(timed, PRETTY.name)
    others = [name for name in _timed_forms(timed, plan) if name != PRETTY.name]
    return {name: pairs(first, timed_said(timed, name)) for name in others}


def savings_alt(timed: Record, plan: Plan, study: Study) -> str:
    """Alternative text of `savings_figure`."""
    parts = [
        f"{name} {told(one.measured.value, '.2f', ' s')} found, {told(one.predicted_s, '.2f', ' s')} foretold"
        for name, one in savings(timed, plan).items()
        if one.measured.value is not None and one.predicted_s is not None
    ]
    return f"Latency saved against tokens saved times inter-token latency, target {study.target.name}. " + (
        f"Means: {'; '.join(parts)}." if parts else f"Nothing is shown: {NOT_SEEN}."
    )


def latency_table(timings: Mapping[str, Record], plan: Plan) -> pd.DataFrame:
    """Latency in turn of each timed form on each set, whole answers alone."""
    rows = [
        {"set": source, "form": name, **_latency_row(timed, name)}
        for source, timed in timings.items()
        for name in _timed_forms(timed, plan)
    ]
    index = ["set", "form"]
    return pd.DataFrame(rows, columns=None if rows else index).set_index(index)


def _latency_row(timed: Record, form: str) -> dict[str, str]:
    answers = timed_said(timed, form)
    known = latencies(timed, form)
    return {
        "whole answers": f"{sum(one.whole for one in answers)} of {len(answers)}",
        "tokens, mean": told(mean_tokens(answers), ".1f"),
        "p50 (s)": told(percentile(known, 50), ".3f"),
        "p95 (s)": told(percentile(known, 95), ".3f"),
    }


def latencies(timed: Record, form: str) -> list[float]:
    """End-to-end seconds of the whole answers in `form`, asked in turn."""
    return [one.e2e_s for one in timed_said(timed, form) if one.whole and one.e2e_s is not None]


def p50(timed: Record, form: str) -> float | None:
    """Median of `latencies`."""
    return percentile(latencies(timed, form), 50)
