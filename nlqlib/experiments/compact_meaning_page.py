"""How the page on output tokens shows what compact output does to meaning, and what to use."""

from collections.abc import Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.compact_choice import Candidate, Choice, choose
from nlqlib.analysis.compactness import MEANING, Pair, Shift, meaning, shifts
from nlqlib.analysis.evaluation import Judged, Share
from nlqlib.experiments.compact import said
from nlqlib.experiments.compact_page import Records, paired, told
from nlqlib.experiments.output_contracts import FORMS, PRETTY
from nlqlib.experiments.semantics import judged_rows
from nlqlib.experiments.study import Study
from nlqlib.records import Json

CHANGED_SHOWN = 8
Sets = Mapping[str, Records]
"""Evaluations by set and form."""


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
    """Questions lost and won against the pretty form, with the exact test."""
    rows = [
        _shift_row(source, name, one)
        for source, records in found.items()
        for name, all_of in shifted(records).items()
        for one in all_of
    ]
    return pd.DataFrame(rows).set_index(["set", "form", "criterion"])


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
        "95 % interval": "—" if within is None else f"{within.low:+.0%} to {within.high:+.0%}",
        "McNemar p": f"{one.p:.3f}",
        "p, Holm": f"{one.p_holm:.3f}",
    }


def shift_sentence(found: Sets) -> str:
    """Which form is shown to change the meaning, and how many single answers changed in each."""
    return " ".join(f"Set {source}: {_shift_sentence(records)}" for source, records in found.items())


def _shift_sentence(found: Records) -> str:
    told_of = shifted(found)
    proven = [
        f"{name} ({one.criterion}, {one.change:+.0%})"
        for name, all_of in told_of.items()
        for one in all_of
        if one.change and one.p_holm <= 0.05
    ]
    moved = {name: len(changed(found, name)) for name in told_of}
    counts = ", ".join(f"{name} {n} of {len(found[name].samples())}" for name, n in moved.items())
    shown = (
        f"shown to change the accuracy: {'; '.join(proven)}."
        if proven
        else (
            "no form is shown to change an accuracy, which is not the same as shown to change none: "
            "see the intervals."
        )
    )
    return f"{shown} Answers that mean something else than the pretty one: {counts}."


def changed(found: Records, name: str) -> list[Json]:
    """The questions whose intent differs between the pretty form and the form `name`, both rows together."""
    first = {row["question_id"]: row for row in found[PRETTY.name].samples()}
    both = [(first[r["question_id"]], r) for r in found[name].samples() if r["question_id"] in first]
    return [
        {"question": a["question"], "id": a["question_id"], "fields": fields, "pretty": a, "other": b}
        for a, b in both
        if (fields := _differing(a["raw"], b["raw"]))
    ]


def _differing(first: Json | None, second: Json | None) -> list[str]:
    if first is None or second is None:
        return [] if first is second else ["valid"]
    return [key for key in first if key != "evidence" and first[key] != second.get(key)]


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


# ---- what to use -----------------------------------------------------------------------------------------


def recommendation(found: Sets) -> Choice:
    """The form to use, over all sets together."""
    everywhere = set.intersection(*(set(records) for records in found.values()))
    names = [name for name in next(iter(found.values())) if name in everywhere - {PRETTY.name}]
    rows = {name: _over(found, name) for name in (PRETTY.name, *names)}
    told_of = shifts(rows[PRETTY.name], {name: rows[name] for name in names})
    effects_of = [paired(records) for records in found.values()]
    others = [
        _candidate(name, rows[name], [p for both in effects_of for p in both[name]], told_of[name])
        for name in names
    ]
    return choose(_candidate(PRETTY.name, rows[PRETTY.name], [], []), others)


def _over(found: Sets, name: str) -> list[Judged]:
    """The judgements of one form, over all sets."""
    return [row for records in found.values() for row in judged_rows(records[name])]


def _candidate(
    name: str, rows: Sequence[Judged], both: Sequence[Pair], told_of: Sequence[Shift]
) -> Candidate:
    right = meaning(rows)[MEANING[0]].k
    return Candidate(name, both, told_of, right, len(rows), sum(r.output_tokens or 0 for r in rows))


def choice_table(choice: Choice) -> pd.DataFrame:
    """What was weighed for each form."""
    rows = {
        name: {
            "strictly right": f"{one.candidate.right} of {one.candidate.answers}",
            "tokens of an answer": told(one.candidate.tokens_each, ".1f"),
            "tokens for each right answer": told(one.candidate.tokens_per_right, ".0f"),
            "loss not excluded": told(one.risk, ".0%") if name != PRETTY.name else "—",
            "against it": "; ".join(one.against) or "nothing",
            "chosen": "yes" if name == choice.chosen else "",
        }
        for name, one in choice.weighed.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("form")


def choice_sentence(choice: Choice, study: Study) -> str:
    """The recommendation, with what it saves and what it risks."""
    chosen = choice.weighed[choice.chosen]
    if choice.chosen == PRETTY.name:
        return (
            "**Keep the pretty form**: of the compact forms that can be relied on and are not shown to lose "
            "meaning, none takes fewer tokens for each strictly right answer."
        )
    saved = told(choice.saved, ".0%")
    risk = told(chosen.risk, ".0%")
    return (
        f"**Use {choice.chosen}** ({FORMS[choice.chosen].says}): {saved} fewer output tokens for each "
        f"strictly right answer than the pretty form, on target {study.target.name}. Its accuracy is not "
        f"shown to be lower, but a loss of up to {risk} of all questions is not excluded by this many: "
        "repeat this page on your own questions before you rely on it."
    )
