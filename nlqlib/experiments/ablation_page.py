"""How page 13 shows what of the prompt helps: one line for each variant, and what is kept because of it."""

from collections.abc import Mapping
from dataclasses import asdict

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.evaluation import Paired, Share, against, scores
from nlqlib.artifacts import Record
from nlqlib.experiments.ablation_variants import AS_IS, VARIANTS
from nlqlib.experiments.condition_report import shown
from nlqlib.experiments.semantics import raw_rows
from nlqlib.experiments.study import Study
from nlqlib.records import Json

SHOWN = {"kind accuracy": "kind", "strict accuracy": "strict", "execution accuracy": "execution"}
PROVEN = 0.05
"""Largest p, after Holm, by which a variant is called better or worse."""
Found = Mapping[str, Record]
"""The evaluations by variant."""


def shares(record: Record) -> dict[str, Share]:
    """The accuracies of one variant, by their short names."""
    return {SHOWN[one.name]: one for one in scores(raw_rows(record)) if one.name in SHOWN}


def tests(found: Found) -> dict[str, Paired]:
    """Every variant against the prompt as it is, strictly right or not, question by question."""
    rows = {name: raw_rows(record) for name, record in found.items()}
    reference = rows.pop(AS_IS.name)
    return {one.name: one for one in against(reference, rows)}


def table(found: Found) -> pd.DataFrame:
    """What each variant changes, its accuracies with intervals, its tests and its tokens."""
    paired = tests(found)
    rows = {v.name: _row(v.what, found[v.name], paired.get(v.name)) for v in VARIANTS if v.name in found}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("variant")


def _row(what: str, record: Record, test: Paired | None) -> Json:
    accuracies = {name: shown(asdict(one)) for name, one in shares(record).items()}
    lost, won, p = ("—",) * 3 if test is None else (test.only_first, test.only_second, f"{test.p_holm:.2g}")
    rows = record.samples()
    return {
        "what is changed": what,
        **accuracies,
        "lost": lost,
        "won": won,
        "p (Holm)": p,
        "prompt tokens": _mean(rows, "prompt_tokens"),
        "output tokens": _mean(rows, "output_tokens"),
        "cut": sum(row["finish_reason"] == "length" for row in rows),
    }


def _mean(rows: list[Json], name: str) -> str:
    known = [row[name] for row in rows if row[name] is not None]
    return f"{sum(known) / len(known):,.0f}" if known else "—"


def sentence(found: Found) -> str:
    """What is kept: the prompt as it is, unless a variant is shown to be better."""
    paired = tests(found)
    better = [n for n, one in paired.items() if one.p_holm <= PROVEN and one.only_second > one.only_first]
    worse = [n for n, one in paired.items() if one.p_holm <= PROVEN and one.only_second < one.only_first]
    if not paired:
        return "No variant has been asked on this target."
    smallest = min(paired.values(), key=lambda one: (one.p, one.name))
    n, proven = found[AS_IS.name].body["requests"]["total"], better + worse
    verdict = (
        "; ".join([*(f"{n} is better" for n in better), *(f"{n} is worse" for n in worse)])
        if proven
        else f"none of the {len(paired)} is shown to be better or worse"
    )
    kept = f"The prompt to change to is {better[0]}" if better else "So the prompt is kept as it is"
    return (
        f"On {n} development questions {verdict} (strictly right, exact McNemar test, Holm). The largest "
        f"change is that of {smallest.name}: {smallest.only_first} lost and {smallest.only_second} won, "
        f"p = {smallest.p:.2g} before Holm. {kept}."
    )


def figure(found: Found, study: Study) -> Figure:
    """Kind, strict and execution accuracy of every variant."""
    rows = [
        {"variant": name, "metric": what, "share": one.value, "low": one.low, "high": one.high, "n": one.n}
        for name, record in found.items()
        for what, one in shares(record).items()
    ]
    frame = pd.DataFrame(rows)
    return plots.share_bars(
        frame, by="variant", panel="metric", target=study.target.name, kind=study.target.tag
    )


def alt(found: Found, study: Study) -> str:
    """Alternative text of `figure`."""
    strict = {name: shares(record)["strict"] for name, record in found.items()}
    parts = ", ".join(f"{name} {one.k} of {one.n}" for name, one in strict.items())
    return (
        f"Kind, strict and execution accuracy of the prompt's variants with 95 % intervals, target "
        f"{study.target.name}. Strictly right: {parts}."
    )
