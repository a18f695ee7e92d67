"""Which form of output to use: tokens weighed against meaning, by rules that are stated and computed.

A form is out when it cannot be relied on (answers cut or failed, or not all of them compact) or when it is
shown to lose meaning. Of what is left, the one with the fewest output tokens for each strictly right answer
is chosen: that number holds both sides, since fewer tokens make it smaller and fewer right answers larger.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nlqlib.analysis.compactness import Effect, Pair, Shift, effects

SHOWN = 0.05
"""Largest p of the McNemar test, adjusted by Holm, at which a loss counts as shown."""


@dataclass(frozen=True)
class Candidate:
    """One form and all that is weighed."""

    name: str
    pairs: Sequence[Pair]
    """Against the pretty form; empty for the pretty form itself."""
    shifts: Sequence[Shift]
    right: int
    """Strictly right answers."""
    answers: int
    """Questions asked."""
    tokens: int
    """Output tokens of all answers, cut ones included: they were paid for."""

    @property
    def tokens_each(self) -> float | None:
        """Output tokens for each question."""
        return self.tokens / self.answers if self.answers else None

    @property
    def tokens_per_right(self) -> float | None:
        """Output tokens for each strictly right answer; `None` where none is right."""
        return self.tokens / self.right if self.right else None


@dataclass(frozen=True)
class Weighed:
    """A candidate with what speaks against it."""

    candidate: Candidate
    against: tuple[str, ...]
    """Reasons to leave it out; () where there are none."""
    risk: float | None
    """Largest loss of strict accuracy, as a share, that its interval does not exclude; `None`: no pairs."""

    @property
    def eligible(self) -> bool:
        return not self.against


def weigh(candidate: Candidate) -> Weighed:
    """What speaks against `candidate`."""
    found = (*_unreliable(candidate), *_losses(candidate.shifts))
    if candidate.tokens_per_right is None:
        found = (*found, "no answer is strictly right")
    return Weighed(candidate, found, _risk(candidate.shifts))


def _unreliable(candidate: Candidate) -> tuple[str, ...]:
    counts = effects(candidate.pairs)
    names: tuple[Effect, ...] = ("ignored", "partly", "cut", "failed")
    return tuple(f"{counts[name]} of {len(candidate.pairs)} {name}" for name in names if counts[name])


def _losses(shifts: Sequence[Shift]) -> tuple[str, ...]:
    lost = (s for s in shifts if s.lost > s.won and s.p_holm <= SHOWN)
    return tuple(f"{s.criterion} falls by {s.lost - s.won} of {s.n} (p = {s.p_holm:.3f})" for s in lost)


def _risk(shifts: Sequence[Shift]) -> float | None:
    strict = next((s for s in shifts if s.criterion == "strict accuracy"), None)
    within = strict.interval if strict else None
    return max(0.0, -within.low) if within else None


@dataclass(frozen=True)
class Choice:
    """The form to use, and everything that was weighed."""

    weighed: Mapping[str, Weighed]
    chosen: str
    saved: float | None
    """Share of the pretty form's tokens for each right answer that the chosen form saves."""


def choose(pretty: Candidate, others: Sequence[Candidate]) -> Choice:
    """The form with the fewest tokens for each right answer among the eligible ones; else the pretty one."""
    weighed = {one.name: weigh(one) for one in (pretty, *others)}
    able = [w.candidate for w in weighed.values() if w.eligible and w.candidate.name != pretty.name]
    best = min([pretty, *able], key=lambda c: (c.tokens_per_right is None, c.tokens_per_right or 0.0))
    first, now = pretty.tokens_per_right, best.tokens_per_right
    return Choice(weighed, best.name, 1 - now / first if first and now is not None else None)
