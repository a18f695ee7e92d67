"""Where the data come from and under which licence: the table of `data/README.md`, and recordings' notes.

Pure: reads files, returns Markdown.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from nlqlib import paths


def origins(folder: Path = paths.DATA) -> str:
    """The text of the data folder's README without its title."""
    return (folder / "README.md").read_text("utf-8").partition("\n")[2].strip()


def recordings(folder: Path = paths.RECORDINGS) -> str:
    """A row for each recording: whose words they are, from which engine, when, and how many."""
    rows = [_row(path, note) for path, note in _notes(folder)]
    return "\n".join(["| recording | model | engine | recorded | answers |", "|---|---|---|---|---|", *rows])


def _notes(folder: Path) -> Iterator[tuple[Path, Mapping[str, Any]]]:
    for path in sorted(folder.rglob("*.meta.json")):
        yield path.relative_to(folder), json.loads(path.read_text("utf-8"))


def _row(path: Path, note: Mapping[str, Any]) -> str:
    server = note.get("server") or {}
    engine = " ".join(str(server[key]) for key in ("engine", "engine_version") if server.get(key))
    told = (
        path.name.removesuffix(".meta.json"),
        note.get("model"),
        engine,
        note.get("recorded_at"),
        note.get("n"),
    )
    name, model, engine, at, n = (str(value) if value else "—" for value in told)
    return f"| {name} | {model} | {engine} | {at[:10]} | {n} |"
