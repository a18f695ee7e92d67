"""The gate in front of the site: what must not be published, and what to do about it.

`check_notebook` looks at one executed notebook and returns every problem it finds, never only the first;
built pages are checked by `nlqlib.site_html`. Both are pure: they read, and build nothing.
"""

import ast
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlqlib import paths, plots_alt
from nlqlib.site_reader import ANSI

MAX_OUTPUT_BYTES = 500_000  # one output; a house figure is 30 to 150 kB in base64
MAX_NOTEBOOK_BYTES = 5_000_000  # all outputs of one page, on a phone's connection
INTERACTIVE = {"application/vnd.jupyter.widget-view+json", "application/javascript"}

# Roots under which people and machines keep files; `/v1/models` and `/metrics` are no such path.
MACHINE_PATH = re.compile(
    r"(?<![\w.:/~-])/(?:home|root|Users|tmp|private|mnt|media|opt|usr|var|srv|work|workspace|content)/[\w.{-][^\s'\"<>]*"
    r"|\b[A-Za-z]:\\\\?(?:Users|Windows|Program)[^\s'\"<>]*"
)
SECRETS = {
    "an API key": re.compile(r"\bsk-[A-Za-z0-9_-]{16,}"),
    "a hub token": re.compile(r"\bhf_[A-Za-z0-9]{20,}"),
    "a cloud key": re.compile(r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    "a repository token": re.compile(r"\bgh[pousr]_[A-Za-z0-9]{20,}|\bglpat-[\w-]{20,}"),
    "a bearer token": re.compile(r"(?i)\bbearer\s+[A-Za-z0-9._~+/=-]{16,}"),
    "a private key": re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----"),
    "a password in a URL": re.compile(r"\bhttps?://[^\s/:@]+:[^\s/@]+@"),
    "a secret": re.compile(
        r"(?i)\b(?:api[_-]?key|secret|token|password)[\"']?\s*[=:]\s*[\"']?[A-Za-z0-9_\-]{20,}"
    ),
}


@dataclass(frozen=True)
class Problem:
    """One reason not to publish."""

    page: str
    """The notebook or HTML page."""
    heading: str | None
    """The heading above the cell, or `None` where the whole page is meant."""
    what: str
    remedy: str

    def __str__(self) -> str:
        where = f"{self.page}, under “{self.heading}”" if self.heading else self.page
        return f"{where}: {self.what}; {self.remedy}"


@dataclass(frozen=True)
class _Cell:
    heading: str | None
    source: str
    executed: bool
    outputs: tuple[Any, ...]


def check_notebook(nb: Any, name: str, hidden: Sequence[str] = ()) -> list[Problem]:
    """Everything in the executed notebook `nb` (nbformat 4) that must not be published as page `name`.

    `hidden` are texts that must appear nowhere: keys, and hosts of private endpoints.
    """
    cells = list(_code_cells(nb))
    found = [Problem(name, c.heading, what, remedy) for c in cells for what, remedy in _cell_problems(c)]
    if not cells:
        found.append(Problem(name, None, "no code cell", "was this notebook run? `make reproduce`"))
    size = sum(_size(output) for c in cells for output in c.outputs)
    if size > MAX_NOTEBOOK_BYTES:
        what = f"outputs of {size:,} bytes, more than {MAX_NOTEBOOK_BYTES:,}"
        found.append(Problem(name, None, what, "show fewer rows and smaller figures"))
    prose = "\n".join(c["source"] for c in nb["cells"] if c["cell_type"] != "code")
    found += [Problem(name, None, what, remedy) for what, remedy in _leaks(prose)]
    everything = "\n".join([prose, *(c.source for c in cells), *(_text(o) for c in cells for o in c.outputs)])
    if any(text in everything for text in hidden):
        what = "a key or the host of a private endpoint"
        found.append(Problem(name, None, what, "pass it through the environment, never as a parameter"))
    return found


def ran_to_its_end(nb: Any) -> bool:
    """Whether every code cell of `nb` was executed and none ended in an error."""
    cells = list(_code_cells(nb))
    return bool(cells) and all(
        c.executed and all(output["output_type"] != "error" for output in c.outputs) for c in cells
    )


def _code_cells(nb: Any) -> Iterator[_Cell]:
    heading = None
    for cell in nb["cells"]:
        if cell["cell_type"] == "markdown":
            titles = re.findall(r"^#{1,6} +(.+?)\s*$", cell["source"], re.MULTILINE)
            heading = titles[-1] if titles else heading
        elif cell["cell_type"] == "code" and cell["source"].strip():
            executed = cell.get("execution_count") is not None
            yield _Cell(heading, cell["source"], executed, tuple(cell.get("outputs", ())))


def _cell_problems(cell: _Cell) -> Iterator[tuple[str, str]]:
    if not cell.executed:
        yield "a code cell was not executed", "run `make reproduce` again; it resumes where it stopped"
    for output in cell.outputs:
        yield from _output_problems(output)
    yield from _figure_problems(cell)
    yield from _leaks("\n".join([cell.source, *(_text(output) for output in cell.outputs)]))


def _output_problems(output: Any) -> Iterator[tuple[str, str]]:
    if output["output_type"] == "error":
        error = f"{output.get('ename', 'error')}: {_redacted(str(output.get('evalue', '')))[:120]}"
        yield f"an error output ({error})", "mend its cause and run the notebook again"
    elif "Traceback (most recent call last)" in _text(output):
        yield "a printed traceback", "mend its cause, or report it as a row of a table"
    if INTERACTIVE & set(output.get("data", {})):
        yield "an interactive output, which needs scripts", "print plain lines, or draw it with `plots.show`"
    if (size := _size(output)) > MAX_OUTPUT_BYTES:
        what = f"an output of {size:,} bytes, more than {MAX_OUTPUT_BYTES:,}"
        yield what, "show a part of it and keep the rest in the artifact"


def _figure_problems(cell: _Cell) -> Iterator[tuple[str, str]]:
    images = [(o, m) for o in cell.outputs for m in o.get("data", {}) if m.startswith("image/")]
    expected = _show_calls(cell.source)
    if len(images) < expected:
        what = f"{len(images)} of {expected} figures that plots.show was called for"
        yield what, "run the notebook again in a kernel with IPython displays"
    for output, mime in images:
        alt = " ".join(str(output.get("metadata", {}).get(mime, {}).get("alt", "")).split())
        if wrong := plots_alt.problem(alt):
            told = f"a figure with {wrong}" if alt else "a figure without alt text"
            yield told, "draw it with `plots.show(fig, alt=…)`"


def _show_calls(source: str) -> int:
    """How many times a figure must appear: calls of `show(…, alt=…)` outside branches and functions."""
    code = "\n".join(re.sub(r"^\s*[%!].*$", "pass", line) for line in source.splitlines())
    try:
        tree = ast.parse(code)
    except SyntaxError:
        return len(re.findall(r"\bplots\.show\(", source))
    return sum(_is_show(node) for statement in tree.body for node in _unconditional(statement))


def _unconditional(node: ast.AST) -> Iterator[ast.AST]:
    if isinstance(node, ast.If | ast.FunctionDef | ast.Lambda | ast.Try | ast.IfExp):
        return
    yield node
    for child in ast.iter_child_nodes(node):
        yield from _unconditional(child)


def _is_show(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return False
    name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    on = getattr(node.func.value, "id", "") if isinstance(node.func, ast.Attribute) else ""
    return name == "show" and (on == "plots" or any(k.arg == "alt" for k in node.keywords))


def _leaks(text: str) -> Iterator[tuple[str, str]]:
    """Paths of this machine and secrets in `text`; a secret is named by its kind, never repeated."""
    for path in sorted({_path_shown(m.group()) for m in MACHINE_PATH.finditer(text)} or _own_paths(text)):
        yield f"a path of this machine ({path})", "print it relative to the repository"
    for kind, pattern in SECRETS.items():
        if pattern.search(text):
            yield f"what looks like {kind}", "remove it from the notebook, and revoke it if it is real"


def _redacted(text: str) -> str:
    for pattern in SECRETS.values():
        text = pattern.sub("[redacted]", text)
    return text


def _path_shown(path: str) -> str:
    return path if len(path) <= 60 else path[:59] + "…"


def _own_paths(text: str) -> set[str]:
    return {str(p) for p in (paths.ROOT, Path.home()) if len(p.parts) > 2 and f"{p}/" in text}


def _text(output: Any) -> str:
    """The readable part of an output: streams, text, tables and errors, not images."""
    parts: list[Any] = [output.get("text", ""), output.get("traceback", "")]
    parts += [v for mime, v in output.get("data", {}).items() if mime.startswith("text/")]
    return ANSI.sub("", "\n".join("".join(p) if isinstance(p, list) else str(p) for p in parts))


def _size(output: Any) -> int:
    """Bytes the output adds to a page."""
    parts: Iterable[Any] = [output.get("text", ""), *output.get("data", {}).values()]
    return sum(len(("".join(p) if isinstance(p, list) else str(p)).encode()) for p in parts)
