"""What a prompt token costs, cached and computed, and what the difference a client sees is made of."""

from dataclasses import dataclass

import pandas as pd

from nlqlib.analysis.prefix_cache import Cell, Difference, Latency, Price, TokenCosts, difference, token_costs
from nlqlib.analysis.stats import Interval
from nlqlib.article import claim
from nlqlib.artifacts import Record
from nlqlib.experiments.decomposition_page import ms, ratio
from nlqlib.experiments.prefix_article import fitted
from nlqlib.experiments.prefix_page import of, scenario, whole
from nlqlib.experiments.prefix_price import cached_cost, cell, costs, gap_cost
from nlqlib.experiments.prompt_variants import (
    ARTICLE_RATES,
    COLD,
    DIVERSE,
    LEADING,
    PARTIAL,
    WARM,
    article_rate,
)
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import article_shown
from nlqlib.experiments.sweep_rows import Records, span, told

US = 1e6
"""Microseconds in a second: what a token costs."""


# ---- cost ------------------------------------------------------------------------------------------------


def article_cells() -> list[Cell]:
    """The article's rows: its hit rates as shares of its prompt of about 3,300 tokens."""
    length = claim("prompt.tokens").value or 0.0
    return [
        Cell(name, length * rate, length * (1 - rate), ttft)
        for name, about in ARTICLE_RATES.items()
        if (rate := article_rate(name)) is not None
        and (ttft := claim(about.replace("hit_rate", "ttft")).value) is not None
    ]


def cost_table(records: Records, study: Study) -> pd.DataFrame:
    """Microseconds of a computed and of a cached prompt token, and the fixed part; the article's beside."""
    rows = {}
    if article_shown(study):
        rows["article, its four rows"] = _cost_row(token_costs(article_cells()), [])
    n = sum(cell(r) is not None for r in records)
    rows[f"{study.target.name}, {n} cells"] = _cost_row(costs(records), records)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("TTFT fitted over")


def _cost_row(found: TokenCosts | None, records: Records) -> dict[str, str]:
    worst = max((abs(r) for r in found.residuals_s), default=None) if found else None
    return {
        "computed token (µs)": _us(found.computed_s if found else None, ".1f"),
        "95 % interval": _wide(found.computed_interval if found else None, ".1f"),
        "cached token (µs)": _us(found.cached_s if found else None, ".2f"),
        "95 % interval ": _wide(found.cached_interval if found else None, ".2f"),
        "fixed (ms)": ms(found.fixed_s if found else None),
        "farthest cell (ms)": ms(worst),
        "cached token, two warm lengths (µs)": _priced(cached_cost(records), ".2f"),
        "prompt token, in every gap (µs)": _priced(gap_cost(records), ".3f"),
    }


def _us(seconds: float | None, form: str) -> str:
    return told(None if seconds is None else US * seconds, form)


def _wide(interval: Interval | None, form: str) -> str:
    return span(None if interval is None else Interval(US * interval.low, US * interval.high), form)


def _priced(price: Price | None, form: str) -> str:
    """A price with its interval in brackets."""
    if price is None:
        return told(None, form)
    return _us(price.value_s, form) + (f" ({_wide(price.interval, form)})" if price.interval else "")


def _said(price: Price, form: str) -> str:
    """The same for a sentence, with its unit."""
    inside = f" (95 % interval {_wide(price.interval, form)})" if price.interval else ""
    return f"{_us(price.value_s, form)} µs{inside}"


def cost_sentence(records: Records, study: Study) -> str:
    """What the fit says, and how much of it the twin was given."""
    found = costs(records)
    if found is None:
        return "TTFT or the prefix-cache counters are not observable here: no token can be priced."
    text = f"A computed prompt token costs {US * found.computed_s:.0f} µs of TTFT"
    if found.cached_s is not None:
        text += f", a cached one {US * found.cached_s:.2f} µs"
    text += f"{_wide_note(found)}{_two_lengths(records)}. {_gap_sentence(records)}"
    if study.target.kind != "twin":
        return text.rstrip()
    given = " and ".join(n for n in (WARM, DIVERSE) if fitted(study, n, "prefill"))
    return (
        f"{text} The line is fitted here, but on the twin not found: its arithmetic per token was fitted to "
        f"the article's prefill ({given})."
    )


def _wide_note(found: TokenCosts) -> str:
    wide = found.cached_interval
    return ", which cannot be told from nothing" if wide and wide.low <= 0 <= wide.high else ""


def _two_lengths(records: Records) -> str:
    """The price without the rest of the line, which bends: few tokens hide behind the weights' streaming."""
    alone = cached_cost(records)
    if alone is None:
        return ""
    unsure = "" if alone.told else ", which cannot be told from nothing"
    return (
        "; the two warm prompts, less the fitted price of the computed tokens in which they differ, give "
        f"{_said(alone, '.2f')} for a cached one{unsure}"
    )


def _gap_sentence(records: Records) -> str:
    """A prompt token is read again in every decode step; what that adds up to over an answer."""
    gap, warm = gap_cost(records), of(records, WARM)
    out = warm.value("output_tokens", "mean") if warm else None
    if gap is None or out is None:
        return ""
    each = (
        f"{_said(gap, '.3f')} in every gap for each prompt token, {US * gap.value_s * (out - 1):.0f} µs over "
        f"an answer of {out:.0f} tokens"
    )
    if not gap.told:
        return f"What a longer prompt adds to decode cannot be told from nothing here: {each}."
    if gap.value_s < 0:
        return f"Longer prompts have shorter gaps here, so something else differs between the cells: {each}."
    return (
        "A cached token is not free later: attention reads it again for every output token, as it reads one "
        f"that was computed: {each}."
    )


# ---- the client's difference -----------------------------------------------------------------------------


@dataclass(frozen=True)
class Apart:
    """One scenario less the warm one."""

    name: str
    found: Difference


def latency(record: Record) -> Latency:
    """A cell's client and server latency."""
    p50, mean = record.value("e2e_latency", "p50"), record.value("e2e_latency", "mean")
    return Latency(p50, mean, record.value("ttft", "mean"), record.value("decode", "mean"))


def differences(records: Records) -> list[Apart]:
    """Every other scenario less the warm one."""
    warm = of(records, WARM)
    if warm is None:
        return []
    chosen = [r for r in records if scenario(r) in (PARTIAL, DIVERSE, LEADING, COLD)]
    return [Apart(scenario(r), difference(latency(r), latency(warm))) for r in chosen]


def article_differences() -> list[Apart]:
    """The article's two colder rows less its shared-prefix row; it gives no means of the client."""
    base = _article_latency("prefix.shared")
    return [
        Apart(f"article, {name}", difference(_article_latency(row), base))
        for name, row in ((DIVERSE, "prefix.diverse"), (LEADING, "prefix.leading_unique"))
    ]


def _article_latency(row: str) -> Latency:
    decode = None if row == "prefix.leading_unique" else claim(f"{row}.decode").value
    return Latency(claim(f"{row}.client_p50").value, None, claim(f"{row}.ttft").value, decode)


def difference_table(records: Records, study: Study) -> pd.DataFrame:
    """What the client's median gains over the warm scenario, term by term. Milliseconds."""
    rows = {
        apart.name: {
            "client p50 later by (ms)": ms(apart.found.p50_s, "+,.1f"),
            "= TTFT, server mean": ms(apart.found.ttft_s, "+,.1f"),
            "+ decode, server mean": ms(apart.found.decode_s, "+,.1f"),
            "+ outside both": ms(apart.found.outside_s, "+,.1f"),
            "+ median less mean": ms(apart.found.statistic_s, "+,.1f"),
            "TTFT explains": told(apart.found.explained, ".0%"),
        }
        for apart in (*(article_differences() if article_shown(study) else ()), *differences(records))
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("scenario less warm")


def difference_sentence(records: Records, study: Study) -> str:
    """Where the client's difference is not the server's, and why."""
    known = {a.name: a.found for a in differences(records)}
    lead, middle, record = known.get(LEADING), known.get(DIVERSE), of(records, LEADING)
    if record is None or lead is None or middle is None or lead.statistic_s is None or lead.ttft_s is None:
        return "The server's means are not observable here: the client's difference cannot be taken apart."
    none, n = whole(record)
    text = (
        f"With the {LEADING} the client's median comes {ms(lead.p50_s, ',.0f')} ms later and the server's "
        f"TTFT {ms(lead.ttft_s, ',.0f')} ms: {none} of {n} requests were computed whole, so "
        f"{'the median is one of them' if none > n / 2 else 'the median is none of them'}, while the mean is "
        f"over all. With {DIVERSE} it is {ms(middle.p50_s, ',.0f')} ms for {ms(middle.ttft_s, ',.0f')} ms."
    )
    return f"{text} {_article_note(records)}" if article_shown(study) else text


def _article_note(records: Records) -> str:
    """The article's caution in its numbers, and one reading of it that ours suggest and cannot prove."""
    first, second = (a.found for a in article_differences())
    cold = of(records, COLD)
    p50s = [claim(f"prefix.{row}.client_p50").value for row in ("diverse", "leading_unique")]
    rates = [100 * (article_rate(name) or 0.0) for name in (DIVERSE, LEADING)]
    text = (
        f"In the article the client's difference is {told(ratio(first.p50_s, first.ttft_s), '.1f')} and "
        f"{told(ratio(second.p50_s, second.ttft_s), '.1f')} times that of TTFT, and it leaves open why. Its "
        f"two medians are {ms(p50s[0], ',.0f')} and {ms(p50s[1], ',.0f')} ms at hit rates "
        f"{rates[0] - rates[1]:.0f} points apart"
    )
    median = cold.value("e2e_latency", "p50") if cold else None
    if median is None:
        return f"{text}."
    return (
        f"{text}; a request computed whole has {ms(median, ',.0f')} ms here. A median request that was "
        "computed (nearly) whole in both runs would look like that; nothing published decides it."
    )
