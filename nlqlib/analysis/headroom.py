"""How long an answer may become and how far a prompt may grow: a tail of few answers, a window's budget.

The tail is read from order statistics, which assume nothing of the distribution (David and Nagaraja, *Order
Statistics*, 2003, section 7.1): the k-th of n values lies above the q-quantile unless k or more of n values
fall below it, a binomial count. A bootstrap would not do here: it never leaves the longest value seen, so
of a few hundred answers it calls a p99.9 certain that nobody has observed.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy import stats as sp

from nlqlib.analysis.stats import Interval, percentile, wilson

TAIL_QUANTILE = 0.999
"""One answer of a thousand may be cut."""
MARGIN = 0.25
"""Growth of answers that is still to fit: a third metric or a second filter is about as much."""
STEP = 16
"""A recommended limit is a multiple of this: one KV block of a GPU."""


@dataclass(frozen=True)
class Tail:
    """The `quantile` of the lengths of whole answers, and what so few of them can say of it. Tokens."""

    quantile: float
    n: int
    cut: int
    """Answers that were cut: longer than their limit, by nobody knows how much; not among the `n`."""
    value: float | None
    """Interpolated between the two longest where `n` is small: below the longest, whatever the truth."""
    low: float | None
    high: float | None
    """Ends of the order-statistic interval; `None`: no value seen is an upper end."""
    longest: float | None
    supported: float | None
    """The largest quantile that `longest` bounds from above with the same confidence."""
    needed: int
    """Whole answers from which on `quantile` has an upper end at all."""

    @property
    def base(self) -> float | None:
        """What a limit is built on: the upper end, or the longest answer where there is none."""
        return self.longest if self.high is None else self.high


def tail(
    lengths: Sequence[float], cut: int = 0, quantile: float = TAIL_QUANTILE, confidence: float = 0.95
) -> Tail:
    """The tail of the `lengths` of whole answers, with `cut` more that were cut."""
    if not 0 < quantile < 1 or not 0 < confidence < 1:
        raise ValueError(f"a quantile and a confidence lie between 0 and 1, not {quantile} and {confidence}")
    side, n, ordered = (1 - confidence) / 2, len(lengths), sorted(lengths)
    return Tail(
        quantile,
        n,
        cut,
        percentile(ordered, 100 * quantile),
        _at(ordered, _low_rank(n, quantile, side)),
        _at(ordered, _high_rank(n, quantile, side)),
        ordered[-1] if ordered else None,
        side ** (1 / n) if n else None,
        math.ceil(math.log(side) / math.log(quantile)),
    )


def _at(ordered: Sequence[float], rank: int | None) -> float | None:
    return None if rank is None else ordered[rank - 1]


def _low_rank(n: int, q: float, side: float) -> int | None:
    """The largest j for which fewer than j of n values below the quantile are as rare as `side`."""
    j = int(sp.binom.ppf(side, n, q)) if n else 0  # the smallest count with P(B ≤ count) ≥ side
    return j or None


def _high_rank(n: int, q: float, side: float) -> int | None:
    """The smallest k for which k or more of n values below the quantile are as rare as `side`."""
    k = int(sp.binom.isf(side, n, q)) + 1 if n else 1
    return k if k <= n else None


def recommended(found: Tail, margin: float = MARGIN, step: int = STEP) -> int | None:
    """A `max_tokens` that leaves `margin` above the tail, up to the next multiple of `step`."""
    if margin < 0 or step < 1:
        raise ValueError(f"a margin is at least 0 and a step at least 1, not {margin} and {step}")
    if found.base is None:
        return None
    return step * math.ceil(round(found.base * (1 + margin) / step, 9))


@dataclass(frozen=True)
class Cut:
    """How many of `n` answers a limit cuts: `least` surely, and of `unknown` more nobody knows."""

    n: int
    least: int
    unknown: int = 0
    """Answers that were cut below the limit already."""

    @property
    def most(self) -> int:
        """With every unknown one."""
        return self.least + self.unknown

    @property
    def interval(self) -> Interval | None:
        """Of the share, from Wilson's lower end for the least to his upper end for the most; `None` of none.

        So nothing is assumed of the unknown ones (bounds of a share with missing values, Manski 1989).
        """
        if not self.n:
            return None
        return Interval(wilson(self.least, self.n).low, wilson(self.most, self.n).high)


@dataclass(frozen=True)
class Budget:
    """How a window is divided for one request, in tokens."""

    window: int
    prompt: int
    max_tokens: int

    @property
    def left(self) -> int:
        """What the prompt may still grow by; below 0 the request does not fit."""
        return self.window - self.prompt - self.max_tokens

    @property
    def fits(self) -> bool:
        return self.left >= 0

    def room_for(self, tokens_each: float) -> int:
        """How many more pieces of the prompt fit, each of so many tokens; 0 where none does."""
        if tokens_each <= 0:
            raise ValueError(f"a piece of a prompt has tokens, not {tokens_each}")
        return max(0, math.floor(self.left / tokens_each))


def clamped(
    finish_reason: str | None,
    prompt_tokens: int | None,
    output_tokens: int | None,
    max_tokens: int,
    window: int | None,
) -> bool | None:
    """Was the answer cut before its `max_tokens` because prompt and answer filled the `window`?

    `None`: it was cut before them, and what would tell why is missing. An engine that shortens `max_tokens`
    silently (vLLM 0.32) shows it by nothing else; an answer that ends by itself hides it altogether.
    """
    if finish_reason != "length" or output_tokens == max_tokens:
        return False
    if prompt_tokens is None or output_tokens is None or window is None:
        return None
    return prompt_tokens + output_tokens == window
