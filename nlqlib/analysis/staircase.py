"""The staircase: do requests of independent processes, released together, end together or one after another?

Processes share no lock, no pool and no event loop, so a staircase among them is made beyond the client. The
completions, in their order, are fitted by a line: its slope in service times is 1 where one request at a time
is served, 1/K where K are, and about 0 where all run together. A verdict counts only when the same test, in
the same minutes, called a parallel control parallel and a serial one serial.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from nlqlib.analysis.stats import Interval, Line, line

MIN_PROCESSES = 4
"""Below it any three times lie about on a line."""
MAX_SKEW_SHARE = 0.25
"""Releases further apart than this share of the service time draw a staircase of their own."""
TOGETHER = 1.6
"""All finished together when the last took at most this many times the first, as a whole or by the token."""
ALIKE = 1.3
"""Answers whose lengths differ by at most this factor draw no steps of their own."""
SERIAL_SLOPE = Interval(0.75, 1.33)
"""Slope in service times of one at a time; the next possible, two at a time, has 0.5."""
SERIAL_R2 = 0.9
STEPS_R2 = 0.5
"""Two even steps lie on their line with R² = 0.76, a step of six and one of two still with 0.57."""
SHARED = 2.0
"""A first completion this many service times late: the requests shared the server from the beginning."""

StaircaseVerdict = Literal["serial", "parallel", "limited", "refused"]


@dataclass(frozen=True)
class ProcessTimes:
    """One process and its one request, seconds on a clock that all processes share."""

    release_s: float
    """When the barrier let it go."""
    start_s: float
    """When it sent its request."""
    end_s: float | None
    """When the answer was complete; `None`: it failed."""
    tokens: int | None = None
    """Output tokens of the answer; `None`: not told."""


@dataclass(frozen=True)
class Staircase:
    """What k processes show. Times in seconds; `None` where it could not be computed."""

    verdict: StaircaseVerdict
    reason: str
    k: int
    service_s: float | None
    """One request alone: measured before, or else the first completion."""
    completions_s: tuple[float, ...]
    """Ends in their order, since the first request was sent."""
    slope_s: float | None = None
    """Seconds from one completion to the next."""
    slope_interval: Interval | None = None
    r2: float | None = None
    skew_s: float | None = None
    """First start to last start."""
    skew_share: float | None = None
    """Of the service time."""
    admitted: int | None = None
    """How many were served at once, where steps show it."""

    @property
    def slope_share(self) -> float | None:
        """Slope in service times: 1 for one at a time, 1/K for K."""
        if self.slope_s is None or not self.service_s:
            return None
        return self.slope_s / self.service_s


@dataclass(frozen=True)
class ControlledStaircase:
    """The endpoint's staircase beside its controls; `verdict` is `refused` when a control was misjudged."""

    verdict: StaircaseVerdict
    reason: str
    endpoint: Staircase
    parallel_control: Staircase
    serial_control: Staircase

    @property
    def controls_hold(self) -> bool:
        """Both controls were judged to be what they are."""
        return self.parallel_control.verdict == "parallel" and self.serial_control.verdict == "serial"


def staircase(processes: Sequence[ProcessTimes], service_s: float | None = None) -> Staircase:
    """The staircase of `processes`, one request each.

    `service_s`: one request alone on the idle endpoint, in seconds; without it the first completion stands
    in, and a server shared by all cannot be told from a slow one. Raises `ValueError` for impossible times.
    """
    _check(processes, service_s)
    ends = sorted(p.end_s for p in processes if p.end_s is not None)
    first = min((p.start_s for p in processes), default=0.0)
    times = tuple(end - first for end in ends)
    alone = service_s if service_s is not None else (times[0] if times else None)
    bare = Staircase("refused", "", len(processes), alone, times)
    if why := _unfit(processes, len(times)):
        return replace(bare, reason=why)
    assert alone is not None
    fit = line(range(len(times)), times)
    assert fit is not None
    skew = max(p.start_s for p in processes) - first
    found = replace(
        bare,
        slope_s=fit.slope,
        slope_interval=fit.slope_interval,
        r2=fit.r2,
        skew_s=skew,
        skew_share=skew / alone,
    )
    return _judged(found, fit, [(p.tokens, p.end_s - p.start_s) for p in processes if p.end_s is not None])


def _check(processes: Sequence[ProcessTimes], service_s: float | None) -> None:
    if service_s is not None and not service_s > 0:
        raise ValueError(f"a service time of {service_s} s: measure one request alone on the idle endpoint")
    for p in processes:
        if p.end_s is not None and p.end_s <= p.start_s:
            raise ValueError(f"a request starts at {p.start_s} and ends at {p.end_s} s: the clocks disagree")


def _unfit(processes: Sequence[ProcessTimes], answered: int) -> str | None:
    """Why no line should be fitted at all."""
    if len(processes) < MIN_PROCESSES:
        return f"{len(processes)} processes show no staircase: start at least {MIN_PROCESSES}"
    if answered < len(processes):
        failed = len(processes) - answered
        return f"{failed} of {len(processes)} requests failed, so the steps have gaps: repeat the test"
    return None


def _judged(found: Staircase, fit: Line, answers: Sequence[tuple[int | None, float]]) -> Staircase:
    """The verdict; `answers`: output tokens and seconds of each, in any order."""
    assert found.service_s is not None and found.skew_share is not None
    times, slope, r2 = found.completions_s, fit.slope / found.service_s, fit.r2 or 0.0
    late = times[0] / found.service_s
    shape = f"slope {slope:.2f} service times per completion, R² {r2:.2f}"
    if found.skew_share > MAX_SKEW_SHARE:
        apart = f"{found.skew_share:.0%} of a service time apart ({MAX_SKEW_SHARE:.0%} is allowed)"
        why = f"the starts lie {apart}"
        return replace(found, reason=f"{why}: ask for longer answers, or start fewer processes")
    if times[-1] <= TOGETHER * times[0]:
        slower = f", each {late:.1f} times as slow as alone" if late > TOGETHER else ""
        return replace(found, verdict="parallel", reason=f"all {found.k} end together{slower} ({shape})")
    unlike, uneven = _spreads(answers)
    if unlike > ALIKE and uneven <= TOGETHER:
        why = f"each of the {found.k} took as long as its length asks for"
        lengths = f"lengths differ {unlike:.1f} times, seconds per token {uneven:.1f} times"
        return replace(found, verdict="parallel", reason=f"{why}: {lengths} ({shape})")
    if late > SHARED:
        why = f"even the first answer took {late:.1f} service times ({shape})"
        return replace(found, reason=f"{why}: all shared the server, or others used it; repeat it when idle")
    if SERIAL_SLOPE.low <= slope <= SERIAL_SLOPE.high and r2 >= SERIAL_R2:
        return replace(found, verdict="serial", reason=f"one after another ({shape})", admitted=1)
    if unlike > ALIKE:
        why = f"the answers' lengths differ {unlike:.1f} times, which draws steps of its own ({shape})"
        return replace(found, reason=f"{why}: repeat it with answers of one length")
    if slope < SERIAL_SLOPE.low and r2 >= STEPS_R2:
        k = _at_once(times)
        return replace(found, verdict="limited", reason=f"steps of about {k} ({shape})", admitted=k)
    return replace(found, reason=f"neither together nor in steps ({shape}): repeat it on the idle endpoint")


def _spreads(answers: Sequence[tuple[int | None, float]]) -> tuple[float, float]:
    """Largest over smallest length, and the same of seconds per token; 1 where some length is not told."""
    known = [(tokens, seconds) for tokens, seconds in answers if tokens]
    if len(known) < len(answers):
        return 1.0, 1.0
    lengths, rates = [n for n, _ in known], [seconds / n for n, seconds in known]
    return max(lengths) / min(lengths), max(rates) / min(rates)


def _at_once(times: Sequence[float]) -> int:
    """Requests on the first step: those that end before one and a half times the first."""
    return sum(t < 1.5 * times[0] for t in times)


def controlled(
    endpoint: Staircase, parallel_control: Staircase, serial_control: Staircase
) -> ControlledStaircase:
    """The endpoint's verdict, void unless both controls were classified right."""
    wrong = [
        f"the {name} control was called {control.verdict} ({control.reason})"
        for name, control in (("parallel", parallel_control), ("serial", serial_control))
        if control.verdict != name
    ]
    if not wrong:
        return ControlledStaircase(
            endpoint.verdict, endpoint.reason, endpoint, parallel_control, serial_control
        )
    why = "void: " + "; ".join(wrong) + ". Repeat the test on a quieter machine"
    return ControlledStaircase("refused", why, endpoint, parallel_control, serial_control)
