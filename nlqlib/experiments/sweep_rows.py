"""How sweeps are read: rows of their levels, and the levels pooled by concurrency. From records alone.

Throughputs: *run* counts ramp and drain in; *steady* is the window of events after its first round, and
missing where that window is too short.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pandas as pd

from nlqlib.analysis.stats import Interval, summary
from nlqlib.artifacts import Record
from nlqlib.records import Json, Rule

VALUES = {
    "x_run": ("throughput_run", "mean"),
    "x_window": ("throughput_window", "mean"),
    "p50": ("e2e_latency", "p50"),
    "p95": ("e2e_latency", "p95"),
    "mean": ("e2e_latency", "mean"),
    "mean_window": ("e2e_latency_window", "mean"),
    "in_flight": ("in_flight", "mean"),
    "running": ("running", "mean"),
    "running_max": ("running", "max"),
    "waiting": ("waiting", "mean"),
    "waiting_max": ("waiting", "max"),
    "output_tokens": ("output_tokens", "mean"),
    "queue": ("queue", "mean"),
}
"""Column of `rows` → name and statistic of the metric it holds."""
WINDOW_LENGTH = "window length in mean latencies"
"""The one rule that voids no point: when it is broken, the steady throughput alone is missing."""
Records = Sequence[Record]


def rows(records: Iterable[Record]) -> pd.DataFrame:
    """One row per measured level, in the order given: settings, `VALUES`, and whether its rules held."""
    return pd.DataFrame([_row(r) for r in records])


def _row(record: Record) -> Json:
    asked, counts = record.params, record.requests
    found = {column: record.value(*metric) for column, metric in VALUES.items()}
    return {
        "sweep": asked["sweep"],
        "concurrency": asked["concurrency"],
        "repeat": asked["repeat"],
        "n": counts.get("total", 0),
        "ok": counts.get("ok", 0),
        "failed": failures(counts),
        **{column: float("nan") if value is None else value for column, value in found.items()},
        "valid": not broken(record),
    }


def failures(counts: Json) -> str:
    """Failed requests by outcome, as `2 timeout, 1 http_503`; `0` when there is none."""
    named = [f"{n} {outcome}" for outcome, n in counts.items() if outcome not in ("total", "ok") and n]
    return ", ".join(named) or "0"


def broken(record: Record) -> list[Rule]:
    """The rules that void the point."""
    return [r for r in record.validity if r.ok is False and r.rule != WINDOW_LENGTH]


def by_concurrency(records: Iterable[Record]) -> dict[int, list[Record]]:
    """The repeats of each concurrency, ascending."""
    found: dict[int, list[Record]] = {}
    for record in sorted(records, key=lambda r: int(r.params["concurrency"])):
        found.setdefault(int(record.params["concurrency"]), []).append(record)
    return found


def latencies(records: Iterable[Record]) -> list[float]:
    """Seconds of every good answer of the given levels."""
    return [
        row["end_s"] - row["start_s"]
        for record in records
        for row in record.samples()
        if row["outcome"] == "ok" and row["start_s"] is not None and row["end_s"] is not None
    ]


@dataclass(frozen=True)
class Place:
    """One concurrency of a study: its repeats pooled. Seconds and req/s; `None` where nothing is known."""

    concurrency: int
    runs: int
    x_run: float | None
    x_run_interval: Interval | None
    x_window: float | None
    x_window_interval: Interval | None
    p95_s: float | None
    p95_interval: Interval | None
    valid: bool

    @property
    def x(self) -> float | None:
        """The steady throughput, or that of the whole run where there is none."""
        return self.x_run if self.x_window is None else self.x_window


def places(records: Iterable[Record]) -> list[Place]:
    """The levels pooled by concurrency, ascending; t intervals from three repeats on."""
    table = rows(records)
    if table.empty:
        return []
    return [_place(int(n), group) for n, group in table.groupby("concurrency")]


def _place(concurrency: int, group: pd.DataFrame) -> Place:
    run, window, p95 = (summary(group[c].dropna().to_numpy()) for c in ("x_run", "x_window", "p95"))
    whole = window.n == len(group)  # a mean over some of the repeats would be another quantity
    wide = [s.interval if s.n > 2 else None for s in (run, window, p95)]
    return Place(
        concurrency,
        len(group),
        run.mean,
        wide[0],
        window.mean if whole else None,
        wide[1] if whole else None,
        p95.mean,
        wide[2],
        bool(group["valid"].all()),
    )


def x1(found: Sequence[Place]) -> tuple[float | None, float | None]:
    """X(1) by whole run and in steady state, req/s."""
    one = next((p for p in found if p.concurrency == 1), None)
    return (one.x_run, one.x_window) if one else (None, None)


def told(value: float | None, form: str) -> str:
    """`value` in the format `form`; a dash when it is missing."""
    return "—" if value is None or pd.isna(value) else format(value, form)


def span(interval: Interval | None, form: str) -> str:
    """`low to high` in the format `form`; a dash when there is none."""
    return "—" if interval is None else f"{interval.low:{form}} to {interval.high:{form}}"
