"""What valid answers cost, by the hour of a machine or by the token of a hosted model.

Failed and unusable requests cost as much time and as many tokens as the others, and count as no answer: the
price of a thousand answers rises with them. Without any valid answer there is no such price: `None`.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from nlqlib.analysis.latency import throughput_run
from nlqlib.records import Completion

SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True)
class TokenPrices:
    """Prices of a hosted model in dollars per million tokens."""

    input: float
    output: float
    cached_input: float | None = None
    """Price of prompt tokens served from cache; `None`: billed like any other."""


class Counted(Protocol):
    """A request whose tokens were counted by the server, where it told them."""

    @property
    def prompt_tokens(self) -> int | None: ...
    @property
    def cached_tokens(self) -> int | None: ...
    @property
    def output_tokens(self) -> int | None: ...


@dataclass(frozen=True)
class Counts:
    """The tokens of one request, as they were kept."""

    prompt_tokens: int | None
    cached_tokens: int | None
    output_tokens: int | None


def cost_per_1000(throughput: float | None, price_per_hour: float) -> float | None:
    """Dollars per 1,000 valid answers: price per hour / valid answers per hour · 1,000.

    `throughput` counts valid answers per second of paid time; `None` when it is missing or 0.
    """
    if price_per_hour < 0:
        raise ValueError(f"a price per hour cannot be negative: {price_per_hour}")
    if throughput is not None and throughput < 0:
        raise ValueError(f"throughput cannot be negative: {throughput}")
    if not throughput:
        return None
    return price_per_hour / (throughput * SECONDS_PER_HOUR) * 1000


def machine_cost(completions: Iterable[Completion], price_per_hour: float, replicas: int = 1) -> float | None:
    """Dollars per 1,000 valid answers of a whole run (ramp and drain are paid for) on `replicas` machines."""
    return cost_per_1000(throughput_run(completions), price_per_hour * replicas)


def token_cost(request: Counted, prices: TokenPrices) -> float | None:
    """Dollars for one request, whatever its outcome; `None` if the server did not report its tokens."""
    if request.prompt_tokens is None or request.output_tokens is None:
        return None
    cached = request.cached_tokens or 0
    rate = prices.input if prices.cached_input is None else prices.cached_input
    fresh = request.prompt_tokens - cached
    return (fresh * prices.input + cached * rate + request.output_tokens * prices.output) / 1e6


def loop_cost(spent_s: float, in_flight: int, price_per_hour: float) -> float:
    """Dollars for `spent_s` seconds of one request on a machine that a closed loop keeps at `in_flight`.

    Each request pays for its share of the machine. In the mean over questions this is the price over the rate
    N / R of a closed loop of N requests whose questions take R (Little 1961); ramp, drain and idle time are
    not in it, those of a whole run are in `machine_cost`.
    """
    if in_flight < 1:
        raise ValueError(f"a closed loop holds at least one request, not {in_flight}")
    return price_per_hour / SECONDS_PER_HOUR * spent_s / in_flight


def per_1000(paid: Iterable[tuple[bool, float | None]]) -> float | None:
    """Dollars per 1,000 answers of (is it an answer?, dollars): what failed but was billed is in it.

    `None` without any answer, or when an answer lacks its dollars.
    """
    rows = list(paid)
    good = sum(answer for answer, _ in rows)
    if not good or any(answer and dollars is None for answer, dollars in rows):
        return None
    return sum(dollars for _, dollars in rows if dollars is not None) / good * 1000


def hosted_cost(completions: Iterable[Completion], prices: TokenPrices) -> float | None:
    """Dollars per 1,000 valid answers of a hosted model; failures that were billed are in it.

    `None` without a valid answer, or when a valid answer lacks its token counts.
    """
    return per_1000((c.ok, token_cost(c, prices)) for c in completions)
