"""How the page on propagation shows what is in the scheduler: the fullest moment, one scrape, all samples."""

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.factorial_page import depth_at
from nlqlib.experiments.propagation_gauges import (
    Together,
    gauges,
    inside_by_timers,
    lags,
    shown_on_average,
    together,
)
from nlqlib.experiments.saved_levels import completions_of
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import told

NO_METRICS = "Whether requests run or wait in the engine is not observable here: it shows no metrics."


def scrape_table(record: Record, study: Study) -> pd.DataFrame:
    """The fullest moment of all samples, one whole scrape, and the mean over the level, side by side."""
    middle, how, full = record.results.get("middle") or {}, construction(study), together(record)
    top = (record.value("in_flight", "peak"), full.running if full else None, full.waiting if full else None)
    wanted = (
        ("requests in flight, by the client", top[0], "in_flight", ".0f", ("in_flight", "mean"), how),
        ("requests running", top[1], "running", ".0f", ("running", "mean"), how),
        ("requests waiting", top[2], "waiting", ".0f", ("waiting", "mean"), how),
        ("KV blocks in use", None, "kv_usage", ".2%", None, study.target.time_tag),
        ("KV blocks in all", None, "blocks", ".0f", None, "configured"),
    )
    shown = [
        {
            "quantity": name,
            "fullest moment": told(most, form),
            "one scrape": told(middle.get(key), form),
            "mean over the level": told(record.value(*mean), ".1f") if mean else "—",
            "how it came about": tag if middle.get(key) is not None or most is not None else "missing",
        }
        for name, most, key, form, mean, tag in wanted
    ]
    return pd.DataFrame(shown).set_index("quantity")


def construction(study: Study) -> str:
    """The tag of what a closed loop in front of an unlimited model must show."""
    return "by construction" if study.target.kind == "twin" else "measured"


def in_scheduler(record: Record) -> tuple[float | None, float | None]:
    """Running and waiting at the fullest moment; of the one scrape where no samples were kept."""
    full, middle = together(record), record.results.get("middle") or {}
    return (full.running, full.waiting) if full else (middle.get("running"), middle.get("waiting"))


def scrape_sentence(record: Record, study: Study) -> str:
    """Whether the requests in flight are in the scheduler, by the fullest moment and how long it held."""
    n, full = int(record.params["concurrency"]), together(record)
    running, waiting = in_scheduler(record)
    if running is None or waiting is None:
        return NO_METRICS
    text = f"Under {n} in flight the gauges show running = {running:.0f} and waiting = {waiting:.0f}"
    text = f"{text}{_held(full)}"
    if study.target.kind == "twin":
        return (
            f"{text}. On the twin this holds by construction, since nothing stands before a scheduler that "
            "may run 32: it checks the plumbing, and confirms nothing."
        )
    return f"{text}: {_reading(record, full, n)}.{_aside(record, full)}"


def _held(full: Together | None) -> str:
    """In how many samples the fullest moment was seen, and for how long without a break."""
    if full is None:
        return " in one scrape"
    text = f" in {full.samples} of {full.of} samples"
    lasted = full.until_s - full.from_s
    return f"{text}, for {lasted:.1f} s without a break ({full.from_s:.2f} to {full.until_s:.2f} s)"


def _reading(record: Record, full: Together | None, n: int) -> str:
    if full is not None and full.reaches(n):
        return "requests reach the scheduler together"
    if full is None or lags(record) is not False:
        return "whether more of them ever run together cannot be told, since gauges may lag behind a step"
    return "not all requests reach the scheduler together"


def _aside(record: Record, full: Together | None) -> str:
    """Why the one scrape or the mean say less than the fullest moment; empty where they do not."""
    shown, inside = shown_on_average(record), inside_by_timers(record)
    middle = record.results.get("middle") or {}
    if full is None or not lags(record) or shown is None or inside is None:
        return ""
    mean = f"on average they show {shown:.1f} of the {inside:.1f} requests that the engine's timers see"
    text = f" The gauges lag: {mean}, for an engine sets them when a step ends, and a step may take seconds."
    running, at_s = middle.get("running"), middle.get("at_s")
    if running is None or at_s is None or running >= full.running:
        return text
    return f"{text} The one scrape, at {at_s:.1f} s, met such a step and shows {running:.0f} running."


def scrape_figure(record: Record, study: Study) -> Figure:
    """Running and waiting in the engine through the level, beside the client's count.

    The scrape is marked, and the longest time in which all samples show the fullest moment is shaded.
    """
    fig, ax = plots.figure(study.target.name, kinds(study), width_in=7.6, height_in=3.6)
    rows, full = gauges(record), together(record)
    times = [at_s for at_s, *_ in rows]
    grid = pd.Series(times or [s for s, _ in _spans(record)]).to_numpy(float)
    if full is not None:
        _shade(ax, full)
    ax.plot(
        grid, depth_at(grid, _spans(record)), color="black", lw=1.2, marker="", label="in flight (client)"
    )
    for i, (at, name) in enumerate(((1, "running"), (2, "waiting"))):
        if rows:
            ax.plot(times, [g[at] for g in rows], color=plots.PALETTE[i], marker="", label=name)
    middle = record.results.get("middle") or {}
    if middle.get("at_s") is not None:
        ax.axvline(middle["at_s"], color=plots.GREY, ls=":", lw=1.2)
        ax.text(middle["at_s"], 0.5, " scrape", color=plots.GREY, transform=ax.get_xaxis_transform())
    ax.set_ylim(-0.5, 1.15 * int(record.params["concurrency"]))
    plots.name_axes(ax, "time since the first request", "requests", x_unit="s")
    plots.label_lines(ax)
    return fig


def _shade(ax: Axes, full: Together) -> None:
    ax.axvspan(full.from_s, full.until_s, color=plots.GREY, alpha=0.15, lw=0)
    at, along = (full.from_s + full.until_s) / 2, ax.get_xaxis_transform()
    ax.text(at, 0.96, "fullest", color=plots.GREY, fontsize=9, ha="center", va="center", transform=along)


def _spans(record: Record) -> list[tuple[float, float]]:
    """From when to when each request was in flight, by the client."""
    done = completions_of(record)
    return [(c.start_s, c.end_s) for c in done if c.start_s is not None and c.end_s is not None]


def scrape_alt(record: Record, study: Study) -> str:
    """Alternative text of `scrape_figure`."""
    where = named(study)
    return (
        f"Requests running and waiting in the engine over time on {where}. {scrape_sentence(record, study)}"
    )
