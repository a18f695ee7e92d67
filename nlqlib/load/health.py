"""Is the client the limit? What it cost to make the load, judged by rules that travel with the point.

In virtual time nothing is ever late and no processor is needed, so what needs a real clock is `None` there.
"""

import asyncio
from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from nlqlib.analysis.stats import Interval, percentile
from nlqlib.cpu_clock import LoopMeter, Tick
from nlqlib.records import Rule
from nlqlib.serving.client import Client, ClientStats
from nlqlib.twin.clock import is_virtual

CLIENT = "client: "
"""Begins the name of every rule about the client, so that `client-limited` can be told from the rules."""
MIN_POOL = 2.0
"""Connections the pool must allow, in concurrencies: the rule of measurement, with room for slow closes."""
MAX_DELAY_SHARE = 0.05
"""Loop lag and dispatch delay (p99) may be this share of the mean latency, as Little's law may be off."""
MIN_DELAY_S = 0.02
"""A shorter delay is never held against the client: so long may a busy machine give its core to others."""
MAX_CPU_SHARE = 0.9
"""Of one core, over the window: above it, the loop's thread is the queue."""


@dataclass(frozen=True)
class ClientHealth:
    """What the client had open, and what it cost; over the window where there is one, else the whole run."""

    peak_in_flight: int
    peak_connections: int
    """Most connections this client ever had open at once."""
    pool_waits: int | None
    """Requests that waited for a connection; `None`: the client does not say."""
    loop_lag_p99_s: float | None = None
    cpu_share: float | None = None
    """Processor time of the loop's thread / elapsed, in cores."""
    dispatch_delay_p99_s: float | None = None
    """Closed loop: from an answer to the next request; open loop: from the planned to the actual start."""
    pool_ceiling: int | None = None
    """Most connections the pool may have; `None`: unlimited."""
    latency_s: float | None = None
    """Mean latency of the good answers, which the delays are held against."""

    def rules(self, concurrency: int) -> tuple[Rule, ...]:
        """Pool size, waits for it, loop lag, processor share and dispatch delay, each with its limit."""
        longest = max(MIN_DELAY_S, MAX_DELAY_SHARE * (self.latency_s or 0.0))
        pool: float | str = "unlimited" if self.pool_ceiling is None else self.pool_ceiling / concurrency
        wide = isinstance(pool, str) or pool >= MIN_POOL
        return (
            Rule(f"{CLIENT}connection pool / N", pool, MIN_POOL, wide),
            _at_most("requests that waited for a connection", self.pool_waits, 0),
            _at_most("event-loop lag p99 (s)", self.loop_lag_p99_s, longest),
            _at_most("share of a core", self.cpu_share, MAX_CPU_SHARE),
            _at_most("dispatch delay p99 (s)", self.dispatch_delay_p99_s, longest),
        )


def _at_most(name: str, value: float | None, limit: float) -> Rule:
    return Rule(CLIENT + name, value, limit, None if value is None else value <= limit)


def client_limits(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules among `rules` by which the client was the limit; none: it was not, as far as was seen."""
    return tuple(rule for rule in rules if rule.rule.startswith(CLIENT) and rule.ok is False)


class ClientWatch:
    """Watches one client on the running loop, from `start` to `stop`."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self._before: ClientStats = client.stats
        self.delays_s = array("d")
        """Dispatch delays in loop time, in the order in which they were found."""
        self._meter = None if is_virtual(asyncio.get_running_loop()) else LoopMeter()

    def start(self) -> None:
        """From now on."""
        if self._meter is not None:
            self._meter.start()

    def stop(self) -> None:
        """Until now."""
        if self._meter is not None:
            self._meter.stop()

    def health(self, peak_in_flight: int, latency_s: float | None, window: Interval | None) -> ClientHealth:
        """The findings; `window` in loop time."""
        now, real = self._client.stats, self._meter is not None
        ticks = inside(self._meter.ticks, window) if self._meter is not None else []
        return ClientHealth(
            peak_in_flight=peak_in_flight,
            peak_connections=now.peak_connections,
            pool_waits=None if now.waited is None else now.waited - (self._before.waited or 0),
            loop_lag_p99_s=percentile([tick.lag_s for tick in ticks], 99),
            cpu_share=cpu_share(ticks),
            dispatch_delay_p99_s=percentile(self.delays_s, 99) if real else None,
            pool_ceiling=now.ceiling,
            latency_s=latency_s,
        )


def inside(ticks: Sequence[Tick], window: Interval | None) -> Sequence[Tick]:
    """The ticks of the window; all of them without one, or when it holds fewer than two."""
    if window is None:
        return ticks
    chosen = [tick for tick in ticks if window.low <= tick.at_s <= window.high]
    return chosen if len(chosen) > 1 else ticks


def cpu_share(ticks: Sequence[Tick]) -> float | None:
    """Processor seconds per second between the first and the last tick; `None` without time between them."""
    if len(ticks) < 2 or ticks[-1].at_s <= ticks[0].at_s:
        return None
    return (ticks[-1].cpu_s - ticks[0].cpu_s) / (ticks[-1].at_s - ticks[0].at_s)
