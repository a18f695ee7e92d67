"""How the page on propagation shows its runs: variation, gain, the scrape, and the article beside."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.stats import Summary, summary
from nlqlib.article import Verdict, comparison_table, verdict
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import kinds, named
from nlqlib.experiments.factorial_page import depth_at
from nlqlib.experiments.knee_article import tag
from nlqlib.experiments.saved_levels import completions_of
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import sweep_table
from nlqlib.experiments.sweep_rows import Records, broken, span, told
from nlqlib.experiments.token_rates import RATES, rates
from nlqlib.records import Json

BOUND = 0.01
"""The article's bound on the coefficient of variation."""


def runs_table(records: Records) -> pd.DataFrame:
    """Every run as it was measured, its seed and the lengths of its answers beside."""
    table = sweep_table(records)
    lengths = [_lengths(r) for r in records]
    table.insert(1, "seed", [r.params["seed"] for r in records])
    table.insert(len(table.columns) - 1, "output tokens, mean (least to most)", [_span(x) for x in lengths])
    return table.reset_index().set_index("repeat")


def _lengths(record: Record) -> list[int]:
    return [n for row in record.samples() if (n := row["output_tokens"]) is not None]


def _span(lengths: Sequence[int]) -> str:
    if not lengths:
        return "—"
    return f"{sum(lengths) / len(lengths):.1f} ({min(lengths)} to {max(lengths)})"


def throughput(records: Records) -> Summary:
    """Mean, CV and t interval of the runs' throughput in req/s, ramp and drain included."""
    return _summary(records, "throughput_run", "mean")


def tail(records: Records) -> Summary:
    """The same of their p95 in seconds."""
    return _summary(records, "e2e_latency", "p95")


def _summary(records: Records, name: str, stat: str) -> Summary:
    found = [r.value(name, stat) for r in records if not broken(r)]
    return summary([v for v in found if v is not None])


def variation_table(records: Records) -> pd.DataFrame:
    """Mean, interval and coefficient of variation of throughput, p95 and output length over the runs."""
    wanted = {
        "throughput, whole run (req/s)": throughput(records),
        "p95 of E2E latency (s)": tail(records),
        "output tokens per answer": _summary(records, "output_tokens", "mean"),
    }
    shown = {
        name: {
            "runs": s.n,
            "mean": told(s.mean, ".3f"),
            "95 % interval": span(s.interval, ".3f"),
            "CV": told(s.cv, ".2%"),
        }
        for name, s in wanted.items()
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("quantity")


def alike(records: Records) -> float | None:
    """Share of requests whose answer has the same length in every run; `None` below two runs."""
    every = [_lengths(r) for r in records]
    if len(every) < 2 or len({len(x) for x in every}) > 1 or not every[0]:
        return None
    same = [len(set(of)) == 1 for of in zip(*every, strict=True)]
    return sum(same) / len(same)


def variation_sentence(records: Records, study: Study) -> str:
    """How much the runs differ, and what can have made them differ."""
    x, same = throughput(records), alike(records)
    if x.mean is None or x.cv is None:
        return "One good run has no variation to show."
    side = "below" if x.cv < BOUND else "not below"
    text = f"{x.n} runs give {x.mean:.2f} req/s with a coefficient of variation of {x.cv:.2%}, {side} 1 %"
    if study.target.kind == "twin":
        equal = "" if same is None else f" (only {same:.0%} of the answers are equally long in all runs)"
        return f"{text}; it comes from the drawn lengths alone{equal}, since a modelled step has no noise."
    return f"{text}; noise of machine and network is in it."


def gain(after: Records, before: Record | None) -> float | None:
    """Throughput with the limits lifted / behind limits of one request."""
    x, x0 = throughput(after).mean, before.value("throughput_run", "mean") if before else None
    return x / x0 if x and x0 else None


def gain_sentence(after: Records, before: Record | None) -> str:
    """The gain of lifting the limits."""
    found = gain(after, before)
    if before is None or found is None:
        return "Behind limits of one request nothing could be measured here, so the gain is not observable."
    return (
        f"Behind limits of one request {before.params['concurrency']} in flight get "
        f"{told(before.value('throughput_run', 'mean'), '.3f')} req/s; with the limits lifted "
        f"{told(throughput(after).mean, '.2f')} req/s, {found:.1f} times as much."
    )


# ---- the scrape ------------------------------------------------------------------------------------------


def scrape_table(record: Record, study: Study) -> pd.DataFrame:
    """What one scrape in the middle of the level says, beside the samples of the whole level."""
    middle, how = record.results.get("middle") or {}, construction(study)
    wanted = (
        ("requests in flight, by the client", "in_flight", ".0f", ("in_flight", "mean"), how),
        ("requests running", "running", ".0f", ("running", "mean"), how),
        ("requests waiting", "waiting", ".0f", ("waiting", "mean"), how),
        ("KV blocks in use", "kv_usage", ".2%", None, study.target.time_tag),
        ("KV blocks in all", "blocks", ".0f", None, "configured"),
    )
    shown = [_row(name, middle.get(key), form, mean, record, tag) for name, key, form, mean, tag in wanted]
    return pd.DataFrame(shown).set_index("quantity")


def _row(
    name: str, value: float | None, form: str, mean: tuple[str, str] | None, record: Record, how: str
) -> Json:
    return {
        "quantity": name,
        "one scrape": told(value, form),
        "mean over the level": told(record.value(*mean), ".1f") if mean else "—",
        "how it came about": how if value is not None else "missing",
    }


def construction(study: Study) -> str:
    """The tag of what a closed loop in front of an unlimited model must show."""
    return "by construction" if study.target.kind == "twin" else "measured"


def scrape_sentence(record: Record, study: Study) -> str:
    """Whether the requests in flight are in the scheduler."""
    middle, n = record.results.get("middle") or {}, record.params["concurrency"]
    running, waiting = middle.get("running"), middle.get("waiting")
    if running is None or waiting is None:
        return "Whether requests run or wait in the engine is not observable here: it shows no metrics."
    text = f"Under {n} in flight the scrape shows running = {running:.0f} and waiting = {waiting:.0f}"
    if study.target.kind == "twin":
        return (
            f"{text}. On the twin this holds by construction, since nothing stands before a scheduler that "
            "may run 32: it checks the plumbing, and confirms nothing."
        )
    reached = running >= 0.95 * n and waiting <= 0.05 * n
    return f"{text}: {'requests reach' if reached else 'not all requests reach'} the scheduler together."


def scrape_figure(record: Record, study: Study) -> Figure:
    """Running and waiting in the engine through the level, the scrape marked, beside the client's count."""
    fig, ax = plots.figure(study.target.name, kinds(study), width_in=7.6, height_in=3.6)
    rows = [g for g in record.results.get("gauges") or [] if None not in g]
    times = [g[0] for g in rows]
    spans = [
        (c.start_s, c.end_s) for c in completions_of(record) if c.start_s is not None and c.end_s is not None
    ]
    grid = pd.Series(times or [s for s, _ in spans]).to_numpy(float)
    ax.plot(grid, depth_at(grid, spans), color="black", lw=1.2, marker="", label="in flight (client)")
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


def scrape_alt(record: Record, study: Study) -> str:
    """Alternative text of `scrape_figure`."""
    where = named(study)
    return (
        f"Requests running and waiting in the engine over time on {where}. {scrape_sentence(record, study)}"
    )


def against_article(records: Records, scrape: Record, before: Record | None, study: Study) -> pd.DataFrame:
    """The three runs, the scrape, the gain and the token rates; settings stand beside without a verdict.

    A level at another concurrency than the article's is not compared.
    """
    same = bool(records) and int(records[0].params["concurrency"]) == 32
    x, p95 = throughput(records), tail(records)
    how, n = tag(study, 32), records[0].requests["total"] if records else None
    middle = (scrape.results.get("middle") or {}) if int(scrape.params["concurrency"]) == 28 else {}
    judged = [
        ("after.throughput.32", x.mean if same else None, x.interval, how),
        ("after.cv", x.cv if same else None, None, how),
        ("after.p95.32", p95.mean if same else None, p95.interval, tag(study, 32, "p95_s")),
        ("after.design.runs", float(len(records)), None, "by construction"),
        ("after.design.requests", n, None, "by construction"),
        ("scrape.running", middle.get("running"), None, construction(study)),
        ("scrape.waiting", middle.get("waiting"), None, construction(study)),
        ("after.derived.gain", gain(records, before) if same else None, None, how),
        *(
            (about, rates(records, kind).mean if same else None, rates(records, kind).interval, how)
            for kind, about in RATES.items()
            if about
        ),
    ]
    found = [verdict(c, v, None if v is None else i, t, study.target.name) for c, v, i, t in judged]
    return comparison_table([_reasoned(v, records) for v in found], target=study.target.name)


def _reasoned(found: Verdict, records: Records) -> Verdict:
    """`found`; where it has no value because another concurrency was measured, that is the reason."""
    n = int(found.claim.condition.get("concurrency", 0))
    ours = {int(r.params["concurrency"]) for r in records}
    if found.verdict != "not measured" or not ours or n in ours:
        return found
    return replace(found, reason=f"measured at {min(ours)} in flight here, not at {n}: see the tables above")


def construction_table(study: Study) -> pd.DataFrame:
    """What each number of the page rests on, and whether it could have come out otherwise on this target."""
    twin = study.target.kind == "twin"
    real = ("measured", "the engine and the machine decide")
    rests = {
        "requests in flight": ("by construction", "a closed loop holds as many as it is asked to"),
        "running = N, waiting = 0": (
            ("by construction", "the modelled scheduler may run 32, and nothing else is offered")
            if twin
            else real
        ),
        "output tokens per answer": (
            ("by construction", "drawn, 115 ± 3 as in the article") if twin else _served(study)
        ),
        "prompt tokens presented": ("by construction", "20 known prompts, counted by the tokenizer"),
        "prompt tokens computed": (
            ("predicted", "the modelled block cache on the very token ids") if twin else real
        ),
        "throughput and p95": (("predicted", "step times fitted at other concurrencies") if twin else real),
        "coefficient of variation": (
            ("predicted", "from drawn lengths alone: a modelled step has no noise") if twin else real
        ),
    }
    shown = {name: {"how": how, "because": why} for name, (how, why) in rests.items()}
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("quantity")


def _served(study: Study) -> tuple[str, str]:
    if study.quick:
        return "by construction", "cut to a fixed length by `ignore_eos`"
    return "measured", "the model ends its answers where it likes"
