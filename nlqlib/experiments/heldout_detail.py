"""The answers of the page on held-out meaning in detail: errors, kinds, every decision, the worst misses."""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import plots
from nlqlib.artifacts import Record
from nlqlib.experiments.captions import Table
from nlqlib.experiments.condition_report import shown
from nlqlib.experiments.heard import KINDS
from nlqlib.experiments.heldout import Found, report, rows
from nlqlib.experiments.heldout_page import indexed
from nlqlib.experiments.heldout_sets import counted
from nlqlib.experiments.study import Study
from nlqlib.records import Json

SHORT = {"breakdown": "breakdown", "top_n_by_metric": "top n", "time_series": "time series", "none": "none"}
OPEN_ROWS = 12
"""A longer table is folded, so that the page stays readable; one click opens it, without any script."""
Stage = Literal["raw", "final"]


@dataclass(frozen=True)
class Folded:
    """A table that a browser shows folded where it is long."""

    table: Table

    def _repr_html_(self) -> str:
        inner = self.table._repr_html_()
        if len(self.table.frame) <= OPEN_ROWS:
            return inner
        title = f"{self.table.caption} {len(self.table.frame)} rows: open"
        return f"<details><summary>{html.escape(title)}</summary>\n{inner}\n</details>"

    def __repr__(self) -> str:
        return repr(self.table)


def taxonomy_table(found: Found, names: Sequence[str]) -> pd.DataFrame:
    """How many answers are wrong in each field, raw and final, under each of the conditions `names`."""
    columns = {
        (name, stage): _errors(found, name, stage)
        for name in dict.fromkeys(names)
        for stage in ("raw", "final")
        if any(name in by_condition for by_condition in found.values())
    }
    errors = dict.fromkeys(error for column in columns.values() for error in column)
    order = {source: at for at, source in enumerate(found)}
    table = {
        error: {" ".join(column): counts.get(error, 0) for column, counts in columns.items()}
        for error in sorted(errors, key=lambda e: order[e[0]])
    }
    return indexed(table, "set", "wrong in")


def _errors(found: Found, name: str, stage: str) -> dict[tuple[str, str], int]:
    return {
        (source, error): n
        for source, by_condition in found.items()
        if name in by_condition
        for error, n in report(by_condition[name])["errors"][stage].items()
    }


def recall_table(found: Found, names: Sequence[str]) -> pd.DataFrame:
    """Of the raw answers with an error, how many no longer have it, by set, error and condition."""
    table: dict[tuple[str, str], Json] = {}
    for source, by_condition in found.items():
        for name in (n for n in dict.fromkeys(names) if n in by_condition):
            for error, one in report(by_condition[name])["interventions"]["categories"].items():
                table.setdefault((source, error), {})[name] = shown(one)
    return indexed(table, "set", "error")


def slices_table(found: Found, names: Sequence[str]) -> pd.DataFrame:
    """Strict accuracy of the final answers in each slice of each set."""
    table: dict[tuple[str, str], Json] = {}
    for source, by_condition in found.items():
        for name in (n for n in dict.fromkeys(names) if n in by_condition):
            for one in report(by_condition[name])["slices"]:
                table.setdefault((source, one["name"]), {})[name] = shown(one)
    return indexed(table, "set", "slice")


def confusion(record: Record, stage: Stage) -> pd.DataFrame:
    """Counts of answers by the kind asked for (rows) and the kind answered (columns)."""
    counts = {tuple(pair.split(" → ")): n for pair, n in report(record)["confusion"][stage].items()}
    given = (*KINDS, *(["none"] if any(g == "none" for _, g in counts) else []))
    return pd.DataFrame({g: {k: counts.get((k, g), 0) for k in KINDS} for g in given})


def confusion_figure(found: Found, study: Study, name: str, stage: Stage) -> Figure:
    """A panel for each set: the kind asked for against the kind answered by the condition `name`."""
    shown_sets = [source for source, by_condition in found.items() if name in by_condition]
    fig, axes = plots.panels(
        study.target.name, study.target.tag, len(shown_sets), width_in=max(4.6, 3.4 * len(shown_sets))
    )
    for ax, source in zip(axes, shown_sets, strict=True):
        _draw_counts(ax, confusion(found[source][name], stage))
        ax.set_title(f"{stage} {name}, {counted(source)}".replace(" (", "\n("), loc="left")
        ax.set_xlabel("answered")
    axes[0].set_ylabel("asked for")
    return fig


def _draw_counts(ax: Axes, counts: pd.DataFrame) -> None:
    totals = counts.sum(axis=1).clip(lower=1)
    ax.imshow(counts.div(totals, axis=0), cmap="Blues", vmin=0, vmax=1, aspect="auto")
    ax.set_xticks(range(len(counts.columns)), [SHORT[k].replace(" ", "\n") for k in counts.columns])
    ax.set_yticks(range(len(counts.index)), [SHORT[k] for k in counts.index])
    ax.grid(False)
    for i, kind in enumerate(counts.index):
        for j, given in enumerate(counts.columns):
            n = int(counts.loc[kind, given])
            dark = n / totals[kind] > 0.6
            ax.text(j, i, str(n), ha="center", va="center", color="white" if dark else "black")


def confusion_alt(found: Found, study: Study, name: str, stage: Stage) -> str:
    """Alternative text of `confusion_figure`."""
    parts = []
    for source, by_condition in found.items():
        if name in by_condition:
            counts = confusion(by_condition[name], stage)
            right = sum(int(counts.loc[k, k]) for k in KINDS)
            false = int(counts.loc["breakdown", "top_n_by_metric"])
            total = int(counts.to_numpy().sum())
            parts.append(f"{counted(source)}: {right} of {total} on the diagonal, {false} breakdowns ranked")
    what = f"Kind asked for against kind answered, {stage} answers of {name}"
    return f"{what}; {plots.target_note(study.target.name, study.target.tag)}. {'; '.join(parts)}."


def decisions_table(by_condition: Mapping[str, Record], name: str) -> pd.DataFrame:
    """Every question on which the condition `name` changed something or abstained, and why."""
    table = [_decided(row) for row in rows(by_condition[name]) if _acted(row)] if name in by_condition else []
    columns = ["question", "became", "decision", "raw", "final", "gold"]
    return pd.DataFrame(table, columns=columns).set_index("question")


def _acted(row: Json) -> bool:
    return row["changed"] or any(d["action"] != "kept" for d in row["decisions"])


def _decided(row: Json) -> Json:
    return {
        "question": row["question"],
        "became": f"{_right(row['raw_strict'])} → {_right(row['strict'])}",
        "decision": "; ".join(_decision(d) for d in row["decisions"] if d["action"] != "kept") or "rebuilt",
        "raw": brief(row["raw"]) if row["raw"] else "invalid",
        "final": brief(row["final"]) if row["final"] else f"refused: {row['refused'] or 'no answer'}",
        "gold": "as final" if row["strict"] else brief(row["gold"]),
    }


def _right(strict: bool) -> str:
    return "right" if strict else "wrong"


def _decision(decision: Json) -> str:
    """`limit: 5 → None, abstained ["first ten"]`."""
    words = ", ".join(f"“{w}”" for w in dict.fromkeys(decision["words"]))
    values = f": {_value(decision['before'])} → {_value(decision['after'])}"
    moved = values if decision["before"] != decision["after"] else ""
    abstained = " (abstained)" if decision["action"] == "abstained" else ""
    return f"{decision['rule']}{moved}{abstained}" + (f" [{words}]" if words else "")


def _value(value: Any) -> str:
    """A wire value in few words, nothing as `none`."""
    if isinstance(value, list | tuple):
        return " and ".join(map(_value, value)) or "none"
    if not isinstance(value, dict):
        return "none" if value is None else str(value)
    if "query_type" in value:
        return brief(value)
    return _filter(value) if "op" in value else " ".join(map(str, value.values()))


def _filter(wire: Json) -> str:
    return f"{wire['field']} {wire['op']} {', '.join(map(str, wire['values']))}".rstrip()


def worst_misses(by_condition: Mapping[str, Record], name: str, n: int) -> pd.DataFrame:
    """The `n` final answers of the condition `name` that are wrong in most fields, beside their golds."""
    wrong = [row for row in rows(by_condition[name]) if not row["strict"]] if name in by_condition else []
    worst = sorted(wrong, key=lambda r: (-len(r["errors"]), r["question_id"]))[:n]
    table = [
        {
            "question": row["question"],
            "wrong in": ", ".join(row["errors"]) or "refused",
            "answer": _answer(row),
            "gold": brief(row["gold"]),
        }
        for row in worst
    ]
    return pd.DataFrame(table, columns=["question", "wrong in", "answer", "gold"]).set_index("question")


def _answer(row: Json) -> str:
    if row["final"]:
        return brief(row["final"])
    return f"refused: {row['refused']}" if row["refused"] else f"invalid: {row['invalid']}"


def brief(intent: Json) -> str:
    """An intent without what is empty, as `breakdown: revenue / region; limit 5`."""
    parts = [f"{intent['query_type']}: {', '.join(intent['metrics'])}"]
    parts[0] += f" / {', '.join(intent['dimensions'])}" if intent["dimensions"] else ""
    parts += map(_filter, intent["filters"])
    parts += [intent["period"]] if intent["period"] != "all" else []
    parts += [intent["grain"]] if intent["grain"] else []
    parts += [f"{intent['sort']['by']} {intent['sort']['direction']}"] if intent["sort"] else []
    return "; ".join([*parts, *([f"limit {intent['limit']}"] if intent["limit"] else [])])
