"""How the page on window sizing shows two windows: capacity by arithmetic, both sweeps, and the answers."""

from collections.abc import Mapping

import pandas as pd

from nlqlib.analysis.bend import Knee, Swept, knee, knee_shift
from nlqlib.analysis.kv import RESERVED_BLOCKS, ModelShape
from nlqlib.artifacts import Record
from nlqlib.experiments.context import Deployment, Design
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import Records, failures, rows, span, told

Deployments = Mapping[int, Deployment]


def kind(study: Study) -> str:
    """How a comparison of windows must be named in captions."""
    return "modelled times, equal by construction" if study.target.kind == "twin" else ""


# ---- capacity --------------------------------------------------------------------------------------------


def blocks_of(found: Deployments) -> tuple[int | None, int | None]:
    """KV blocks of the engine and tokens of one, as any of its points tells them."""
    told_by = [r.results for d in found.values() for r in d.sweep if r.results.get("blocks")]
    return (told_by[0]["blocks"], told_by[0]["block_size"]) if told_by else (None, None)


def capacity_table(
    found: Deployments, wanted: Design, shape: ModelShape | None, prompt: int, max_tokens: int
) -> pd.DataFrame:
    """What the window changes by arithmetic: blocks of a request that fills it, and how many of those fit."""
    there, size = blocks_of(found)
    used = prompt + max_tokens
    sizes = {f"full window of {w:,}": w for w in wanted.windows}
    sizes |= {f"this workload: {prompt:,} + {max_tokens}": used}
    shown = {
        name: {
            f"blocks of {size or '—'} tokens, nothing shared": told(_blocks(n, size), ",.0f"),
            "KV of one request (MB)": told(shape.kv_bytes_per_token * n / 1e6 if shape else None, ",.0f"),
            f"such requests in {told(there, ',.0f')} blocks": told(at_once(n, there, size), ".1f"),
        }
        for name, n in sizes.items()
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("request")


def _blocks(tokens: int, size: int | None) -> int | None:
    return -(-tokens // size) if size else None


def at_once(tokens: int, blocks: int | None, size: int | None) -> float | None:
    """How many requests of so many tokens hold all blocks, if they share none."""
    each = _blocks(tokens, size)
    return (blocks - RESERVED_BLOCKS) / each if blocks and each else None


def capacity_sentence(found: Deployments, wanted: Design) -> str:
    """What a larger window does and does not change."""
    there, size = blocks_of(found)
    small, large = (at_once(w, there, size) for w in wanted.windows)
    if small is None or large is None:
        return (
            "The engine does not say how many KV blocks it has: how many full windows fit is not observable."
        )
    return (
        f"{small:.1f} requests that fill a window of {wanted.windows[0]:,} fit at once, {large:.1f} of "
        f"{wanted.windows[1]:,}. A window reserves no block: a request holds what its own tokens need, and "
        "only the worst case grows."
    )


# ---- the sweep -------------------------------------------------------------------------------------------


def sweep_table(found: Deployments) -> pd.DataFrame:
    """Both windows, level by level: throughput, latency, KV usage, preemptions and context errors."""
    shown = []
    for window, there in found.items():
        table = rows(there.sweep)
        for (_, row), record in zip(table.iterrows(), there.sweep, strict=True):
            counts = record.requests
            shown.append(
                {
                    "concurrency": int(row["concurrency"]),
                    "window": f"{window:,}",
                    "repeat": int(row["repeat"]),
                    "n": counts.get("total", 0),
                    "failed": failures(counts),
                    "context errors": counts.get("context_overflow", 0),
                    "X run (req/s)": told(row["x_run"], ".2f"),
                    "mean (s)": told(row["mean"], ".2f"),
                    "p95 (s)": told(row["p95"], ".2f"),
                    "KV usage, max": told(record.value("kv_usage", "max"), ".2%"),
                    "preemptions": told(record.value("preemptions", "count"), ".0f"),
                    "rules": "held" if row["valid"] else "BROKEN",
                }
            )
    shown.sort(key=lambda r: (r["concurrency"], r["repeat"], r["window"].rjust(9)))
    return pd.DataFrame(shown, columns=SWEEP_COLUMNS).set_index("concurrency")


SWEEP_COLUMNS = [
    *("concurrency", "window", "repeat", "n", "failed", "context errors"),
    *("X run (req/s)", "mean (s)", "p95 (s)", "KV usage, max", "preemptions", "rules"),
]


def knees(found: Deployments) -> dict[int, Knee]:
    """The knee of each window's sweep."""
    return {w: knee(*_swept(there.sweep)) for w, there in found.items()}


def _swept(records: Records) -> Swept:
    """Concurrency and throughput of every run that has one."""
    table = rows(records)
    table = table.dropna(subset=["x_run"]) if len(table) else table
    return (table["concurrency"].to_numpy(), table["x_run"].to_numpy()) if len(table) else ([], [])


def knee_table(found: Deployments) -> pd.DataFrame:
    """Where each window's throughput bends."""
    shown = {
        f"{w:,}": {
            "verdict": k.status,
            "at": told(k.at, ".1f"),
            "95 % interval": span(k.interval, ".1f"),
            "reason": k.reason,
        }
        for w, k in knees(found).items()
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("window")


def knee_sentence(found: Deployments, wanted: Design) -> str:
    """Whether the knee moves: by the difference of both, with its interval."""
    small, large = (knees(found).get(w) for w in wanted.windows)
    if small is None or large is None or small.at is None or large.at is None:
        sides = [k for k in (small, large) if k is not None and k.at is None]
        why = sides[0].reason if sides else "one window is missing"
        return f"Whether the knee moves cannot be told: {why}."
    one, other = (_swept(found[w].sweep) for w in wanted.windows)
    by = knee_shift(one, other, seed=wanted.seed)
    inside = f"{told(by.value, '+.1f')} (95 % interval {span(by.interval, '+.1f')}, residuals drawn anew)"
    if by.interval and not by.interval.low <= 0 <= by.interval.high:
        return f"The knee moves from {small.at:.1f} to {large.at:.1f} requests in flight: {inside}."
    return f"No move of the knee is shown: {small.at:.1f} and {large.at:.1f} requests in flight, {inside}."


# ---- the same quality set --------------------------------------------------------------------------------


def answers_table(found: Deployments) -> pd.DataFrame:
    """Outcomes of the same questions under each window."""
    shown = {
        f"{w:,}": {
            "n": there.answers.requests.get("total", 0),
            "valid": there.answers.requests.get("ok", 0),
            "failed": failures(there.answers.requests),
            "p50 of valid (s)": told(there.answers.value("e2e_latency", "p50"), ".2f"),
        }
        for w, there in found.items()
        if there.answers is not None
    }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("window")


def answers_sentence(study: Study, found: Deployments, wanted: Design) -> str:
    """How many answers are the same, word by word."""
    both = [found[w].answers if w in found else None for w in wanted.windows]
    if both[0] is None or both[1] is None:
        return "The questions were asked under one window only: nothing to set beside it."
    same, n = _same(both[0], both[1])
    text = f"{same} of {n} answers are the same word by word under both windows."
    replayed = " By construction: both windows replay one recording." if study.target.kind == "twin" else ""
    return text + replayed


def _same(one: Record, other: Record) -> tuple[int, int]:
    texts = [{r["id"]: r["text_sha256"] for r in record.samples()} for record in (one, other)]
    ids = set(texts[0]) & set(texts[1])
    return sum(texts[0][i] is not None and texts[0][i] == texts[1][i] for i in ids), len(ids)
