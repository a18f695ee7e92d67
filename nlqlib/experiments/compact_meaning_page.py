"""How the page on output tokens shows what compact output does to meaning."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.compactness import MEANING, Shift, ended, meaning, shifts
from nlqlib.analysis.evaluation import Share
from nlqlib.analysis.stats import Interval
from nlqlib.experiments.compact import Plan, said
from nlqlib.experiments.compact_page import Records, named, told
from nlqlib.experiments.output_contracts import PRETTY
from nlqlib.experiments.semantics import judged_rows
from nlqlib.experiments.study import Study
from nlqlib.records import Json

CHANGED_SHOWN = 8
Sets = Mapping[str, Records]
"""Evaluations by set and form."""


@dataclass(frozen=True)
class Compared:
    """The rows of two forms for the questions to which both gave a whole answer."""

    whole: tuple[tuple[Json, Json], ...]
    left_out: int
    """Questions with an answer that was cut, empty or failed on one side."""


# ---- meaning ---------------------------------------------------------------------------------------------


def meanings(found: Records) -> dict[str, dict[str, Share]]:
    """The three accuracies of each form; cut answers are wrong."""
    return {name: meaning(judged_rows(record)) for name, record in found.items()}


def meaning_table(found: Sets) -> pd.DataFrame:
    """Strict, kind and execution accuracy with Wilson 95 % intervals, cut and failed answers beside them."""
    rows = [row for source, records in found.items() for row in _meaning_rows(source, records)]
    return pd.DataFrame(rows).set_index(["set", "form"])


def _meaning_rows(source: str, found: Records) -> list[Json]:
    rows = []
    for name, shares in meanings(found).items():
        outcomes = [one.outcome for one in said(found[name])]
        row: Json = {"set": source, "form": name} | {
            criterion: _share(one) for criterion, one in shares.items()
        }
        rows.append(
            row | {"cut (wrong)": outcomes.count("length"), "failed": len(outcomes) - shares[MEANING[0]].n}
        )
    return [*rows, rows[0] | {"form": "post_parse"}]


def _share(one: Share) -> str:
    if one.value is None or one.low is None or one.high is None:
        return "n/a"
    return f"{one.value:.0%} ({one.low:.0%}–{one.high:.0%}), {one.k} of {one.n}"


def meaning_figure(found: Records, study: Study) -> Figure:
    """The three accuracies of each form as bars with intervals."""
    rows = [
        {"form": name, "metric": criterion, "share": one.value, "low": one.low, "high": one.high, "n": one.n}
        for name, shares in meanings(found).items()
        for criterion, one in shares.items()
    ]
    frame = pd.DataFrame(rows)
    return plots.share_bars(frame, by="form", panel="metric", target=study.target.name, kind=study.target.tag)


def meaning_alt(found: Records, study: Study) -> str:
    """Alternative text of `meaning_figure`."""
    parts = [f"{name} {told(s[MEANING[0]].value, '.0%')}" for name, s in meanings(found).items()]
    return (
        f"Strict, kind and execution accuracy of each form of output, with 95 % intervals, "
        f"target {study.target.name}. Strict: {', '.join(parts)}."
    )


def shifted(found: Records) -> dict[str, list[Shift]]:
    """Every form against the pretty one, question by question."""
    rows = {name: judged_rows(record) for name, record in found.items()}
    return shifts(rows.pop(PRETTY.name), rows)


def shift_table(found: Sets) -> pd.DataFrame:
    """Questions lost and won against the pretty form, with interval and exact test; none is adjusted."""
    rows = [
        _shift_row(source, name, one)
        for source, records in found.items()
        for name, all_of in shifted(records).items()
        for one in all_of
    ]
    index = ["set", "form", "criterion"]
    return pd.DataFrame(rows, columns=None if rows else index).set_index(index)


def _shift_row(source: str, name: str, one: Shift) -> dict[str, str]:
    within = one.interval
    return {
        "set": source,
        "form": name,
        "criterion": one.criterion,
        "lost": str(one.lost),
        "won": str(one.won),
        "pairs": str(one.n),
        "change": told(one.change, "+.0%"),
        "95 % interval": "—" if within is None else _within(within),
        "McNemar p": f"{one.p:.3f}",
    }


def _within(interval: Interval) -> str:
    return f"{interval.low:+.0%} to {interval.high:+.0%}"


def shift_sentence(found: Sets, plan: Plan) -> str:
    """Which form is shown to change the strict accuracy, which other accuracies moved, which answers did."""
    return " ".join(f"Set {named(plan, source)}: {_shift_sentence(rows)}" for source, rows in found.items())


def _shift_sentence(found: Records) -> str:
    all_of = [(name, one) for name, rows in shifted(found).items() for one in rows if one.shown]
    strict = [_moved(name, one) for name, one in all_of if one.criterion == MEANING[0]]
    rest = [(name, one) for name, one in all_of if one.criterion != MEANING[0]]
    others = [f"{_moved(name, one)} in {one.criterion}" for name, one in rest]
    shown = (
        f"{MEANING[0]} is shown to change with {'; '.join(strict)}."
        if strict
        else f"no form is shown to change the {MEANING[0]}, which is not the same as shown to change nothing"
        ": read the intervals."
    )
    also = f" Beside it, not decided on: {'; '.join(others)}." if others else ""
    return f"{shown}{also} {_moved_answers(found)}"


def _moved(name: str, one: Shift) -> str:
    within = "—" if one.interval is None else _within(one.interval)
    return f"{name} ({told(one.change, '+.0%')}, {within})"


def _moved_answers(found: Records) -> str:
    names = [name for name in found if name != PRETTY.name]
    told_of = [f"{name} {len(changed(found, name))} of {len(compared(found, name).whole)}" for name in names]
    asked = len(found[PRETTY.name].samples())
    return (
        f"Answers that mean something else than the pretty one, of those to {asked} questions that are whole "
        f"in both forms: {', '.join(told_of)}."
    )


def _of_pairs(n: int, both: Compared) -> str:
    left_out = f" ({both.left_out} left out, not whole on both sides)" if both.left_out else ""
    return f"{n} of {len(both.whole)}{left_out}"


def compared(found: Records, name: str) -> Compared:
    """The pretty answers beside those in the form `name`."""
    first = {row["question_id"]: row for row in found[PRETTY.name].samples()}
    both = [(first[r["question_id"]], r) for r in found[name].samples() if r["question_id"] in first]
    whole = tuple((a, b) for a, b in both if ended(a["outcome"]) and ended(b["outcome"]))
    return Compared(whole, len(both) - len(whole))


def changed(found: Records, name: str) -> list[Json]:
    """The questions whose intent differs between whole answers of both forms, both rows together."""
    return [
        {"question": a["question"], "id": a["question_id"], "fields": fields, "pretty": a, "other": b}
        for a, b in compared(found, name).whole
        if (fields := _differing(a["raw"], b["raw"]))
    ]


def _differing(first: Json | None, second: Json | None) -> list[str]:
    if first is None or second is None:
        return [] if first is second else ["valid"]
    return [key for key in first if key != "evidence" and first[key] != second.get(key)]


def changed_sentence(found: Records, name: str) -> str:
    """How many of the compared answers differ, and how many of those are shown."""
    n, both = len(changed(found, name)), compared(found, name)
    shown = f" The first {CHANGED_SHOWN} are shown." if n > CHANGED_SHOWN else ""
    return f"Something else is meant in {_of_pairs(n, both)}.{shown}"


def changed_table(found: Records, name: str) -> pd.DataFrame:
    """Questions to which the form `name` gave another intent: the fields, and which answer is right."""
    rows = [
        {
            "question": one["question"],
            "differs in": ", ".join(one["fields"]),
            "pretty": _values(one["pretty"]["raw"], one["fields"]),
            name: _values(one["other"]["raw"], one["fields"]),
            "strictly right": _right(one["pretty"]["strict"], one["other"]["strict"], name),
        }
        for one in changed(found, name)[:CHANGED_SHOWN]
    ]
    columns = ["question", "differs in", "pretty", name, "strictly right"]
    return pd.DataFrame(rows, columns=columns).set_index("question")


def _values(intent: Json | None, fields: Sequence[str]) -> str:
    if intent is None:
        return "invalid"
    return "; ".join(f"{key} = {intent[key]}" for key in fields if key in intent)


def _right(first: bool, second: bool, name: str) -> str:
    if first == second:
        return "both" if first else "neither"
    return PRETTY.name if first else name
