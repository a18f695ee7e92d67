"""How every sweep is shown: its levels, the rules they owe, throughput beside p95. From records alone."""

from collections.abc import Iterable, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import article, plots
from nlqlib.analysis.scaling import BEYOND_TOLERANCE, linear_bound, mean_below_p95
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Place, Records, places, rows, told
from nlqlib.records import Json, Rule


def sweep_table(records: Records) -> pd.DataFrame:
    """Every level as it was measured, failures beside throughput; a dash is a missing value."""
    table = rows(records)
    if table.empty:
        return pd.DataFrame(columns=["concurrency"]).set_index("concurrency")
    shown = {
        "concurrency": table["concurrency"],
        "repeat": table["repeat"],
        "n": table["n"],
        "ok": table["ok"],
        "failed": table["failed"],
        "X run (req/s)": table["x_run"].map(lambda v: told(v, ".2f")),
        "X steady (req/s)": table["x_window"].map(lambda v: told(v, ".2f")),
        "p50 (s)": table["p50"].map(lambda v: told(v, ".2f")),
        "p95 (s)": table["p95"].map(lambda v: told(v, ".2f")),
        "mean (s)": table["mean"].map(lambda v: told(v, ".2f")),
        "running, mean (max)": _pair(table["running"], table["running_max"]),
        "waiting, mean (max)": _pair(table["waiting"], table["waiting_max"]),
        "rules": ["held" if v else "BROKEN" for v in table["valid"]],
    }
    return pd.DataFrame(shown).set_index("concurrency")


def _pair(means: pd.Series, tops: pd.Series) -> list[str]:
    return [f"{told(m, '.1f')} ({told(t, '.0f')})" for m, t in zip(means, tops, strict=True)]


def validity_table(records: Records, of_sweep: Iterable[Rule] = ()) -> pd.DataFrame:
    """Each rule once: at how many levels it held, broke or could not be checked, and the range it found.

    `of_sweep`: rules about all levels together.
    """
    found: dict[str, list[tuple[str, Rule]]] = {}
    for record in records:
        for rule in record.validity:
            found.setdefault(rule.rule, []).append((str(record.params["concurrency"]), rule))
    for rule in of_sweep:
        found.setdefault(rule.rule, []).append(("the sweep", rule))
    table = pd.DataFrame([_rule_row(name, pairs) for name, pairs in found.items()], columns=RULE_COLUMNS)
    return table.set_index("rule")


RULE_COLUMNS = ["rule", "threshold", "values", "held", "broken", "not checkable", "broken at"]


def _rule_row(name: str, pairs: list[tuple[str, Rule]]) -> Json:
    count = {ok: sum(rule.ok is ok for _, rule in pairs) for ok in (True, False, None)}
    where = [place for place, rule in pairs if rule.ok is False]
    thresholds = dict.fromkeys(_plain(rule.threshold) for _, rule in pairs)
    values = [float(rule.value) for _, rule in pairs if isinstance(rule.value, int | float)]
    return {
        "rule": name,
        "threshold": next(iter(thresholds)) if len(thresholds) == 1 else "per level",
        "values": f"{min(values):.3g} to {max(values):.3g}" if values else "—",
        "held": count[True],
        "broken": count[False],
        "not checkable": count[None],
        "broken at": ", ".join(dict.fromkeys(where)) or "—",
    }


def _plain(value: float | str | None) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) else str(value or "—")


def sanity(records: Records) -> list[Rule]:
    """X(N) ≤ N·X(1) over the steady throughputs (run ones where they are missing)."""
    found = places(records)
    return [linear_bound({p.concurrency: p.x for p in found if p.x}, BEYOND_TOLERANCE)]


def article_sanity(pairs: Iterable[tuple[str, str]]) -> pd.DataFrame:
    """N / X ≤ p95 for rows of the article: ids of the throughput and of the p95 of each row.

    A steady closed loop keeps it; where it is broken the printed throughput includes ramp and drain.
    """
    found = []
    for throughput, p95 in pairs:
        x, tail = article.claim(throughput), article.claim(p95)
        n = int(x.condition["concurrency"])
        rule = mean_below_p95(n, x.value, tail.value)
        law = "holds" if rule.ok else "BROKEN: ramp and drain are in it"
        found.append(
            {"row": throughput, "N": n, "N / X (s)": rule.value, "p95 (s)": tail.value, "N / X ≤ p95": law}
        )
    return pd.DataFrame(found).set_index("row").round(2)


def article_shown(study: Study) -> bool:
    """Whether the article's points belong into a figure: the same workload, on the L4, its twin or a URL."""
    return not study.quick and study.target.kind in ("twin", "url")


def article_column(claims: Iterable[str]) -> tuple[list[int], list[float]]:
    """Concurrency and value as printed of the claims with those ids."""
    found = [article.claim(c) for c in claims]
    return [int(c.condition["concurrency"]) for c in found], [float(c.value or c.low) for c in found]


def draw_article(ax: Axes, claims: Iterable[str]) -> None:
    """The article's values as printed, named below the lowest at 24 or 40, where no curve of ours runs."""
    xs, ys = article_column(claims)
    plots.article_points(ax, xs, ys, label=None)
    named_at = min((p for p in zip(xs, ys, strict=True) if p[0] in (24, 40)), key=lambda p: p[1])
    ax.annotate(
        plots.ARTICLE_LABEL, named_at, (7, -7), textcoords="offset points", va="top", fontsize=9.5, zorder=6
    )


def draw(ax: Axes, found: Sequence[Place], what: str, label: str, colour: int = 0) -> None:
    """The quantity `what` of a `Place` over concurrency, with its intervals, as a line of the house."""
    drawn = [(p.concurrency, getattr(p, what)) for p in found if getattr(p, what) is not None]
    if not drawn:
        return
    xs, ys = zip(*drawn, strict=True)
    ax.plot(xs, ys, color=plots.PALETTE[colour], marker=plots.MARKERS[colour], label=label)
    wide = {"x_run": "x_run_interval", "x_window": "x_window_interval", "p95_s": "p95_interval"}[what]
    for p in found:
        interval = getattr(p, wide)
        if interval is not None:
            ax.vlines(p.concurrency, *interval, color=plots.PALETTE[colour], lw=1.2)


def load_sentence(records: Records) -> str:
    """What the largest concurrency gives over the smallest, in one sentence."""
    found = [p for p in places(records) if p.x_run and p.p95_s]
    if len(found) < 2:
        return "Fewer than two levels have a throughput and a p95, so nothing grows or shrinks here."
    first, last = found[0], found[-1]
    gain, tail = (last.x_run or 0.0) / (first.x_run or 1.0), (last.p95_s or 0.0) / (first.p95_s or 1.0)
    return (
        f"From {first.concurrency} to {last.concurrency} in flight throughput grows {gain:.1f} times, to "
        f"{told(last.x_run, '.2f')} req/s over a whole run, and p95 {tail:.2f} times, to "
        f"{told(last.p95_s, '.2f')} s."
    )


def load_alt(records: Records, study: Study) -> str:
    """Alternative text of `load_figure`."""
    return f"Throughput and p95 latency over concurrency on {named(study)}. {load_sentence(records)}"


def load_figure(
    records: Records, study: Study, throughput: Iterable[str], p95: Iterable[str], slo_s: Sequence[float] = ()
) -> Figure:
    """Throughput and p95 over concurrency on one page, the article's points (ids of claims) beside ours."""
    found = places(records)
    fig, (left, right) = plots.panels(study.target.name, kinds(study), 2, width_in=10.6, height_in=4.0)
    draw(left, found, "x_window", "steady", 0)
    draw(left, found, "x_run", "whole run", 4)
    draw(right, found, "p95_s", "p95", 1)
    if article_shown(study):
        draw_article(left, throughput)
        draw_article(right, p95)
    for bound in slo_s:
        right.axhline(bound, color=plots.GREY, lw=0.9, ls=":")
        beside = right.get_yaxis_transform()  # x as a share of the axis, where the first levels leave room
        right.text(0.11, bound, f"{bound:g} s", transform=beside, va="bottom", color=plots.GREY)
    for ax, name, unit in ((left, "throughput", "req/s"), (right, "p95 of E2E latency", "s")):
        ax.set_ylim(0, 1.05 * ax.get_ylim()[1])  # room for a label over the highest point
        ax.set_xlim(left=0)
        plots.name_axes(ax, "concurrency", name, x_unit="requests in flight", y_unit=unit)
        plots.label_lines(ax)
    return fig
