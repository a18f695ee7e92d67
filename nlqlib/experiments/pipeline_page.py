"""How the page on the pipeline shows what was measured: tables, figures and sentences, from records alone."""

import pandas as pd
from matplotlib.figure import Figure

from nlqlib import article, plots
from nlqlib.analysis.evaluation import Share, scores, share, taxonomy
from nlqlib.artifacts import Record
from nlqlib.experiments.pipeline import ARMS
from nlqlib.experiments.semantics import judged_rows
from nlqlib.experiments.study import Study
from nlqlib.records import Json

CRITERIA = ("schema compliance", "kind named right", "strict accuracy", "execution accuracy")
"""`kind named right` is read from the answer whatever its form, so that meaning is seen apart from form."""
Arms = dict[str, Record]


def example_table(record: Record) -> pd.DataFrame:
    """The stages of the example, in order."""
    told = record.results
    rows = told["rows"] or []
    shown = {
        "question": told["question"],
        "understood as": told["interpretation"],
        "SQL": " ".join(told["sql"].split()),
        "bound values": ", ".join(told["values"]),
        "rows": f"{len(rows)}, the first: {dict(zip(told['columns'], rows[0], strict=True))}"
        if rows
        else "none",
    }
    return pd.DataFrame({"is": shown}).rename_axis("stage")


def example_text(record: Record) -> str:
    """The answer as it was written."""
    return str(record.results["answer"])


def arms_table(found: Arms) -> pd.DataFrame:
    """Each arm's shares with their Wilson 95 % intervals, and its failures beside them."""
    rows = {}
    for arm, record in found.items():
        shares = {s.name: s for s in scores(judged_rows(record))}
        failed = record.requests["total"] - shares["kind accuracy"].n
        rows[arm] = {c: _shown(shares[c]) for c in CRITERIA} | {"failed requests": failed}
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")


def _shown(share: Share) -> str:
    if share.value is None or share.low is None or share.high is None:
        return "n/a"
    return f"{share.value:.0%} ({share.low:.0%}–{share.high:.0%}), {share.k} of {share.n}"


def arms_figure(found: Arms, study: Study) -> Figure:
    """Form and meaning of each arm as bars with intervals."""
    rows = [
        {"arm": arm, "metric": s.name, "share": s.value, "low": s.low, "high": s.high, "n": s.n}
        for arm, record in found.items()
        for s in scores(judged_rows(record))
        if s.name in CRITERIA
    ]
    return plots.share_bars(
        pd.DataFrame(rows), by="arm", panel="metric", target=study.target.name, kind=study.target.tag
    )


def _share(found: Arms, arm: str, criterion: str) -> Share:
    return next(s for s in scores(judged_rows(found[arm])) if s.name == criterion)


def arms_alt(found: Arms, study: Study) -> str:
    """Alternative text of `arms_figure`."""
    parts = [
        f"{arm}: schema compliance {_percent(_share(found, arm, CRITERIA[0]))}, "
        f"kind named right {_percent(_share(found, arm, CRITERIA[1]))}"
        for arm in found
    ]
    return f"Bars with 95 % intervals on target {study.target.name}. " + "; ".join(parts) + "."


def _percent(share: Share) -> str:
    return "n/a" if share.value is None else f"{share.value:.0%}"


def arms_sentence(found: Arms) -> str:
    """What the arms say, in one sentence."""
    free, shaped = (
        _share(found, arm, "schema compliance") for arm in ("unconstrained", "structured_outputs")
    )
    kinds = [_share(found, arm, "kind named right") for arm in ("unconstrained", "structured_outputs")]
    strict = _share(found, "structured_outputs", "strict accuracy")
    form = f"schema compliance from {_percent(free)} to {_percent(shaped)}"
    kind = f"the kind named right from {_percent(kinds[0])} to {_percent(kinds[1])}"
    return (
        f"The constraint takes {form} and {kind}; {_percent(strict)} of its answers are right in every field."
    )


def widths_sentence(found: Arms) -> str:
    """How roughly so few questions tell a share: ours, and the article's."""
    ours = _share(found, ARMS[-1], "kind named right")
    claim = article.claim("dev.raw")
    n = int(claim.condition["n"])
    theirs = share("the article's", round(claim.low * n), n)
    told = f"The kind is named right in {_shown(ours)}; " if ours.n else ""
    return f"{told}the article's share, {claim.shown} of {n}, would have the interval {_interval(theirs)}."


def _interval(one: Share) -> str:
    return "n/a" if one.low is None or one.high is None else f"{one.low:.0%}–{one.high:.0%}"


def ignored_table(found: Arms) -> pd.DataFrame:
    """How many answers with the old field equal those without any, word for word."""
    texts = {arm: [row["text"] for row in record.samples()] for arm, record in found.items()}
    rows = []
    for arm in ARMS[1:]:
        same = sum(a == b for a, b in zip(texts["unconstrained"], texts[arm], strict=True))
        rows.append(
            {
                "field": arm,
                "same answer as unconstrained": f"{same} of {len(texts[arm])}",
                "read by the server": _honoured(found, arm),
            }
        )
    return pd.DataFrame(rows).set_index("field")


def _honoured(found: Arms, arm: str) -> str:
    outcomes = [j.outcome for j in judged_rows(found[arm])]
    ignored = outcomes.count("constraint_not_applied")
    return (
        "yes: no answer is prose"
        if not ignored
        else f"no: {ignored} of {len(outcomes)} answers are not bare JSON"
    )


def taxonomy_table(found: Arms) -> pd.DataFrame:
    """Number of answers wrong in each field, by arm."""
    counts = {arm: taxonomy(judged_rows(record)) for arm, record in found.items()}
    return (
        pd.DataFrame(counts)
        .fillna(0)
        .astype(int)
        .rename_axis("wrong in")
        .sort_values(ARMS[-1], ascending=False)
    )


def worst_misses(found: Arms, n: int) -> pd.DataFrame:
    """The `n` constrained answers that are wrong in most fields, beside their golds."""
    rows = sorted(found[ARMS[-1]].samples(), key=lambda r: (-len(r["errors"]), r["question_id"]))
    wrong = [r for r in rows if not r["strict"]][:n]
    return pd.DataFrame(
        [
            {
                "question": r["question"],
                "wrong in": ", ".join(r["errors"]),
                "answer": _brief(r["raw"]) if r["raw"] else f"invalid: {r['invalid']}",
                "gold": _brief(r["gold"]),
            }
            for r in wrong
        ],
        columns=["question", "wrong in", "answer", "gold"],
    ).set_index("question")


def _brief(intent: Json) -> str:
    """An intent without what is empty, as `breakdown: revenue / region; limit 5`."""
    text = f"{intent['query_type']}: {', '.join(intent['metrics'])}"
    text += f" / {', '.join(intent['dimensions'])}" if intent["dimensions"] else ""
    for f in intent["filters"]:
        text += f"; {f['field']} {f['op']} {', '.join(map(str, f['values']))}".rstrip()
    text += f"; {intent['period']}" if intent["period"] != "all" else ""
    text += f"; {intent['grain']}" if intent["grain"] else ""
    text += f"; {intent['sort']['by']} {intent['sort']['direction']}" if intent["sort"] else ""
    return text + (f"; limit {intent['limit']}" if intent["limit"] else "")


def execution_table(found: Arms) -> pd.DataFrame:
    """SQL built from the valid intents: how much of it runs, and returns the gold's rows."""
    rows = {}
    for arm, record in found.items():
        judged = judged_rows(record)
        built = [j for j in judged if j.executed is not None]
        right = sum(bool(j.execution) for j in built)
        rows[arm] = {
            "valid intents": len(built),
            "SQL runs": sum(bool(j.executed) for j in built),
            "same rows as the gold": right,
        }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("arm")


def timing_table(timed: Record, found: Arms) -> pd.DataFrame:
    """Latency in turn, and output tokens of the constrained arm."""
    tokens = found[ARMS[-1]].value("output_tokens", "mean")
    rows = {f"E2E latency {s}": _seconds(timed.value("e2e_latency", s)) for s in ("p50", "p95")}
    rows["requests timed"] = f"{timed.requests['ok']} ok of {timed.requests['total']}"
    rows["output tokens, mean"] = "missing" if tokens is None else f"{tokens:.0f}"
    return pd.DataFrame({"value": rows}).rename_axis("quantity")


def _seconds(value: float | None) -> str:
    return "missing" if value is None else f"{value:.2f} s"


def timing_sentence(timed: Record, found: Arms) -> str:
    """Latency per token in one sentence, or why there is none."""
    p50, tokens = timed.value("e2e_latency", "p50"), found[ARMS[-1]].value("output_tokens", "mean")
    if p50 is None or not tokens:
        return "No request was answered, so there is no latency: missing, not zero."
    each_ms = 1000 * p50 / tokens
    tag = next((m.tag for m in timed.metrics if m.name == "e2e_latency"), "measured")
    return (
        f"A question takes {p50:.2f} s at the median ({tag}), about {each_ms:.0f} ms for each output token."
    )


def token_figure(found: Arms, study: Study) -> Figure:
    """Output tokens of every answer, by arm."""
    rows = pd.DataFrame(
        [{"arm": a, "output_tokens": r["output_tokens"]} for a, rec in found.items() for r in rec.samples()]
    )
    return plots.strip(
        rows,
        "output_tokens",
        by="arm",
        unit="tokens",
        target=study.target.name,
        kind=study.target.tag,
        x="output tokens",
    )


def token_alt(found: Arms, study: Study) -> str:
    """Alternative text of `token_figure`."""
    means = {arm: record.value("output_tokens", "mean") for arm, record in found.items()}
    told = ", ".join(f"{arm} {mean:.0f}" for arm, mean in means.items() if mean is not None)
    return f"Output tokens of each answer on target {study.target.name}, one row per arm. Means: {told}."


def against_article(found: Arms, study: Study) -> pd.DataFrame:
    """Where the article measured the same thing: the length of an answer, and the kind named right."""
    kind = _share(found, ARMS[-1], "kind named right")
    pairs: list[tuple[str, float | None]] = [
        ("output.pretty.tokens", found[ARMS[-1]].value("output_tokens", "mean")),
        ("dev.raw", kind.value),
    ]
    return article.comparison_table(pairs, target=study.target.name, tag=study.target.tag)
