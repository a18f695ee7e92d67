"""Is the throughput before flat? X(largest) / X(1) − 1 over repeats, with its interval.

A machine whose speed drifts over minutes changes one level against another by as much as is asked about. The
repeats come in pairs, neighbours in time, so the change within a pair holds less of the drift.
"""

from collections.abc import Mapping

from nlqlib.analysis.stats import Interval, t_interval
from nlqlib.experiments.sweep_rows import Records, broken

FLAT = 0.05
"""A throughput that differs by no more than this share from that of one request is called flat."""


def change_interval(records: Records, first: int, last: int) -> Interval | None:
    """Student t interval of X(last) / X(first) − 1 over pairs of equal repeat; `None` below three pairs.

    By whole runs; pairs of which a rule broke are left out.
    """
    xs = {n: _throughputs(records, n) for n in (first, last)}
    pairs = sorted(xs[first].keys() & xs[last].keys())
    changes = [xs[last][r] / xs[first][r] - 1 for r in pairs]
    return t_interval(changes) if len(changes) > 2 else None


def _throughputs(records: Records, n: int) -> Mapping[int, float]:
    """Throughput of each repeat at `n` in flight."""
    return {
        int(r.params["repeat"]): x
        for r in records
        if r.params["concurrency"] == n and not broken(r) and (x := r.value("throughput_run", "mean"))
    }


def flatness_sentence(change: float, interval: Interval | None) -> str:
    """What the interval of a change of throughput says of flatness; empty where nothing was repeated."""
    if interval is None:
        return ""
    told = f"{interval.low:+.1%} to {interval.high:+.1%}"
    over = f" Over repeats in pairs of random order the 95 % interval is {told}"
    if interval.low >= -FLAT and interval.high <= FLAT:
        return f"{over}: flat within {FLAT:.0%}."
    if interval.low > FLAT or interval.high < -FLAT:
        return f"{over}: not flat within {FLAT:.0%}."
    if abs(change) > FLAT:
        return f"{over}: the mean is outside {FLAT:.0%}, but the interval is not, so more repeats decide."
    return f"{over}: the mean is inside {FLAT:.0%}, but the interval reaches beyond, so more repeats decide."
