"""The inside view: which layer of the serving path holds the queue, and how many it lets through.

The layers, from the outside in: the client's pool, the router, the replica's admission, the engine's
scheduler. A request waits at every limit that is tighter than all before it; the innermost layer with a
queue is the one that binds, and what lies behind it never has more than that to admit. How many a layer
lets through follows from Little's law, X · (R − waits up to there), without knowing the setting.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal

from nlqlib.analysis.diagnosis_levels import SweepLevel

LayerName = Literal["client", "router", "replica", "engine"]
INWARDS: tuple[LayerName, ...] = ("client", "router", "replica", "engine")

QUEUE_SHARE = 0.1
"""A wait of this share of what a request has still before it is a queue; below it, a meeting at the door."""
SHORT = 0.85
"""The engine was given fewer than it could have been: less than this share of N."""
SAME = 1.15
"""Two levels run the same number when they differ by no more than this factor."""
LOOKS = 5
"""A level whose engine was asked fewer times shows no largest number running."""
FIRM = 0.7
"""Mean over largest number running, above which the largest is where it is held."""
MEETS = 0.25
"""An estimate of a limit and a count agree within this share."""


@dataclass(frozen=True)
class Holding:
    """A layer with a queue, at the largest concurrency that shows it."""

    layer: LayerName
    share: float | None
    """Of the time from this layer on, spent in its queue; `None` where only the fact is known."""
    admits: float | None
    """How many it lets through at once."""
    concurrency: int


@dataclass(frozen=True)
class InsideView:
    """What could be seen of the way in."""

    sees_client: bool
    """The client says whether requests waited for a connection."""
    sees_gateway: bool
    """Answers say how long they waited at router and replica."""
    sees_engine: bool
    """`/metrics` shows running and waiting requests."""
    holdings: tuple[Holding, ...]
    """From the outside in."""
    starved_at: float | None
    """The engine runs no more than this although more are in flight and none waits in it."""
    starved_firm: bool
    """It nearly always ran as many, so that the number is a limit and not a chance."""
    running_share: float | None
    """Largest number running / N at the largest concurrency."""
    client_complaints: tuple[str, ...]
    """Validity rules by which the client was the limit, with the concurrencies."""
    complained_from: int | None
    """Smallest concurrency from which on every level has such a complaint; `None`: the largest has none."""

    @property
    def binding(self) -> Holding | None:
        """The innermost queue."""
        return self.holdings[-1] if self.holdings else None

    def of(self, layer: LayerName) -> Holding | None:
        return next((h for h in self.holdings if h.layer == layer), None)

    @property
    def propagates(self) -> bool | None:
        """Do requests reach the engine together? `None`: it cannot be seen."""
        if self.running_share is None:
            return None
        return self.running_share >= SHORT and self.of("engine") is None


def inside(levels: Sequence[SweepLevel]) -> InsideView:
    """The inside view of pooled `levels`, ascending (at least one)."""
    found = [h for layer in INWARDS if (h := _holding(levels, layer)) is not None]
    engine = [r for r in levels if r.running_max is not None]
    complaints = [(r.concurrency, why) for r in levels for why in _complaints(r)]
    quiet = [i for i, r in enumerate(levels) if not _complaints(r)]
    lasting = levels[quiet[-1] + 1 :] if quiet else levels
    top = engine[-1] if engine else None
    return InsideView(
        sees_client=any(r.pool_waits is not None for r in levels),
        sees_gateway=any(r.router_queue_s is not None or r.replica_queue_s is not None for r in levels),
        sees_engine=bool(engine),
        holdings=tuple(found),
        starved_at=_starved(engine),
        starved_firm=bool(top and top.running_mean and top.running_mean >= FIRM * (top.running_max or 0.0)),
        running_share=top.running_max / top.concurrency if top and top.running_max is not None else None,
        client_complaints=tuple(dict.fromkeys(f"{why} at {n}" for n, why in complaints)),
        complained_from=lasting[0].concurrency if lasting else None,
    )


def _holding(levels: Sequence[SweepLevel], layer: LayerName) -> Holding | None:
    """The queue of `layer`, if it has one at the largest concurrencies."""
    rows = [(r, share) for r in levels if (share := _queue_share(r, layer)) is not None]
    held = [(r, share) for r, share in rows if share >= QUEUE_SHARE]
    if not held or held[-1][0] is not rows[-1][0]:
        return None
    admitted = [a for r, _ in held if (a := _admits(r, layer)) is not None]
    row, share = held[-1]
    known = None if layer == "client" else share
    return Holding(layer, known, median(admitted) if admitted else None, row.concurrency)


def _queue_share(row: SweepLevel, layer: LayerName) -> float | None:
    """The share of the latency (of the client: of the requests) that waits at `layer`."""
    if layer == "client":
        return None if row.pool_waits is None or not row.n else row.pool_waits / row.n
    if layer == "engine":
        return _engine_share(row)
    wait = row.router_queue_s if layer == "router" else row.replica_queue_s
    left = _left_s(row, layer)
    return None if wait is None or not left else wait / left


def _left_s(row: SweepLevel, layer: LayerName) -> float | None:
    """Mean time from the arrival at `layer` on, its queue included."""
    if not row.mean_s:
        return None
    sent = row.mean_s
    if row.pool_waits and row.pool_ceiling and row.pool_ceiling < row.concurrency:
        sent *= row.pool_ceiling / row.concurrency  # the pool is always full, and Little's law holds within
    before = {"client": 0.0, "router": 0.0, "replica": row.router_queue_s or 0.0}
    return sent - before.get(layer, (row.router_queue_s or 0.0) + (row.replica_queue_s or 0.0))


def _in_the_pool(row: SweepLevel) -> int:
    """Requests that the client's pool holds back, while it is full."""
    return max(0, row.concurrency - row.pool_ceiling) if row.pool_waits and row.pool_ceiling else 0


def _engine_share(row: SweepLevel) -> float | None:
    left = _left_s(row, "engine")
    if row.engine_queue_s is not None and left:
        return row.engine_queue_s / left
    if row.waiting_mean is None or row.running_mean is None:
        return None
    inside = row.waiting_mean + row.running_mean
    return row.waiting_mean / inside if inside else 0.0


def _admits(row: SweepLevel, layer: LayerName) -> float | None:
    """How many `layer` lets through at once."""
    if layer == "client":
        return None if row.pool_ceiling is None else float(row.pool_ceiling)
    if layer == "engine":
        return row.running_max
    past = row.past_router if layer == "router" else row.past_replica
    if past is not None:
        return past - _in_the_pool(row)
    inwards = _left_s(row, "replica" if layer == "router" else "engine")
    return None if row.throughput_run is None or inwards is None else row.throughput_run * inwards


def _starved(rows: Sequence[SweepLevel]) -> float | None:
    """The number running that did not grow with concurrency, while nothing waited in the engine."""
    short = [
        r
        for r in rows
        if r.running_max is not None
        and (r.running_samples is None or r.running_samples >= LOOKS)
        and r.running_max < SHORT * r.concurrency
        and (_engine_share(r) or 0.0) < QUEUE_SHARE
    ]
    if len(short) < 2 or short[-1] is not rows[-1]:
        return None
    below, top = short[-2].running_max, short[-1].running_max
    assert below is not None and top is not None
    return top if top <= SAME * below + 0.5 else None


def _complaints(row: SweepLevel) -> list[str]:
    """Rules by which the client was the limit of this level. A small pool alone only might become one."""
    found = [
        f"{r.rule} {_shown(r.value)}" for r in row.client_rules if r.ok is False and "pool" not in r.rule
    ]
    if row.in_flight_peak is not None and row.in_flight_peak < 0.95 * min(row.concurrency, row.n):
        found.append(f"only {row.in_flight_peak:g} of {row.concurrency} were ever in flight")
    elif row.in_flight_mean is not None and row.in_flight_mean < 0.9 * row.concurrency and not row.failed:
        found.append(f"only {row.in_flight_mean:.1f} of {row.concurrency} were in flight on average")
    return found


def _shown(value: float | str | None) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)
