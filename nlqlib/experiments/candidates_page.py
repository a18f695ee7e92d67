"""How the page on candidates shows them: tables, contracts, prices and sentences, from records alone."""

from collections.abc import Sequence

import pandas as pd

from nlqlib import article, plots
from nlqlib.analysis.stats import percentile
from nlqlib.artifacts import Record
from nlqlib.experiments.candidates import Candidate, Cost, Measurements, cost, seconds
from nlqlib.experiments.captions import Table, captioned, kinds
from nlqlib.experiments.condition_report import shown
from nlqlib.experiments.heldout import Found, correctness, report, rows
from nlqlib.experiments.heldout_article import share_named
from nlqlib.experiments.heldout_page import indexed, percent, silent, with_standing
from nlqlib.experiments.heldout_sets import ARTICLES_GATE, counted
from nlqlib.experiments.study import Study
from nlqlib.records import Json

MISSING = "not measured here"
ERRORS = 3
"""Commonest errors that the table names."""


def answers(frame: pd.DataFrame, study: Study, what: str, reading: str = "") -> Table:
    """`frame` under `what`, and below it what each of its sets counts as."""
    return captioned(frame, study, what, with_standing(frame, reading), told_kinds(study))


def candidates_table(found: Measurements, candidates: Sequence[Candidate], study: Study) -> pd.DataFrame:
    """The article's metrics for every candidate on every set; what nobody measured says so."""
    table = {
        (source, c.name): _line(c, records.get(c.name), study)
        for source, records in found.items()
        for c in candidates
    }
    return indexed(table, "set", "candidate").replace("n/a", "—")


def _line(candidate: Candidate, record: Record | None, study: Study) -> Json:
    if record is None or not rows(record):
        reason = MISSING if record is None else silent(record) or "no answer"
        return dict.fromkeys(("raw strict", "final strict"), reason) | {"tests": candidate.tests}
    told = report(record)
    spent = seconds(rows(record))
    costs = cost(candidate, record, study.target.name)
    return {
        "raw strict": shown(share_named(told["raw"], "strict accuracy")),
        "final strict": shown(told["forced strict accuracy"]),
        **_corrected(candidate, told),
        "p50 / p95 (s)": f"{_number(percentile(spent, 50))} / {_number(percentile(spent, 95))}",
        "output tokens": _number(told["serving"]["output_tokens"]["mean"], ".0f"),
        "USD per 1,000": _number(costs.value),
        "failed": told["failed"],
        "tests": candidate.tests,
    }


def _corrected(candidate: Candidate, told: Json) -> Json:
    """What the correction did; that of a candidate that asks the user stands in a table of its own."""
    did = told["interventions"]
    apart = dict.fromkeys(("precision", "recall", "commonest errors left"), "asks back: below")
    return (
        {
            "precision": shown(did["precision"]),
            "recall": shown(did["recall"]),
            "commonest errors left": _commonest(told),
        }
        if candidate.forced
        else apart
    )


def _commonest(told: Json) -> str:
    left = [(name, n) for name, n in told["errors"]["final"].items() if not name.startswith("guard")]
    return ", ".join(f"{name} {n}" for name, n in left[:ERRORS]) or "none"


def _number(value: float | None, form: str = ".3g") -> str:
    return "n/a" if value is None else f"{value:{form}}"


def contracts_table(candidates: Sequence[Candidate]) -> pd.DataFrame:
    """Every service: model, protocol, output contract, names of variables, price with its month."""
    table = {}
    for service in dict.fromkeys(c.service for c in candidates):
        tokens, hour = service.prices.tokens, service.prices.per_hour
        priced = f"{hour} per hour of one {service.accelerator}" if hour is not None else ""
        if tokens is not None:
            priced = f"{tokens.input} in, {tokens.output} out per million tokens"
        table[service.name] = {
            "model": service.model or "what the target serves",
            "protocol": "Bedrock Converse" if service.kind == "converse" else "OpenAI chat",
            "output contract": service.contract,
            "variables": ", ".join(v for v in (service.url_env, service.key_env) if v) or "none",
            "price (USD)": f"{priced} ({service.as_of})",
        }
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("service")


def cost_sentence(found: Measurements, candidates: Sequence[Candidate], study: Study) -> str:
    """At which operating point a cost was reckoned, in words."""
    bases = [costs.basis for _, _, costs in _costs(found, candidates, study)]
    told = "; ".join(dict.fromkeys(bases)) or "nothing was measured"
    return (
        f"Costs assume: {told}. A machine's cost is its price over the rate N / R of a closed loop of N "
        "requests whose questions take R on average: idle time is not in it. Tokens are at list prices."
    )


def _costs(
    found: Measurements, candidates: Sequence[Candidate], study: Study
) -> list[tuple[str, Candidate, Cost]]:
    return [
        (source, c, cost(c, record, study.target.name))
        for source, records in found.items()
        for c in candidates
        if (record := records.get(c.name)) is not None and rows(record)
    ]


def asking_table(found: Measurements, candidates: Sequence[Candidate]) -> pd.DataFrame:
    """Candidates that ask the user, apart from the others: asked, and right if the user always is."""
    table = {
        (source, c.name): _asking(records.get(c.name))
        for source, records in found.items()
        for c in candidates
        if not c.forced
    }
    return indexed(table, "set", "candidate")


def _asking(record: Record | None) -> Json:
    columns = ("asked the user", "strict, the user always right")
    missing = MISSING if record is None else silent(record)
    if record is None or missing:
        return dict.fromkeys(columns, missing)
    told = report(record)
    shares = (told["interventions"]["asked"], share_named(told["final"], "strict accuracy"))
    return dict(zip(columns, map(shown, shares), strict=True))


def gate_sentence(found: Measurements, candidates: Sequence[Candidate], study: Study, source: str) -> str:
    """Which candidates reach the gate on `source`, and the cheapest of them."""
    reached = [
        (cost(c, record, study.target.name).value, c.name, percent(correctness(record)))
        for c in candidates
        if c.forced and (record := found[source].get(c.name)) is not None
        if (correctness(record).value or 0.0) >= ARTICLES_GATE
    ]
    if not reached:
        return f"No candidate that was measured reaches {ARTICLES_GATE:.0%} on {counted(source)}."
    names = ", ".join(f"{name} ({right})" for _, name, right in reached)
    priced = [(dollars, name) for dollars, name, _ in reached if dollars is not None]
    cheapest = (
        f" The cheapest of them is {min(priced)[1]}, at {min(priced)[0]:.3g} USD per 1,000." if priced else ""
    )
    return f"On {counted(source)} these reach {ARTICLES_GATE:.0%} without asking back: {names}.{cheapest}"


def against_article(found: Measurements, candidates: Sequence[Candidate], study: Study) -> pd.DataFrame:
    """The article's range of final accuracy and its gate, beside the guarded and the best candidate here."""
    here: Found = {
        source: {n: r for n, r in records.items() if r is not None} for source, records in found.items()
    }
    holdout = here.get("holdout", {})
    values = {c: correctness(holdout[c.name]).value for c in candidates if c.forced and c.name in holdout}
    guarded = [v for c, v in values.items() if c.service.here and c.condition.name == "guardrail"]
    known = [v for v in values.values() if v is not None]
    pairs = [
        ("holdout.final.range", guarded[0] if guarded else None),
        ("gate", max(known) if known else None),
    ]
    return article.comparison_table(pairs, target=study.target.name, tag=study.target.tag)


def told_kinds(study: Study) -> str:
    """How the numbers of a mixed table came about: answers, and times where the twin models them."""
    return ", ".join(plots.KIND_WORDS[kind] for kind in kinds(study, "recordings"))
