"""Which question sets may be called held out: the log of looks, and the date since which a set no longer may.

A whole set counts as development as soon as a prompt or a rule was changed after somebody had read a question
of it. Where a condition is *chosen* is another matter: on the sets in `CHOSEN_ON`, and on no other.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nlqlib import article, paths
from nlqlib.experiments.questions import question_workload, set_path

SETS = ("dev", "holdout", "adversarial", "unseen")
CHOSEN_ON = frozenset({"dev"})
"""Sets that prompts and rules were tuned on from the start, and on which the best condition is chosen."""
ARTICLES_GATE = article.claim("gate").low
"""The article's target for final accuracy."""
GATES: Mapping[str, float] = {"holdout": ARTICLES_GATE, "adversarial": 0.85, "unseen": ARTICLES_GATE}
"""Final strict accuracy that we want of the best condition on each set that it was not chosen on."""
PRECISION_GATE = 0.95
LOOK = re.compile(r"^\| *(\d{4}-\d\d-\d\d) *\|" + r" *([^|]+?) *\|" * 4 + "$", re.MULTILINE)


@dataclass(frozen=True)
class Look:
    """One line of the log of looks."""

    date: str
    sets: tuple[str, ...]
    code: str
    """SHA-256 of the file in backticks where it was written, else a word."""
    event: str
    read: Mapping[str, int]
    """Questions of each set that were read and for which rules were changed; the whole set then counts as
    development."""


@dataclass(frozen=True)
class Standing:
    """One set, and whether it may be called held out."""

    name: str
    questions: int
    chosen_on: bool
    """Was it free to look at from the start, and is the best condition chosen on it?"""
    since: str | None
    """Date from which the whole set counts as development: rules were changed for what was read in it."""
    read: int
    """Questions that were read before those changes."""
    unchanged: bool | None
    """The file is the one whose hash was written down; `None`: no hash was written down."""
    looks: tuple[Look, ...]

    @property
    def development(self) -> bool:
        """May nothing on this set be called held out?"""
        return self.chosen_on or self.since is not None

    @property
    def held_out(self) -> bool:
        """Is every look logged, and was nothing changed because of one? A set without a log is not."""
        return not self.development and self.unchanged is True

    @property
    def short(self) -> str:
        """`held out`, `development since 2026-11-30`, …: for figures."""
        if self.chosen_on:
            return "development"
        if self.since is not None:
            return f"development since {self.since}"
        if self.unchanged is None:
            return "not in the log of looks"
        return "held out" if self.unchanged else "file changed since its hash"

    @property
    def words(self) -> str:
        """`short`, and why where it was held out once."""
        if self.chosen_on or self.since is None:
            return self.short
        noun = "question" if self.read == 1 else "questions"
        return f"{self.short} ({self.read} {noun} read, rules changed)"


def standing(source: str) -> Standing:
    """What the log of looks says about the set `source`."""
    path = set_path(source)
    found = tuple(look for look in looks() if path.stem in look.sets)
    costly = [look for look in found if look.read.get(path.stem)]
    written = next((look.code for look in found if "`" in look.code), None)
    now = hashlib.sha256(path.read_bytes()).hexdigest()
    return Standing(
        name=path.stem,
        questions=question_workload(source).n,
        chosen_on=path.stem in CHOSEN_ON,
        since=min((look.date for look in costly), default=None),
        read=sum(look.read[path.stem] for look in costly),
        unchanged=None if written is None else written.strip("`") == now,
        looks=found,
    )


def looks() -> list[Look]:
    """The log of looks, in its order."""
    text = (paths.QUESTIONS / "README.md").read_text("utf-8")
    return [
        Look(date, _listed(sets), code, event, _counted(read))
        for date, sets, code, event, read in LOOK.findall(text)
    ]


def _listed(cell: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in cell.split(","))


def _counted(cell: str) -> dict[str, int]:
    """`holdout 1, adversarial 3`, or a dash for none."""
    return {name: int(n) for name, n in re.findall(r"(\w+) (\d+)", cell)}


def there(sets: Sequence[str]) -> list[str]:
    """`sets` without those of ours whose file is not there; any other name that has none is a mistake."""
    return [source for source in sets if source not in missing(sets)]


def missing(sets: Sequence[str]) -> list[str]:
    """Those of our own `sets` whose file is not there."""
    return [source for source in sets if source in SETS and not set_path(source).is_file()]


def standings(sets: Sequence[str]) -> dict[str, Standing]:
    """What each of `sets` that has a file counts as, by its name as tables show it."""
    return {one.name: one for one in map(standing, there(sets))}


def counts_as(name: str) -> str:
    """What the set that tables call `name` counts as; a file of one's own is known by its name alone."""
    return standing(name).words if set_path(name).is_file() else "not in the log of looks"


def counted(name: str) -> str:
    """`holdout (development since 2026-11-30)`: a set as figures and sentences name it."""
    return f"{name} ({standing(name).short})" if set_path(name).is_file() else name
