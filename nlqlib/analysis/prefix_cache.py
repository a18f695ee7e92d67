"""What a prefix cache should find, what a token then costs, and what a client's difference mixes. Pure.

The rules are vLLM's, written down here once more and on purpose: full blocks only; a block's hash covers its
tokens and everything before it; a salt keeps equal prompts apart; and at least one token of every prompt is
computed, so that a prompt of n tokens can hit at most ⌊(n − 1) / B⌋ blocks of B. What an engine counted is
compared with this, whether it is a real one or the twin, which has block rules of its own.
"""

import hashlib
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats as sp

from nlqlib.analysis.stats import Interval, line

_UNITS = np.array([1.0, 1e3, 1e3])  # tokens by the thousand, so that columns are of one size
NOTHING_S = 0.02
"""Of a difference of medians: less than one output token more or less on a GPU."""
_NEARLY_EQUAL = 0.02
"""Cells whose prompts differ in length by less than this share do not tell cached tokens from fixed cost."""


@dataclass(frozen=True)
class Prompt:
    """The tokens of a prompt as the server sees them, under a `salt` that shares nothing with another."""

    ids: tuple[int, ...]
    salt: str = ""


@dataclass(frozen=True)
class Lookup:
    """What the cache had of one prompt, in tokens."""

    tokens: int
    hits: int

    @property
    def computed(self) -> int:
        """Tokens that were not in the cache."""
        return self.tokens - self.hits


class PlannedCache:
    """A prefix cache that forgets nothing: right as long as its `blocks` fit the engine's memory."""

    def __init__(self, block_size: int) -> None:
        if block_size < 1:
            raise ValueError(f"a block of {block_size} tokens: it holds at least one")
        self.block_size = block_size
        self._known: set[bytes] = set()

    @property
    def blocks(self) -> int:
        """Different full blocks seen so far."""
        return len(self._known)

    def peek(self, prompt: Prompt) -> Lookup:
        """What a lookup of `prompt` would find now; nothing is remembered."""
        return self._found(prompt, self._chain(prompt))

    def lookup(self, prompt: Prompt) -> Lookup:
        """What `prompt` finds; afterwards its full blocks are cached."""
        chain = self._chain(prompt)
        found = self._found(prompt, chain)
        self._known.update(chain)
        return found

    def _found(self, prompt: Prompt, chain: Sequence[bytes]) -> Lookup:
        most = max(0, len(prompt.ids) - 1) // self.block_size
        hit = next((i for i, key in enumerate(chain[:most]) if key not in self._known), most)
        return Lookup(len(prompt.ids), hit * self.block_size)

    def _chain(self, prompt: Prompt) -> list[bytes]:
        size, key, chain = self.block_size, prompt.salt.encode(), []
        for start in range(0, len(prompt.ids) - size + 1, size):
            key = hashlib.sha256(key + b"|" + array("q", prompt.ids[start : start + size]).tobytes()).digest()
            chain.append(key)
        return chain


def lookups(prompts: Iterable[Prompt], block_size: int) -> tuple[Lookup, ...]:
    """What each of `prompts` finds, sent one after the other to an empty cache."""
    cache = PlannedCache(block_size)
    return tuple(cache.lookup(prompt) for prompt in prompts)


def hit_rate(found: Iterable[Lookup]) -> float | None:
    """Hit tokens / looked-up tokens; `None` when nothing was looked up."""
    every = list(found)
    tokens = sum(one.tokens for one in every)
    return sum(one.hits for one in every) / tokens if tokens else None


# ---- the cost of a token ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cell:
    """Means over the requests of one cell: prompt tokens found and computed, and the time to first token."""

    name: str
    cached: float
    computed: float
    ttft_s: float


@dataclass(frozen=True)
class TokenCosts:
    """TTFT = `fixed_s` + `computed_s` · computed + `cached_s` · cached, by least squares over cells."""

    fixed_s: float
    computed_s: float
    """Seconds for each prompt token that is computed."""
    cached_s: float | None
    """Seconds for each that is cached; `None` where all prompts are about equally long: then it cannot be
    told from the fixed cost, and is part of it."""
    computed_interval: Interval | None
    """95 % t interval; `None` without a degree of freedom."""
    cached_interval: Interval | None
    residuals_s: tuple[float, ...]
    """Measured − fitted, cell by cell."""
    freedom: int

    def ttft_s(self, cached: float, computed: float) -> float:
        """The fitted TTFT of such a prompt."""
        return self.fixed_s + self.computed_s * computed + (self.cached_s or 0.0) * cached


def token_costs(cells: Sequence[Cell]) -> TokenCosts | None:
    """The line through `cells`; `None` below two cells, or where all computed the same number of tokens."""
    told = _lengths_differ([c.cached + c.computed for c in cells])
    used = 3 if told else 2
    if len(cells) < used:
        return None
    columns = np.array([[1.0, c.computed, c.cached] for c in cells])[:, :used] / _UNITS[:used]
    y = np.array([c.ttft_s for c in cells])
    if np.linalg.matrix_rank(columns) < used:
        return None
    found = np.linalg.lstsq(columns, y, rcond=None)[0]
    rest = y - columns @ found
    half = _half_widths(columns, rest) / _UNITS[:used]
    value = found / _UNITS[:used]
    wide = [
        Interval(float(v - h), float(v + h)) if np.isfinite(h) else None
        for v, h in zip(value, half, strict=True)
    ]
    return TokenCosts(
        float(value[0]),
        float(value[1]),
        float(value[2]) if told else None,
        wide[1],
        wide[2] if told else None,
        tuple(float(r) for r in rest),
        len(cells) - used,
    )


def _lengths_differ(lengths: Sequence[float]) -> bool:
    return bool(lengths) and max(lengths) - min(lengths) > _NEARLY_EQUAL * max(lengths)


def _half_widths(columns: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Half of each coefficient's 95 % t interval; infinite without a degree of freedom."""
    freedom = len(rest) - columns.shape[1]
    if freedom < 1:
        return np.full(columns.shape[1], np.inf)
    spread = np.diag(np.linalg.inv(columns.T @ columns)) * float(rest @ rest) / freedom
    return np.asarray(sp.t.isf(0.025, freedom) * np.sqrt(spread))


@dataclass(frozen=True)
class Price:
    """What one token more adds, in seconds, with its 95 % interval; `None` where nothing tells it."""

    value_s: float
    interval: Interval | None

    @property
    def told(self) -> bool:
        """Can it be told from nothing?"""
        return self.interval is not None and not self.interval.low <= 0 <= self.interval.high


def cached_price(long: Cell, short: Cell, costs: TokenCosts, noise_s: float | None) -> Price | None:
    """What a cached token more adds to TTFT, by two warm cells of different length.

    The fitted price of the computed tokens in which they differ is taken off. A few of those may as well cost
    nothing, hidden behind what a step takes anyway: so the interval covers every price from 0 to the fitted
    one's upper end, and `noise_s` besides, half the 95 % interval of the difference of the cells' TTFT.
    `None` where both found equally many.
    """
    later, cached = long.ttft_s - short.ttft_s, long.cached - short.cached
    if not cached:
        return None
    computed, dearest = long.computed - short.computed, costs.computed_interval
    value = (later - costs.computed_s * computed) / cached
    if noise_s is None or dearest is None:
        return Price(value, None)
    prices, noises = (0.0, dearest.high), (-noise_s, noise_s)
    ends = [(later - each * computed + noise) / cached for each in prices for noise in noises]
    return Price(value, Interval(min(ends), max(ends)))


def gap_price(prompt_tokens: Sequence[float], itl_s: Sequence[float]) -> Price | None:
    """What a prompt token more, cached or computed, adds to the gap between output tokens: ITL over length.

    A least-squares line through the means of cells: how far they lie from it says how much a gap differs
    between cells for other reasons. `None` where all prompts are about equally long.
    """
    found = line(prompt_tokens, itl_s) if _lengths_differ(prompt_tokens) else None
    return None if found is None else Price(found.slope, found.slope_interval)


# ---- the client's difference -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Latency:
    """One cell as client and server saw it, in seconds; `None` where it was not seen."""

    p50_s: float | None
    """The client's median."""
    mean_s: float | None
    """The client's mean."""
    ttft_s: float | None
    """The server's means."""
    decode_s: float | None


@dataclass(frozen=True)
class Difference:
    """How much later the client's median comes in one cell than in another, and of what that is made."""

    p50_s: float | None
    ttft_s: float | None
    decode_s: float | None
    outside_s: float | None
    """Of the client's mean, what is neither: network, HTTP, client, a queue."""
    statistic_s: float | None
    """What a median does beyond the mean: it follows the request in the middle, not all of them."""

    @property
    def explained(self) -> float | None:
        """What the server's TTFT explains, as a share of the difference; `None` of next to nothing."""
        if self.ttft_s is None or self.p50_s is None or abs(self.p50_s) < NOTHING_S:
            return None
        return self.ttft_s / self.p50_s


def difference(cell: Latency, base: Latency) -> Difference:
    """`cell` less `base`. The four parts add up to the median's difference wherever all were seen."""
    p50, mean = _less(cell.p50_s, base.p50_s), _less(cell.mean_s, base.mean_s)
    ttft, decode = _less(cell.ttft_s, base.ttft_s), _less(cell.decode_s, base.decode_s)
    inside = None if ttft is None or decode is None else ttft + decode
    return Difference(p50, ttft, decode, _less(mean, inside), _less(p50, mean))


def _less(a: float | None, b: float | None) -> float | None:
    return None if a is None or b is None else a - b
