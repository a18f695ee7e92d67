"""How the page on the prefix cache shows its cells: how prompts differ, planned and counted hits, latencies.

From records alone; a dash is what was not seen.
"""

from collections.abc import Sequence
from dataclasses import replace

import pandas as pd

from nlqlib.artifacts import Record
from nlqlib.experiments import sweep_page
from nlqlib.experiments.decomposition_page import ms, ratio
from nlqlib.experiments.prefix_sending import EOS, sent, sent_sentence
from nlqlib.experiments.prompt_variants import (
    COLD,
    DIVERSE,
    LEADING,
    SHORT,
    VARIED,
    WARM,
    article_rate,
)
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Records, failures, told
from nlqlib.records import ANSWERED, UNCONSTRAINED, Json

NOT_SEEN = "not observable here"
FAILED = "requests failed"


def scenario(record: Record) -> str:
    """Which scenario the cell is of."""
    return str(record.params["scenario"])


def of(records: Records, name: str) -> Record | None:
    """The cell of the scenario `name`, where it was measured."""
    return next((r for r in records if scenario(r) == name), None)


def counts(record: Record) -> Json:
    """Planned and counted prompt tokens of a cell."""
    return dict(record.results["tokens"])


def planned_rate(record: Record) -> float | None:
    """The hit rate that the block rules say."""
    return record.value("planned_hit_rate", "mean")


def counted_rate(record: Record) -> float | None:
    """The hit rate by the server's counters; `None` where they cannot be read."""
    seen = counts(record)
    return ratio(seen["hits"], seen["queries"])


def answered(record: Record) -> int:
    """Requests of the cell that were answered, whole or not: the others computed nobody knows what."""
    return sum(record.requests.get(outcome, 0) for outcome in ANSWERED)


def computed_tokens(record: Record) -> float | None:
    """Prompt tokens of an answered request that the server had to compute, on average, by its counters."""
    seen = counts(record)
    if seen["hits"] is None or not seen["queries"]:
        return None
    return ratio(seen["queries"] - seen["hits"], answered(record))


def cached_tokens(record: Record) -> float | None:
    """Prompt tokens of an answered request that were found, on average, by the server's counters."""
    seen = counts(record)
    if seen["hits"] is None or not seen["queries"]:
        return None
    return ratio(float(seen["hits"]), answered(record))


def workload_sentence(study: Study, records: Records) -> str:
    """What is sent, and what is smaller than in the article."""
    lengths = [c["planned_queries"] / r.requests["total"] for r in records if (c := counts(r))]
    form = "" if sent(records[0]).contract == UNCONSTRAINED.name else "structured output, "
    asked = (
        f"One request at a time, `baseline` rules, {form}prompts of {min(lengths):,.0f} to "
        f"{max(lengths):,.0f} tokens on average"
    )
    if study.target.kind == "twin":
        return f"{asked}; answer lengths are drawn (modelled), so what is answered plays no part."
    return f"{asked}{_ends(study, records[0])} {sent_sentence(records)}".rstrip()


def _ends(study: Study, record: Record) -> str:
    """Where answers end, and what the quick profile scales down."""
    if not study.quick:
        return "; an answer ends where the model ends it."
    shown, out = record.params["examples"], record.params["output_tokens"]
    fixed = out is not None and EOS not in sent(record).refused
    cut = f", and answers are cut to exactly {out} tokens by `ignore_eos`" if fixed else ""
    return (
        f". Quick profile: prompts are scaled down to {shown} worked examples, because each of their tokens "
        f"is computed here{cut}."
    )


# ---- prompts ---------------------------------------------------------------------------------------------


def prompts_table(records: Records) -> pd.DataFrame:
    """Each scenario: how its prompts differ, how many requests, and how long they are."""
    rows = {}
    for record in records:
        seen, n = counts(record), record.requests.get("total", 0)
        rows[scenario(record)] = {
            "what differs between its prompts": VARIED[scenario(record)],
            "requests": n,
            "prompt tokens": told(ratio(seen["planned_queries"], n), ",.0f"),
            "blocks filled": f"{seen['blocks']:,}",
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("scenario")


def whole(record: Record) -> tuple[int, int]:
    """Requests of which nothing was to be found, and all requests of the cell."""
    rows = record.samples()
    return sum(row["planned_hits"] == 0 for row in rows), len(rows)


def prompts_sentence(records: Records) -> str:
    """What the two ways to a lower hit rate are."""
    middle, lead = of(records, DIVERSE), of(records, LEADING)
    if middle is None or lead is None:
        return "Not every scenario was measured."
    (none_middle, n_middle), (none_lead, n_lead) = whole(middle), whole(lead)
    return (
        f"Two ways to a lower hit rate: with {DIVERSE} a part of every prompt is found ({none_middle} of "
        f"{n_middle} requests find nothing), with the {LEADING} {none_lead} of {n_lead} requests find "
        "nothing and the others nearly everything."
    )


# ---- hit rates -------------------------------------------------------------------------------------------


def rates_table(records: Records) -> pd.DataFrame:
    """Each scenario: prompt tokens looked up and found, as planned and as counted."""
    rows = {}
    for record in records:
        seen = counts(record)
        rows[scenario(record)] = {
            "article": told(article_rate(scenario(record)), ".1%"),
            "looked up, planned": f"{seen['planned_queries']:,}",
            "looked up, counted": told(seen["queries"], ","),
            "found, planned": f"{seen['planned_hits']:,}",
            "found, counted": told(seen["hits"], ","),
            "hit rate, planned": told(planned_rate(record), ".2%"),
            "hit rate, counted": told(counted_rate(record), ".2%"),
            "equal": equal(record),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("scenario")


def rates_kind(study: Study) -> str:
    """How the numbers of `rates_table` came about."""
    engine = "a modelled engine's" if study.target.kind == "twin" else "the engine's own"
    return f"planned by arithmetic on token ids, counted by {engine} counters"


def equal(record: Record) -> str:
    """Whether the counters are the planned ones, to the token."""
    seen = counts(record)
    if seen["queries"] is None or seen["hits"] is None:
        return NOT_SEEN
    if answered(record) < record.requests.get("total", 0):
        return FAILED
    if other_tokens(record):
        return "other tokenizer"
    same = (seen["queries"], seen["hits"]) == (seen["planned_queries"], seen["planned_hits"])
    return "yes" if same else "NO"


def other_tokens(record: Record) -> bool:
    """Whether the server counts other prompt tokens than ours: its tokenizer is another."""
    rows = record.samples()
    return any(
        row["prompt_tokens"] is not None and row["prompt_tokens"] != row["planned_tokens"] for row in rows
    )


def rates_sentence(records: Records) -> str:
    """How many cells agree to the token, and what the block size leaves of the article's rates."""
    told_equal = [equal(r) for r in records]
    size, known = counts(records[0])["block_size"], counts(records[0])["block_size_told"]
    blocks = f"blocks of {size} tokens" + ("" if known else ", assumed because the server does not say")
    if NOT_SEEN in told_equal:
        return (
            f"Without the engine's metrics only the plan can be shown ({blocks}): what was found is missing. "
            "Set METRICS_URL."
        )
    text = (
        f"{told_equal.count('yes')} of {len(records)} cells: tokens looked up and found are exactly the "
        f"planned ones ({blocks})."
    )
    ignored = [r for r in records if equal(r) == "NO" and _more(r)]
    return f"{text} {_lost(records)}{_ignored(ignored)}{_reach(records)}".rstrip()


def _more(record: Record) -> bool:
    seen = counts(record)
    return bool(seen["hits"] > seen["planned_hits"])


def _lost(records: Records) -> str:
    """Cells of which a part was never looked up, so that counters and plan are of different requests."""
    lost = [scenario(r) for r in records if equal(r) == FAILED]
    return f"Requests failed in {', '.join(lost)}, which leaves nothing to compare there. " if lost else ""


def _ignored(found: Sequence[Record]) -> str:
    """A server that shares blocks between salts finds more than planned."""
    if not found:
        return ""
    return (
        f"More was found than planned in {', '.join(map(scenario, found))}: the server ignores `cache_salt`, "
        "or somebody else sends the same prompts. "
    )


def _reach(records: Records) -> str:
    """How far the planned rates are from the article's, where it has one."""
    apart = [
        (abs(rate - wanted), scenario(r))
        for r in records
        if (rate := planned_rate(r)) is not None and (wanted := article_rate(scenario(r))) is not None
    ]
    if not apart:
        return ""
    far, name = max(apart)
    return f"Planned rates are at most {100 * far:.2f} points from the article's ({name})."


# ---- latencies -------------------------------------------------------------------------------------------


def latency_table(records: Records) -> pd.DataFrame:
    """Each scenario: hit rate, the server's means, and the client's median and mean. Milliseconds."""
    rows = {}
    for record in records:
        rows[scenario(record)] = {
            "n": record.requests.get("total", 0),
            "failed": failures(record.requests),
            "prefix hit": told(counted_rate(record), ".1%"),
            "computed tokens": told(computed_tokens(record), ",.0f"),
            "TTFT (ms)": ms(record.value("ttft", "mean")),
            "prefill (ms)": ms(record.value("prefill", "mean")),
            "decode (ms)": ms(record.value("decode", "mean"), ",.0f"),
            "ITL (ms)": ms(record.value("itl", "mean"), ".2f"),
            "output tokens": told(record.value("output_tokens", "mean"), ".1f"),
            "client p50 (ms)": ms(record.value("e2e_latency", "p50"), ",.0f"),
            "client mean (ms)": ms(record.value("e2e_latency", "mean"), ",.0f"),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("scenario")


def latency_sentence(records: Records) -> str:
    """What moves between a warm and a cold prompt, and what does not."""
    warm, cold = of(records, WARM), of(records, COLD)
    seen = [r.value(m, "mean") for r in (warm, cold) if r for m in ("ttft", "decode")]
    if len(seen) < 4 or None in seen:
        return "TTFT and decode are not observable here: only the client's latency tells the scenarios apart."
    first, kept, last, then = (v or 0.0 for v in seen)
    return (
        f"TTFT rises from {ms(first)} ms (warm) to {ms(last)} ms (cold), {told(ratio(last, first), '.1f')} "
        f"times; decode goes from {ms(kept, ',.0f')} to {ms(then, ',.0f')} ms "
        f"({told(ratio(then - kept, kept), '+.1%')})."
    )


def validity_table(records: Records) -> pd.DataFrame:
    """Each rule once, with the scenarios that broke it."""
    return sweep_page.validity_table([_by_scenario(r) for r in records])


def _by_scenario(record: Record) -> Record:
    """The record under its scenario's name, where a sweep's has its concurrency."""
    params = {**record.body["params"], "concurrency": scenario(record)}
    return replace(record, body={**record.body, "params": params})


def study_cells(records: Records) -> list[Record]:
    """The cells of the five scenarios, without the one that only prices a cached token."""
    return [r for r in records if scenario(r) != SHORT]
