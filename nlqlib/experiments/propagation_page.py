"""How the page on propagation shows its runs: variation, gain, waves, and the article beside."""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from nlqlib.analysis.stats import Summary, summary
from nlqlib.article import Verdict, claim, comparison_table, verdict
from nlqlib.artifacts import Record
from nlqlib.experiments.knee_article import tag
from nlqlib.experiments.propagation_scrape import construction, in_scheduler
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import sweep_table
from nlqlib.experiments.sweep_rows import WINDOW_LENGTH, Records, broken, span, told
from nlqlib.experiments.token_rates import RATES, rates

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


def waves_sentence(records: Records) -> str:
    """Whether the runs have a steady window, and what the article's own row says of its runs."""
    found = [r for record in records for r in record.validity if r.rule == WINDOW_LENGTH]
    short = [r for r in found if r.ok is False]
    article = _article_waves()
    if not found or not short:
        return f"Every run has a steady window. {article}" if found else article
    n, k = records[0].requests["total"], int(records[0].params["concurrency"])
    longest = max((r.value for r in found if isinstance(r.value, int | float)), default=0.0)
    return (
        f"{n} requests at {k} in flight are {n / k:.1f} waves: the longest steady window lasts {longest:.1f} "
        f"mean latencies, of {short[0].threshold} that a steady throughput needs, so whole runs are "
        f"compared. {article}"
    )


def _article_waves() -> str:
    """Whether the article's own runs can have been in a steady state, by its own row."""
    x, p95 = claim("after.throughput.32"), claim("after.p95.32")
    n = int(x.condition["concurrency"])
    if not x.value or p95.value is None or n / x.value <= p95.value:
        return "The article's own row does not contradict a steady state."
    return (
        f"In the article's own row N / X, {n / x.value:.2f} s, exceeds its p95 of {p95.value:g} s, which no "
        "steady state allows: ramp and drain are in its throughput as well."
    )


def against_article(records: Records, scrape: Record, before: Record | None, study: Study) -> pd.DataFrame:
    """The three runs, the scrape, the gain and the token rates; settings stand beside without a verdict.

    A level at another concurrency than the article's is not compared.
    """
    same = bool(records) and int(records[0].params["concurrency"]) == 32
    x, p95 = throughput(records), tail(records)
    how, n = tag(study, 32), records[0].requests["total"] if records else None
    under = int(claim("scrape.running").condition["concurrency"])
    seen = in_scheduler(scrape) if int(scrape.params["concurrency"]) == under else (None, None)
    judged = [
        ("after.throughput.32", x.mean if same else None, x.interval, how),
        ("after.cv", x.cv if same else None, None, how),
        ("after.p95.32", p95.mean if same else None, p95.interval, tag(study, 32, "p95_s")),
        ("after.design.runs", float(len(records)), None, "by construction"),
        ("after.design.requests", n, None, "by construction"),
        ("scrape.running", seen[0], None, construction(study)),
        ("scrape.waiting", seen[1], None, construction(study)),
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
