"""How the page on the context budget shows limits that were measured, and requests at the window's edge."""

from collections.abc import Iterable, Sequence

import pandas as pd

from nlqlib import article
from nlqlib.artifacts import Record
from nlqlib.experiments import context_budget_page as budget_page
from nlqlib.experiments.context_caps import Outcome, outcomes
from nlqlib.experiments.context_probes import CLAMPING, FATES, behaviour, fate
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Records, told
from nlqlib.records import ANSWERED

ENOUGH = 20
"""Answers from which on a limit that cuts none of them is named: it may still cut 16 % of others."""

# ---- limits, measured ------------------------------------------------------------------------------------


def answers_kind(study: Study) -> list[str]:
    """How answers and their seconds must be named in captions."""
    return [f"{study.target.tag} answers", f"{study.target.time_tag} times"]


def caps_table(records: Records) -> pd.DataFrame:
    """Each limit: whole, cut and other answers, what the cut ones took for nothing, latency of valid ones."""
    rows = {
        o.max_tokens: {
            "how": "sent" if o.sent else "derived, temperature 0",
            "n": o.n,
            "not known": o.unknown,
            "valid": o.ok,
            **budget_page.cut_columns(o.lost, ".0%"),
            "other failures": o.bad,
            "tokens for nothing": o.wasted_tokens if o.known else "—",
            "seconds for nothing": told(o.wasted_s if o.known else None, ".1f"),
            "p50 of valid (s)": told(o.p50_s, ".2f"),
            "seconds per valid answer": told(o.s_per_valid, ".2f"),
        }
        for o in outcomes(records)
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("max_tokens")


def caps_sentence(records: Records) -> str:
    """What the smallest limit costs, and the smallest that cuts nothing, if the answers are enough to say."""
    if not records:
        return "No limit was measured."
    found = [o for o in outcomes(records) if o.known]
    if not found:
        return "No answer came under any limit: what a limit cuts is not observable here."
    first = found[0]
    text = (
        f"max_tokens {first.max_tokens} cuts {first.cut} of {first.known} answers: {first.wasted_tokens:,} "
        f"tokens were generated and thrown away, and {first.ok} valid answers are left."
    )
    return f"{text} {_smallest(found)}"


def _smallest(found: Sequence[Outcome]) -> str:
    """The smallest limit that cuts nothing; said of answers that are many, and all known."""
    whole = next((o for o in found if not o.cut and not o.failed), None)
    if whole is None:
        return "No limit here cuts nothing."
    if whole.n < ENOUGH:
        return f"{whole.n} answers are too few to name the smallest limit that cuts none."
    if whole.unknown:
        return (
            f"No limit is known to cut none: at {whole.max_tokens} nobody knows of {whole.unknown} of "
            f"{whole.n} answers, which were cut below it."
        )
    inside = whole.lost.interval
    most = f", which leaves up to {inside.high:.0%} of others open" if inside else ""
    return f"The smallest that cuts none of its {whole.n} answers is {whole.max_tokens}{most}."


def cheap_looking(records: Records, study: Study) -> str:
    """Why a cut answer may not count: what it would look like if it did."""
    found = [o for o in outcomes(records) if o.sent and o.wasted_s is not None and o.cut]
    if not found:
        return "No limit that was sent cut an answer."
    o: Outcome = found[0]
    each = (o.wasted_s or 0.0) / o.cut
    pays = f"each valid answer pays {told(o.s_per_valid, '.2f')} s"
    return (
        f"Under max_tokens {o.max_tokens} a cut answer took {each:.2f} s ({study.target.time_tag}). Counted "
        "as an answer it would pass for a faster one; counted as a failure, "
        f"{pays if o.ok else 'no valid answer pays for it'}."
    )


# ---- the edge of the window ------------------------------------------------------------------------------


def edge_kind(study: Study) -> str:
    """How the behaviour at the edge must be named in captions."""
    return "the engine's rule as built into the model, by construction" if study.target.kind == "twin" else ""


def probes_table(records: Iterable[Record]) -> pd.DataFrame:
    """Every probe: what was asked for, what came back, and its name."""
    rows = []
    for record in records:
        window = int(record.params["window"])
        for row in record.samples():
            key = fate(row, window)
            rows.append(
                {
                    "engine": engine_name(record),
                    "request": row["name"],
                    "prompt + max_tokens − window": f"{row['prompt_tokens'] + row['max_tokens'] - window:+,}",
                    "HTTP": told(row["http_status"], ".0f"),
                    "finish_reason": row["finish_reason"] or "—",
                    "output tokens": f"{told(row['output_tokens'], '.0f')} of {row['max_tokens']}",
                    "outcome": row["outcome"],
                    "which is": FATES.get(key, key),
                }
            )
    return pd.DataFrame(rows, columns=PROBE_COLUMNS).set_index("engine")


PROBE_COLUMNS = [
    *("engine", "request", "prompt + max_tokens − window", "HTTP"),
    *("finish_reason", "output tokens", "outcome", "which is"),
]


def engine_name(record: Record) -> str:
    """The window, and on the twin which engine it is modelled after."""
    window = f"window {int(record.params['window']):,}"
    if record.body["target"] != "twin":
        version = record.server.engine_version if record.server else None
        return f"{window}, {version or 'version not told'}"
    return f"{window}, as {CLAMPING if record.params['clamping'] else '0.12'}"


def probes_sentence(records: Iterable[Record]) -> str:
    """How each engine treats what fits only in part."""
    words = {
        "refuses": "refuses what fits only in part, before it generates a token",
        "shortens": "shortens max_tokens without a word: an answer cut by the window shows it, one that ends "
        "by itself hides it",
        "cannot tell": "gave no answer to what fits only in part that would tell",
    }
    found = [f"{engine_name(r)}: {words[behaviour([r])]}" for r in records]
    return ". ".join(found) + "." if found else "No probe was sent."


def overflow_status(records: Sequence[Record], window: int) -> float | None:
    """The HTTP status of a prompt that fits, with more `max_tokens` than are left.

    `None` if not probed, or if the probe failed for another reason, such as a field that is refused.
    """
    plain = [r for r in records if int(r.params["window"]) == window and not r.params["clamping"]]
    found = [
        row["http_status"]
        for r in plain
        for row in r.samples()
        if row["prompt_tokens"] < window < row["prompt_tokens"] + row["max_tokens"]
        and (row["outcome"] in ANSWERED or row["outcome"] == "context_overflow")
    ]
    return float(found[0]) if found and found[0] is not None else None


def against_article(records: Sequence[Record], study: Study, window: int) -> pd.DataFrame:
    """The article's claim about overflow beside what was seen here."""
    how = "by construction" if study.target.kind == "twin" else "measured"
    found = article.verdict(
        "context.overflow_status", overflow_status(records, window), None, how, study.target.name
    )
    return article.comparison_table([found])
