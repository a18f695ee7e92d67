"""What prefix sharing saves of KV memory and what grouped-query attention saves, kept apart."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import article, plots
from nlqlib.analysis.kv import ModelShape, needs
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.kv_page import ARTICLE_BLOCK, ARTICLE_MODEL, foretold
from nlqlib.experiments.kv_pressure import ARTICLE_CONCURRENCY, in_flight
from nlqlib.experiments.model_data import model_shape
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep import ANSWER_TOKENS
from nlqlib.experiments.sweep_rows import Records

TITLES = {
    (True, True): "sharing and GQA",
    (False, True): "GQA alone",
    (True, False): "sharing alone",
    (False, False): "neither",
}


def savings(shape: ModelShape, capacity_bytes: float) -> dict[str, tuple[float, float]]:
    """KV bytes at the article's load and their share of `capacity_bytes`, by which savings are at work."""
    load = in_flight(ARTICLE_CONCURRENCY, ANSWER_TOKENS)
    found = {(n.sharing, n.grouped): n.kv_bytes for n in needs(shape, load, ARTICLE_BLOCK)}
    return {title: (found[key], found[key] / capacity_bytes) for key, title in TITLES.items()}


def article_capacity() -> float:
    """KV bytes that the article's engine has, by `foretold`."""
    return foretold().capacity * ARTICLE_BLOCK * model_shape(ARTICLE_MODEL).kv_bytes_per_token


def savings_table() -> pd.DataFrame:
    """What each saving is worth at the article's load, and whether the rest would fit."""
    found = savings(model_shape(ARTICLE_MODEL), article_capacity())
    least = min(size for size, _ in found.values())
    rows = {
        title: {
            "KV (GB)": f"{size / 1e9:.2f}",
            "times as much": f"{size / least:.1f}",
            "of the article's KV memory": f"{share:.1%}",
            "fits": "yes" if share <= 1 else "NO: preemptions",
        }
        for title, (size, share) in found.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("at work")


def savings_sentence() -> str:
    """Both factors in one sentence."""
    found = savings(model_shape(ARTICLE_MODEL), article_capacity())
    both, gqa, sharing, none = (found[t] for t in TITLES.values())
    return (
        f"Grouped-query attention makes {sharing[0] / both[0]:.0f} times less of it and prefix sharing "
        f"{gqa[0] / both[0]:.1f} times: with grouping alone usage would be {gqa[1]:.0%}, with sharing alone "
        f"{sharing[1]:.0%}, with neither {none[1]:.0%}. The article credits the attention; {_most(found)}."
    )


def _most(found: Mapping[str, tuple[float, float]]) -> str:
    """Which of the two saves more: the one without which more is needed."""
    gqa, sharing = found[TITLES[False, True]][0], found[TITLES[True, False]][0]
    if gqa == sharing:
        return "sharing saves just as much"
    return "sharing saves more" if gqa > sharing else "it does save more than sharing"


def savings_figure(study: Study, records: Sequence[Record]) -> Figure:
    """Usage at the article's load under each combination, on a log axis, with what was sampled beside it."""
    found = savings(model_shape(ARTICLE_MODEL), article_capacity())
    fig, ax = plots.figure(study.target.name, kinds(study), width_in=8.6, height_in=3.5)
    told_there = article.claim("kv.usage").value or 0.0
    for at, (_, share) in enumerate(found.values()):
        colour = plots.PALETTE[1] if share > 1 else plots.PALETTE[0]
        ax.barh(at, share, height=0.55, color=colour)
        beside = "" if at else f" (◇ article {told_there:.1%})"
        start = 1.13 * share if at else 1.2 * max(share, told_there)  # clear of the article's mark
        ax.text(start, at, f"{share:.1%}{beside}", va="center", fontsize=10)
    plots.article_points(ax, [told_there], [0], label=None)
    ax.set_xscale("log")
    ax.set_xlim(5e-3, 8)
    ax.axvline(1, color="black", lw=1.2, ls="--")
    ax.text(1.05, -0.62, "all KV memory", fontsize=9.5, va="center")
    _sampled(ax, records)
    ax.set_yticks(range(len(found)), list(found))
    ax.set_ylim(len(found) - 0.35, -0.8)
    ax.grid(False, axis="y")
    ax.set_xticks([0.01, 0.1, 1], ["1 %", "10 %", "100 %"])
    ax.set_xlabel(f"KV usage at {ARTICLE_CONCURRENCY} in flight (log axis)")
    return fig


def _sampled(ax: Axes, records: Sequence[Record]) -> None:
    """What the gauges said of the arms that are observations of a row."""
    seen = {arm_place(r): v for r in records if (v := r.value("kv_usage", "mean")) is not None}
    for at, value in seen.items():
        ax.plot([value], [at + 0.36], "o", color="black", ms=6, clip_on=False)
        ax.text(1.13 * value, at + 0.37, f"sampled {value:.1%}", fontsize=9, va="center")
    dots = "; dots: sampled" if seen else ""
    ax.set_title(f"bars: arithmetic for the article's engine{dots}", loc="left")


def arm_place(record: Record) -> int:
    """The row of the figure that an arm is an observation of."""
    return 1 if record.params.get("unshared") else 0


def savings_alt(study: Study) -> str:
    """Alternative text of `savings_figure`."""
    return f"Bars of KV usage by the savings at work, by arithmetic, on {named(study)}. {savings_sentence()}"


def comparable(records: Records) -> list[Record]:
    """The arms of the article's load, on a model of the article's shape: what the figure may show as seen."""
    return [
        r
        for r in records
        if r.params["concurrency"] == ARTICLE_CONCURRENCY
        and r.results["block_size"] == ARTICLE_BLOCK
        and not r.params.get("num_blocks")
    ]
