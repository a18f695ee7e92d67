"""What the gauges of a level say: how many ran at once, for how long, and whether the gauges lag behind.

An engine sets *running* and *waiting* when a step ends. While one step computes prompts for seconds they show
what was before it, so that neither a single scrape nor a mean over time says how many requests its scheduler
holds: the fullest moment does. From records alone.
"""

from dataclasses import dataclass
from itertools import groupby

from nlqlib.artifacts import Record

REACHED = 0.95
"""Of the requests in flight; as many running, and no more than the rest waiting, are in the scheduler."""
LAG = 0.9
"""Of the requests that the engine's own timers put inside it; gauges that show fewer on average lag."""
Gauge = tuple[float, float, float]
"""Seconds since the first request, requests running, requests waiting."""


@dataclass(frozen=True)
class Together:
    """The fullest moment of a level: the most that ran at once, with the fewest that waited meanwhile."""

    running: float
    waiting: float
    samples: int
    """How many samples show just this."""
    of: int
    """Samples that are kept."""
    from_s: float
    """First sample of the longest time in which every sample shows it; seconds since the first request."""
    until_s: float
    """Its last sample."""

    def reaches(self, concurrency: int) -> bool:
        """Whether `concurrency` requests in flight are in the scheduler and run."""
        return self.running >= REACHED * concurrency and self.waiting <= (1 - REACHED) * concurrency


def gauges(record: Record) -> list[Gauge]:
    """The kept samples that hold both values, in time; empty where nothing was sampled or kept."""
    rows = record.results.get("gauges") or []
    return [(at_s, running, waiting) for at_s, running, waiting in rows if None not in (running, waiting)]


def together(record: Record) -> Together | None:
    """The fullest moment of a level by its gauges; `None` where the engine shows none."""
    rows = gauges(record)
    if not rows:
        return None
    top = max(((running, waiting) for _, running, waiting in rows), key=lambda s: (s[0], -s[1]))
    spells = [list(spell) for same, spell in groupby(rows, lambda g: g[1:] == top) if same]
    longest = max(spells, key=lambda s: round(s[-1][0] - s[0][0], 1))  # the first of those alike
    return Together(*top, sum(map(len, spells)), len(rows), longest[0][0], longest[-1][0])


def engine_e2e_s(record: Record) -> float | None:
    """Mean seconds from arrival at the engine's frontend to the last token, by the engine's own timer."""
    told = record.value("engine_e2e", "mean")
    whole, outside = record.value("e2e_latency", "mean"), record.value("residual", "mean")
    return told if told is not None or whole is None or outside is None else whole - outside


def inside_by_timers(record: Record) -> float | None:
    """Requests in the engine on average over the run, by Little's law from its own timer."""
    x, e2e = record.value("throughput_run", "mean"), engine_e2e_s(record)
    return None if x is None or e2e is None else x * e2e


def shown_on_average(record: Record) -> float | None:
    """Mean of running + waiting over the level's samples."""
    running, waiting = record.value("running", "mean"), record.value("waiting", "mean")
    return None if running is None or waiting is None else running + waiting


def lags(record: Record) -> bool | None:
    """Whether the gauges show clearly fewer than the engine's timers put inside; `None`: not observable."""
    shown, inside = shown_on_average(record), inside_by_timers(record)
    return None if shown is None or inside is None else shown < LAG * inside
