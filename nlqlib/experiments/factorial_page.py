"""How the page on admission shows its factorial: four cells, effects with intervals, and who waits where."""

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from nlqlib import plots
from nlqlib.analysis.factorial import CELLS, Cell, Factorial, Setting, factorial
from nlqlib.analysis.stats import Floats, Summary, summary
from nlqlib.artifacts import Record
from nlqlib.experiments.admission import Design, label, sets_limits
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.path_level import waiting_at
from nlqlib.experiments.saved_levels import completions_of
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import broken, span, told
from nlqlib.records import Completion, Json

FACTORS = ("router", "replica")
Cells = Mapping[Cell, Sequence[Record]]
"""The repeats of each cell that was had."""
RESPONSES = {"X (req/s)": ("throughput_run", "mean"), "p95 (s)": ("e2e_latency", "p95")}
"""What the limits are judged by: title → metric and statistic."""
PLACES = ("waits at the router", "waits at the replica", "waits in the engine", "runs in the engine")
THICK = 0.1
"""An area is named in the figure if it holds this share of the requests in flight."""
UNSEEN = "not observable here"
GRID = 400
"""Points in time of the figure."""


def values(records: Sequence[Record], response: str) -> list[float]:
    """The response in each repeat that has it and whose rules held."""
    found = [r.value(*RESPONSES[response]) for r in records if not broken(r)]
    return [v for v in found if v is not None]


def effects(cells: Cells, response: str) -> Factorial:
    """The effects of both limits on a response, named by a title of `RESPONSES`."""
    return factorial({cell: values(records, response) for cell, records in cells.items()}, FACTORS)


def cells_table(cells: Cells, study: Study, wanted: Design) -> pd.DataFrame:
    """Every cell with its repeats, and where its requests were; what nobody measured says so."""
    shown = {label(cell): _cell_row(cells.get(cell, ()), cell, study, wanted) for cell in CELLS}
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("router/replica")


def _cell_row(records: Sequence[Record], cell: Cell, study: Study, wanted: Design) -> Json:
    limits = {"low": wanted.low, "high": wanted.high}
    given: Json = {f"{f} limit": limits[s] for f, s in zip(FACTORS, cell, strict=True)}
    head = given if sets_limits(study) else dict.fromkeys(given, "not ours")
    x, tail = (summary(values(records, name)) for name in RESPONSES)
    if not records:
        return head | {"repeats": UNSEEN}
    return head | {
        "repeats": str(x.n) if x.n == len(records) else f"{x.n} of {len(records)}, the others are not valid",
        "X (req/s)": told(x.mean, ".3f"),
        "95 % interval": span(x.interval, ".3f"),
        "p95 (s)": told(tail.mean, ".2f"),
        "95 % interval of p95": span(tail.interval, ".2f"),
        **{place: told(where, ".1f") for place, where in zip(PLACES, inside(records), strict=True)},
        "deepest by the gateway's gauge: router, replica": _deepest(records),
    }


def inside(records: Sequence[Record]) -> tuple[float | None, ...]:
    """Requests at each of `PLACES`, on average over the steady part of the repeats."""
    metrics = (("router_depth", "mean"), ("replica_depth", "mean"), ("waiting", "mean"), ("running", "mean"))
    return tuple(_mean([r.value(*metric) for r in records]) for metric in metrics)


def _mean(found: Sequence[float | None]) -> float | None:
    known = [v for v in found if v is not None]
    return sum(known) / len(known) if known and len(known) == len(found) else None


def _deepest(records: Sequence[Record]) -> str:
    gauges = [r.results.get("gateway") or {} for r in records]
    tops = [max((g[f] for g in gauges if f in g), default=None) for f in FACTORS]
    return ", ".join(told(top, ".0f") for top in tops)


def effects_table(cells: Cells) -> pd.DataFrame:
    """Main effects, interaction and simple effects, on throughput and on p95."""
    by_name = {response: effects(cells, response) for response in RESPONSES}
    shown: dict[str, Json] = {}
    for response, found in by_name.items():
        for effect in found.effects:
            row = shown.setdefault(_title(effect.name), {})
            form = ".3f" if response.startswith("X") else ".2f"
            row[response] = told(effect.value, f"+{form}")
            row[f"95 % interval, {response.split()[0]}"] = span(effect.interval, f"+{form}")
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("effect of low → high")


def _title(name: str) -> str:
    if "×" in name:
        return f"interaction {name}"
    return f"{name.replace(',', ' limit alone, with')}" if "," in name else f"main effect of the {name} limit"


def effects_sentence(cells: Cells, study: Study) -> str:
    """What either limit does alone, what both do together, and how much of that is interaction."""
    found = effects(cells, "X (req/s)")
    alone = [found.effect(f"{f}, {g} low").value for f, g in (FACTORS, FACTORS[::-1])]
    low, both = found.cells.get(("low", "low")), found.cells.get(("high", "high"))
    if found.missing or None in alone or low is None or both is None:
        return _untold(", ".join(label(cell) for cell in found.missing), study)
    change = (both.mean or 0.0) - (low.mean or 0.0)
    text = (
        f"Raised alone, the router's limit changes throughput by {alone[0]:+.2f} req/s and the replica's by "
        f"{alone[1]:+.2f}; raised together, they change it by {change:+.2f}. {_whole(found)}"
    )
    if study.target.kind != "twin":
        return text
    return (
        f"{text} On the twin it is by construction that the three cells with a low limit are alike, since a "
        "queue that lets one through does so wherever it stands; predicted is how much the fourth gains."
    )


def _untold(gone: str, study: Study) -> str:
    """Which cells are missing, and on an endpoint whose limits are not ours what it takes to have them."""
    if sets_limits(study):
        return f"The effects cannot be told apart: there is no valid measurement of {gone}."
    return (
        "Not measured: to tell the two limits apart takes four deployments of the endpoint, each limit low "
        f"or high; still missing (router/replica): {gone}; “Point it at your endpoint” says how."
    )


def _whole(found: Factorial) -> str:
    """Whether a limit did anything without the other, where the repeats can tell."""
    simple = [found.effect(f"{f}, {g} low") for f, g in (FACTORS, FACTORS[::-1])]
    together = found.effect("router × replica")
    gate = all(abs(s.value or 0.0) <= 0.05 * abs(together.value or 0.0) for s in simple)
    if gate:
        return "It is all interaction: whoever tries one setting at a time finds that neither matters."
    own = [factor for factor, effect in zip(FACTORS, simple, strict=True) if effect.distinct is not False]
    if not own:
        return "Neither changes it alone by more than the repeats differ."
    if len(own) == 1:
        return f"The {own[0]}'s limit has an effect of its own; that of the other is within the repeats."
    return "Each of them has an effect of its own."


def interaction_figure(cells: Cells, study: Study) -> Figure:
    """Both responses over the router's setting, a line for each of the replica's; every repeat is a dot."""
    fig, axes = plots.panels(study.target.name, kinds(study), 2, width_in=9.6, height_in=3.8)
    settings: tuple[Setting, ...] = ("low", "high")
    for ax, response in zip(axes, RESPONSES, strict=True):
        found = effects(cells, response)
        for i, replica in enumerate(settings):
            means = [(x, found.cells.get((router, replica))) for x, router in enumerate(settings)]
            _cell_line(ax, [(x, s) for x, s in means if s], f"replica {replica}", 1 - i)
            for x, router in enumerate(settings):
                dots = values(cells.get((router, replica), ()), response)
                ax.scatter([x] * len(dots), dots, s=16, color=plots.PALETTE[1 - i], alpha=0.5, lw=0)
        ax.set_xticks([0, 1], ["router low", "router high"])
        ax.set_xlim(-0.15, 1.35)
        ax.set_ylim(0, 1.1 * ax.get_ylim()[1])
        name, unit = response.rstrip(")").split(" (")
        ax.set_ylabel(f"{'throughput' if name == 'X' else 'p95 of E2E latency'} ({unit})")
        plots.label_lines(ax)
    return fig


def _cell_line(ax: Axes, means: Sequence[tuple[int, Summary]], name: str, colour: int) -> None:
    xs, ys = [x for x, _ in means], [s.mean or 0.0 for _, s in means]  # a cell here has a value
    ax.plot(xs, ys, color=plots.PALETTE[colour], marker=plots.MARKERS[colour], label=name)
    for x, s in means:
        if s.interval is not None:
            ax.vlines(x, *s.interval, color=plots.PALETTE[colour], lw=1.2)


def interaction_alt(cells: Cells, study: Study) -> str:
    """Alternative text of `interaction_figure`."""
    return f"Throughput and p95 in the four cells of router and replica limits on {named(study)}. " + (
        effects_sentence(cells, study)
    )


# ---- where requests wait, over time ----------------------------------------------------------------------


def depth_at(times: Floats, intervals: Sequence[tuple[float, float]]) -> Floats:
    """How many of the half-open `intervals` hold each of `times`."""
    bounds = np.array(intervals, dtype=np.float64).reshape(-1, 2)
    starts, ends = np.sort(bounds[:, 0]), np.sort(bounds[:, 1])
    inside = np.searchsorted(starts, times, side="right") - np.searchsorted(ends, times, side="right")
    return inside.astype(np.float64)


def depths(record: Record) -> tuple[Floats, dict[str, Floats]]:
    """Times in seconds, and how many requests were at each of `PLACES` then; what was not seen is left out.

    Until the last request was sent: the drain is not shown. A gauge holds until it is read again.
    """
    done = completions_of(record)
    times = np.linspace(0, max(c.start_s for c in done if c.start_s is not None), GRID)
    seen: dict[str, Floats] = {}
    for place, layer in zip(PLACES, FACTORS, strict=False):
        waits = waiting_at(layer, done)
        if waits:
            seen[place] = depth_at(times, waits)
    gauges = np.array([g for g in record.results.get("gauges") or [] if None not in g], dtype=np.float64)
    if len(gauges):
        at = np.clip(np.searchsorted(gauges[:, 0], times, side="right") - 1, 0, None)
        seen[PLACES[2]], seen[PLACES[3]] = gauges[at, 2], gauges[at, 1]
    return times, seen


def depth_figure(cells: Cells, study: Study) -> Figure:
    """Where the requests in flight are, over the first repeat of every cell, one area per layer."""
    shown = [(cell, records[0]) for cell, records in cells.items() if records]
    fig, axes = plots.panels(
        study.target.name, kinds(study), max(1, len(shown)), width_in=11.4, height_in=3.8, sharey=True
    )
    for ax, (cell, record) in zip(axes, shown, strict=False):
        _areas(ax, *depths(record))
        _total(ax, completions_of(record))
        ax.set_title(f"router {cell[0]}, replica {cell[1]}", loc="left")
        ax.set_xlabel("time since the first request (s)")
        ax.set_xlim(left=0)
    if not shown:
        axes[0].text(0.5, 0.5, UNSEEN, ha="center", color=plots.GREY, transform=axes[0].transAxes)
    axes[0].set_ylabel("requests in flight")
    axes[0].set_ylim(bottom=0)
    axes[0].yaxis.set_major_locator(MaxNLocator(integer=True))
    return fig


def _areas(ax: Axes, times: Floats, seen: Mapping[str, Floats]) -> None:
    base, total = np.zeros(len(times)), sum(float(of.mean()) for of in seen.values())
    for i, place in enumerate(PLACES):
        if place not in seen:
            continue
        top, height = base + seen[place], float(seen[place].mean())
        ax.fill_between(times, base, top, color=plots.PALETTE[i], alpha=0.75, lw=0, step="post")
        if height >= THICK * total:
            verb, where = place.split(" ", 1)
            middle = float(times[len(times) // 2]), float(base.mean()) + height / 2
            ax.text(*middle, f"{verb}\n{where}", ha="center", va="center")
        base = top


def _total(ax: Axes, done: Sequence[Completion]) -> None:
    """Requests in flight by the client's own clock, as a line over the areas."""
    spans = [(c.start_s, c.end_s) for c in done if c.start_s is not None and c.end_s is not None]
    last = max(start for start, _ in spans)
    times = np.linspace(0, last, GRID)
    ax.plot(times, depth_at(times, spans), color="black", lw=1.2, marker="", label="_in flight")


def depth_sentence(cells: Cells) -> str:
    """Where requests are in each cell, on average; fewer than a tenth of one are left out."""
    parts = [f"router {a}, replica {b}: {_whereabouts(cells[a, b])}" for a, b in cells if cells[a, b]]
    return f"On average, {'; '.join(parts)}." if parts else f"Queue depths are {UNSEEN}."


def _whereabouts(records: Sequence[Record]) -> str:
    at = zip(PLACES, inside(records), strict=True)
    found = [f"{n:.1f} {_plural(place)}" for place, n in at if n is not None and n >= 0.1]
    return ", ".join(found) or UNSEEN


def _plural(place: str) -> str:
    return place.replace("waits", "wait", 1).replace("runs", "run", 1)


def depth_alt(cells: Cells, study: Study) -> str:
    """Alternative text of `depth_figure`."""
    return f"Where the requests in flight are over time, by cell, on {named(study)}. {depth_sentence(cells)}"
