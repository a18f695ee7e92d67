"""The first burst: N requests sent at once, and the order and the steps in which they came back.

Behind a limit of K that is first come, first served, request i waits for (i − 1) / K others, so completions
rise with the order of sending. In an engine that runs them all together they do not. One that takes prompts
in turn and then decodes together rises too, but from a higher beginning: its first answer carries the whole
decode. The intercept of the line, in units of its slope, tells the two apart.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from nlqlib.analysis.stats import Floats, Interval, line

MIN_RISE = 0.25
"""Rise over the burst, in mean completion times: 2 (N − K) / (N + K) behind a limit, 0.25 at K = 0.78 N."""
CERTAIN = 0.99
"""Confidence that completions rise at all: a sweep has one widest burst, and answers differ by chance."""
CLEAR_RISE = 0.5
"""A rise this large is a queue, whatever the lengths of the answers."""
EVEN = 0.15
"""Relative spread of lone latencies up to which a first step can be counted."""
SHORT_OF = 0.75
"""A rise that surely stays below this share of what a limit would make it rules the limit out."""
GAP = 0.3
"""A step: nothing ends for this share of the first step's time."""

WIDE = 1.5
"""Bursts of this many corners or more show the line beyond the first step."""
ONE_LINE = 1.5
"""With a corner below it both explanations are one: requests are taken in turn, and nothing is common."""
APART = 0.2
"""Two explanations whose intercepts differ by less, in corners, cannot be told apart."""
FIRST = 1.9
"""All of a first step end within this factor of its first end."""


@dataclass(frozen=True)
class Burst:
    """What one burst shows."""

    verdict: Literal["steps", "together", "in turn", "unclear"]
    """Behind a limit; all at once; admitted one by one but served together; or none of these for certain."""
    n: int
    rise: float
    """Growth of completion times from the first to the last sent, in mean completion times."""
    at_once: int | None
    """Size of the first step, where it ends in a gap."""
    reason: str
    queued: bool = False
    """Requests certainly waited for each other, wherever that was."""


def burst(
    bursts: Sequence[Sequence[float]], corner: float | None, alone_spread: float | None = None
) -> Burst:
    """Reads the widest of `bursts`, ascending in size: ends in seconds since sending, in order of sending.

    The narrower ones sharpen the line. `corner`: the K to be explained, from the curve. `alone_spread`:
    relative standard deviation of a lone request's latency, which completions without a queue show too.
    """
    ends = np.asarray(bursts[-1], dtype=np.float64)
    rise, (low, high) = _rise(ends)
    in_order = np.sort(ends)
    # connections may shuffle the order on the way; then only the spread of completions shows the queue
    unordered, _ = _rise(in_order)
    spread = np.sqrt(12) * (alone_spread or 0.0)
    step = _first_step(in_order) if (alone_spread or 0.0) <= EVEN else None
    if low > 0 and rise >= MIN_RISE:
        place = None if corner is None or corner < ONE_LINE else _place(bursts, corner)
        return _queued(len(ends), rise, step, corner, place, "ended in the order of sending")
    if unordered >= CLEAR_RISE + 2 * spread:
        how = "ended further apart than lone answers differ"
        return _queued(len(ends), unordered, step, corner, None, how)
    if unordered <= CLEAR_RISE + spread and high < SHORT_OF * _due(len(ends), corner):
        return Burst("together", len(ends), rise, None, f"{len(ends)} requests sent at once ended together")
    return Burst("unclear", len(ends), rise, step, "they ended apart, but not in the order of sending")


def _due(n: int, corner: float | None) -> float:
    """The rise behind a limit of `corner`; without one nothing is due, and nothing need be ruled out.

    Nor behind one so near to `n` that its rise could not be told from that of answers of several lengths.
    """
    due = math.inf if corner is None else 2 * (n - corner) / (n + corner)
    return due if due >= MIN_RISE else math.inf


def _rise(ends: Floats) -> tuple[float, Interval]:
    """Rise over the burst and its interval, in mean completion times."""
    fit = line(range(len(ends)), ends, CERTAIN)
    assert fit is not None and fit.slope_interval is not None
    unit = (len(ends) - 1) / float(ends.mean())
    return fit.slope * unit, Interval(fit.slope_interval.low * unit, fit.slope_interval.high * unit)


def _first_step(ends: Floats) -> int | None:
    """How many end before the first gap, if as many end between it and the next one."""
    gaps = np.flatnonzero(np.diff(ends) >= GAP * ends[0]) + 1
    if not len(gaps) or ends[gaps[0] - 1] > FIRST * ends[0]:
        return None
    first = int(gaps[0])
    second = int(gaps[1]) - first if len(gaps) > 1 else len(ends) - first
    return first if second == first or (len(gaps) == 1 and second < first) else None


def _queued(
    n: int, rise: float, step: int | None, corner: float | None, place: Interval | None, how: str
) -> Burst:
    """A queue: behind a limit, or prompts in turn before a common decode?"""
    # prompts taken in turn come one by one as well, but then the curve's corner lies elsewhere
    if step is not None and (step > 1 or corner is None or corner < ONE_LINE):
        steps = "one after another" if step == 1 else f"the first {step} together"
        return Burst("steps", n, rise, step, _told(n, rise, f"{how}, {steps}"), True)
    if corner is None or corner < ONE_LINE:
        return Burst("steps", n, rise, None, _told(n, rise, how), True)
    if place is not None and place.high < 0.5:
        limit = f"{how}, as behind a limit of about {corner:.0f}"
        return Burst("steps", n, rise, None, _told(n, rise, limit), True)
    if place is not None and place.low > 0.5:
        late = f"{how}, but the first one late, as prompts taken in turn do"
        return Burst("in turn", n, rise, None, _told(n, rise, late), True)
    between = f"{how}, between steps and prompts taken in turn"
    return Burst("unclear", n, rise, None, _told(n, rise, between), True)


def _told(n: int, rise: float, how: str) -> str:
    """The rise in words, beside that without a queue and that behind a limit of one, 2 (N − 1) / (N + 1)."""
    return (
        f"{n} requests sent at once {how}: from first to last, latency grew by {rise:.2f} × its mean "
        f"(0 is all together, {2 * (n - 1) / (n + 1):.2f} one at a time)"
    )


def _place(bursts: Sequence[Sequence[float]], corner: float) -> Interval | None:
    """Where the intercept lies: 0 as behind a limit of `corner`, 1 as with prompts taken in turn.

    With twice its standard error; `None` when the two look alike, in bursts of little more than the corner.
    """
    wide = [b for b in bursts if len(b) >= WIDE * corner]
    if not wide:
        return None
    i: Floats = np.concatenate([np.arange(1, len(b) + 1, dtype=np.float64) for b in wide])
    ends: Floats = np.concatenate([np.asarray(b, dtype=np.float64) for b in wide])
    # steps that differing lengths have blurred: half a step on top of the line through the origin
    limit = _intercept(i, np.maximum(np.float64(corner), i + (corner - 1) / 2))
    turns = corner - 1
    if turns - limit < APART * corner:
        return None
    found = line(i, ends)
    assert found is not None
    # the intercept's own error: that of the mean, and that of the slope over the way to the middle
    rest = ends - found.intercept - found.slope * i
    error = float(rest.std() / np.sqrt(len(i)) * np.hypot(1, i.mean() / i.std())) / found.slope
    at, unit = found.intercept / found.slope, turns - limit
    return Interval((at - 2 * error - limit) / unit, (at + 2 * error - limit) / unit)


def _intercept(i: Floats, ends: Floats) -> float:
    fit = line(i, ends)
    assert fit is not None
    return fit.intercept / fit.slope
