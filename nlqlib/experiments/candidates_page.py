"""How the page on candidates shows them: one table, contracts and prices, two figures, from records alone."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import PercentFormatter

from nlqlib import article, plots
from nlqlib.analysis.stats import percentile, percentile_estimate
from nlqlib.artifacts import Record
from nlqlib.experiments.candidates import Candidate, Cost, Measurements, cost, seconds
from nlqlib.experiments.candidates_notes import beside
from nlqlib.experiments.captions import kinds
from nlqlib.experiments.condition_report import shown
from nlqlib.experiments.heldout import Found, correctness, report, rows
from nlqlib.experiments.heldout_article import share_named
from nlqlib.experiments.heldout_page import indexed, percent, silent
from nlqlib.experiments.study import Study
from nlqlib.records import Json

MISSING = "not measured here"
GATE = 0.90
"""The article's target for final accuracy on the holdout."""
SEED = 14
ERRORS = 3
"""Commonest errors that the table names."""
Axis = Literal["seconds", "cost"]
AXES: dict[Axis, tuple[str, str]] = {
    "seconds": ("p50 latency of a question", "s"),
    "cost": ("cost of 1,000 questions", "USD"),
}


def candidates_table(found: Measurements, candidates: Sequence[Candidate], study: Study) -> pd.DataFrame:
    """The article's metrics for every candidate on every set; what nobody measured says so."""
    table = {
        (source, c.name): _line(c, records.get(c.name), study)
        for source, records in found.items()
        for c in candidates
    }
    return indexed(table, "set", "candidate").replace("n/a", "—")


def _line(candidate: Candidate, record: Record | None, study: Study) -> Json:
    if record is None or not rows(record):
        reason = MISSING if record is None else silent(record) or "no answer"
        return dict.fromkeys(("raw strict", "final strict"), reason) | {"tests": candidate.tests}
    told = report(record)
    spent = seconds(rows(record))
    costs = cost(candidate, record, study.target.name)
    return {
        "raw strict": shown(share_named(told["raw"], "strict accuracy")),
        "final strict": shown(told["forced strict accuracy"]),
        **_corrected(candidate, told),
        "p50 / p95 (s)": f"{_number(percentile(spent, 50))} / {_number(percentile(spent, 95))}",
        "output tokens": _number(told["serving"]["output_tokens"]["mean"], ".0f"),
        "USD per 1,000": _number(costs.value),
        "failed": told["failed"],
        "tests": candidate.tests,
    }


def _corrected(candidate: Candidate, told: Json) -> Json:
    """What the correction did; that of a candidate that asks the user stands in a table of its own."""
    did = told["interventions"]
    apart = dict.fromkeys(("precision", "recall", "commonest errors left"), "asks back: below")
    return (
        {
            "precision": shown(did["precision"]),
            "recall": shown(did["recall"]),
            "commonest errors left": _commonest(told),
        }
        if candidate.forced
        else apart
    )


def _commonest(told: Json) -> str:
    left = [(name, n) for name, n in told["errors"]["final"].items() if not name.startswith("guard")]
    return ", ".join(f"{name} {n}" for name, n in left[:ERRORS]) or "none"


def _number(value: float | None, form: str = ".3g") -> str:
    return "n/a" if value is None else f"{value:{form}}"


def contracts_table(candidates: Sequence[Candidate]) -> pd.DataFrame:
    """Every service: model, protocol, output contract, names of variables, price with its month."""
    table = {}
    for service in dict.fromkeys(c.service for c in candidates):
        tokens, hour = service.prices.tokens, service.prices.per_hour
        priced = f"{hour} per hour of one {service.accelerator}" if hour is not None else ""
        if tokens is not None:
            priced = f"{tokens.input} in, {tokens.output} out per million tokens"
        table[service.name] = {
            "model": service.model or "what the target serves",
            "protocol": "Bedrock Converse" if service.kind == "converse" else "OpenAI chat",
            "output contract": service.contract,
            "variables": ", ".join(v for v in (service.url_env, service.key_env) if v) or "none",
            "price (USD)": f"{priced} ({service.as_of})",
        }
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("service")


def cost_sentence(found: Measurements, candidates: Sequence[Candidate], study: Study) -> str:
    """At which operating point a cost was reckoned, in words."""
    bases = [costs.basis for _, _, costs in _costs(found, candidates, study)]
    told = "; ".join(dict.fromkeys(bases)) or "nothing was measured"
    return (
        f"Costs assume: {told}. A machine's cost is its price over the rate N / R of a closed loop of N "
        "requests whose questions take R on average: idle time is not in it. Tokens are at list prices."
    )


def _costs(
    found: Measurements, candidates: Sequence[Candidate], study: Study
) -> list[tuple[str, Candidate, Cost]]:
    return [
        (source, c, cost(c, record, study.target.name))
        for source, records in found.items()
        for c in candidates
        if (record := records.get(c.name)) is not None and rows(record)
    ]


def asking_table(found: Measurements, candidates: Sequence[Candidate]) -> pd.DataFrame:
    """Candidates that ask the user, apart from the others: asked, and right if the user always is."""
    table = {
        (source, c.name): _asking(records.get(c.name))
        for source, records in found.items()
        for c in candidates
        if not c.forced
    }
    return indexed(table, "set", "candidate")


def _asking(record: Record | None) -> Json:
    columns = ("asked the user", "strict, the user always right")
    missing = MISSING if record is None else silent(record)
    if record is None or missing:
        return dict.fromkeys(columns, missing)
    told = report(record)
    shares = (told["interventions"]["asked"], share_named(told["final"], "strict accuracy"))
    return dict(zip(columns, map(shown, shares), strict=True))


@dataclass(frozen=True)
class Point:
    """One candidate in a figure."""

    name: str
    x: float
    x_interval: tuple[float, float] | None
    y: float
    low: float
    high: float


def figure_points(
    found: Measurements, candidates: Sequence[Candidate], study: Study, source: str, axis: Axis
) -> list[Point]:
    """The forced candidates that were measured on `source`, with both intervals."""
    made = []
    for c in (c for c in candidates if c.forced):
        record = found[source].get(c.name)
        if record is None:
            continue
        right, (x, interval) = correctness(record), _x(c, record, study, axis)
        if x is not None and right.value is not None and right.low is not None and right.high is not None:
            made.append(Point(c.name, x, interval, right.value, right.low, right.high))
    return made


def _together(points: Sequence[Point]) -> list[Point]:
    """Points in one place as one, under all of their names: none hides another."""
    places: dict[tuple[float, float], list[Point]] = {}
    for p in points:
        places.setdefault((p.x, p.y), []).append(p)
    return [replace(same[0], name=" = ".join(p.name for p in same)) for same in places.values()]


def _x(
    c: Candidate, record: Record, study: Study, axis: Axis
) -> tuple[float | None, tuple[float, float] | None]:
    if axis == "cost":
        costs = cost(c, record, study.target.name)
        return costs.value, costs.interval
    spent = seconds(rows(record))
    told = percentile_estimate(spent, 50, seed=SEED) if spent else None
    return (told.value, told.interval) if told else (None, None)


def trade_figure(
    found: Measurements, candidates: Sequence[Candidate], study: Study, source: str, axis: Axis
) -> Figure:
    """Final strict accuracy on `source` against latency or cost, both with 95 % intervals, and the gate."""
    what, unit = AXES[axis]
    fig, ax = plots.figure(study.target.name, kinds(study, "recordings"))
    for i, p in enumerate(_together(figure_points(found, candidates, study, source, axis))):
        style: Any = {"color": plots.PALETTE[i % len(plots.PALETTE)]}
        ax.vlines(p.x, p.low, p.high, lw=1.4, **style)
        if p.x_interval:
            ax.hlines(p.y, *p.x_interval, lw=1.4, **style)
        ax.plot([p.x], [p.y], plots.MARKERS[i % len(plots.MARKERS)], label=p.name, ms=8, **style)
    ax.axhline(GATE, color=plots.GREY, ls=":", lw=1.2)
    ax.text(
        0.005,
        GATE - 0.06,
        "the article's gate",
        color=plots.GREY,
        fontsize=9,
        transform=ax.get_yaxis_transform(),
    )
    ax.set_ylim(0, 1.02)
    ax.set_xlim(left=0)
    ax.yaxis.set_major_formatter(PercentFormatter(1.0))
    plots.name_axes(ax, f"{what}{beside(found)}", f"right in every field, {source}", x_unit=unit)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    else:
        ax.text(
            0.5, 0.3, f"no candidate measured here has a known {what}", ha="center", transform=ax.transAxes
        )
    return fig


def trade_alt(
    found: Measurements, candidates: Sequence[Candidate], study: Study, source: str, axis: Axis
) -> str:
    """Alternative text of `trade_figure`."""
    what, unit = AXES[axis]
    parts = [
        f"{p.name} {p.y:.0%} at {p.x:.3g} {unit}"
        for p in figure_points(found, candidates, study, source, axis)
    ]
    note = plots.target_note(study.target.name, kinds(study, "recordings"))
    return (
        f"Share of {source} right in every field against {what}{beside(found)}, with 95 % intervals; {note}. "
        f"{'; '.join(parts) or 'No candidate was measured'}."
    )


def gate_sentence(found: Measurements, candidates: Sequence[Candidate], study: Study, source: str) -> str:
    """Which candidates reach the gate on `source`, and the cheapest of them."""
    reached = [
        (cost(c, record, study.target.name).value, c.name, percent(correctness(record)))
        for c in candidates
        if c.forced and (record := found[source].get(c.name)) is not None
        if (correctness(record).value or 0.0) >= GATE
    ]
    if not reached:
        return f"No candidate that was measured reaches {GATE:.0%} on {source}."
    names = ", ".join(f"{name} ({right})" for _, name, right in reached)
    priced = [(dollars, name) for dollars, name, _ in reached if dollars is not None]
    cheapest = (
        f" The cheapest of them is {min(priced)[1]}, at {min(priced)[0]:.3g} USD per 1,000." if priced else ""
    )
    return f"On {source} these reach {GATE:.0%} without asking back: {names}.{cheapest}"


def against_article(found: Measurements, candidates: Sequence[Candidate], study: Study) -> pd.DataFrame:
    """The article's range of final accuracy and its gate, beside the guarded and the best candidate here."""
    here: Found = {
        source: {n: r for n, r in records.items() if r is not None} for source, records in found.items()
    }
    holdout = here.get("holdout", {})
    values = {c: correctness(holdout[c.name]).value for c in candidates if c.forced and c.name in holdout}
    guarded = [v for c, v in values.items() if c.service.here and c.condition.name == "guardrail"]
    known = [v for v in values.values() if v is not None]
    pairs = [
        ("holdout.final.range", guarded[0] if guarded else None),
        ("gate", max(known) if known else None),
    ]
    return article.comparison_table(pairs, target=study.target.name, tag=study.target.tag)


def told_kinds(study: Study) -> str:
    """How the numbers of a mixed table came about: answers, and times where the twin models them."""
    return ", ".join(plots.KIND_WORDS[kind] for kind in kinds(study, "recordings"))
