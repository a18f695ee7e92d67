"""A point measured anew beside the retained one: reproduced, changed (what moved, by how much), or new."""

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, Protocol

from nlqlib.records import Json

CODE_FIELDS = ("fingerprint", "provenance")
"""Fields of a body that change with the code alone."""
SHOWN = 8
"""Moved metrics shown per point; the rest are counted."""


Verdict = Literal["reproduced", "changed", "new"]
TOLERANT, WITHIN = "reproduced_if", "within its tolerance"


class Bodied(Protocol):
    """Anything with an artifact's body: a record."""

    @property
    def body(self) -> Json: ...

    @property
    def note(self) -> str | None: ...


@dataclass(frozen=True)
class Comparison:
    """What a second measurement says of the first."""

    verdict: Verdict
    moved: tuple[str, ...] = ()
    """One text per metric or part that differs."""
    note: str | None = None

    @property
    def exact(self) -> bool:
        """Did the retained point come back byte for byte, measured with the same code?"""
        return self.verdict == "reproduced" and self.note is None

    def __str__(self) -> str:
        said = f"{self.verdict} ({self.note})" if self.note else self.verdict
        more = len(self.moved) - SHOWN
        parts = [*self.moved[:SHOWN], *([f"and {more} more"] if more > 0 else [])]
        return f"{said}: {'; '.join(parts)}" if parts else said


def run_mark(told: str) -> str | None:
    """`told` where it says when a run began, as `2026-05-04T03:02:01+00:00`; else `None`.

    It is what REMEASURE is set to, so that a run which is resumed keeps what it has measured anew already.
    """
    return told if _moment(told) else None


def begun_since(run: Json, mark: str) -> bool:
    """Did the measurement with the sidecar `run` begin at the `mark` or later?"""
    began, since = _moment(str(run.get("started_at"))), _moment(mark)
    return began is not None and since is not None and began >= since


def _moment(text: str) -> datetime | None:
    """The time that `text` gives in ISO's long form; without an offset it is UTC."""
    try:
        found = datetime.fromisoformat(text) if "T" in text else None
    except ValueError:
        return None
    return found.replace(tzinfo=UTC) if found and found.tzinfo is None else found


def compare(measured: Bodied, retained: Bodied | None) -> Comparison:
    """`reproduced` when the bodies are equal byte for byte, what names the code aside; else `changed`.

    No two runs in real time are equal: a body whose `results` hold `reproduced_if` says itself what has to
    come back: `equal` (names of results) and `within` (a metric's name and stat → relative difference).
    """
    if retained is None:
        return Comparison("new")
    old, new = _comparable(retained.body), _comparable(measured.body)
    if _text(old) == _text(new):
        return Comparison("reproduced", note=retained.note)
    if told := _told(old, new):
        moved = _beyond(old, new, told)
        verdict: Verdict = "changed" if moved else "reproduced"
        return Comparison(verdict, tuple(moved), retained.note or (None if moved else WITHIN))
    return Comparison("changed", tuple(_moved(old, new)), retained.note)


def _told(old: Json, new: Json) -> Json | None:
    """What both bodies ask of each other; `None` where they do not agree on it."""
    mine, other = (body["results"].get(TOLERANT) for body in (new, old))
    return dict(mine) if mine and mine == other else None


def _beyond(old: Json, new: Json, told: Json) -> list[str]:
    """Metrics further apart than told, then results that are not equal, then the counts of requests."""
    before, after, within = _values(old), _values(new), told["within"]
    judged = {
        n: within[f"{n[0]} {n[1]}"]
        for n in sorted(before.keys() | after.keys())
        if f"{n[0]} {n[1]}" in within
    }
    pairs = [(n, before.get(n), after.get(n), share) for n, share in judged.items()]
    moved = [_movement(n, a, b) for n, a, b, share in pairs if _apart(a, b, share)]
    for name in told.get("equal", ()):
        if old["results"].get(name) != new["results"].get(name):
            moved.append(f"{name}: {_text(old['results'].get(name))} → {_text(new['results'].get(name))}")
    return moved + (["requests differ"] if old["requests"] != new["requests"] else [])


def _apart(before: float | None, after: float | None, share: float) -> bool:
    if before is None or after is None:
        return before is not after
    return abs(after - before) > share * max(abs(before), abs(after))


def _comparable(body: Json) -> Json:
    """`body` without what names the code: file names carry the fingerprint too."""
    kept = {name: value for name, value in body.items() if name not in CODE_FIELDS}
    samples = dict(body["samples"] or {}, path=None)
    scrapes = {name: told["sha256"] for name, told in body["scrapes"].items()}
    return {**kept, "samples": samples, "scrapes": scrapes}


def _text(body: Any) -> str:
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
