"""The verdicts of the diagnosis, and the two of them that several roads lead to."""

from dataclasses import dataclass
from typing import Literal

from nlqlib.analysis.diagnosis_layers import LayerName
from nlqlib.analysis.diagnosis_shape import Shape
from nlqlib.analysis.stats import Interval

Kind = Literal[
    "serialised upstream",
    "limited",
    "client-limited",
    "scheduler-limited",
    "batching works",
    "cannot tell",
]
GAINS = 1.3
"""Throughput must grow by this factor over the sweep before concurrency can be said to buy anything.

Six levels on a machine that drifts by a tenth differ by × 1.25 where nothing grows."""
VAGUE = 0.5
"""An interval wider than this share of the limit leaves the number open."""
ONE = 1.5
"""A corner below it is a limit of one; the time spent outside the limit overlaps and moves it a little."""


@dataclass(frozen=True)
class Cause:
    """What limits, as far as it can be said."""

    kind: Kind
    why: str
    """Why that is the verdict; of `cannot tell` the reason."""
    next_experiment: str
    limit: int | None = None
    """How many requests the endpoint serves at once, all replicas together."""
    limit_interval: Interval | None = None
    """Where the curve alone puts it; `None` when it was counted."""
    layer: LayerName | None = None
    """Where; `None`: not observable, or nowhere."""
    knee: float | None = None
    """Where throughput for each request in flight bends, when batching works."""
    seen: bool = False
    """Seen directly in a layer, not inferred from the curve."""
    upstream: bool = False
    """Seen to be lost before the engine's scheduler; else that is open, or it is lost elsewhere."""
    caveat: str | None = None
    """What else would look the same; the verdict is marked with it."""
    repeats_decide: bool = False
    """Of `cannot tell`: the levels are too noisy, and repeats of them may settle it."""
    refuses: bool = False
    """What exceeds the limit is refused, not queued."""

    @property
    def verdict(self) -> str:
        """The verdict in the words of the study."""
        if self.kind == "limited":
            return f"limited at {self.limit}"
        return f"cannot tell, because {self.why}" if self.kind == "cannot tell" else self.kind


def noisy(why: str, following: str) -> Cause:
    """The levels do not agree well enough for a verdict; repeats of them may."""
    return Cause("cannot tell", why, following, repeats_decide=True)


def limited(
    k: float,
    why: str,
    following: str,
    layer: LayerName | None = None,
    *,
    seen: bool = False,
    upstream: bool = False,
    within: Interval | None = None,
    caveat: str | None = None,
) -> Cause:
    """A limit of about `k`; with a limit of one, everything is serial."""
    limit = max(1, round(k))
    kind: Kind = "serialised upstream" if limit == 1 else "limited"
    if within is not None and (within.high > limit + 0.5 or within.low < limit - 0.5):
        why += f"; the curve puts the limit between {within.low:.1f} and {within.high:.1f}"
        if within.high - within.low > VAGUE * limit:
            caveat = caveat or "the number is vague: repeat the levels around it, with more requests"
    else:
        within = None
    return Cause(kind, why, following, limit, within, layer, seen=seen, upstream=upstream, caveat=caveat)


def batching(shape: Shape, because: str, seen: bool) -> Cause:
    """Concurrency buys throughput; with the knee, if there is one."""
    knee = shape.knee.at if shape.knee.status == "knee" else None
    grown = f"{because}; throughput grows × {shape.gain:.1f} up to {shape.best_at} in flight"
    if shape.fallen_from is not None:
        grown += f" and falls beyond, by {shape.lost:.0%} at {shape.concurrency[-1]}"
        knee = float(shape.best_at) if knee is None or knee > shape.best_at else knee
    if shape.plateau_from is not None:
        knee = knee if knee is not None and knee < shape.plateau_from else float(shape.plateau_from)
        end = f"with a knee at about {knee:.0f}; from {shape.plateau_from} on the engine is saturated"
    elif knee is not None:
        end = f"with a knee at about {knee:.0f}"
    else:
        end = "without a knee"
    following = "go on to larger concurrencies until throughput bends"
    if knee is not None:
        following = "choose the operating point from the knee and the latency objective"
    if shape.fallen_from is not None:
        following = (
            f"admit at most {shape.best_at} at once in front of the engine; to see why it loses, look at its "
            "preemptions and its KV cache at the levels beyond"
        )
    return Cause("batching works", f"{grown}, {end}", following, knee=knee, seen=seen)
