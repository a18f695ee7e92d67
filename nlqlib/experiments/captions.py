"""Tables that say what they are: a data frame with a caption that names its target and how it came about."""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from nlqlib import plots
from nlqlib.code_marks import coded
from nlqlib.experiments.study import Study


@dataclass(frozen=True)
class Table:
    """A frame and its caption; shows itself in a notebook."""

    frame: pd.DataFrame
    caption: str
    reading: str = ""
    """What the table says, in one sentence below it."""

    def _repr_html_(self) -> str:
        opening, rest = _one_heading(_lined(self.frame)).split("\n", 1)
        below = f"\n<p>{html.escape(self.reading)}</p>" if self.reading else ""
        return coded(f"<div>{opening}\n<caption>{html.escape(self.caption)}</caption>\n{rest}{below}</div>")

    def __repr__(self) -> str:
        return "\n".join([self.caption, self.frame.to_string(na_rep="—"), self.reading]).rstrip()


BREAK = "\u2028"
"""A line's end inside a cell, while pandas writes the table."""


def _lined(frame: pd.DataFrame) -> pd.DataFrame:
    """`frame` with the line ends of its texts as marks that survive pandas' HTML."""
    return frame.map(lambda v: v.replace("\n", BREAK) if isinstance(v, str) else v)


def _one_heading(frame: pd.DataFrame) -> str:
    """`frame` as HTML; the name of its rows stands beside the columns' names, not on a line of its own."""
    if frame.index.nlevels == 1 and frame.columns.nlevels == 1 and frame.columns.name is None:
        frame = frame.rename_axis(index=None, columns=frame.index.name)
    return frame.to_html(border=0, na_rep="—").replace(BREAK, "<br>")


def captioned(
    frame: pd.DataFrame, study: Study, what: str, reading: str = "", kind: str | Sequence[str] = ""
) -> Table:
    """`frame` under `what`, the target's name, and how its numbers came about (by default `kinds`).

    `reading`: a sentence below it.
    """
    named = [kind] if isinstance(kind, str) else list(kind)
    words = [w for w in named if w] or [plots.KIND_WORDS[k] for k in kinds(study)]
    return Table(frame, f"{what}. Target: {study.target.name} ({', '.join(words)}).", reading)


def kinds(study: Study, words: str = "synthetic") -> tuple[plots.Kind, ...]:
    """How numbers of `study` came about, for a figure: the twin's times are modelled, its words replayed."""
    if study.target.kind != "twin":
        return ("measured",)
    return ("modelled", "replayed") if words == "recordings" else ("modelled",)


def named(study: Study) -> str:
    """`target twin (modelled times)`: for sentences."""
    return plots.target_note(study.target.name, kinds(study)).replace("target: ", "target ")
