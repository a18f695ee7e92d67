"""What a prompt token costs: one line through all cells of the page, and two warm lengths alone."""

from nlqlib.analysis.prefix_cache import Cell, Price, TokenCosts, cached_price, gap_price, token_costs
from nlqlib.analysis.stats import difference
from nlqlib.artifacts import Record
from nlqlib.experiments.prefix_page import cached_tokens, computed_tokens, scenario
from nlqlib.experiments.prompt_variants import SHORT, WARM
from nlqlib.experiments.sweep_rows import Records


def cell(record: Record) -> Cell | None:
    """Means of a cell for the fit; `None` where the server did not tell them."""
    cached, computed, ttft = cached_tokens(record), computed_tokens(record), record.value("ttft", "mean")
    if cached is None or computed is None or ttft is None:
        return None
    return Cell(scenario(record), cached, computed, ttft)


def costs(records: Records) -> TokenCosts | None:
    """TTFT over cached and computed tokens, a line through all cells."""
    return token_costs([c for r in records if (c := cell(r)) is not None])


def cached_cost(records: Records) -> Price | None:
    """What one cached token more adds to TTFT: the two warm prompts alone, less what they compute."""
    fit, known = costs(records), {c.name: c for r in records if (c := cell(r)) is not None}
    if fit is None or not {WARM, SHORT} <= known.keys():
        return None
    return cached_price(known[WARM], known[SHORT], fit, _noise_s(records))


def _noise_s(records: Records) -> float | None:
    """Half the 95 % interval (Welch) of how far the two cells are apart at the client, decode taken off.

    What is left is TTFT and what is outside the engine, with the noise of decode on top. The server tells no
    TTFT of a single request; that of its mean is no larger than this.
    """
    apart = [_undecoded([r for r in records if scenario(r) == name]) for name in (SHORT, WARM)]
    found = difference(apart[0], apart[1]).interval
    return None if found is None else (found.high - found.low) / 2


def _undecoded(records: Records) -> list[float]:
    """Seconds of every good answer less the cell's mean gap for each output token but the first."""
    return [
        row["end_s"] - row["start_s"] - gap_s * (row["output_tokens"] - 1)
        for record in records
        if (gap_s := record.value("itl", "mean")) is not None
        for row in record.samples()
        if row["outcome"] == "ok" and None not in (row["start_s"], row["end_s"], row["output_tokens"])
    ]


def gap_cost(records: Records) -> Price | None:
    """What one prompt token more adds to every gap between output tokens, over all cells."""
    found = [
        (cached + computed, gap_s)
        for r in records
        if (cached := cached_tokens(r)) is not None
        and (computed := computed_tokens(r)) is not None
        and (gap_s := r.value("itl", "mean")) is not None
    ]
    return gap_price([tokens for tokens, _ in found], [gap_s for _, gap_s in found])
