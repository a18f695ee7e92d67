"""The article's table of one warm request at a time beside ours, and what it is a table of."""

import pandas as pd

from nlqlib import article
from nlqlib.analysis.decomposition import DECODE, ENGINE, INTAKE, PREFILL
from nlqlib.article import Verdict, comparison_table, verdict
from nlqlib.artifacts import Record
from nlqlib.experiments.decomposition_page import RESIDUAL, ratio
from nlqlib.experiments.knee_article import tag
from nlqlib.experiments.study import Study

ARTICLE_OUTSIDE = "prefix.shared.client_p50"
"""The article's client median: with its engine's mean it gives the residual that its table leaves out."""


def article_terms() -> dict[str, float | None]:
    """The article's sequential row; its residual is the client's median less the engine's mean."""
    names = ("e2e", "ttft", "queue", "prefill", "decode")
    value = {c: article.claim(f"decomposition.{c}").value for c in names}
    client = article.claim(ARTICLE_OUTSIDE).value
    outside = None if client is None or value["e2e"] is None else client - value["e2e"]
    first = [value[c] for c in ("ttft", "queue", "prefill")]
    intake = None if None in first else first[0] - first[1] - first[2]  # type: ignore[operator]
    phases = {ENGINE: value["queue"], PREFILL: value["prefill"], DECODE: value["decode"]}
    return {INTAKE: intake, **phases, RESIDUAL: outside}


def against_article(alone: Record, study: Study) -> pd.DataFrame:
    """The article's table of one warm request at a time, its shares and token rate, beside ours."""
    whole, itl = alone.value("engine_e2e", "mean"), alone.value("itl", "mean")
    ttft, decode = alone.value("ttft", "mean"), alone.value("decode", "mean")
    given = "by construction" if study.target.kind == "twin" else "measured"
    rows: list[tuple[str, float | None, str]] = [
        ("decomposition.e2e", whole, _tag(study, "e2e_s")),
        ("decomposition.ttft", ttft, _set(study)),
        ("decomposition.prefill", alone.value("prefill", "mean"), _tag(study, "prefill_s")),
        ("decomposition.queue", alone.value("queue", "mean"), given),
        ("decomposition.decode", decode, _tag(study, "decode_s")),
        ("decomposition.itl", itl, _tag(study, "itl_s")),
        ("decomposition.output_tokens", alone.value("output_tokens", "mean"), given),
        ("decomposition.share.e2e", None if whole is None else 1.0, "by construction"),
        ("decomposition.share.ttft", ratio(ttft, whole), _set(study)),
        ("decomposition.share.decode", ratio(decode, whole), _tag(study, "decode_s")),
        ("decomposition.token_rate", ratio(1.0, itl), _tag(study, "itl_s")),
        ("prefix.measured_run", alone.value("hit_rate", "mean"), _tag(study, "hit_rate")),
    ]
    return comparison_table([_judged(*row, study) for row in rows], target=study.target.name)


def _judged(claim: str, value: float | None, how: str, study: Study) -> Verdict:
    return verdict(claim, value, None, how, study.target.name)


def _tag(study: Study, quantity: str) -> str:
    """Fitted where the twin's document lists an observation at one in flight that its fit used."""
    return tag(study, 1, quantity)


def _set(study: Study) -> str:
    """TTFT is prefill, which was fitted, and a frontend term that was read off the article's own TTFT."""
    return "fitted" if study.target.kind == "twin" else "measured"


def article_sentence(study: Study) -> str:
    """What the article's table is a table of, and what a verdict on the twin means."""
    sums = [article.claim(f"decomposition.{c}").value or 0.0 for c in ("ttft", "decode", "e2e")]
    outside = article_terms()[RESIDUAL] or 0.0
    text = (
        f"The article's rows add up inside the engine: TTFT and decode make {1e3 * (sums[0] + sums[1]):,.0f} "
        f"of its {1e3 * sums[2]:,.0f} ms, so that row is held against the engine's own. Its client's "
        f"median lies {1e3 * outside:.0f} ms above: the residual is in none of its rows."
    )
    if study.target.kind != "twin":
        return text
    return (
        f"{text} On the twin the gap between tokens and prefill were fitted, and the frontend term of TTFT "
        "was read off the article's; decode follows from a fitted gap and drawn lengths: it confirms little."
    )
