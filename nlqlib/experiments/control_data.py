"""The control-to-signal map as data: what is changed, which signal must move, which way and how far.

Read from `data/control_to_signal.toml`. The part that measurements can refute is a list of statements with a
digest of its own: it is written down before anything runs, and every run names the digest it came after.
Nothing but the place of the file is imported here, so that edits elsewhere do not write the predictions anew.
"""

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cache
from typing import Any, Literal

from nlqlib.paths import DATA

FILE = DATA / "control_to_signal.toml"
OWN = "17_control_to_signal"
Direction = Literal["up", "down", "same"]
DIRECTIONS = ("up", "down", "same")
Construction = Literal["", "twin", "always"]
KNOWN = ("", "twin", "always")
DIGEST_CHARS = 12


class MapError(ValueError):
    """The map cannot be used as it is written; says which row and what to change."""


@dataclass(frozen=True)
class Pick:
    """Where one side of a comparison is read: the points of a notebook, and one of their metrics."""

    point: str
    """A pattern such as `seqs-08-*`: every point it matches is a repeat."""
    metric: str
    stat: str
    notebook: str = OWN


@dataclass(frozen=True)
class Predicted:
    """One signal, foretold: how it changes from `before` to `after`."""

    id: str
    """`engine_batch.throughput`: the row, then the signal."""
    signal: str
    before: Pick
    after: Pick
    direction: Direction
    least: float
    """Smallest change that counts, as a share of the larger of both values; for `same`: the largest."""
    construction: Construction = ""
    """Where it holds by construction, and so confirms nothing: on the `twin`, or `always`."""
    settings: str = ""
    """What the two sides differ in, where it is not what the row says."""

    def statement(self) -> dict[str, Any]:
        """What measurements can refute."""
        told = asdict(self)
        return {k: told[k] for k in ("id", "before", "after", "direction", "least")}

    @property
    def words(self) -> str:
        """`rises by 20 % or more`."""
        if self.direction == "same":
            return f"stays within {self.least:.0%}"
        verb = "rises" if self.direction == "up" else "falls"
        return f"{verb} by {self.least:.0%} or more"

    def by_construction(self, on_twin: bool) -> bool:
        """Whether it could not have come out otherwise here."""
        return self.construction == "always" or (self.construction == "twin" and on_twin)


@dataclass(frozen=True)
class Row:
    """One row of the map."""

    id: str
    control: str
    change: str
    article: str
    """The signals that the article names, in its words."""
    how: str
    refuted_by: str
    predicted: tuple[Predicted, ...] = field(default=())
    unobservable: str = ""
    """Why nothing that runs here can show it; empty where something can."""

    @property
    def notebooks(self) -> tuple[str, ...]:
        """The notebooks whose points it rests on."""
        found = (pick.notebook for p in self.predicted for pick in (p.before, p.after))
        return tuple(dict.fromkeys(found))


@cache
def rows() -> tuple[Row, ...]:
    """The thirteen rows, in the article's order. Raises `MapError`."""
    return read(FILE.read_text("utf-8"))


def read(text: str) -> tuple[Row, ...]:
    """The rows in a TOML `text`. Raises `MapError` naming the row."""
    found = tuple(_row(told) for told in tomllib.loads(text)["row"])
    ids = [p.id for row in found for p in row.predicted]
    if twice := next((i for i in ids if ids.count(i) > 1), None):
        raise MapError(f"two predictions are called {twice}: give each signal of a row its own id")
    return found


def _row(told: Mapping[str, Any]) -> Row:
    try:
        predicted = tuple(_predicted(told, one) for one in told.get("predicted", ()))
        kept = {k: v for k, v in told.items() if k not in ("predicted", "before", "after")}
        row = Row(predicted=predicted, **kept)
    except (KeyError, TypeError) as error:
        raise MapError(f"row {told.get('id', '?')}: {error}") from error
    if bool(row.predicted) == bool(row.unobservable):
        raise MapError(f"row {row.id} needs predictions, or else the reason why none can be observed")
    return row


def _predicted(row: Mapping[str, Any], told: Mapping[str, Any]) -> Predicted:
    one = Predicted(
        id=f"{row['id']}.{told['id']}",
        signal=told["signal"],
        before=_pick(row, told, "before"),
        after=_pick(row, told, "after"),
        direction=told["direction"],
        least=float(told["least"]),
        construction=told.get("construction", ""),
        settings=told.get("settings", ""),
    )
    if one.direction not in DIRECTIONS or one.construction not in KNOWN or not 0 < one.least <= 1:
        raise MapError(f"{one.id}: direction is one of {DIRECTIONS}, construction of {KNOWN}, 0 < least ≤ 1")
    return one


def _pick(row: Mapping[str, Any], told: Mapping[str, Any], side: str) -> Pick:
    """A side of one prediction; what it does not say is as in its row."""
    place = {"metric": told.get("metric"), "stat": told.get("stat", "mean")}
    return Pick(**{**place, **row.get(side, {}), **told.get(side, {})})


def statements(found: Iterable[Row] = ()) -> list[dict[str, Any]]:
    """Everything that measurements can refute, in the order of the rows."""
    return [p.statement() for row in (tuple(found) or rows()) for p in row.predicted]


def digest(found: Iterable[Row] = ()) -> str:
    """Names these statements: another direction or size, and every run has to be made again after it."""
    text = json.dumps(statements(found), sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:DIGEST_CHARS]
