"""Why a notebook failed: the heading above the cell, the error, and the frames that are ours."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import nbformat

from nlqlib import paths
from nlqlib.redaction import redact

ANSI = re.compile(r"\x1b\[[0-9;]*m")
FRAME = re.compile(
    r"^\s*(?:File (?P<path>.+?):(?P<line>\d+), in (?P<name>\w+)|Cell In\[\d+\], line (?P<cell>\d+))"
)
ARROW = re.compile(r"^-+> ?\d+ ?(?P<code>.*)$", re.MULTILINE)
FRAMES = 4
"""Frames shown: the cell and the last of ours below it."""
MESSAGE_LIMIT = 1500
MARKER = "papermill-error-cell-tag"
INTERRUPT = "KeyboardInterrupt"


@dataclass(frozen=True)
class Failure:
    """One failed notebook, for people."""

    error: str
    """Name of the exception."""
    message: str
    heading: str | None = None
    """The markdown heading above the failing cell."""
    frames: tuple[str, ...] = ()

    def lines(self, notebook: str) -> list[str]:
        """The report, without the resume command."""
        where = f"{notebook}, below “{self.heading}”" if self.heading else notebook
        return [f"{where}: {self.error}: {self.message}", *(f"    {frame}" for frame in self.frames)]


def failure(cells: Sequence[nbformat.NotebookNode]) -> Failure | None:
    """The failure recorded in executed `cells`; `None` where no cell has an error."""
    for index, cell in enumerate(cells):
        for output in cell.get("outputs", []):
            if output.output_type == "error":
                return Failure(
                    output.ename,
                    redact(ANSI.sub("", output.evalue))[:MESSAGE_LIMIT],
                    heading_above(cells, index),
                    frames(output.traceback),
                )
    return None


def died(cells: Sequence[nbformat.NotebookNode], message: str) -> Failure:
    """The failure of a kernel that died: in the last cell that was started, whatever papermill says."""
    begun = [i for i, cell in enumerate(cells) if cell.metadata.get("papermill", {}).get("start_time")]
    return Failure("the kernel died", redact(message), heading_above(cells, begun[-1]) if begun else None)


def heading_above(cells: Sequence[nbformat.NotebookNode], index: int) -> str | None:
    """Text of the last markdown heading before cell `index`."""
    for cell in reversed(cells[:index]):
        if cell.cell_type == "markdown" and MARKER not in cell.metadata.get("tags", []):
            found = re.findall(r"^#+ +(.+?) *#*$", cell.source, re.MULTILINE)
            if found:
                return str(found[-1])
    return None


def frames(traceback: Sequence[str]) -> tuple[str, ...]:
    """The cell's and nlqlib's frames in IPython's `traceback`, the last `FRAMES` of them."""
    found = [frame for part in traceback if (frame := _frame(ANSI.sub("", part)))]
    return tuple(found[:1] + found[1:][-(FRAMES - 1) :])


def _frame(part: str) -> str | None:
    match = FRAME.match(part)
    if match is None:
        return None
    arrow = ARROW.search(part)
    code = f": {redact(arrow['code'].strip())}" if arrow else ""
    if match["cell"]:
        return f"cell, line {match['cell']}{code}"
    path = Path(match["path"]).expanduser()
    if not path.is_relative_to(paths.ROOT / "nlqlib"):
        return None
    return f"{path.relative_to(paths.ROOT).as_posix()}:{match['line']} in {match['name']}{code}"
