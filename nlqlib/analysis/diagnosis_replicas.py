"""The replicas that answered, watched through every level: who came, who went, and when.

A scale-out while a sweep runs mixes two endpoints into one curve. Answers that name their replica show it: a
replica whose first answer is late in a level, after requests that would hardly all have missed it, was not
there at its beginning. Without names in the answers nothing is watched.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nlqlib.analysis.diagnosis_levels import SweepLevel
from nlqlib.records import Completion

BY_CHANCE = 1e-4
"""So improbable must it be that every request missed a replica that was there."""
ROOM = 2
"""Requests in flight for each replica, so that a router that balances them uses every one."""


@dataclass(frozen=True)
class Appearance:
    """One replica in one level, by the requests it answered."""

    replica: str
    first_s: float
    """Start of the first one, in seconds since the level's own first start."""
    last_s: float
    """Start of the last one."""
    before: int
    """Requests that others answered before its first."""
    after: int
    """Requests that others answered after its last."""


@dataclass(frozen=True)
class ReplicasSeen:
    """Who answered in one level, in the order of their first answers."""

    concurrency: int
    appearances: tuple[Appearance, ...]

    @property
    def changed(self) -> str | None:
        """Who came or went while the level ran, in words; `None`: nobody, as far as the answers show."""
        count = len(self.appearances)
        if count < 2 or self.concurrency < ROOM * count:
            return None
        least = math.log(BY_CHANCE) / math.log((count - 1) / count)
        came = [
            f"{a.replica} first answered at {a.first_s:.3g} s" for a in self.appearances if a.before >= least
        ]
        went = [
            f"{a.replica} last answered at {a.last_s:.3g} s" for a in self.appearances if a.after >= least
        ]
        return "; ".join(came + went) or None


def replicas_seen(completions: Iterable[Completion], concurrency: int) -> ReplicasSeen:
    """Who answered the `completions` of one level; nobody where the answers do not say."""
    told = [(c.start_s, c.replica) for c in completions if c.start_s is not None and c.replica]
    told.sort()
    names = list(dict.fromkeys(name for _, name in told))
    return ReplicasSeen(concurrency, tuple(_appearance(told, name) for name in names))


def _appearance(told: Sequence[tuple[float, str]], name: str) -> Appearance:
    at = [i for i, (_, other) in enumerate(told) if other == name]
    origin = told[0][0]
    return Appearance(
        name,
        told[at[0]][0] - origin,
        told[at[-1]][0] - origin,
        at[0],
        len(told) - 1 - at[-1],
    )


def history(levels: Iterable[SweepLevel]) -> str | None:
    """`1 → 2 at 8 in flight`: how many replicas were seen, level by level; `None` where nothing tells."""
    counted = [(r.concurrency, n) for r in levels if (n := r.seen_replicas)]
    if not counted:
        return None
    said, before = str(counted[0][1]), counted[0][1]
    for concurrency, n in counted[1:]:
        if n != before:
            said, before = f"{said} → {n} at {concurrency} in flight", n
    return said


def within(seen: Iterable[ReplicasSeen]) -> str | None:
    """What changed while levels ran, with the levels; `None`: nothing."""
    told = [f"at {s.concurrency} in flight {changed}" for s in seen if (changed := s.changed)]
    return "; ".join(dict.fromkeys(told)) or None
