"""How the page on admission shows its sweeps: before beside after, the objectives they meet.

From records alone. `Sweeps`: the sweep of each cell that was had, by its name (`before`, `after` …).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, NullLocator

from nlqlib import plots
from nlqlib.analysis.slo import ARTICLE_POLICIES, Choice, policy_table
from nlqlib.analysis.stats import Interval, Line, line
from nlqlib.article import claim
from nlqlib.artifacts import Record
from nlqlib.experiments.admission import AS_DEPLOYED, Design, sets_limits
from nlqlib.experiments.admission_flatness import FLAT, change_interval, flatness_sentence
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.operating_page import ARTICLE_PRICE, operating_points
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import article_column, article_shown, draw, sweep_table
from nlqlib.experiments.sweep_rows import Records, places, rows, span, told

Sweeps = Mapping[str, Records]
CONCURRENCIES = (1, 2, 4, 8, 16, 32)
BEFORE_X = tuple(f"before.throughput.{n}" for n in CONCURRENCIES)
BEFORE_P95 = tuple(f"before.p95.{n}" for n in CONCURRENCIES)
AFTER_X = (
    *(f"dense.throughput.{n}" for n in (1, 8, 16, 24)),
    "repeated.throughput.20",
    "after.throughput.32",
)
AFTER_P95 = (*(f"dense.p95.{n}" for n in (1, 8, 16, 24)), "repeated.p95.20", "after.p95.32")
COLOURS = {"before": 1, "after": 0}


def design_sentence(study: Study, wanted: Design) -> str:
    """Who holds the limits, and what low and high are."""
    if sets_limits(study):
        return (
            f"The limits are held by our own gateway in front of the engine: low is {wanted.low} request in "
            f"flight, high {wanted.high}. The article gives neither value: these are assumptions."
        )
    ours = f"it is labelled `{wanted.cell}` (router/replica)" if wanted.cell else "nobody says which it is"
    return (
        f"The limits of this endpoint are not ours to set: it is measured {AS_DEPLOYED}, and {ours}. Deploy "
        "each setting, run this notebook once for each with its `cell`, and the cells are merged."
    )


def path_table(records: Records) -> pd.DataFrame:
    """A sweep, a row per level, with the mean wait at either limit; a dash is a missing value."""
    table = sweep_table(records)
    if not records:
        return table
    for layer in ("router", "replica"):
        waits = [told(r.value(f"{layer}_queue", "mean"), ".2f") for r in records]
        table.insert(len(table.columns) - 1, f"{layer} wait, mean (s)", waits)
    return table


@dataclass(frozen=True)
class Signature:
    """What a sweep says of itself: requests per second, and what one more in flight adds to p95."""

    name: str
    levels: int
    first: int
    last: int
    x_first: float
    x_last: float
    tail: Line | None
    change: Interval | None = None
    """Interval of X(last) / X(first) − 1, where both were repeated."""

    @property
    def gain(self) -> float:
        """X(last) / X(first)."""
        return self.x_last / self.x_first

    @property
    def flat(self) -> bool:
        return abs(self.gain - 1) <= FLAT


def signature(name: str, records: Records) -> Signature | None:
    """The signature of a sweep, by whole runs; `None` below two levels that have a throughput."""
    found = [p for p in places(records) if p.x_run]
    if len(found) < 2:
        return None
    tails = [(p.concurrency, p.p95_s) for p in found if p.p95_s is not None]
    first, last = found[0], found[-1]
    fit = line([n for n, _ in tails], [s for _, s in tails]) if tails else None
    ends = (first.concurrency, last.concurrency)
    x = (first.x_run or 0.0, last.x_run or 0.0)
    return Signature(name, len(found), *ends, *x, fit, change_interval(records, *ends))


def signatures(sweeps: Sweeps) -> list[Signature]:
    """The signature of each sweep that has one."""
    return [s for name, records in sweeps.items() if (s := signature(name, records)) is not None]


def signature_table(sweeps: Sweeps) -> pd.DataFrame:
    """Gain of throughput, slope of p95, and 1/X, which that slope is where every request queues."""
    shown = {
        s.name: {
            "X(N) / X(1)" if s.first == 1 else f"X(N) / X({s.first})": f"{s.gain:.2f} at N = {s.last}",
            "change of X, 95 %": span(s.change, "+.1%"),
            "p95 per further request (s)": told(s.tail.slope if s.tail else None, ".2f"),
            "95 % interval": span(s.tail.slope_interval if s.tail else None, ".2f"),
            "1 / X at the largest N (s)": f"{1 / s.x_last:.2f}",
            "reads": _reading(s),
        }
        for s in signatures(sweeps)
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("sweep")


def _reading(s: Signature) -> str:
    if not s.flat and s.gain < 1:
        return f"throughput falls by {1 - s.gain:.0%}: more requests at once are served more slowly"
    if not s.flat:
        return f"throughput grows {s.gain:.1f} times: concurrent requests become batched work"
    slope = s.tail.slope if s.tail else None
    queues = slope is not None and abs(slope * s.x_last - 1) <= 2 * FLAT
    why = ", and each further request adds one whole service time to the tail" if queues else ""
    return f"throughput is flat at {s.x_last:.2f} req/s{why}"


def signature_sentence(sweeps: Sweeps) -> str:
    """The gain of the change, or what one sweep shows alone."""
    found = {s.name: s for s in signatures(sweeps)}
    if {"before", "after"} <= set(found):
        was, now = found["before"], found["after"]
        return (
            f"At {now.last} in flight throughput is {now.x_last:.2f} req/s instead of {was.x_last:.2f}, "
            f"{now.x_last / was.x_last:.1f} times; before, it changed by {was.gain - 1:+.1%} from "
            f"{was.first} to {was.last} in flight.{flatness_sentence(was.gain - 1, was.change)}"
        )
    alone = [f"{s.name}: {_reading(s)}.{flatness_sentence(s.gain - 1, s.change)}" for s in found.values()]
    return " ".join(alone) or "No sweep has two good levels."


def sweeps_figure(sweeps: Sweeps, study: Study) -> Figure:
    """Throughput and p95 over concurrency, a line per sweep, the article's points where they compare."""
    fig, (left, right) = plots.panels(study.target.name, kinds(study), 2, width_in=10.6, height_in=4.0)
    for i, (name, records) in enumerate(sweeps.items()):
        colour = COLOURS.get(name, 2 + i)
        draw(left, places(records), "x_run", name, colour)
        draw(right, places(records), "p95_s", name, colour)
    if article_shown(study):
        for ax, claims in ((left, (BEFORE_X, AFTER_X)), (right, (BEFORE_P95, AFTER_P95))):
            for group, label in zip(claims, (plots.ARTICLE_LABEL, None), strict=True):
                plots.article_points(ax, *article_column(group), label=label)
    left.set_ylim(0, 1.08 * left.get_ylim()[1])
    right.set_yscale("log")
    for ax, what, unit in ((left, "throughput, whole run", "req/s"), (right, "p95 of E2E latency", "s")):
        _doubling(ax, sorted({p.concurrency for r in sweeps.values() for p in places(r)}))
        plots.name_axes(ax, "concurrency", what, x_unit="requests in flight", y_unit=unit)
        plots.label_lines(ax)
    _plain_seconds(right)
    return fig


def _doubling(ax: Axes, concurrency: Sequence[int]) -> None:
    """An axis on which every doubling is one step."""
    ax.set_xscale("log", base=2)
    ax.set_xlim(left=0.75)
    shown = [n for n in concurrency if n & (n - 1) == 0]
    ax.set_xticks(shown, [str(n) for n in shown])
    ax.xaxis.set_minor_locator(NullLocator())


def _plain_seconds(ax: Axes) -> None:
    low, high = ax.get_ylim()
    ticks = [s for s in (0.5, 1, 2, 3, 5, 10, 20, 50, 100, 200, 500) if low <= s <= high]
    ax.set_yticks(ticks)
    ax.yaxis.set_minor_locator(NullLocator())
    ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def sweeps_alt(sweeps: Sweeps, study: Study) -> str:
    """Alternative text of `sweeps_figure`."""
    return f"Throughput and p95 latency over concurrency on {named(study)}. {signature_sentence(sweeps)}"


def cold_sentence(before: Records, cold: Sequence[Record]) -> str:
    """Whether a few requests to an engine that has seen no prompt explain the article's p95 at 1."""
    one = next((p.p95_s for p in places(before) if p.concurrency == 1), None)
    if not cold or one is None:
        return "No engine can be had here that has seen no prompt yet, so its first level is not shown."
    tail, n = cold[0].value("e2e_latency", "p95"), cold[0].requests["total"]
    return (
        f"Warm, p95 at one in flight is {one:.2f} s; over {n} requests to an engine that has seen no prompt "
        f"yet it is {told(tail, '.2f')} s, since the first prompt is computed whole. "
        f"{_articles_first_row(tail)}"
    )


def _articles_first_row(cold_s: float | None) -> str:
    """The article's p95 at 1 before and after its change, and whether a cold first level of ours meets it."""
    was, now = claim("before.p95.1"), claim("dense.p95.1")
    was_s, now_s = was.value or 0.0, now.value or 0.0  # the article states both
    text = f"The article has {was_s:g} s there before its change and {now_s:g} s after it"
    if cold_s is None:
        return f"{text}."
    off = cold_s / was_s - 1
    near = abs(off) <= was.tolerance.relative
    reading = "would explain it" if near else "alone does not explain it"
    return (
        f"{text}: a short first level on a cold prefix {reading} (ours is {abs(off):.1%} "
        f"{'below' if off < 0 else 'above'} it), but how many requests that level had is not said."
    )


def regions(records: Records, within: float = 0.0) -> tuple[Choice, ...]:
    """What the article's three objectives choose on a sweep, at its price.

    `within`: the share by which p95 may be too high: a model's tolerance, 0 for what was measured.
    """
    found = operating_points(records, ARTICLE_PRICE)
    eased = [replace(p, p95_s=None if p.p95_s is None else p.p95_s / (1 + within)) for p in found]
    return policy_table(eased, ARTICLE_POLICIES)


def p95_tolerance(study: Study) -> float:
    """To what share the twin's p95 is known, by the article's own repeats; 0 for what is measured."""
    return (claim("after.p95.32").tolerance.relative or 0.0) if study.target.kind == "twin" else 0.0


def regions_table(sweeps: Sweeps, study: Study) -> pd.DataFrame:
    """The operating region of each objective, in every sweep; on the twin also within p95's tolerance."""
    shown = {name: {c.policy.name: _region(c) for c in regions(records)} for name, records in sweeps.items()}
    within = p95_tolerance(study)
    if within and "after" in sweeps:
        eased = regions(sweeps["after"], within)
        shown[f"after, p95 within {within:.0%}"] = {c.policy.name: _region(c) for c in eased}
    return pd.DataFrame(shown).rename_axis("objective")


def regions_sentence(sweeps: Sweeps, study: Study) -> str:
    """Which regions the sweep after has, and how sure a model can be of them."""
    if "after" not in sweeps:
        return "The sweep after is not observable here, and with it the regions."
    within = p95_tolerance(study)
    strict, eased = regions(sweeps["after"]), regions(sweeps["after"], within)
    text = f"After, the three objectives choose {_chosen(strict)} in flight"
    if not within or _chosen(strict) == _chosen(eased):
        return f"{text}."
    return (
        f"{text}; within the {within:.0%} to which the twin's p95 is known they choose {_chosen(eased)}: a "
        "level whose p95 misses a bound by less than that cannot be told from one that meets it."
    )


def _chosen(found: Sequence[Choice]) -> str:
    return ", ".join("none" if c.point is None else str(c.point.concurrency) for c in found)


def _region(choice: Choice) -> str:
    if choice.point is None:
        return "none meets it"
    met = ", ".join(map(str, choice.meeting))
    return (
        f"{choice.point.concurrency} in flight, {told(choice.point.throughput, '.2f')} req/s (met at {met})"
    )


def every_level(sweeps: Sweeps, *more: Records) -> list[Record]:
    """All levels of the page, each once."""
    return [r for records in (*sweeps.values(), *more) for r in records]


def unmeasured_sentence(sweeps: Sweeps) -> str:
    """Which of the two sweeps nobody measured."""
    gone = [name for name in ("before", "after") if name not in sweeps]
    if not gone:
        n = sum(len(rows(r)) for r in sweeps.values())
        return f"Both deployments were measured, {n} levels in all."
    return f"Not observable here: {' and '.join(gone)}; deploy that setting and run again with its `cell`."
