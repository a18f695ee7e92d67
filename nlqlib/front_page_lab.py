"""The contents of JupyterLab's first page: every notebook, its claim, and the targets it has runs of."""

import html
import json
from dataclasses import dataclass
from pathlib import Path

from nlqlib import paths
from nlqlib.code_marks import coded


@dataclass(frozen=True)
class Contents:
    """Notebooks and their claims; shows itself in a notebook as links."""

    entries: tuple[tuple[str, str, tuple[str, ...]], ...]
    """Name, claim, targets with retained runs."""

    def _repr_html_(self) -> str:
        rows = "".join(
            f'<tr><td><a href="../{name}.ipynb">{name}</a></td><td>{coded(html.escape(claim))}</td>'
            f"<td>{html.escape(', '.join(targets) or '—')}</td></tr>"
            for name, claim, targets in self.entries
        )
        head = "<tr><th>notebook</th><th>claim</th><th>retained runs of</th></tr>"
        return f"<table><thead>{head}</thead><tbody>{rows}</tbody></table>"

    def __repr__(self) -> str:
        return "\n".join(f"{name}: {claim}" for name, claim, _ in self.entries)


def contents(notebooks: Path = paths.NOTEBOOKS, artifacts: Path = paths.ARTIFACTS) -> Contents:
    """The numbered notebooks in `notebooks`, in reading order."""
    found = sorted(notebooks.glob("[0-9]*.ipynb"))
    return Contents(tuple((p.stem, claim(p), _retained(p.stem, artifacts)) for p in found))


def claim(notebook: Path) -> str:
    """The title of a notebook: its claim in a few words."""
    cells = json.loads(notebook.read_text("utf-8"))["cells"]
    first = "".join(cells[0]["source"]) if cells else ""
    return first.partition("\n")[0].lstrip("# ").strip()


def _retained(name: str, artifacts: Path) -> tuple[str, ...]:
    return tuple(sorted(p.parent.name for p in artifacts.glob(f"*/{name}")))
