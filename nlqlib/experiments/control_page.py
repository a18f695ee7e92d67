"""How the map is shown: rejected predictions first, in the form of confirmed ones. From findings alone."""

from collections import Counter
from collections.abc import Iterable, Sequence

import pandas as pd

from nlqlib.artifacts import Record
from nlqlib.experiments.control_data import Predicted, Row, digest, rows
from nlqlib.experiments.control_observed import Finding, Outcome
from nlqlib.experiments.control_verdict import CONFIRMED, ORDER, REJECTED, Verdict
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import told
from nlqlib.records import Json

UNDECIDED = "undecided: the interval reaches into what was foretold and out of it"
WORDS = {True: "before the run", False: "after it: a check", None: "—"}


def ordered(found: Iterable[Outcome]) -> list[Outcome]:
    """Rejected rows first, then in the order of `ORDER`; within a verdict in the article's order."""
    return sorted(found, key=lambda o: ORDER.index(o.verdict))


def findings(found: Iterable[Outcome]) -> list[Finding]:
    """Every prediction of every row, rejected ones first."""
    return sorted((f for o in found for f in o.findings), key=lambda f: ORDER.index(f.verdict))


# ---- predictions -----------------------------------------------------------------------------------------


def predictions_table(of: Sequence[Row] = ()) -> pd.DataFrame:
    """Every row as it was written before: what is changed, what must move, and what would refute it."""
    shown = {
        row.control: {
            "change": row.change,
            "signals of the article": row.article,
            "predicted": "\n".join(f"{p.signal} {p.words}" for p in row.predicted) or "—",
            "how it is measured": row.how,
            "refuted by": row.refuted_by,
        }
        for row in of or rows()
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("control")


def written_sentence(record: Record, own: Sequence[Record]) -> str:
    """When the predictions were written, and when the first run that they are about was started."""
    at = str(record.run.get("completed_at") or "—")
    began = sorted(str(r.run.get("started_at")) for r in own if r is not record and r.run.get("started_at"))
    text = (
        f"The {sum(len(r.predicted) for r in rows())} predictions of {len(rows())} rows (digest {digest()}) "
        f"were written at {at[:19]} UTC"
    )
    if not began:
        return f"{text}; no run of this page is kept yet."
    order = "before" if at <= began[0] else "AFTER"
    runs = f"the first of the {len(own) - 1} runs of this page, which began at {began[0][:19]} UTC"
    return f"{text}, {order} {runs}."


# ---- the map ---------------------------------------------------------------------------------------------


def map_table(found: Iterable[Outcome]) -> pd.DataFrame:
    """The thirteen rows, rejected ones first: the signal that decides, what it did, and the verdict."""
    shown = {o.row.control: _map_row(o) for o in ordered(found)}
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("control")


def _map_row(outcome: Outcome) -> Json:
    told_of = outcome.headline
    return {
        "verdict": outcome.verdict,
        "change": outcome.row.change,
        "decided by": told_of.predicted.signal if told_of else "—",
        "predicted": told_of.predicted.words if told_of else "—",
        "observed": observed(told_of) if told_of else "—",
        "all signals": tally(f.verdict for f in outcome.findings) or "—",
        "because": (told_of.why if told_of else outcome.row.unobservable) or "—",
    }


def findings_table(found: Iterable[Outcome]) -> pd.DataFrame:
    """Every prediction with what was observed of it, rejected ones first."""
    shown = [_finding_row(f) for f in findings(found)]
    return pd.DataFrame(shown, columns=list(_COLUMNS)).set_index("control")


_COLUMNS = (
    "control",
    "signal",
    "what differs",
    "predicted",
    "before → after",
    "change (interval)",
    "runs",
    "verdict",
    "because",
    "written",
)


def _finding_row(f: Finding) -> Json:
    seen = f.change
    return {
        "control": f.row.control,
        "signal": f.predicted.signal,
        "what differs": f.predicted.settings or f.row.change,
        "predicted": f.predicted.words,
        "before → after": f"{shown(seen.before, f.unit)} → {shown(seen.after, f.unit)}" if seen else "—",
        "change (interval)": f"{seen.share:+.0%} ({interval(f)})" if seen else "—",
        "runs": f"{f.n[0]} / {f.n[1]}" if seen else "—",
        "verdict": f.verdict,
        "because": f.why or "—",
        "written": WORDS[f.foretold],
    }


def observed(f: Finding) -> str:
    """`1.20 → 4.80 req/s, +75 % (+70 % to +80 %)`."""
    if f.change is None:
        return "—"
    told_interval = f" ({interval(f)})" if f.change.share_interval else ""
    seen = f.change
    return f"{shown(seen.before, f.unit)} → {shown(seen.after, f.unit)}, {seen.share:+.0%}{told_interval}"


def interval(f: Finding) -> str:
    """The interval of the change, as shares of the larger value; a dash where each side was measured once."""
    found = f.change.share_interval if f.change else None
    return f"{found.low:+.0%} to {found.high:+.0%}" if found else "—"


def shown(value: float, unit: str) -> str:
    """`27.4 ms`, `3.21 s`, `98.1 %`, `3,309 tokens`."""
    if unit == "share":
        return f"{100 * value:.3g} %"
    if unit == "s" and abs(value) < 1:
        return f"{1e3 * value:.3g} ms"
    return f"{value:,.0f} {unit}" if abs(value) >= 1000 else f"{value:.3g} {unit}".rstrip()


def tally(verdicts: Iterable[Verdict]) -> str:
    """`1 rejected, 3 confirmed`, in the order of `ORDER`."""
    counts = Counter(verdicts)
    return ", ".join(f"{counts[v]} {v}" for v in ORDER if counts[v])


def map_sentence(found: Sequence[Outcome]) -> str:
    """How many rows and predictions came out how, and which were rejected."""
    every = findings(found)
    lost = [f"{f.row.control}, {f.predicted.signal} ({f.why})" for f in every if f.verdict in REJECTED]
    text = (
        f"Of {len(found)} rows: {tally(o.verdict for o in found)}. Of their {len(every)} predictions: "
        f"{tally(f.verdict for f in every)}."
    )
    text += once_sentence(every)
    return f"{text} Rejected: {'; '.join(lost)}." if lost else f"{text} None was rejected."


def once_sentence(every: Iterable[Finding]) -> str:
    """How many verdicts rest on one run of each side; empty where none does."""
    once = sum(f.verdict in (REJECTED[1], CONFIRMED[1]) for f in every)
    return f" *Once*: {once} verdicts rest on one run of each side, without an interval." if once else ""


def unseen_table(found: Iterable[Outcome]) -> pd.DataFrame:
    """What has neither been confirmed nor rejected here, by its reason, and which predictions it concerns."""
    why: dict[str, list[str]] = {}
    for outcome in found:
        if outcome.row.unobservable:
            why.setdefault(outcome.row.unobservable, []).append(outcome.row.control)
        for f in outcome.findings:
            if f.verdict == "undecided":
                why.setdefault(UNDECIDED, []).append(f"{f.row.control}: {f.predicted.signal}")
            if f.verdict == "not observable here":
                why.setdefault(f.why, []).append(f"{f.row.control}: {f.predicted.signal}")
    shown_rows = [
        {"reason": reason, "predictions": "\n".join(of), "n": len(of)} for reason, of in why.items()
    ]
    return pd.DataFrame(shown_rows, columns=["reason", "n", "predictions"]).set_index("reason")


def construction_sentence(found: Iterable[Outcome], study: Study) -> str:
    """Which predictions could not have come out otherwise here."""
    fixed = [f for f in findings(found) if f.verdict == "holds by construction"]
    if not fixed:
        return "No prediction holds by construction here."
    names = "; ".join(f"{f.row.control}: {f.predicted.signal}" for f in fixed)
    twin = ", or from the twin's own rules," if study.target.kind == "twin" else ""
    return f"{len(fixed)} follow from how the runs are made{twin} and confirm nothing: {names}."


# ---- the runs --------------------------------------------------------------------------------------------

RUN_COLUMNS: tuple[tuple[str, str, str, str], ...] = (
    ("prompt tokens", "prompt_tokens", "mean", ".0f"),
    ("cached", "cached_share", "mean", ".1%"),
    ("answer tokens", "answer_tokens", "mean", ".0f"),
    ("X run (req/s)", "throughput_run", "mean", ".2f"),
    ("TTFT (s)", "client_ttft", "mean", ".3f"),
    ("prefill (s)", "prefill", "mean", ".3f"),
    ("decode (s)", "decode", "mean", ".3f"),
    ("ITL (s)", "itl", "mean", ".4f"),
    ("longest gap (s)", "longest_gap", "max", ".3f"),
    ("running, max", "running", "max", ".0f"),
    ("waiting, mean", "waiting", "mean", ".1f"),
    ("KV usage", "kv_usage", "mean", ".2%"),
)


def runs_table(records: Iterable[Record]) -> pd.DataFrame:
    """Every closed or open loop of the page, in the order measured; failures stand beside the numbers."""
    shown_rows = {}
    for r in records:
        if r.body["kind"] == "point" and "concurrency" in r.params:
            counts = r.requests
            shown_rows[r.body["point"]] = {
                "engine": r.params["variant"],
                "in flight": r.params["concurrency"],
                "n": counts.get("total", 0),
                "failed": counts.get("total", 0) - counts.get("ok", 0),
            } | {name: told(r.value(m, s), form) for name, m, s, form in RUN_COLUMNS}
    return pd.DataFrame.from_dict(shown_rows, orient="index").rename_axis("run")


ANSWER_COLUMNS = ("schema compliance", "parse_errors", "truncated", "raw strict accuracy", "strict accuracy")


def answers_table(records: Iterable[Record]) -> pd.DataFrame:
    """The questions under each contract: form, cut answers, meaning before and after correction."""
    shown_rows = {
        r.body["point"]: {
            "contract": r.params["contract"],
            "max_tokens": r.params["max_tokens"],
            "n": r.requests.get("total", 0),
            "answer tokens": told(r.value("answer_tokens", "mean"), ".1f"),
            **{name.replace("_", " "): told(r.value(name, "share"), ".0%") for name in ANSWER_COLUMNS},
        }
        for r in records
        if r.body["kind"] == "evaluation"
    }
    return pd.DataFrame.from_dict(shown_rows, orient="index").rename_axis("asking")


def label(row: Row, predicted: Predicted | None) -> str:
    """`Engine batch limits: throughput`."""
    name = f"{row.control}: {predicted.signal}" if predicted else row.control
    return name.replace("`", "")
