"""From an executed notebook to what MyST-NB renders: alt text, plain output, a banner that names the target.

MyST-NB 1.4 reads the options of an image, `alt` among them, from the *cell's* metadata and ignores those of
the output. `read` is its reader for `.ipynb` (`nb_custom_formats`): it gives every figure a cell of its own,
so that each keeps its own alt text.
"""

import html
import re
from collections.abc import Iterator, Mapping
from typing import Any

import nbformat
from nbformat import NotebookNode

from nlqlib.code_marks import coded, uncoded

ANSI = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[@-Z\\-_]")
TABLE = re.compile(r"<table.*?</table>", re.DOTALL)
CAPTION = re.compile(r"<caption>(.*?)</caption>", re.DOTALL)
TITLE = re.compile(r"^# .+$", re.MULTILINE)
KEPT_METADATA = ("kernelspec", "language_info")  # the rest holds paths of the machine that ran it
HIDING_TAGS = {"hide-input", "hide-cell", "remove-input"}

HEADLINES = {
    ("drawn", "modelled", "replayed"): "Modelled times, answers replayed or drawn",
    ("drawn", "modelled"): "Modelled, not measured",
    ("modelled", "replayed"): "Modelled times, replayed answers",
    ("modelled",): "Modelled, not measured",
    ("replayed",): "Replayed, not measured",
    ("measured",): "Measured",
}
EXPLANATIONS = {
    "modelled": "Any time on this page comes from a model of the endpoint; nobody measured it.",
    "measured": "The numbers on this page were measured on this target.",
}
ANSWERS = {
    ("replayed",): "Answers on this page are replayed from recordings of a real model.",
    ("drawn",): "Answers on this page have no meaning, only lengths, which are drawn.",
    ("drawn", "replayed"): "Some answers are replayed from recordings of a real model; others have no "
    "meaning, only lengths, which are drawn or fixed.",
}
KIND = re.compile(r"\b(?:measured|modelled|replayed|drawn)\b")


def read(text: str) -> NotebookNode:
    """The notebook in the JSON `text`, ready for MyST-NB; raises `nbformat.reader.NotJSONError`."""
    return prepare(nbformat.reads(text, as_version=4))


def prepare(nb: NotebookNode) -> NotebookNode:
    """A new notebook: a banner under the title, a figure and its alt text per cell, no ANSI."""
    cells = [piece for cell in nb.cells for piece in _pieces(cell)]
    kept = {key: nb.metadata[key] for key in KEPT_METADATA if key in nb.metadata}
    about = nb.metadata.get("nlqlib")
    return nbformat.v4.new_notebook(cells=_with_banner(cells, about) if about else cells, metadata=kept)


def banner(about: Mapping[str, Any]) -> str:
    """The admonition for `about` = {target, run?, kinds?, what?}: who answered, and was it measured."""
    target = str(about.get("target") or "unknown")
    kinds = kinds_of(about)
    headline = HEADLINES.get(kinds, " and ".join(kinds).capitalize())
    style = "note" if kinds == ("measured",) else "warning"
    lines = [f"Target **{target}**" + (f": {about['what']}." if about.get("what") else ".")]
    lines += [EXPLANATIONS[kind] for kind in kinds if kind in EXPLANATIONS]
    answers = tuple(kind for kind in kinds if kind in ("drawn", "replayed"))
    lines += [ANSWERS[answers]] if answers else []
    if about.get("run"):
        lines.append(f"Run {about['run']}.")
    return f"```{{admonition}} {headline}\n:class: {style} nlqlib-banner\n" + "\n".join(lines) + "\n```"


def kinds_of(about: Mapping[str, Any]) -> tuple[str, ...]:
    """What the numbers of a run are, in alphabetical order: as it says, else as its statement `what` does.

    Where neither names a kind, everything that its target may be: the twin models times, and its answers are
    replayed or drawn.
    """
    told = about.get("kinds") or KIND.findall(about.get("what") or "")
    usual = ("modelled", "replayed", "drawn") if about.get("target") == "twin" else ("measured",)
    return tuple(sorted(set(told or usual)))


def _with_banner(cells: list[NotebookNode], about: Mapping[str, Any]) -> list[NotebookNode]:
    """`cells` with the banner right under the first title, or on top where there is none."""
    first = next(
        (i for i, c in enumerate(cells) if c.cell_type == "markdown" and TITLE.search(c.source)), None
    )
    if first is None:
        return [nbformat.v4.new_markdown_cell(banner(about)), *cells]
    title = TITLE.search(cells[first].source)
    end = title.end() if title else 0
    source = cells[first].source
    cells[first].source = f"{source[:end]}\n\n{banner(about)}\n{source[end:]}"
    return cells


def _pieces(cell: NotebookNode) -> Iterator[NotebookNode]:
    """`cell` itself, or one cell per figure: the first with the source, the others with outputs only."""
    if cell.cell_type != "code":
        yield cell
        return
    for number, outputs in enumerate(_one_figure_each([_plain(output) for output in cell.outputs])):
        piece = nbformat.v4.new_code_cell(
            cell.source, outputs=outputs, execution_count=cell.execution_count, metadata=dict(cell.metadata)
        )
        options = dict(piece.metadata.get("mystnb", {}))
        if alt := next((alt for o in outputs if (alt := _alt(o))), None):
            options["image"] = {**options.get("image", {}), "alt": alt}
        if number:
            options["remove_code_source"] = True
            piece.metadata["tags"] = [t for t in cell.metadata.get("tags", []) if t not in HIDING_TAGS]
        if options:
            piece.metadata["mystnb"] = options
        yield piece


def _one_figure_each(outputs: list[NotebookNode]) -> list[list[NotebookNode]]:
    groups: list[list[NotebookNode]] = [[]]
    for output in outputs:
        if _image(output) and any(_image(o) for o in groups[-1]):
            groups.append([])
        groups[-1].append(output)
    return groups


def boxed(markup: str) -> str:
    """`markup` with every table in a box that scrolls by itself and can be reached by keyboard."""
    return TABLE.sub(_in_a_box, markup)


def _in_a_box(table: re.Match[str]) -> str:
    caption = CAPTION.search(table[0])
    name = _plain_words(caption[1]) if caption else "table"
    return f'<div class="wide" role="group" tabindex="0" aria-label="{name}">{coded(table[0])}</div>'


def _plain_words(caption: str) -> str:
    """A caption as the value of an attribute: without elements and code marks."""
    return html.escape(html.unescape(uncoded(caption)).replace("`", ""), quote=True)


def _image(output: NotebookNode) -> str | None:
    return next((mime for mime in output.get("data", {}) if mime.startswith("image/")), None)


def _alt(output: NotebookNode) -> str | None:
    mime = _image(output)
    alt = output.get("metadata", {}).get(mime, {}).get("alt") if mime else None
    return " ".join(str(alt).split()) if alt else None


def _plain(output: NotebookNode) -> NotebookNode:
    """`output` without ANSI escape sequences in its text, and with its tables in boxes."""
    plain = nbformat.from_dict(output)
    if "text" in plain:
        plain.text = ANSI.sub("", plain.text)
    for mime, value in plain.get("data", {}).items():
        if mime.startswith("text/") and isinstance(value, str):
            plain.data[mime] = ANSI.sub("", value)
    if isinstance(plain.get("data", {}).get("text/html"), str):
        plain.data["text/html"] = boxed(plain.data["text/html"])
    return plain
