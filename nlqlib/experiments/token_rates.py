"""Tokens per second: generated, presented and really computed, by the server's counters and by the answers.

The article's product of request rate and prompt length is the *presented* rate; what the engine computes is
the small rest that its prefix cache did not hold.
"""

import math

import pandas as pd
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter

from nlqlib import plots
from nlqlib.analysis.stats import Summary, summary
from nlqlib.article import claim
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import article_shown
from nlqlib.experiments.sweep_rows import Records, span, told
from nlqlib.records import Json

RATES = {
    "output": "after.derived.output_rate",
    "prompt, computed": None,
    "prompt, presented": "after.derived.presented_rate",
}
"""Tokens per second by kind, and the article's claim about it."""
SOURCES = {
    "output": "generation_tokens",
    "prompt, computed": "computed_prompt_tokens",
    "prompt, presented": "prompt_tokens",
}
"""Kind → the server's own counter of those tokens."""


def rate(record: Record, kind: str) -> float | None:
    """Tokens per second over the run, by the server's counter, ramp and drain included."""
    counted, x, ok = (
        record.value(SOURCES[kind], "count"),
        record.value("throughput_run", "mean"),
        record.requests["ok"],
    )
    return counted * x / ok if counted is not None and x and ok else None


def client_rate(record: Record, kind: str) -> float | None:
    """The same by the usage in the answers; the client cannot tell which prompt tokens were computed."""
    each = record.value("output_tokens" if kind == "output" else "prompt_tokens", "mean")
    x = record.value("throughput_run", "mean")
    return None if kind == "prompt, computed" or each is None or x is None else each * x


def rates(records: Records, kind: str) -> Summary:
    """Tokens per second over the runs: by the server, where it counts, else by the answers' usage."""
    found = [rate(r, kind) for r in records]
    if None in found:
        found = [client_rate(r, kind) for r in records]
    return summary([v for v in found if v is not None])


def rates_table(records: Records) -> pd.DataFrame:
    """Tokens per second by kind: by the server's counters, by the answers' usage, and per request."""
    x = summary([v for r in records if (v := r.value("throughput_run", "mean")) is not None]).mean
    shown: dict[str, Json] = {}
    for kind in RATES:
        server = summary([v for r in records if (v := rate(r, kind)) is not None])
        client = summary([v for r in records if (v := client_rate(r, kind)) is not None])
        best = server.mean if server.mean is not None else client.mean
        shown[kind] = {
            "tok/s, by the server": told(server.mean, ",.0f"),
            "95 % interval": span(server.interval, ",.0f"),
            "tok/s, by the answers": told(client.mean, ",.0f"),
            "tokens per request": told(best / x if best is not None and x else None, ",.1f"),
        }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("tokens")


def rates_sentence(records: Records) -> str:
    """How few of the presented prompt tokens are computed."""
    shown, done = rates(records, "prompt, presented").mean, rates(records, "prompt, computed").mean
    out = rates(records, "output").mean
    text = f"{told(out, ',.0f')} output tokens per second, {told(shown, ',.0f')} prompt tokens presented"
    if not shown or done is None:
        return f"{text}; how many of those were computed cannot be seen without the engine's metrics."
    return f"{text}, of which {done:,.0f} ({done / shown:.1%}) had to be computed: the rest was cached."


def rates_figure(records: Records, study: Study) -> Figure:
    """Tokens per second by kind on a logarithmic axis, the article's beside ours where they compare."""
    fig, ax = plots.figure(study.target.name, kinds(study), width_in=7.2, height_in=2.8)
    ax.set_xscale("log")
    beside = ax.get_yaxis_transform()
    for i, (kind, about) in enumerate(RATES.items()):
        found = rates(records, kind).mean
        if not found:
            text = "not observable here" if found is None else "none"
            ax.text(0.02, i, text, color=plots.GREY, va="center", transform=beside)
            continue
        ax.plot(found, i, color=plots.PALETTE[i], marker=plots.MARKERS[i], ms=9)
        ax.annotate(f"{found:,.0f}", (found, i), (14, 0), textcoords="offset points", va="center")
        if about and article_shown(study):
            plots.article_points(ax, [claim(about).value], [i], label=None if i else plots.ARTICLE_LABEL)
    ax.set_yticks(range(len(RATES)), list(RATES))
    ax.set_ylim(len(RATES) - 0.4, -0.6)
    ax.grid(False, axis="y")
    low, high = ax.get_xlim()
    ax.set_xlim(10 ** math.floor(math.log10(low)), 10 ** math.ceil(math.log10(high) + 0.3))
    ax.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
    ax.set_xlabel("tokens per second")
    return fig


def rates_alt(records: Records, study: Study) -> str:
    """Alternative text of `rates_figure`."""
    return f"Tokens per second by kind on {named(study)}. {rates_sentence(records)}"
