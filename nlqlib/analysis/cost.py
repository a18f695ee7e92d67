"""What valid answers cost, by the hour of a machine or by the token of a hosted model.

Failed and unusable requests cost as much time and as many tokens as the others, and count as no answer: the
price of a thousand answers rises with them. Without any valid answer there is no such price: `None`.
"""

from collections.abc import Iterable
from dataclasses import dataclass

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


def token_cost(completion: Completion, prices: TokenPrices) -> float | None:
    """Dollars for one request, whatever its outcome; `None` if the server did not report its tokens."""
    if completion.prompt_tokens is None or completion.output_tokens is None:
        return None
    cached = completion.cached_tokens or 0
    rate = prices.input if prices.cached_input is None else prices.cached_input
    fresh = completion.prompt_tokens - cached
    return (fresh * prices.input + cached * rate + completion.output_tokens * prices.output) / 1e6


def hosted_cost(completions: Iterable[Completion], prices: TokenPrices) -> float | None:
    """Dollars per 1,000 valid answers of a hosted model; failures that were billed are in it.

    `None` without a valid answer, or when a valid answer lacks its token counts.
    """
    rows = list(completions)
    costs = [token_cost(c, prices) for c in rows]
    good = sum(c.ok for c in rows)
    if not good or any(c.ok and cost is None for c, cost in zip(rows, costs, strict=True)):
        return None
    return sum(cost for cost in costs if cost is not None) / good * 1000
