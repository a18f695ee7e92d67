"""The verdict from outside alone: the curve, the burst, and the staircase of independent processes.

A plateau has three readings. Requests queue in front of something that serves K at once: the burst comes back
in steps. The engine takes them all and is exhausted: it comes back together. Prompts are taken one at a time
and served together: it rises from a late beginning. Without burst and staircase only a curve that is straight
up to a corner and then level is called a limit; everything between is left open.
"""

from dataclasses import replace

from nlqlib.analysis.diagnosis_burst import Burst
from nlqlib.analysis.diagnosis_cause import GAINS, ONE, Cause, batching, limited, noisy
from nlqlib.analysis.diagnosis_shape import Shape
from nlqlib.analysis.staircase import TOGETHER, Staircase

IN_TURN = "an engine that computes prompts one at a time and answers shortly looks the same from outside"
"""Of a limit of one."""
TENTH = "repeat with prompts of a tenth of the length: if the plateau rises in proportion, it is prefill"
LOOK = "read the router's and the replica's limits; raise one at a time and repeat the sweep after each"
WORKERS = "`--workers 4` of `sweep` and `diagnose`"
"""How this suite offers a load from several processes."""
NO_CORNER = 0.9
"""A corner beyond this share of the largest concurrency is none."""
AGREES = 0.35
"""A count and the corner of the curve are one limit when they differ by no more than this share."""
BURST = "send a burst: as many requests at once as the plateau is wide, and see whether they return in steps"


def outside(shape: Shape, burst: Burst | None, stairs: Staircase | None) -> Cause:
    """The cause as far as the outside shows it."""
    if stairs is not None and (cause := _contradicted(shape, stairs)) is not None:
        return cause
    if shape.plateau_from is None:
        return _growing(shape, burst)
    if burst is not None and burst.verdict != "unclear":
        return _by_burst(shape, burst)
    if stairs is not None and stairs.verdict != "refused":
        return _by_stairs(shape, stairs)
    return _by_curve(shape, burst)


def _plateau(shape: Shape) -> str:
    x, n = shape.plateau, shape.plateau_from
    if shape.fallen_from is not None:
        return f"throughput reaches {x:.3g} req/s at {n} in flight and falls from {shape.fallen_from} on"
    return f"throughput stays at {x:.3g} req/s from {n} in flight on"


def _rises(shape: Shape) -> str:
    if shape.p95_slope_s is None:
        return ""
    return f", while p95 grows by {shape.p95_slope_s:.3g} s for each further request"


def _contradicted(shape: Shape, stairs: Staircase) -> Cause | None:
    """Processes run side by side where one client's requests did not: it is the client."""
    late = (stairs.completions_s[0] / stairs.service_s) if stairs.completions_s and stairs.service_s else None
    if shape.plateau_from is None or stairs.verdict != "parallel" or late is None or late > TOGETHER:
        return None
    if stairs.k <= TOGETHER * shape.corner:
        return None
    why = f"{_plateau(shape)} for one client, yet {stairs.k} independent processes are served together"
    following = f"offer the load from several processes ({WORKERS}); look for a lock, a pool or one thread"
    return Cause("client-limited", why, following, max(1, round(shape.corner)), layer="client")


def _growing(shape: Shape, burst: Burst | None) -> Cause:
    last = shape.concurrency[-1]
    if burst is not None and burst.verdict == "steps":
        if burst.at_once is not None and burst.at_once < last:
            why = f"{burst.reason}; throughput cannot follow beyond"
            following = f"measure {2 * last} in flight: throughput must stay"
            found = limited(burst.at_once, why, following)
            return _one_at_a_time(found, following) if found.limit == 1 else found
        why = f"throughput still grows at {last} in flight, but {burst.reason}"
        return noisy(why, f"measure {last * 3 // 2} and {2 * last} in flight")
    if burst is not None and burst.verdict == "unclear":
        why = f"throughput still grows at {last} in flight, yet {burst.reason}"
        return noisy(why, f"measure {last * 3 // 2} and {2 * last} in flight")
    if burst is None and shape.corner_interval.high < last:
        why = f"throughput grows up to {last} in flight, but ever less, as it would before a limit as well"
        return Cause("cannot tell", why, f"measure {2 * last} in flight: does it stay or grow?")
    if shape.gain < GAINS:
        why = f"throughput grows by no more than × {shape.gain:.2f} and is not flat either"
        return noisy(why, "repeat each level three times, with more requests")
    came = f"throughput still grows at {last} in flight"
    return batching(shape, f"{came}, and {burst.reason}" if burst else came, seen=False)


def _by_burst(shape: Shape, burst: Burst) -> Cause:
    base = f"{_plateau(shape)}{_rises(shape)}, and {burst.reason}"
    nowhere = shape.corner >= NO_CORNER * shape.concurrency[-1]
    if burst.verdict == "steps" and burst.at_once is None and nowhere:
        why = f"{base}, yet the curve has no corner before {shape.concurrency[-1]}"
        return noisy(why, "repeat the levels three times, with more requests")
    if burst.verdict == "steps":
        return _behind(shape, burst.at_once, base)
    if burst.verdict == "in turn":
        return Cause(
            "cannot tell",
            f"{base}: the engine computes prompts in turn, or something in front takes requests in turn",
            TENTH,
        )
    if shape.gain >= GAINS:
        return batching(shape, burst.reason, seen=False)
    return Cause("cannot tell", f"{base}: {ALL_AT_ONCE}", SPLIT)


ALL_AT_ONCE = "all requests run together and each is slower for it, so nothing queues in front of the engine"
SPLIT = (
    "measure short prompts with long answers, then long prompts with short ones: which work fills the engine?"
)


def _by_stairs(shape: Shape, stairs: Staircase) -> Cause:
    base = f"{_plateau(shape)}{_rises(shape)}, and of {stairs.k} processes {stairs.reason}"
    if stairs.verdict in ("serial", "limited"):
        return _behind(shape, stairs.admitted, base)
    late = stairs.completions_s[0] / (stairs.service_s or stairs.completions_s[0])
    if late > TOGETHER:
        if shape.gain >= GAINS:
            return batching(shape, stairs.reason, seen=False)
        return Cause("cannot tell", f"{base}: {ALL_AT_ONCE}", SPLIT)
    return _by_curve(shape, None)


def _behind(shape: Shape, counted: int | None, why: str) -> Cause:
    """Behind a limit: the one counted where the curve agrees with it, else that of the curve."""
    if counted is not None and abs(counted - shape.corner) <= max(1.0, AGREES * shape.corner):
        found = limited(counted, why, LOOK)
    else:
        found = limited(shape.corner, why, LOOK, within=shape.corner_interval)
    return _one_at_a_time(found, LOOK) if found.limit == 1 else found


def _one_at_a_time(found: Cause, following: str) -> Cause:
    return replace(found, caveat=IN_TURN, next_experiment=f"{TENTH}; if not, {following}")


def _by_curve(shape: Shape, burst: Burst | None) -> Cause:
    """No staircase, and no burst that decides."""
    base = f"{_plateau(shape)}{_rises(shape)}"
    queued = burst is not None and burst.queued
    if burst is not None and queued:
        base += f", and {burst.reason}"
    if shape.concurrency[0] > 1 and shape.flat:
        why = f"throughput is flat from {shape.concurrency[0]}, the smallest concurrency measured"
        return Cause("cannot tell", why, "measure one request at a time as well")
    if shape.fallen_from is not None and not queued and shape.gain >= GAINS:
        return batching(shape, f"{base}: behind a limit that queues it would stay", seen=False)
    other = "prompts taken in turn look" if queued else f"an engine that {shape.corner:.0f} exhaust looks"
    doubt = f"it rests on the curve alone: {other} the same"
    if shape.corner < ONE:
        return limited(1, base, BURST, caveat=doubt)
    if shape.law == "sharp":
        why = f"{base} and grew in proportion before"
        return limited(shape.corner, why, BURST, within=shape.corner_interval, caveat=doubt)
    if shape.law == "smooth" and not queued and shape.gain >= GAINS:
        return batching(shape, "throughput fades as contention makes it fade, without a corner", seen=False)
    rival = "prompts taken in turn" if queued else "an engine exhausted there"
    why = f"{base}, which a limit of about {shape.corner:.0f} explains as well as {rival}"
    return noisy(why, BURST)
