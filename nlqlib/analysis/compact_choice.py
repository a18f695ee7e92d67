"""Which form of output to use: tokens weighed against meaning, by rules that are stated and computed.

A form is out when it cannot be relied on (answers cut or failed, or not all of them compact), or as long as a
loss of strict accuracy of more than a margin is not excluded: that no loss is shown is no proof that there is
none. Of what is left, the one with the fewest output tokens for each strictly right answer is chosen. Strict
accuracy alone decides: its interval is adjusted for nothing, since an adjustment for the number of forms
looked at would make a harm harder to see with every form added.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from nlqlib.analysis.compactness import MEANING, Effect, Pair, Shift, effects

MARGIN = 0.05
"""The loss of strict accuracy that is put up with for shorter answers: five questions in a hundred."""
Verdict = Literal["use", "keep", "not proven", "cannot tell"]


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
    tokens: int | None
    """Output tokens of all answers, cut ones included: they were paid for; `None`: not told of every one."""

    @property
    def tokens_each(self) -> float | None:
        """Output tokens for each question."""
        return self.tokens / self.answers if self.tokens is not None and self.answers else None

    @property
    def tokens_per_right(self) -> float | None:
        """Output tokens for each strictly right answer; `None` where none is right."""
        return self.tokens / self.right if self.tokens is not None and self.right else None

    @property
    def strict(self) -> Shift | None:
        """The shift of strict accuracy; `None` for the pretty form."""
        return next((s for s in self.shifts if s.criterion == MEANING[0]), None)


@dataclass(frozen=True)
class Weighed:
    """A candidate with what speaks against it."""

    candidate: Candidate
    unreliable: tuple[str, ...]
    """What keeps it from being relied on."""
    costly: tuple[str, ...]
    """What it costs in meaning, or may cost."""

    @property
    def against(self) -> tuple[str, ...]:
        """Reasons to leave it out; () where there are none."""
        return (*self.unreliable, *self.costly)

    @property
    def risk(self) -> float | None:
        """Largest share of strict accuracy whose loss its interval does not exclude; `None`: no pairs."""
        return self.candidate.strict.risk if self.candidate.strict else None

    @property
    def lost(self) -> bool:
        """Is a loss of strict accuracy shown?"""
        found = self.candidate.strict
        return found is not None and found.shown and found.lost > found.won


def weigh(candidate: Candidate, margin: float = MARGIN) -> Weighed:
    """What speaks against a compact `candidate` where a loss up to `margin` is put up with."""
    nothing = () if candidate.right else ("no answer is strictly right",)
    return Weighed(candidate, _unreliable(candidate), (*_cost(candidate, margin), *nothing))


def _unreliable(candidate: Candidate) -> tuple[str, ...]:
    counts = effects(candidate.pairs)
    names: tuple[Effect, ...] = ("ignored", "partly", "cut", "failed")
    return tuple(f"{counts[name]} of {len(candidate.pairs)} {name}" for name in names if counts[name])


def _cost(candidate: Candidate, margin: float) -> tuple[str, ...]:
    found = candidate.strict
    if found is None or found.interval is None or found.risk is None:
        return ("no question was answered in both forms",)
    if found.shown and found.lost > found.won:
        within = f"{found.interval.low:+.0%} to {found.interval.high:+.0%}"
        return (f"{found.criterion} falls by {found.lost - found.won} of {found.n} ({within})",)
    return (f"a loss of {found.risk:.0%} is not excluded",) if found.risk > margin else ()


@dataclass(frozen=True)
class Choice:
    """The form to use, and everything that was weighed."""

    weighed: Mapping[str, Weighed]
    chosen: str
    """The form to use: the pretty one unless the verdict is `use`."""
    verdict: Verdict
    """`use` the chosen form; `keep` the pretty one, since nothing that may be used is cheaper; `not proven`:
    one that can be relied on is cheaper, but its loss is not excluded; `cannot tell`: no pretty answer is
    right, or its tokens are not known."""
    saved: float | None
    """Share of the pretty form's tokens for each right answer that the chosen form saves."""
    margin: float = MARGIN
    hopeful: str | None = None
    """Where the verdict is `not proven`, the shortest such form."""


def choose(pretty: Candidate, others: Sequence[Candidate], margin: float = MARGIN) -> Choice:
    """The form with the fewest tokens for each right answer among the eligible ones; else the pretty one."""
    weighed = {one.name: weigh(one, margin) for one in others}
    found = {pretty.name: Weighed(pretty, (), ()), **weighed}
    if pretty.tokens_per_right is None:
        return Choice(found, pretty.name, "cannot tell", None, margin)
    able = [w.candidate for w in weighed.values() if not w.against and _cheaper(w.candidate, pretty)]
    if able:
        best = min(able, key=lambda c: c.tokens_per_right or 0.0)
        saved = 1 - (best.tokens_per_right or 0.0) / pretty.tokens_per_right
        return Choice(found, best.name, "use", saved, margin)
    hoped = [w.candidate for w in weighed.values() if _unproven(w) and _cheaper(w.candidate, pretty)]
    hopeful = min(hoped, key=lambda c: c.tokens_per_right or 0.0).name if hoped else None
    return Choice(found, pretty.name, "not proven" if hopeful else "keep", 0.0, margin, hopeful)


def _cheaper(candidate: Candidate, pretty: Candidate) -> bool:
    now, first = candidate.tokens_per_right, pretty.tokens_per_right
    return now is not None and first is not None and now < first


def _unproven(weighed: Weighed) -> bool:
    """Can it be relied on, without a loss shown, and is only the margin against it?"""
    return not weighed.unreliable and not weighed.lost and bool(weighed.candidate.right)
