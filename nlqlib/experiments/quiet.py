"""Is a machine idle while nothing is asked of it? Else times measured on it are times beside other work."""

import time
from pathlib import Path

from nlqlib.records import Rule

LOOK_S = 0.5
"""Long enough for fifty ticks of each core's clock."""
IDLE = 0.25
"""Share of the cores' time that may be busy: an idle engine and the system take a few per cent."""
COUNTERS = Path("/proc/stat")
RULE = "machine idle before and after"


def busy_share(look_s: float = LOOK_S, counters: Path = COUNTERS) -> float | None:
    """Share of all cores' time spent on anything, over `look_s` seconds from now on; `None`: unknown."""
    before = _ticks(counters)
    time.sleep(look_s)
    after = _ticks(counters)
    if before is None or after is None or after[1] <= before[1]:
        return None
    return (after[0] - before[0]) / (after[1] - before[1])


def _ticks(counters: Path) -> tuple[int, int] | None:
    """Busy and all ticks of all cores so far."""
    try:
        first = counters.read_text("ascii").splitlines()[0].split()
    except (OSError, IndexError):
        return None
    told = [int(n) for n in first[1:9]]  # user, nice, system, idle, iowait, irq, softirq, steal
    return sum(told) - told[3] - told[4], sum(told)


def idle_rule(*shares: float | None) -> Rule:
    """Was the machine idle at every look?"""
    known = [one for one in shares if one is not None]
    most = max(known, default=None)
    return Rule(RULE, most, IDLE, None if most is None else most <= IDLE)
