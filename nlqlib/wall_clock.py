"""The wall clock: the only one that several machines share, as well as their clocks agree."""

import time


def wall_s() -> float:
    """Seconds since 1970."""
    return time.time()
