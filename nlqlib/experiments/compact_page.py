"""How the page on output tokens shows what was found: the probe, tokens and effects, from records alone."""

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nlqlib import plots, tokens
from nlqlib.analysis.compactness import (
    EFFECTS,
    Effect,
    Pair,
    Said,
    effects,
    layout,
    minified,
    pairs,
)
from nlqlib.artifacts import Record
from nlqlib.experiments.compact import Plan, said
from nlqlib.experiments.contract_probe import Finding, already_compact, findings, honoured, ignored
from nlqlib.experiments.output_contracts import FORMS, PRETTY
from nlqlib.experiments.study import Study
from nlqlib.plots_labels import luminance

Records = Mapping[str, Record]
"""Evaluations of one set, by form."""
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


def told(value: float | None, form: str, unit: str = "") -> str:
    """`value` in `form` with its `unit`; a dash where it is missing."""
    return "—" if value is None else f"{value:{form}}{unit}"


# ---- the probe -------------------------------------------------------------------------------------------


def probe_table(record: Record) -> pd.DataFrame:
    """One row for each way of asking."""
    rows = [
        {
            "request field": one.field,
            "should bring": one.promises,
            "verdict": one.verdict,
            "because": one.reason,
            "answer": " ".join((one.text or "—").split("\n")),
        }
        for one in findings(record)
    ]
    return pd.DataFrame(rows).set_index("request field")


def probe_sentence(record: Record) -> str:
    """What the server honours, what it silently ignores, and what follows."""
    return found_sentence(findings(record))


def found_sentence(found: Sequence[Finding]) -> str:
    """The same of the findings alone."""
    able, lost = honoured(found), ignored(found)
    compact = [name for name in able if name != PRETTY.name]
    parts = [
        f"Silently ignored, with HTTP 200: {_listed(lost)}." if lost else "No field was silently ignored.",
        f"Honoured with each request: {_listed(compact)}." if compact else _no_way(found),
    ]
    unheard = [one.field for one in found if one.verdict in ("no answer", "cut")]
    return " ".join([*parts, *([f"No verdict on {_listed(unheard)}."] if unheard else [])])


def _no_way(found: Sequence[Finding]) -> str:
    if already_compact(found):
        return "The server writes minified JSON without being asked: a flag of its own is set."
    return "No way of asking for minified JSON in a request is honoured: a prompt or a server flag is left."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def unheard_sentence(plan: Plan) -> str:
    """Which forms the twin cannot replay, and how they are recorded; empty where there are none."""
    lost = {source: names for source, names in plan.unheard.items() if names and source in plan.sets}
    if not lost:
        return ""
    told_of = "; ".join(f"{source}: {', '.join(names)}" for source, names in lost.items())
    return f"Never recorded, so left out here (`nlqlib record --condition …` on a real engine): {told_of}."


def forms_table(plan: Plan) -> pd.DataFrame:
    """What is compared, and by what it is made compact."""
    rows = {
        form.name: {
            "is": form.says,
            "prompt": form.prompt,
            "contract": form.contract,
            "enforced by": form.enforced,
        }
        for form in plan.forms
    }
    made = dict.fromkeys(("prompt", "contract"), "—") | {"is": "the pretty answer, minified afterwards"}
    made["enforced by"] = "nothing"
    return pd.DataFrame.from_dict({**rows, "post_parse": made}, orient="index").rename_axis("form")


# ---- tokens ----------------------------------------------------------------------------------------------


def tokens_table(found: Records) -> pd.DataFrame:
    """Tokens, characters and layouts of each form; what was cut or failed is counted, and in no mean."""
    rows = {name: _tokens_row(said(record)) for name, record in found.items()}
    rows["post_parse"] = post_parse_row(said(found[PRETTY.name]))
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("form")


def _tokens_row(answers: Sequence[Said]) -> dict[str, str]:
    whole = [one for one in answers if one.whole]
    layouts = [layout(one.text) for one in whole]
    return {
        "whole answers": f"{len(whole)} of {len(answers)}",
        "cut": str(sum(one.outcome == "length" for one in answers)),
        "compact": str(layouts.count("compact")),
        "with spaces": str(layouts.count("spaced")),
        "pretty": str(layouts.count("pretty")),
        "no JSON": str(layouts.count("no JSON")),
        "generated tokens, mean": told(mean_tokens(answers), ".1f"),
        "characters, mean": told(mean_characters(answers), ".0f"),
        "tokens of the text, mean": told(mean_tokens(answers), ".1f"),
    }


def post_parse_row(pretty: Sequence[Said]) -> dict[str, str]:
    """The pretty answers minified afterwards: fewer characters, and the same tokens generated."""
    texts = post_parse(pretty)
    row = _tokens_row(pretty)
    layouts = dict.fromkeys(("with spaces", "pretty", "no JSON"), "0")
    shorter = statistics.fmean(len(tokens.encode(t)) + 1 for t in texts) if texts else None
    characters = statistics.fmean(map(len, texts)) if texts else None
    return (
        row
        | layouts
        | {
            "compact": str(len(texts)),
            "characters, mean": told(characters, ".0f"),
            "tokens of the text, mean": told(shorter, ".1f"),
        }
    )


def post_parse(pretty: Sequence[Said]) -> list[str]:
    """The whole pretty answers, minified; those that hold no JSON are left out."""
    return [text for one in pretty if one.whole and (text := minified(one.text)) is not None]


def mean_tokens(answers: Sequence[Said]) -> float | None:
    """Output tokens of the whole answers."""
    known = [one.output_tokens for one in answers if one.whole and one.output_tokens is not None]
    return statistics.fmean(known) if known else None


def mean_characters(answers: Sequence[Said]) -> float | None:
    """Characters of the whole answers."""
    known = [len(one.text) for one in answers if one.whole and one.text is not None]
    return statistics.fmean(known) if known else None


def tokens_sentence(found: Records) -> str:
    """The mean lengths against the pretty form, in one sentence."""
    first = mean_tokens(said(found[PRETTY.name]))
    if not first:
        return "No whole pretty answer: there is nothing to compare with."
    means = {name: mean_tokens(said(record)) for name, record in found.items() if name != PRETTY.name}
    parts = [
        f"{name} {mean:.0f} ({mean / first - 1:+.0%})" for name, mean in means.items() if mean is not None
    ]
    return (
        f"A pretty answer takes {first:.0f} tokens on average; {', '.join(parts)}. Minifying afterwards "
        "saves characters and none of the tokens that were generated."
    )


def tokens_figure(found: Records, study: Study) -> Figure:
    """Output tokens of every whole answer, by form."""
    rows = [
        {"form": name, "tokens": one.output_tokens}
        for name, record in found.items()
        for one in said(record)
        if one.whole
    ]
    return plots.strip(
        pd.DataFrame(rows), "tokens", by="form", unit="tokens", target=study.target.name,
        kind=study.target.tag, x="output tokens of an answer",
    )  # fmt: skip


def tokens_alt(found: Records, study: Study) -> str:
    """Alternative text of `tokens_figure`."""
    means = {name: mean_tokens(said(record)) for name, record in found.items()}
    parts = ", ".join(f"{name} {mean:.0f}" for name, mean in means.items() if mean is not None)
    return f"Output tokens of each answer on target {study.target.name}, one row per form. Means: {parts}."


# ---- what asking does ------------------------------------------------------------------------------------


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
    full = [name for name, c in forced.items() if c["honoured"] == sum(c.values()) - c["unpaired"]]
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
