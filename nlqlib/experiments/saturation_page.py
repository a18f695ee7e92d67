"""How the page on saturation shows what lies beyond the engine's limit: plateau, queue and tail."""

from itertools import pairwise
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import article, plots
from nlqlib.analysis.bend import Level, Saturation, saturation
from nlqlib.analysis.stats import percentile
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import load_figure
from nlqlib.experiments.sweep_rows import Place, Records, by_concurrency, latencies, places, rows, told

ARTICLE_X = (*(f"saturation.throughput.{n}" for n in (40, 48, 32)), "after.throughput.32")
ARTICLE_P95 = (*(f"saturation.p95.{n}" for n in (40, 48, 32)), "after.p95.32")


def saturated(records: Records, steady: bool = False) -> Saturation:
    """Where throughput stops gaining while p95 rises; by whole runs, or in steady state."""
    return saturation([level for p in places(records) if (level := _level(p, steady)) is not None])


def _level(place: Place, steady: bool) -> Level | None:
    x = place.x_window if steady else place.x_run
    interval = place.x_window_interval if steady else place.x_run_interval
    if x is None or not place.valid:
        return None
    return Level(place.concurrency, x, interval, place.p95_s)


def saturation_table(records: Records) -> pd.DataFrame:
    """The verdict by both throughputs, with its reason."""
    found = {"whole run": saturated(records), "steady": saturated(records, steady=True)}
    shown = {
        name: {"verdict": s.status, "at": told(s.at, ".0f"), "reason": s.reason} for name, s in found.items()
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("throughput")


def plateau_table(records: Records, max_num_seqs: int) -> pd.DataFrame:
    """Each concurrency: gain over the one before, p50 and p95, and p95 in units of the level at the limit."""
    found = places(records)
    medians = rows(records).groupby("concurrency")["p50"].mean() if found else pd.Series(dtype=float)
    at_limit = next((p.p95_s for p in found if p.concurrency == max_num_seqs), None)
    shown = {}
    for before, place in zip([None, *found], found, strict=False):
        gain = place.x_run / before.x_run - 1 if before and before.x_run and place.x_run else None
        tail = place.p95_s / at_limit if place.p95_s and at_limit else None
        shown[place.concurrency] = {
            "X run (req/s)": told(place.x_run, ".2f"),
            "X steady (req/s)": told(place.x_window, ".2f"),
            "gain on the level before": told(gain, "+.1%"),
            "p50 (s)": told(medians.get(place.concurrency), ".2f"),
            "p95 (s)": told(place.p95_s, ".2f"),
            f"p95 / p95 at {max_num_seqs}": told(tail, ".2f"),
        }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("concurrency")


def queue_table(records: Records, max_num_seqs: int) -> pd.DataFrame:
    """Running and waiting beside what a limit of `max_num_seqs` foretells, and the queue by Little's law."""
    table = rows(records)
    if table.empty:
        return pd.DataFrame({"running": []}).rename_axis("concurrency")
    means = table.groupby("concurrency")[
        ["running", "running_max", "waiting", "waiting_max", "queue", "x_window"]
    ].mean()
    shown = {
        int(n): {
            "running, mean (max)": f"{told(row['running'], '.1f')} ({told(row['running_max'], '.0f')})",
            "waiting, mean (max)": f"{told(row['waiting'], '.1f')} ({told(row['waiting_max'], '.0f')})",
            "waiting foretold, at most": max(0, int(n) - max_num_seqs),
            "queue time, mean (s)": told(row["queue"], ".3f"),
            "X · queue time": told(row["x_window"] * row["queue"], ".1f"),
        }
        for n, row in means.iterrows()
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("concurrency")


def beyond_figure(records: Records, study: Study, max_num_seqs: int) -> Figure:
    """Throughput and p95 over concurrency, with the engine's limit of running sequences as a line."""
    fig = load_figure(records, study, ARTICLE_X, ARTICLE_P95)
    for ax in fig.axes:
        ax.axvline(max_num_seqs, color=plots.GREY, lw=1, ls=":")
    fig.axes[0].annotate(
        f"max_num_seqs = {max_num_seqs}", (max_num_seqs, 0), (-4, 6), textcoords="offset points",
        ha="right", color=plots.GREY, fontsize=9.5,
    )  # fmt: skip
    return fig


def queue_figure(records: Records, study: Study, max_num_seqs: int) -> Figure:
    """Mean running and waiting sequences on the server over concurrency."""
    table = rows(records)
    fig, ax = plots.figure(study.target.name, kinds(study), height_in=3.8)
    for i, (name, column) in enumerate((("running", "running"), ("waiting", "waiting"))):
        seen = table.dropna(subset=[column]).groupby("concurrency")[column].mean()
        if len(seen):
            style: Any = {"color": plots.PALETTE[i], "marker": plots.MARKERS[i]}
            ax.plot(seen.index, seen.to_numpy(), label=name, **style)
    if not ax.lines:
        ax.text(0.5, 0.5, "not observed: this target shows no metrics", transform=ax.transAxes, ha="center")
    ax.axhline(max_num_seqs, color=plots.GREY, lw=1, ls=":")
    ax.annotate(
        f"max_num_seqs = {max_num_seqs}",
        (0, max_num_seqs),
        (4, 3),
        textcoords="offset points",
        color=plots.GREY,
        fontsize=9.5,
    )
    ax.set_ylim(bottom=-1)
    ax.set_xlim(left=0)
    plots.name_axes(ax, "concurrency", "sequences on the server", x_unit="requests in flight", y_unit="mean")
    plots.label_lines(ax)
    return fig


def beyond_sentence(records: Records, max_num_seqs: int) -> str:
    """What lies beyond the limit, in one sentence."""
    found = places(records)
    here = next((p for p in found if p.concurrency == max_num_seqs), None)
    past = [p for p in found if p.concurrency > max_num_seqs and p.x_run and p.p95_s]
    if here is None or not here.x_run or not here.p95_s or not past:
        return f"Nothing valid was measured both at {max_num_seqs} and beyond, so no plateau can be shown."
    last = past[-1]
    gain, tail = (last.x_run or 0.0) / here.x_run - 1, (last.p95_s or 0.0) / here.p95_s
    return (
        f"From {here.concurrency} to {last.concurrency} in flight throughput changes by {gain:+.1%} and p95 "
        f"is {tail:.1f} times as long: the requests beyond the limit wait."
    )


def queue_sentence(records: Records, max_num_seqs: int) -> str:
    """Whether the limit is what holds requests back, in one sentence."""
    table = rows(records)
    seen = table.dropna(subset=["running_max", "waiting_max"]) if len(table) else table
    if seen.empty:
        return (
            "This target shows no metrics: running and waiting are missing, so the limit is not observable."
        )
    below, past = (seen[seen["concurrency"] <= max_num_seqs], seen[seen["concurrency"] > max_num_seqs])
    most, early = seen["running_max"].max(), below["waiting_max"].max() if len(below) else float("nan")
    late = past["waiting"].mean() if len(past) else None
    return (
        f"Never more than {most:.0f} sequences ran; up to {max_num_seqs} in flight at most "
        f"{told(early, '.0f')} waited, beyond it {told(late, '.1f')} on average."
    )


def beyond_alt(records: Records, study: Study, max_num_seqs: int) -> str:
    """Alternative text of `beyond_figure`."""
    return f"Throughput and p95 over concurrency on {named(study)}. {beyond_sentence(records, max_num_seqs)}"


def queue_alt(records: Records, study: Study, max_num_seqs: int) -> str:
    """Alternative text of `queue_figure`."""
    what = f"Running and waiting sequences over concurrency on {named(study)}."
    return f"{what} {queue_sentence(records, max_num_seqs)}"


def waves_table(records: Records, max_num_seqs: int) -> pd.DataFrame:
    """Shares of good answers by how many medians at the limit they took, for each concurrency."""
    seconds = {n: latencies(r) for n, r in by_concurrency(records).items()}
    unit = percentile(seconds.get(max_num_seqs, []), 50)
    if not unit:
        return pd.DataFrame({"why": [f"nothing was measured at {max_num_seqs}"]})
    edges = (0.0, 1.25, 1.75, 2.25, float("inf"))
    shown = {
        n: {
            _band(low, high): told(_within(values, low * unit, high * unit), ".0%")
            for low, high in pairwise(edges)
        }
        for n, values in seconds.items()
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("concurrency")


def _band(low: float, high: float) -> str:
    if not low:
        return f"below {high:g}"
    return f"{low:g} to {high:g}" if high < float("inf") else f"{low:g} and more"


def _within(values: list[float], low: float, high: float) -> float | None:
    return sum(low <= v < high for v in values) / len(values) if values else None


def waves_sentence(records: Records, max_num_seqs: int) -> str:
    """Which share of requests waits for a second service at the largest concurrency."""
    seconds = {n: latencies(r) for n, r in by_concurrency(records).items()}
    unit, last = percentile(seconds.get(max_num_seqs, []), 50), max(seconds, default=0)
    share = _within(seconds.get(last, []), 1.25 * (unit or 0.0), float("inf")) if unit else None
    if share is None or last <= max_num_seqs:
        return f"Nothing was measured both at {max_num_seqs} and beyond it."
    return f"At {last} in flight {share:.0%} of the answers take 1.25 medians of {max_num_seqs} and more."


def short_table(records: Records, short: Records) -> pd.DataFrame:
    """p50 and p95 of full levels, of levels with the article's 150 requests, and as the article has them."""
    runs = {"full": _latency_means(records), "150 requests": _latency_means(short)}
    shown = {}
    for n in (32, 40, 48):
        shown[n] = {
            f"{stat} (s), {name}": told(table[stat].get(n), ".2f")
            for stat in ("p50", "p95")
            for name, table in runs.items()
        } | {f"{stat}, article": article.claim(f"saturation.{stat}.{n}").printed for stat in ("p50", "p95")}
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("concurrency")


def _latency_means(records: Records) -> pd.DataFrame:
    """p50 and p95 by concurrency, means over the repeats."""
    table = rows(records)
    if table.empty:
        return pd.DataFrame({"p50": [], "p95": []})
    return table.groupby("concurrency")[["p50", "p95"]].mean()


def short_sentence(records: Records, short: Records) -> str:
    """How the median depends on the length of the run, at the largest concurrency of both."""
    if not short:
        return "In the quick profile every level is shorter than the article's, so nothing is set beside it."
    full, few = (_latency_means(r)["p50"] for r in (records, short))
    n = max(set(full.index) & set(few.index), default=None)
    if n is None:
        return "No concurrency was measured at both lengths."
    return (
        f"At {n} in flight the median is {full[n]:.2f} s in a full run and {few[n]:.2f} s with 150 requests."
    )


def verdict_sentence(records: Records) -> str:
    """Where the endpoint is saturated, by whole runs."""
    found = saturated(records)
    if found.at is None:
        return f"By whole runs: {found.status}; {found.reason}."
    return f"By whole runs the endpoint is saturated at {found.at:.0f} requests in flight: {found.reason}."
