"""From the curve to a policy: efficiency, cost per 1,000 valid answers, and what an objective chooses."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator, PercentFormatter

from nlqlib import plots
from nlqlib.analysis.cost import cost_per_1000
from nlqlib.analysis.scaling import scaling_efficiency
from nlqlib.analysis.slo import Choice, OperatingPoint, Policy, policy_table
from nlqlib.analysis.stats import Interval, percentile_estimate
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import article_shown, draw_article
from nlqlib.experiments.sweep_rows import Place, Records, by_concurrency, latencies, places, told, x1

EFFICIENCY = (*(f"dense.efficiency.{n}" for n in (1, 8, 16, 18, 24, 32)),)
REPEATED_EFFICIENCY = (*(f"repeated.efficiency.{n}" for n in (12, 16, 20, 24)),)
COST = (*(f"cost.{n}" for n in (1, 8, 16, 18, 24, 32)),)
ARTICLE_PRICE = 1.0
"""Dollars per hour the article assumes for one L4 (claim `price`)."""


def efficiency(found: Sequence[Place], steady: bool = False) -> dict[int, float | None]:
    """X(N) / (N·X(1)) by concurrency, of whole runs as the article has it, or in steady state."""
    one = x1(found)[1 if steady else 0]
    values = {p.concurrency: p.x_window if steady else p.x_run for p in found}
    return {n: None if x is None else scaling_efficiency(n, x, one) for n, x in values.items()}


def cost(found: Sequence[Place], price_per_hour: float, steady: bool = False) -> dict[int, float | None]:
    """USD per 1,000 valid answers by concurrency."""
    return {p.concurrency: cost_per_1000(p.x_window if steady else p.x_run, price_per_hour) for p in found}


def efficiency_table(records: Records, price_per_hour: float) -> pd.DataFrame:
    """Efficiency and cost by whole run, as the article printed them, and in steady state."""
    found = places(records)
    run, steady = efficiency(found), efficiency(found, steady=True)
    dear, cheap = cost(found, price_per_hour), cost(found, price_per_hour, steady=True)
    shown = {
        p.concurrency: {
            "X run (req/s)": told(p.x_run, ".2f"),
            "X steady (req/s)": told(p.x_window, ".2f"),
            "efficiency, run": told(run[p.concurrency], ".0%"),
            "efficiency, steady": told(steady[p.concurrency], ".0%"),
            "$ per 1,000 valid answers, run": told(dear[p.concurrency], ".3f"),
            "$ per 1,000 valid answers, steady": told(cheap[p.concurrency], ".3f"),
        }
        for p in found
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("concurrency")


def efficiency_figure(records: Records, study: Study, price_per_hour: float) -> Figure:
    """Efficiency and cost over concurrency, the article's points beside ours where it has the same price."""
    found = places(records)
    fig, (left, right) = plots.panels(study.target.name, kinds(study), 2, width_in=10.6, height_in=4.0)
    for steady, colour, label in ((True, 0, "steady"), (False, 4, "whole run")):
        for ax, values in (
            (left, efficiency(found, steady)),
            (right, cost(found, price_per_hour, steady)),
        ):
            drawn = {n: v for n, v in values.items() if v is not None}
            style: Any = {"color": plots.PALETTE[colour], "marker": plots.MARKERS[colour]}
            ax.plot(list(drawn), list(drawn.values()), label=label, **style)
    if article_shown(study):
        draw_article(left, (*EFFICIENCY, *REPEATED_EFFICIENCY))
        if price_per_hour == ARTICLE_PRICE:
            draw_article(right, COST)
    left.yaxis.set_major_formatter(PercentFormatter(1.0))
    left.set_ylim(0, 1.05)
    right.set_yscale("log")
    _dollar_ticks(right)
    plots.name_axes(left, "concurrency", "efficiency X(N) / (N·X(1))", x_unit="requests in flight")
    plots.name_axes(
        right, "concurrency", "cost", x_unit="requests in flight", y_unit="$ per 1,000 valid answers"
    )
    for ax in (left, right):
        ax.set_xlim(left=0)
        plots.label_lines(ax)
    return fig


def _dollar_ticks(ax: Axes) -> None:
    """Plain numbers 1, 2, 5 of each decade on a logarithmic axis."""
    ax.yaxis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def efficiency_sentence(records: Records, price_per_hour: float) -> str:
    """What the last step of concurrency buys, in one sentence."""
    found = places(records)
    shares, dollars = efficiency(found), cost(found, price_per_hour)
    known = [n for n in shares if shares[n] is not None and dollars[n] is not None]
    if len(known) < 2:
        return "Efficiency needs a valid level at concurrency 1 and another: it is missing here."
    first, last = known[0], known[-1]
    return (
        f"From {first} to {last} in flight efficiency falls to {shares[last]:.0%} and a thousand valid "
        f"answers cost {dollars[last]:.3f} instead of {dollars[first]:.3f} USD, at {price_per_hour:.2f} USD "
        "per hour (whole runs)."
    )


def efficiency_alt(records: Records, study: Study, price_per_hour: float) -> str:
    """Alternative text of `efficiency_figure`."""
    return (
        f"Efficiency and cost over concurrency on {named(study)}. "
        f"{efficiency_sentence(records, price_per_hour)}"
    )


def operating_points(records: Records, price_per_hour: float) -> list[OperatingPoint]:
    """Each concurrency as a policy sees it: one throughput for all of them, and p95 with its upper end.

    The throughput is the steady one where every level has it, else that of whole runs (`steady_everywhere`).
    The upper end of p95 is that of the t interval over repeats, as the figures draw it, and from fewer than
    three repeats that of a bootstrap over their good answers.
    """
    repeats, steady = by_concurrency(records), steady_everywhere(records)
    return [
        OperatingPoint(
            p.concurrency,
            x := p.x_window if steady else p.x_run,
            p.p95_s,
            _high(p.p95_interval or _pooled(repeats[p.concurrency])),
            cost_per_1000(x, price_per_hour),
            p.valid,
        )
        for p in places(records)
    ]


def steady_everywhere(records: Records) -> bool:
    """Has every level a window long enough for a steady throughput?"""
    return all(p.x_window is not None for p in places(records))


def _pooled(repeats: Records) -> Interval | None:
    return percentile_estimate(latencies(repeats), 95, seed=0).interval


def _high(interval: Interval | None) -> float | None:
    return None if interval is None else interval.high


def policies(p95_below_s: Sequence[float]) -> list[Policy]:
    """Largest throughput under each bound; lowest cost under the last, and that by p95's upper end too."""
    found = [Policy(f"p95 below {bound:g} seconds", bound) for bound in p95_below_s]
    if not found:
        return []
    last = p95_below_s[-1]
    cheapest = f"lowest cost per query with p95 below {last:g} seconds"
    careful = f"{cheapest}, by the upper end of its interval"
    return [*found, Policy(cheapest, last, "cost"), Policy(careful, last, "cost", cautious=True)]


def choices(records: Records, p95_below_s: Sequence[float], price_per_hour: float) -> tuple[Choice, ...]:
    """What each policy chooses."""
    return policy_table(operating_points(records, price_per_hour), policies(p95_below_s))


def policy_rows(found: Sequence[Choice]) -> pd.DataFrame:
    """Each policy, its choice or that none meets it, and why."""
    shown = {
        c.policy.name: {
            "operate at": "none meets it" if c.point is None else c.point.concurrency,
            "throughput (req/s)": told(c.point.throughput if c.point else None, ".2f"),
            "p95 (s)": told(c.point.p95_s if c.point else None, ".2f"),
            "$ per 1,000": told(c.point.cost_per_1000 if c.point else None, ".3f"),
            "levels that meet it": ", ".join(map(str, c.meeting)) or "—",
            "why": c.reason,
        }
        for c in found
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("policy")


def policy_sentence(found: Sequence[Choice]) -> str:
    """What the objectives choose, in one sentence."""
    told_of = [f"{c.point.concurrency} for {c.policy.name}" for c in found if c.point]
    unmet = [c.policy.name for c in found if c.point is None]
    met = f"Operate at {'; '.join(told_of)}." if told_of else "No objective is met by any level."
    return met + (f" None meets: {'; '.join(unmet)}." if told_of and unmet else "")


def chosen(found: Sequence[Choice], name: str) -> float | None:
    """The concurrency that the policy called `name` chooses."""
    point = next((c.point for c in found if c.policy.name == name), None)
    return None if point is None else float(point.concurrency)


def throughput_used(records: Records) -> str:
    """Which throughput the policies judged: steady, or that of whole runs where some window is too short."""
    if steady_everywhere(records):
        return "steady throughput"
    short = ", ".join(str(p.concurrency) for p in places(records) if p.x_window is None)
    return f"throughput of whole runs (the window at {short} in flight is too short for a steady one)"
