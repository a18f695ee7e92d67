"""How each claim of the article finds its value among retained runs: the map in `data/article/reads.toml`.

A read names a notebook and, for the claims it answers, the points their value rests on. The value itself is
what the notebook's own comparison says (`by`), or a metric or a result of those points.
"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cache

from nlqlib.article_data import ARTICLE, Claim

READS, COVERAGE = ARTICLE / "reads.toml", ARTICLE / "coverage.toml"


@dataclass(frozen=True)
class Read:
    """One way to a value."""

    notebook: str
    claims: Mapping[str, tuple[str, ...]] = field(hash=False)
    """Pattern of claim ids → patterns of point names; the first that fits counts.

    A condition of the claim may stand in a point's name, as in `dense-n{concurrency:02d}`.
    """
    by: str | None = None
    """Name of a notebook's own comparison; `None`: the value is read as below."""
    metric: str | None = None
    stat: str | None = None
    result: str | None = None
    """Path in the results instead of a metric, such as `report/raw/strict accuracy/value`."""
    scale: float = 1.0
    """Our unit in the claim's."""
    twin: str | None = None
    """How the number is named on the twin; `None`: as the metric says, and a result is replayed."""

    def points(self, claim: Claim) -> tuple[str, ...]:
        """Patterns of the points that answer `claim`; `()` where this is no way to it."""
        found = next((points for ids, points in self.claims.items() if fnmatchcase(claim.id, ids)), ())
        return tuple(point.format_map(claim.condition) for point in found)


@cache
def reads() -> tuple[Read, ...]:
    """Every read in the file's order, which is that of preference."""
    return tuple(_read(row) for row in tomllib.loads(READS.read_text("utf-8"))["read"])


def reads_of(claim: Claim) -> tuple[Read, ...]:
    """The ways to a value of `claim`, the preferred first; `()` where nothing of ours answers it."""
    return tuple(read for read in reads() if read.points(claim))


def _read(row: dict[str, object]) -> Read:
    told = row.pop("claims")
    if not isinstance(told, dict):
        raise ValueError(f"reads.toml: claims of {row.get('notebook')} is a table of ids and points")
    return Read(claims={ids: tuple(points) for ids, points in told.items()}, **row)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Coverage:
    """Who holds the numbers of the article's text, as counted by the tests where the text is at hand."""

    numbers: int
    claimed: int
    excluded: int

    @property
    def left_over(self) -> int:
        return self.numbers - self.claimed - self.excluded


def coverage() -> Coverage:
    """The counts of `data/article/coverage.toml`."""
    return Coverage(**tomllib.loads(COVERAGE.read_text("utf-8")))
