"""How the page on held-out meaning shows accuracy: tables, figures and sentences from retained rows."""

from collections.abc import Callable, Mapping, Sequence

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.analysis.evaluation import Share
from nlqlib.artifacts import Record
from nlqlib.experiments.answers import UNRECORDED
from nlqlib.experiments.captions import Table, captioned
from nlqlib.experiments.condition_report import paired, shown
from nlqlib.experiments.conditions import CONDITIONS
from nlqlib.experiments.heldout import (
    ASKS_BACK,
    Ceiling,
    Found,
    best,
    correctness,
    forced,
    report,
    rows,
    unheard,
    unheard_sets,
)
from nlqlib.experiments.heldout_article import printed_final, share_named
from nlqlib.experiments.heldout_sets import counted
from nlqlib.experiments.heldout_standing import standing_note
from nlqlib.experiments.study import Study
from nlqlib.records import Json

NAMES = {"majority": "commonest kind, question unread"}
"""Conditions whose own name would be misread: the share of the majority class is another number."""


def label(name: str) -> str:
    """The condition `name` as tables and figures call it."""
    return NAMES.get(name, name)


def answers(frame: pd.DataFrame, study: Study, what: str, reading: str = "") -> Table:
    """`frame` under `what`, named as judged on the answers of the target and not on its times.

    Below it stands what each of its sets counts as.
    """
    return captioned(frame, study, what, with_standing(frame, reading), plots.KIND_WORDS[study.target.tag])


def with_standing(frame: pd.DataFrame, reading: str = "") -> str:
    """`reading`, and what the sets of `frame` count as, where its rows name any."""
    named = "set" in frame.index.names and len(frame)
    note = standing_note(frame.index.get_level_values("set")) if named else ""
    return " ".join(part for part in (reading, note) if part)


def conditions_table(found: Found) -> pd.DataFrame:
    """The article's columns for each set and forced condition, and harm, recall and failures."""
    return _by_set(found, _acted)


def _by_set(found: Found, line: Callable[[Record], Json]) -> pd.DataFrame:
    table = {
        (source, label(name)): line(record)
        for source, by_condition in found.items()
        for name, record in forced(by_condition).items()
    }
    return indexed(table, "set", "condition")


def indexed(table: Mapping[tuple[str, str], Json], first: str, second: str) -> pd.DataFrame:
    """A frame with the two parts of each key of `table` as its index; `n/a` where a row lacks a column."""
    columns = list(dict.fromkeys(column for row in table.values() for column in row))
    values = [[row.get(column, "n/a") for column in columns] for row in table.values()]
    index = pd.MultiIndex.from_arrays([[a for a, _ in table], [b for _, b in table]], names=[first, second])
    return pd.DataFrame(values, index=index, columns=columns)


def _acted(record: Record) -> Json:
    told = report(record)
    did = told["interventions"]
    heard = bool(did["answered"])
    return {
        "raw strict": silent(record) or shown(share_named(told["raw"], "strict accuracy")),
        "final strict": silent(record) or shown(told["forced strict accuracy"]),
        "interventions": did["interventions"] if heard else "n/a",
        "precision": shown(did["precision"]),
        "harm": shown(did["harm"]),
        "recall over wrong": shown(did["recall"]),
        "wrong → wrong": did["wrong_to_wrong"] if heard else "n/a",
        "failed requests": told["failed"],
    }


def accuracy_table(found: Found) -> pd.DataFrame:
    """Each set and forced condition by every equality, with intervals that know of the pairs."""
    return _by_set(found, _equalities)


def _equalities(record: Record) -> Json:
    told = report(record)
    interval = told["clustered interval of strict accuracy"]
    return {
        "strict": silent(record) or shown(told["forced strict accuracy"]),
        "strict, clusters drawn": f"{interval[0]:.0%}–{interval[1]:.0%}" if interval else "n/a",
        "kind": shown(share_named(told["final"], "kind accuracy")),
        "execution": shown(share_named(told["final"], "execution accuracy")),
        "whole pairs, raw": shown(told["pair consistency"]["raw"]),
        "whole pairs, final": shown(told["pair consistency"]["final"]),
        "abstained": shown(told["interventions"]["abstained"]),
        "no answer": shown(told["unanswered"]),
    }


def accuracy_figure(found: Found, study: Study) -> Figure:
    """Final strict accuracy of every forced condition, a panel per set, beside the article's holdout."""
    table = [
        {
            "condition": label(name),
            "set": counted(source).replace(" (", "\n(", 1).replace(" since ", " since\n"),
            "share": one.value,
            "low": one.low,
            "high": one.high,
            "n": one.n,
            "article": printed_final(source, name),
        }
        for source, by_condition in found.items()
        for name, record in forced(by_condition).items()
        for one in [correctness(record)]
    ]
    return plots.share_bars(
        pd.DataFrame(table),
        by="condition",
        panel="set",
        target=study.target.name,
        kind=study.target.tag,
        x="right in every field",
    )


def accuracy_alt(found: Found, study: Study) -> str:
    """Alternative text of `accuracy_figure`."""
    chosen = best(found)
    parts = []
    for source, by_condition in found.items():
        told = {name: correctness(record) for name, record in forced(by_condition).items()}
        numbers = [f"{name} {percent(told[name])}" for name in ("baseline", chosen) if name in told]
        parts.append(f"{counted(source)}: {', '.join(numbers)}")
    return (
        "Bars with 95 % intervals: share of questions right in every field, a row per condition and a panel "
        f"per set; {plots.target_note(study.target.name, study.target.tag)}. {'; '.join(parts)}."
    )


def percent(one: Share) -> str:
    """`63%`, or `n/a`."""
    return "n/a" if one.value is None else f"{one.value:.0%}"


def widths_sentence(found: Found) -> str:
    """How roughly each set can tell a share, from the widest interval of any forced condition on it."""
    parts = []
    for source, by_condition in found.items():
        told = [correctness(record) for record in forced(by_condition).values()]
        half = [(one.high - one.low) / 2 for one in told if one.low is not None and one.high is not None]
        if half:
            parts.append(f"± {100 * max(half):.0f} points on {source} ({told[0].n} questions)")
    return f"The widest 95 % interval of a share here is {', '.join(parts) or 'not known'}."


def failures_sentence(found: Found) -> str:
    """Which conditions lack answers, why, and the command that gets them; that none does, where none does.

    Sets of which nothing was answered are named as left out: tables show the others (`answered`).
    """
    lost = unheard(found)
    if not lost:
        return "No request failed."
    left = unheard_sets(found)
    told = [f"{source} under {name}: {reason}" for source, name, reason in lost if UNRECORDED not in reason]
    parts = [f"Failed requests, which are no answers: {'; '.join(told)}."] if told else []
    if left and len(left) < len(found):
        parts.insert(0, f"Left out, since nothing of it was answered here: {', '.join(left)}.")
    return " ".join([*parts, *_unrecorded([(s, n) for s, n, reason in lost if UNRECORDED in reason])])


def _unrecorded(lost: Sequence[tuple[str, str]]) -> list[str]:
    """What the twin has no recordings of, by way of asking, with the command that makes them."""
    return [
        f"Not recorded: {prompt} on {', '.join(sets)}; on a machine that runs the engine: python -m nlqlib "
        f"record --set {','.join(sets)} --condition {prompt}."
        for prompt in dict.fromkeys(CONDITIONS[name].prompt for _, name in lost)
        for sets in [list(dict.fromkeys(s for s, name in lost if CONDITIONS[name].prompt == prompt))]
    ]


def silent(record: Record) -> str | None:
    """What stands in the place of an accuracy where not one request was answered; `None` where one was."""
    if record.status == "success" or rows(record):
        return None
    return "not recorded" if UNRECORDED in str(record.body["error"]) else "no answer"


def paired_table(found: Found) -> pd.DataFrame:
    """Every forced condition against the first, question by question; Holm's adjustment in each set."""
    table = {}
    for source, by_condition in found.items():
        judged = {name: rows(record) for name, record in forced(by_condition).items()}
        for one in paired(judged):
            table[source, label(one.name)] = {
                f"right only under {next(iter(judged))}": one.only_first,
                "right only under this": one.only_second,
                "both answered": one.n,
                "p (exact McNemar)": f"{one.p:.2g}" if one.n else "n/a",
                "p (Holm)": f"{one.p_holm:.2g}" if one.n else "n/a",
            }
    return indexed(table, "set", "condition")


def clarifier_table(found: Found) -> pd.DataFrame:
    """What asking back would buy, kept apart: the clarifier with gold as its user, and without any user."""
    table = {}
    for source, by_condition in found.items():
        for name in ASKS_BACK & set(by_condition):
            told = report(by_condition[name])
            table[source] = {
                "asked the user": silent(by_condition[name]) or shown(told["interventions"]["asked"]),
                "strict, the user always right": shown(share_named(told["final"], "strict accuracy")),
                "strict, nobody to ask": shown(told["forced strict accuracy"]),
            }
    return pd.DataFrame.from_dict(table, orient="index").rename_axis("set")


def ceiling_table(found: Mapping[str, Mapping[str, Ceiling]]) -> pd.DataFrame:
    """The bounds of a one-way guard, by set and condition."""
    table = {
        (source, name): {one.name: shown(vars(one)) for one in vars(bounds).values()}
        for source, by_condition in found.items()
        for name, bounds in by_condition.items()
    }
    return indexed(table, "set", "condition")


def ceiling_sentence(found: Mapping[str, Mapping[str, Ceiling]]) -> str:
    """The best that any one-way guard could reach, by set."""
    parts = []
    for source, by_condition in found.items():
        at_best = max((b.free for b in by_condition.values()), key=lambda s: s.value or 0.0, default=None)
        parts += [f"{percent(at_best)} on {source}"] if at_best else []
    return f"Nothing that only turns rankings into breakdowns can pass {', '.join(parts)} with this model."
