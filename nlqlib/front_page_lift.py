"""What an executed notebook holds, taken out by the name of the function that made it.

Pure: reads notebooks (nbformat 4), returns their figures, tables and sentences. A cell is found by a call in
its source (`page.bend_figure(…)`), or by the tag `front`; a notebook knows nothing of who quotes it.
"""

import base64
import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from nlqlib.code_marks import uncoded

FRONT_TAG = "front"
CAPTION = re.compile(r"<caption>(.*?)</caption>", re.DOTALL)
READING = re.compile(r"</table>\s*<p>(.*?)</p>", re.DOTALL)
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
NUMBERS = '<details class="figure-data">'
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z*`])")
CAVEAT = "by construction"
"""A sentence that says so is kept, however short the quotation."""


@dataclass(frozen=True)
class Cell:
    """A code cell, with the heading it stands under."""

    heading: str
    source: str
    tags: tuple[str, ...]
    outputs: tuple[Any, ...]

    def calls(self, name: str) -> bool:
        return bool(re.search(rf"\b{re.escape(name)}\(", self.source))


@dataclass(frozen=True)
class LiftedFigure:
    """A figure as its notebook shows it."""

    page: str
    heading: str
    """The question it answers."""
    alt: str
    width_px: int
    png: bytes
    sentence: str
    """What the notebook says of it, as Markdown."""
    numbers: str
    """Its folded table, as HTML; `""` where it has none."""


@dataclass(frozen=True)
class LiftedTable:
    """A captioned table as its notebook shows it."""

    page: str
    html: str
    caption: str
    reading: str
    """The sentence below it, as Markdown; `""` where there is none."""


def cells(nb: Any) -> list[Cell]:
    """The code cells of `nb` in order."""
    found, heading = [], ""
    for cell in nb["cells"]:
        if cell["cell_type"] == "markdown":
            titles = re.findall(r"^#{1,6} +(.+?)\s*$", cell["source"], re.MULTILINE)
            heading = titles[-1] if titles else heading
        elif cell["cell_type"] == "code":
            tags = tuple(cell.get("metadata", {}).get("tags", ()))
            found.append(Cell(heading, cell["source"], tags, tuple(cell.get("outputs", ()))))
    return found


def figure(nb: Any, page: str, made_by: str = "") -> LiftedFigure | None:
    """The figure drawn by a call of `made_by`; without a name the one tagged `front`, else the first."""
    every = cells(nb)
    drawn = [i for i, cell in enumerate(every) if any(_image(o) for o in cell.outputs)]
    wanted = [i for i in drawn if every[i].calls(made_by)] if made_by else []
    tagged = [i for i in drawn if FRONT_TAG in every[i].tags]
    chosen = wanted or tagged or ([] if made_by else drawn)
    return _lifted(every, chosen[0], page) if chosen else None


def _lifted(every: Sequence[Cell], at: int, page: str) -> LiftedFigure:
    cell = every[at]
    output = next(o for o in cell.outputs if _image(o))
    about = output.get("metadata", {}).get("image/png", {})
    alt = " ".join(str(about.get("alt", "")).split())
    return LiftedFigure(
        page,
        cell.heading,
        alt,
        int(about.get("width", 640)),
        base64.b64decode(output["data"]["image/png"]),
        next(iter([*_said(cell), *_read_before(every, at)]), "") or _last_sentences(alt),
        next((found for o in cell.outputs if (found := _html(o)).startswith(NUMBERS)), ""),
    )


def _image(output: Any) -> bool:
    return "image/png" in output.get("data", {})


def _html(output: Any) -> str:
    return str(output.get("data", {}).get("text/html", ""))


def _said(cell: Cell) -> list[str]:
    """What a cell says in prose, the last first."""
    texts = [str(o.get("data", {}).get("text/markdown", "")).strip() for o in cell.outputs]
    return [text for text in reversed(texts) if text and not text.startswith("*target")]


def _read_before(every: Sequence[Cell], at: int) -> Iterator[str]:
    """Readings of tables and sentences above cell `at` under the same heading, the nearest first."""
    for cell in reversed(every[:at]):
        if cell.heading != every[at].heading:
            return
        yield from _said(cell)
        yield from (reading for o in reversed(cell.outputs) if (reading := _reading(_html(o))))


def _last_sentences(alt: str) -> str:
    """An alternative text without its first sentence, which says what is drawn."""
    parts = SENTENCE_END.split(alt)
    return " ".join(parts[1:] or parts)


def table(nb: Any, page: str, made_by: str) -> LiftedTable | None:
    """The first table shown by a cell that calls `made_by`; `None` where none does."""
    for cell in cells(nb):
        shown = [_html(o) for o in cell.outputs if TABLE.search(_html(o))]
        if cell.calls(made_by) and shown:
            [body, *_], caption = TABLE.findall(shown[0]), CAPTION.search(shown[0])
            said = next(iter(_said(cell)), "")
            return LiftedTable(
                page, body, html.unescape(uncoded(caption[1])) if caption else "", _reading(shown[0]) or said
            )
    return None


def _reading(text: str) -> str:
    found = READING.search(text)
    return html.unescape(uncoded(found[1])).strip() if found else ""


def sentence(nb: Any, said_by: str) -> str:
    """What the first cell that calls `said_by` says in prose; `""` where none does."""
    return next((said[0] for cell in cells(nb) if cell.calls(said_by) and (said := _said(cell))), "")


def shortened(text: str, together: int = 1) -> str:
    """The first sentence of `text`, or the first `together` as one; and every later one that says what holds
    by construction."""
    parts = SENTENCE_END.split(" ".join(text.split()))
    return " ".join([as_one(parts[:together]), *(part for part in parts[together:] if CAVEAT in part)])


def as_one(sentences: Sequence[str]) -> str:
    """`sentences` as one, its parts set off by semicolons."""
    parts = [sentences[0], *map(_continued, sentences[1:])]
    return "; ".join([*(part.rstrip(".") for part in parts[:-1]), parts[-1]])


def _continued(sentence: str) -> str:
    """`sentence` as it goes on within another: a plain first word loses its capital."""
    plain = len(sentence) > 1 and sentence[1].islower()
    return sentence[0].lower() + sentence[1:] if plain else sentence


def as_myst(text: str) -> str:
    """Markdown of a notebook for a MyST page: no formula begins at a dollar sign, no tag at a `<`."""
    parts = re.split(r"(`[^`]*`)", text)
    plain = [
        part if part.startswith("`") else part.replace("$", "\\$").replace("<", "&lt;") for part in parts
    ]
    return "".join(plain)
