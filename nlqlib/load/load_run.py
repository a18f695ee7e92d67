"""One offered load and its answers, as a value: what the closed and the open loop both return.

Pure. Times of a `LoadRun` are seconds since its own start, so that runs can be compared and kept.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from nlqlib.analysis.latency import in_flight_rule, mean_in_flight, spans, window_rule
from nlqlib.analysis.samples import Sample
from nlqlib.analysis.stats import Interval
from nlqlib.load.health import ClientHealth
from nlqlib.records import COMPLETED, Completion, Rule

MAX_FAILED = 0.01
"""Share of failed requests above which the latencies are those of survivors."""
MIN_ARRIVALS = 20
"""Of an open loop, below which nothing is said about its backlog."""
MAX_GROWTH_SD = 2.0
"""Growth of the number in flight that chance still explains, in standard deviations."""


@dataclass(frozen=True)
class LoadRun:
    """The answers to one offered load. Times are seconds since `origin_s`, those of samples as well."""

    completions: tuple[Completion, ...]
    """The measured requests, in order of their start."""
    concurrency: int | None
    """N of a closed loop; `None` for an open one."""
    origin_s: float
    """Loop time of zero: the first measured start (closed loop), or the start of the plan (open loop)."""
    health: ClientHealth
    samples: tuple[Sample, ...] = ()
    """From the first measured start on, the drain included."""
    lead_in: tuple[Completion, ...] = ()
    """The unmeasured requests before: some may still have been in flight when the measured ones began."""
    window: Interval | None = None
    """The steady part of a closed loop; see `analysis.latency.steady_window`."""

    def rules(self) -> tuple[Rule, ...]:
        """Was the run what it was meant to be? In flight, window, failures, and the client's health."""
        failed = failed_rule(self.completions)
        if self.concurrency is None:
            peak = max(1, self.health.peak_in_flight)
            return (backlog_rule(self.completions), failed, *self.health.rules(peak))
        everything = self.lead_in + self.completions
        return (
            in_flight_rule(everything, self.concurrency, self.window),
            window_rule(self.completions, self.window),
            failed,
            *self.health.rules(self.concurrency),
        )


def failed_rule(completions: Sequence[Completion]) -> Rule:
    """Failures stand beside the throughput: beyond 1 % of them the latencies are those of the lucky ones."""
    failed = sum(c.outcome not in COMPLETED for c in completions)
    share = failed / len(completions) if completions else None
    return Rule(
        "failed requests / requests", share, MAX_FAILED, None if share is None else share <= MAX_FAILED
    )


def backlog_rule(completions: Sequence[Completion]) -> Rule:
    """An open loop beyond capacity piles up requests: its latencies tell how long it lasted, nothing else.

    Compared are the numbers in flight at half of the plan and at its last arrival, in standard deviations of
    the difference of two counts as large as the mean in flight. Unknown below 20 requests.
    """
    name = "growth in flight over the second half / its chance (sd)"
    rows = spans(completions)
    first, last = (float(rows[0, 0]), float(rows[-1, 0])) if len(rows) else (0.0, 0.0)
    mean = mean_in_flight(rows, Interval(first, last)) if last > first else None
    if len(rows) < MIN_ARRIVALS or not mean:
        return Rule(name, None, MAX_GROWTH_SD, None)
    half, end = (int(((rows[:, 0] <= t) & (rows[:, 1] > t)).sum()) for t in ((first + last) / 2, last))
    value = (end - half) / math.sqrt(2 * mean)
    return Rule(name, value, MAX_GROWTH_SD, value <= MAX_GROWTH_SD)


def since(completions: Iterable[Completion], origin_s: float) -> tuple[Completion, ...]:
    """`completions` with every time counted from `origin_s`, both in seconds of one clock."""
    return tuple(_earlier(completion, origin_s) for completion in completions)


def _earlier(completion: Completion, by_s: float) -> Completion:
    # As `replace` does, which takes 7 µs for so many fields: a tenth of what the whole request costs.
    moved = object.__new__(Completion)
    vars(moved).update(
        vars(completion),
        planned_s=_less(completion.planned_s, by_s),
        start_s=_less(completion.start_s, by_s),
        first_token_s=_less(completion.first_token_s, by_s),
        first_content_s=_less(completion.first_content_s, by_s),
        end_s=_less(completion.end_s, by_s),
        token_times_s=tuple([at_s - by_s for at_s in completion.token_times_s]),
    )
    return moved


def _less(at_s: float | None, by_s: float) -> float | None:
    return None if at_s is None else at_s - by_s


def samples_since(samples: Iterable[Sample], origin_s: float) -> tuple[Sample, ...]:
    """The samples taken from `origin_s` on, with their times counted from there."""
    return tuple(replace(s, at_s=s.at_s - origin_s) for s in samples if s.at_s >= origin_s)
