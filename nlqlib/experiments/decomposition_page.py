"""How the page on latency decomposition shows its arms: terms, arithmetic, first token, gateway.

From records alone. Means, in milliseconds where tables say so; a dash is what was not seen.
"""

import pandas as pd

from nlqlib import article
from nlqlib.analysis.decomposition import DECODE, ENGINE, INTAKE, LAYERS, REPLICA, ROUTER
from nlqlib.artifacts import Record
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_page import article_shown
from nlqlib.experiments.sweep_rows import Records, failures, told

RESIDUAL = "residual"


def name(record: Record) -> str:
    """`alone`, `16 in flight`, `16 in flight, streamed`, `16 behind limits 12/8`."""
    asked = record.params
    k = int(asked["concurrency"])
    if asked.get("router") or asked.get("replica"):
        return f"{k} behind limits {asked['router']}/{asked['replica']}"
    text = "alone" if k == 1 else f"{k} in flight"
    return f"{text}, streamed" if asked.get("stream") else text


def terms(record: Record) -> dict[str, float | None]:
    """Seconds of each term in the order of the path, the residual last; one that is not there is absent."""
    found = record.results["terms"]
    parts = {layer: found["parts"][layer] for layer in LAYERS if layer in found["parts"]}
    return {**parts, RESIDUAL: found["residual_s"]}


def total_s(record: Record) -> float | None:
    """Mean client E2E latency in seconds."""
    value = record.results["terms"]["total_s"]
    return None if value is None else float(value)


def terms_table(records: Records) -> pd.DataFrame:
    """Each arm: failures, client E2E, every term, and the share of decode. Milliseconds."""
    rows = {}
    for record in records:
        found, whole = terms(record), total_s(record)
        rows[name(record)] = {
            "n": record.requests.get("total", 0),
            "failed": failures(record.requests),
            "client E2E (ms)": ms(whole),
            **{_column(layer): ms(found[layer]) if layer in found else "none" for layer in LAYERS},
            "residual (ms)": ms(found[RESIDUAL]),
            "decode / E2E": told(ratio(found.get(DECODE), whole), ".1%"),
            "ITL (ms)": ms(record.value("itl", "mean"), ".2f"),
            "TTFT, engine (ms)": ms(record.value("ttft", "mean")),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")


def _column(layer: str) -> str:
    """The intake is in no timer: it is TTFT less queue and prefill, and says so."""
    return f"{layer}, by difference (ms)" if layer == INTAKE else f"{layer} (ms)"


def ms(seconds: float | None, form: str = ",.1f") -> str:
    return told(None if seconds is None else 1e3 * seconds, form)


def ratio(a: float | None, b: float | None) -> float | None:
    return a / b if a is not None and b else None


def missing(records: Records) -> str:
    """What was not seen, in one sentence; empty where every term was."""
    unseen = dict.fromkeys(t for r in records for t, value in terms(r).items() if value is None)
    if not unseen:
        return ""
    return f"Not observable here: {', '.join(unseen)}. Time of such a term is inside the residual, never 0."


def terms_sentence(records: Records) -> str:
    """Where the time of a request goes in each arm's extremes, in one sentence."""
    known = [(r, s) for r in records if (s := ratio(terms(r).get(DECODE), total_s(r))) is not None]
    if not known:
        return f"The engine does not say where a request's time goes. {missing(records)}".rstrip()
    told_shares = ", ".join(f"{share:.1%} ({name(r)})" for r, share in known)
    queue = max((terms(r).get(ENGINE) or 0.0) for r, _ in known)
    waits = f"is at most {queue * 1e3:.1f} ms" if queue else "is empty"
    text = f"Decode is {told_shares} of the client's latency; the engine's own queue {waits}."
    return f"{text} {missing(records)}".rstrip()


# ---- arithmetic ------------------------------------------------------------------------------------------


def arithmetic_table(records: Records, study: Study) -> pd.DataFrame:
    """Tokens × gap against decode, arm by arm, the article's own numbers first where they compare."""
    rows = {}
    if article_shown(study):
        numbers = [article.claim(f"decomposition.{c}").value for c in ("output_tokens", "itl", "decode")]
        rows["article, alone"] = _arithmetic(*numbers)
    for record in records:
        numbers = [record.value(m, "mean") for m in ("output_tokens", "itl", "decode")]
        rows[name(record)] = _arithmetic(*numbers)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")


def _arithmetic(tokens: float | None, gap_s: float | None, decode_s: float | None) -> dict[str, str]:
    known = tokens is not None and gap_s is not None
    gaps = (tokens - 1) * gap_s if known else None  # type: ignore[operator]
    every = tokens * gap_s if known else None  # type: ignore[operator]
    met = ratio(gaps, decode_s)
    return {
        "output tokens": told(tokens, ".1f"),
        "gap between tokens (ms)": ms(gap_s, ".2f"),
        "tokens × gap (ms)": ms(every, ",.0f"),
        "(tokens − 1) × gap (ms)": ms(gaps, ",.0f"),
        "decode (ms)": ms(decode_s, ",.0f"),
        "(tokens − 1) × gap / decode": told(met, ".3f"),
    }


def arithmetic_sentence(records: Records) -> str:
    """How well output length times gap gives decode."""
    ratios = [
        ratio((n - 1) * gap, r.value("decode", "mean"))
        for r in records
        if (n := r.value("output_tokens", "mean")) is not None and (gap := r.value("itl", "mean")) is not None
    ]
    known = [x for x in ratios if x is not None]
    if not known:
        return "Gap or decode time is not observable here, so the arithmetic cannot be checked."
    worst = max(known, key=lambda x: abs(x - 1))
    return (
        f"(tokens − 1) × gap is within {abs(worst - 1):.1%} of decode in every arm: an answer of n tokens "
        "has n − 1 gaps, the first token belongs to prefill. Output length is therefore a latency budget."
    )


# ---- the client's own first token ------------------------------------------------------------------------


def first_token_table(records: Records) -> pd.DataFrame:
    """Streamed arms: time to the first token and between tokens, by the client and by the engine."""
    rows = {}
    for r in records:
        client, engine = r.value("client_ttft", "mean"), r.value("ttft", "mean")
        less = None if client is None or engine is None else client - engine
        rows[name(r)] = {
            "n": r.requests.get("total", 0),
            "failed": failures(r.requests),
            "TTFT, client (ms)": ms(client),
            "TTFT, engine (ms)": ms(engine),
            "difference (ms)": ms(less),
            "TPOT, client (ms)": ms(r.value("client_tpot", "mean"), ".2f"),
            "ITL, engine (ms)": ms(r.value("itl", "mean"), ".2f"),
            "client E2E (ms)": ms(total_s(r), ",.0f"),
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")


def first_token_sentence(records: Records) -> str:
    """What a streaming client waits for its first token, and for the rest."""
    known = [(name(r), t, w) for r in records if (t := r.value("client_ttft", "mean")) and (w := total_s(r))]
    if not known:
        return "No streamed answer came, so no client saw a first token."
    text = "; ".join(f"{t * 1e3:.0f} ms of {w:.2f} s ({arm})" for arm, t, w in known)
    return f"Who streams waits for the first token {text}: without streaming the whole of it is waited for."


# ---- the gateway -----------------------------------------------------------------------------------------


def gateway_sentence(found: Records) -> str:
    """Which layer holds the time that a limit costs."""
    if not found:
        return "The limits of this endpoint are not ours to set: no gateway was put in front of it."
    parts = terms(found[0])
    router, replica, whole = parts.get(ROUTER), parts.get(REPLICA), total_s(found[0])
    share = ratio((router or 0.0) + (replica or 0.0), whole)
    return (
        f"Behind the limits {ms(router, ',.0f')} ms are waited at the router and {ms(replica, ',.0f')} ms "
        f"at the replica, {told(share, '.0%')} of the latency, while the engine's own queue says "
        f"{ms(parts.get(ENGINE))} ms: looked at from inside, nothing queues."
    )
