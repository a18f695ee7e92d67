"""A point measured anew beside the retained one: reproduced, changed (what moved, by how much), or new."""

import json
from dataclasses import dataclass
from typing import Literal, Protocol

from nlqlib.records import Json

CODE_FIELDS = ("fingerprint", "provenance")
"""Fields of a body that change with the code alone."""
SHOWN = 8
"""Moved metrics shown per point; the rest are counted."""


class Bodied(Protocol):
    """Anything with an artifact's body: a record."""

    @property
    def body(self) -> Json: ...

    @property
    def note(self) -> str | None: ...


@dataclass(frozen=True)
class Comparison:
    """What a second measurement says of the first."""

    verdict: Literal["reproduced", "changed", "new"]
    moved: tuple[str, ...] = ()
    """One text per metric or part that differs."""
    note: str | None = None

    def __str__(self) -> str:
        said = f"{self.verdict} ({self.note})" if self.note else self.verdict
        more = len(self.moved) - SHOWN
        parts = [*self.moved[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
        return f"{said}: {'; '.join(parts)}" if parts else said


def compare(measured: Bodied, retained: Bodied | None) -> Comparison:
    """`reproduced` when the bodies are equal byte for byte, what names the code aside; else `changed`."""
    if retained is None:
        return Comparison("new")
    old, new = _comparable(retained.body), _comparable(measured.body)
    if _text(old) == _text(new):
        return Comparison("reproduced", note=retained.note)
    return Comparison("changed", tuple(_moved(old, new)), retained.note)


def _comparable(body: Json) -> Json:
    """`body` without what names the code: file names carry the fingerprint too."""
    kept = {name: value for name, value in body.items() if name not in CODE_FIELDS}
    samples = dict(body["samples"] or {}, path=None)
    scrapes = {name: told["sha256"] for name, told in body["scrapes"].items()}
    return {**kept, "samples": samples, "scrapes": scrapes}


def _text(body: Json) -> str:
    return json.dumps(body, sort_keys=True)


def _moved(old: Json, new: Json) -> list[str]:
    """Metrics that differ, then other parts of the body that differ."""
    before, after = _values(old), _values(new)
    names = sorted(before.keys() | after.keys())
    moved = [_movement(n, before.get(n), after.get(n)) for n in names if before.get(n) != after.get(n)]
    parts = sorted(n for n in old.keys() | new.keys() if n != "metrics" and old.get(n) != new.get(n))
    return moved + ([f"{', '.join(parts)} differ"] if parts else [])


def _values(body: Json) -> dict[tuple[str, str, str], float | None]:
    return {(m["name"], m["stat"], m["unit"]): m["value"] for m in body["metrics"]}


def _movement(name: tuple[str, str, str], before: float | None, after: float | None) -> str:
    metric, stat, unit = name
    text = f"{metric} {stat} {_number(before)} → {_number(after)} {unit}".rstrip()
    if before and after is not None:
        text += f" ({(after - before) / abs(before):+.1%})"
    return text


def _number(value: float | None) -> str:
    return "missing" if value is None else f"{value:.6g}"
