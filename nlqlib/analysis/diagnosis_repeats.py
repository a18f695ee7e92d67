"""Repeats of levels: pooled rows, how far repeats lie apart, and what their bursts agree on."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import fields, replace
from math import sqrt
from statistics import fmean

from scipy import stats as sp

from nlqlib.analysis.diagnosis_burst import Burst
from nlqlib.analysis.diagnosis_levels import SweepLevel, mean_of, totals

Ends = tuple[float, ...]


def pooled(levels: Iterable[SweepLevel]) -> tuple[SweepLevel, ...]:
    """One row for each concurrency, ascending: of repeats the mean, the maximum or the sum."""
    by_concurrency: dict[int, list[SweepLevel]] = {}
    for row in levels:
        by_concurrency.setdefault(row.concurrency, []).append(row)
    return tuple(_pool(by_concurrency[n]) for n in sorted(by_concurrency))


SUMMED = ("n", "ok", "pool_waits", "running_samples", "repeats")
LARGEST = ("in_flight_peak", "running_max", "waiting_max", "kv_usage", "replica_count")


def _pool(rows: Sequence[SweepLevel]) -> SweepLevel:
    if len(rows) == 1:
        return rows[0]
    found: dict[str, object] = {}
    for name in (f.name for f in fields(SweepLevel)):
        values = [v for r in rows if isinstance(v := getattr(r, name), int | float)]
        if name in SUMMED and values:
            found[name] = sum(values)
        elif name in LARGEST and values:
            found[name] = max(values)
        elif name not in ("concurrency", "pool_ceiling") and values:
            found[name] = mean_of(values)
    replicas = tuple(sorted({name for r in rows for name in r.replicas or ()})) or None
    return replace(
        rows[0],
        failures=totals(r.failures for r in rows),
        unusable=totals(r.unusable for r in rows),
        replicas=replicas,
        invalid=next((r.invalid for r in rows if r.invalid), None),
        hidden=next((r.hidden for r in rows if r.hidden), None),
        client_rules=tuple(rule for r in rows for rule in r.client_rules),
        **found | _throughput(rows),  # type: ignore[arg-type]
    )


def _throughput(rows: Sequence[SweepLevel]) -> dict[str, object]:
    """The mean of all repeats, where they are not all estimated in one way; else nothing to add."""
    ways = {(r.throughput_window is not None, bool(r.steady_s and not r.failed)) for r in rows}
    return {"throughput_window": mean_of(r.throughput for r in rows)} if len(ways) > 1 else {}


def noise(levels: Iterable[SweepLevel]) -> float | None:
    """Relative error of one measurement of throughput, from repeats: their spread, pooled over the levels.

    As half of a 95 % t interval, so that few repeats count for little. `None` when nothing was repeated.
    """
    by_concurrency: dict[int, list[float]] = {}
    for row in levels:
        if row.throughput is not None:
            by_concurrency.setdefault(row.concurrency, []).append(row.throughput)
    repeated = [[v / fmean(x) - 1 for v in x] for x in by_concurrency.values() if len(x) > 1]
    degrees = sum(len(x) - 1 for x in repeated)
    if not degrees:
        return None
    return sqrt(sum(d * d for x in repeated for d in x) / degrees) * float(sp.t.isf(0.025, degrees)) / 2


def bursts(levels: Iterable[SweepLevel]) -> list[list[Ends]]:
    """For each burst of the widest level: it, and before it one of every narrower level, ascending."""
    by_concurrency: dict[int, list[Ends]] = {}
    for row in levels:
        if row.burst_s:
            by_concurrency.setdefault(row.concurrency, []).append(row.burst_s)
    narrow_first = [by_concurrency[n] for n in sorted(by_concurrency)]
    widest = len(narrow_first[-1]) if narrow_first else 0
    return [[of[min(i, len(of) - 1)] for of in narrow_first] for i in range(widest)]


def agreed(read: Sequence[Burst]) -> Burst | None:
    """What most of the bursts that are clear say, with the step most of these count; `None` of no burst."""
    clear = [b for b in read if b.verdict != "unclear"]
    if not read or not clear:
        return read[0] if read else None
    said, votes = Counter(b.verdict for b in clear).most_common(1)[0]
    if 2 * votes <= len(clear):
        return replace(clear[0], verdict="unclear", at_once=None, reason="repeated bursts disagree")
    same = [b for b in clear if b.verdict == said]
    counted = Counter(b.at_once for b in same).most_common(1)[0][0]
    return next(b for b in same if b.at_once == counted)
