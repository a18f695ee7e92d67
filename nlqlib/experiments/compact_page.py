"""How the page on output tokens shows what was found: the probe, the questions and the tokens."""

import statistics
from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import plots, tokens
from nlqlib.analysis.compactness import Lengths, Said, layout, lengths, minified
from nlqlib.artifacts import Record
from nlqlib.experiments.compact import Plan, said
from nlqlib.experiments.contract_basis import contract_sentence
from nlqlib.experiments.contract_probe import (
    Finding,
    already_compact,
    findings,
    honoured,
    ignored,
    schema_contract,
)
from nlqlib.experiments.output_contracts import BASIC, PRETTY
from nlqlib.experiments.study import Study

Records = Mapping[str, Record]
"""Evaluations of one set, by form."""
WHITESPACE = ("disable_any_whitespace", "whitespace_pattern")
"""Fields about whitespace beside the schema: vLLM names them in its code and its flags."""


def told(value: float | None, form: str, unit: str = "") -> str:
    """`value` in `form` with its `unit`; a dash where it is missing."""
    return "—" if value is None else f"{value:{form}}{unit}"


# ---- the probe -------------------------------------------------------------------------------------------


def probe_table(record: Record) -> pd.DataFrame:
    """One row for each way of asking."""
    rows = [
        {
            "request field": one.field,
            "should bring": one.promises,
            "verdict": one.verdict,
            "because": one.reason,
            "answer": " ".join((one.text or "—").split("\n")),
        }
        for one in findings(record)
    ]
    return pd.DataFrame(rows).set_index("request field")


def probe_sentence(record: Record) -> str:
    """What the server honours, what it silently ignores, and what follows."""
    return found_sentence(findings(record))


def found_sentence(found: Sequence[Finding]) -> str:
    """The same of the findings alone."""
    able, lost = honoured(found), ignored(found)
    compact = [name for name in able if name != PRETTY.name]
    parts = [
        _schema_sentence(found),
        f"Silently ignored, with HTTP 200: {_listed(lost)}." if lost else "No field was silently ignored.",
        f"Honoured with each request: {_listed(compact)}." if compact else _no_way(found),
    ]
    unheard = [one.field for one in found if one.verdict in ("no answer", "cut")]
    return " ".join([*parts, *([f"No verdict on {_listed(unheard)}."] if unheard else [])])


def _schema_sentence(found: Sequence[Finding]) -> str:
    contract = schema_contract(found)
    doubts = [one.verdict for one in found if BASIC.get(one.way) == contract and one.verdict != "honoured"]
    unsure = f" Whether it is enforced is not known ({doubts[0]})." if doubts else ""
    return contract_sentence(contract) + unsure


def whitespace_sentence(record: Record) -> str:
    """What became of the fields that speak of whitespace beside the schema."""
    verdicts = {one.field: one.verdict for one in findings(record)}
    told_of = [f"`{name}` {verdicts[name]}" for name in WHITESPACE if name in verdicts]
    return f"Whitespace spoken of beside the schema, with each request: {', '.join(told_of)}."


def _no_way(found: Sequence[Finding]) -> str:
    if already_compact(found):
        return "The server writes minified JSON without being asked: a flag of its own is set."
    return "No way of asking for minified JSON in a request is honoured: a prompt or a server flag is left."


def _listed(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)


def asked_sentence(plan: Plan) -> str:
    """How many questions of each set are asked, and asked in turn; and what the twin cannot replay."""
    asked = "; ".join(f"{source}, {plan.asked_of(source)}" for source in plan.sets)
    timed = "; ".join(f"{source}, {plan.timed_of(source)}" for source in plan.timed_sets)
    return f"Asked in every form: {asked}. Timed in turn: {timed}. {unheard_sentence(plan)}".rstrip()


def named(plan: Plan, source: str) -> str:
    """`holdout (first 8 of 60 questions)`: a set as it was asked, for captions."""
    return f"{source} ({plan.asked_of(source)})"


def unheard_sentence(plan: Plan) -> str:
    """Which forms the twin cannot replay, and how they are recorded; empty where there are none."""
    lost = {source: names for source, names in plan.unheard.items() if names and source in plan.sets}
    if not lost:
        return ""
    told_of = "; ".join(f"{source}: {', '.join(names)}" for source, names in lost.items())
    return f"Never recorded, so left out here (`nlqlib record --condition …` on a real engine): {told_of}."


def forms_table(plan: Plan) -> pd.DataFrame:
    """What is compared, and by what it is made compact."""
    rows = {
        form.name: {
            "is": form.says,
            "prompt": form.prompt,
            "contract": form.contract,
            "enforced by": form.enforced,
        }
        for form in plan.forms
    }
    made = dict.fromkeys(("prompt", "contract"), "—") | {"is": "the pretty answer, minified afterwards"}
    made["enforced by"] = "nothing"
    return pd.DataFrame.from_dict({**rows, "post_parse": made}, orient="index").rename_axis("form")


# ---- tokens ----------------------------------------------------------------------------------------------


def tokens_table(found: Records) -> pd.DataFrame:
    """Tokens, characters and layouts of each form; what was cut or failed is counted, and in no mean."""
    first = said(found[PRETTY.name])
    rows = {name: _tokens_row(said(record)) for name, record in found.items()}
    for name, record in found.items():
        same = "—" if name == PRETTY.name else beside(lengths(first, said(record)))
        rows[name]["tokens against pretty, same questions"] = same
    rows["post_parse"] = post_parse_row(first)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("form").fillna("—")


def beside(both: Lengths) -> str:
    """`73.6 for 120.1 (-39%), n = 7`: mean tokens of a form and of the pretty one, same questions."""
    if both.pretty is None or both.other is None:
        return "no question whole in both"
    return f"{both.other:.1f} for {both.pretty:.1f} ({told(both.change, '+.0%')}), n = {both.n}"


def _tokens_row(answers: Sequence[Said]) -> dict[str, str]:
    whole = [one for one in answers if one.whole]
    layouts = [layout(one.text) for one in whole]
    return {
        "whole answers": f"{len(whole)} of {len(answers)}",
        "cut": str(sum(one.outcome == "length" for one in answers)),
        "compact": str(layouts.count("compact")),
        "with spaces": str(layouts.count("spaced")),
        "pretty": str(layouts.count("pretty")),
        "no JSON": str(layouts.count("no JSON")),
        "generated tokens, mean": told(mean_tokens(answers), ".1f"),
        "characters, mean": told(mean_characters(answers), ".0f"),
        "tokens of the text, mean": told(mean_tokens(answers), ".1f"),
    }


def post_parse_row(pretty: Sequence[Said]) -> dict[str, str]:
    """The pretty answers minified afterwards: fewer characters, and the same tokens generated."""
    texts = post_parse(pretty)
    row = _tokens_row(pretty)
    layouts = dict.fromkeys(("with spaces", "pretty", "no JSON"), "0")
    shorter = statistics.fmean(len(tokens.encode(t)) + 1 for t in texts) if texts else None
    characters = statistics.fmean(map(len, texts)) if texts else None
    return (
        row
        | layouts
        | {
            "compact": str(len(texts)),
            "characters, mean": told(characters, ".0f"),
            "tokens of the text, mean": told(shorter, ".1f"),
        }
    )


def post_parse(pretty: Sequence[Said]) -> list[str]:
    """The whole pretty answers, minified; those that hold no JSON are left out."""
    return [text for one in pretty if one.whole and (text := minified(one.text)) is not None]


def mean_tokens(answers: Sequence[Said]) -> float | None:
    """Output tokens of the whole answers."""
    known = [one.output_tokens for one in answers if one.whole and one.output_tokens is not None]
    return statistics.fmean(known) if known else None


def mean_characters(answers: Sequence[Said]) -> float | None:
    """Characters of the whole answers."""
    known = [len(one.text) for one in answers if one.whole and one.text is not None]
    return statistics.fmean(known) if known else None


def tokens_sentence(found: Records) -> str:
    """The mean lengths against the pretty form, each over the questions that are whole in both."""
    first = said(found[PRETTY.name])
    others = {name: lengths(first, said(record)) for name, record in found.items() if name != PRETTY.name}
    known = [f"{name} {beside(both)}" for name, both in others.items() if both.n]
    if not known:
        return "No question has a whole answer in the pretty and in another form: nothing to compare."
    return (
        "Mean tokens where both answers to a question are whole, for those of the pretty form: "
        f"{'; '.join(known)}. Minifying afterwards saves characters, and none of the tokens "
        "that were generated."
    )


def tokens_figure(found: Records, study: Study) -> Figure:
    """Output tokens of every whole answer, by form; a form without one is said to be not observed."""
    rows = [
        {"form": name, "tokens": one.output_tokens if one.whole else None}
        for name, record in found.items()
        for one in said(record)
    ]
    return plots.strip(
        pd.DataFrame(rows), "tokens", by="form", unit="tokens", target=study.target.name,
        kind=study.target.tag, x="output tokens of an answer",
    )  # fmt: skip


def tokens_alt(found: Records, study: Study) -> str:
    """Alternative text of `tokens_figure`."""
    means = {name: mean_tokens(said(record)) for name, record in found.items()}
    parts = ", ".join(f"{name} {mean:.0f}" for name, mean in means.items() if mean is not None)
    shown = f"Means: {parts}." if parts else "No whole answer was observed."
    return f"Output tokens of each whole answer on target {study.target.name}, one row per form. {shown}"
