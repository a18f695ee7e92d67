"""Levels of a sweep as records made by hand: what pages and tables are tested on."""

from collections.abc import Iterable, Mapping
from pathlib import Path

from nlqlib.artifacts import Record
from nlqlib.experiments.sweep_rows import WINDOW_LENGTH
from nlqlib.records import Json

ARTICLE = {
    1: (0.31, 3.24),
    8: (2.22, 3.62),
    16: (4.21, 3.91),
    18: (4.29, 4.16),
    24: (5.63, 4.32),
    32: (6.87, 4.6),
}
"""The article's dense sweep: throughput in req/s and p95 in s."""
REPEATED = {12: (3.19, 3.95), 16: (4.06, 3.80), 20: (4.64, 4.22), 24: (5.26, 4.30)}
NAMES = {
    "x_run": ("throughput_run", "mean", "req/s"),
    "x_window": ("throughput_window", "mean", "req/s"),
    "p50": ("e2e_latency", "p50", "s"),
    "p95": ("e2e_latency", "p95", "s"),
    "running": ("running", "mean", "requests"),
    "running_max": ("running", "max", "requests"),
    "waiting": ("waiting", "mean", "requests"),
    "waiting_max": ("waiting", "max", "requests"),
    "queue": ("queue", "mean", "s"),
    "output_tokens": ("output_tokens", "mean", "tokens"),
}


def level(
    n: int,
    x_run: float | None,
    p95: float | None = 4.0,
    *,
    sweep: str = "dense",
    repeat: int = 0,
    failed: Mapping[str, int] | None = None,
    broken: Iterable[str] = (),
    **values: float | None,
) -> Record:
    """One level; `values` by the columns of `sweep_rows.rows`, missing ones were not observed."""
    found = {"x_run": x_run, "p95": p95, **values}
    metrics = [
        {"name": name, "stat": stat, "unit": unit, "value": found.get(column), "n": None, "tag": "modelled"}
        for column, (name, stat, unit) in NAMES.items()
    ]
    counts = dict(failed or {})
    body: Json = {
        "status": "success",
        "point": f"{sweep}-n{n:02d}",
        "params": {"sweep": sweep, "concurrency": n, "repeat": repeat},
        "requests": {"total": 150, "ok": 150 - sum(counts.values()), **counts},
        "metrics": metrics,
        "validity": [
            {"rule": WINDOW_LENGTH, "value": 9.0, "threshold": 5, "ok": WINDOW_LENGTH not in broken},
            *({"rule": r, "value": 2.0, "threshold": 1, "ok": False} for r in broken if r != WINDOW_LENGTH),
        ],
        "samples": None,
    }
    return Record(Path(f"{sweep}-n{n:02d}.json"), body, {})


def dense(windows: bool = True) -> list[Record]:
    """The article's dense sweep, steady throughputs equal to those of whole runs."""
    return [level(n, x, p95, x_window=x if windows else None) for n, (x, p95) in ARTICLE.items()]


def repeated() -> list[Record]:
    """Three repeats of the article's repeated sweep, 1 % apart."""
    return [
        level(n, x * (1 + 0.01 * (r - 2)), p95, sweep="repeated", repeat=r, x_window=x * (1 + 0.01 * (r - 2)))
        for n, (x, p95) in REPEATED.items()
        for r in (1, 2, 3)
    ]
