"""From what was seen to one cause: direct evidence first, inference from the curve last, no guess after it.

In turn: replicas that came or went, rejections, a client that did not offer the load, the innermost layer
with a queue, an engine that is given no more, an engine that has them all, and then the outside alone.
"""

from dataclasses import replace

from nlqlib.analysis.diagnosis_cause import GAINS, Cause, batching, limited
from nlqlib.analysis.diagnosis_client import client
from nlqlib.analysis.diagnosis_findings import Findings
from nlqlib.analysis.diagnosis_layers import MEETS, Holding
from nlqlib.analysis.diagnosis_levels import mean_of
from nlqlib.analysis.diagnosis_outside import SPLIT, outside
from nlqlib.analysis.diagnosis_replicas import ROOM, history, within

__all__ = ["KV_FULL", "REFUSALS", "Findings", "decide", "gauges_late"]

WIDEST = 4
"""The largest concurrency must be this many times the smallest, or no curve was drawn."""
REJECTED = 0.1
"""A share of 429 and 503 that grows beyond this with concurrency is a limit that refuses, not queues."""
REFUSES = 0.75
"""Of the requests in flight, at most this share is served where the others are refused for a limit."""
TOKENS = (
    "raise max_num_batched_tokens and repeat the sweep; then with prompts of a tenth of the length, and with "
    "prompts that share their beginning: if more run together, it is prefill"
)
HALVE = (
    "repeat with answers half as long: a limit on requests at once then serves twice as many a second, one "
    "on requests a second no more than before; raise the one it is and repeat the sweep"
)
KV_FULL = 0.95
"""Above this share of the KV cache in use, memory decides how many run."""
REFUSALS = ("http_429", "http_503")


def decide(found: Findings) -> Cause:
    """The cause; every step either settles it or passes on."""
    for step in (_replicas, _rejections, client, _queues, _starved, _short, _together):
        cause = step(found)
        if cause is not None:
            return cause
    assert found.shape is not None
    return outside(found.shape, found.burst, found.stairs)


def _replicas(found: Findings) -> Cause | None:
    """Replicas that came or went while the sweep ran: the curve is not one endpoint's."""
    counted = {r.replica_count for r in found.levels if r.replica_count is not None}
    most = max((r.seen_replicas or 0 for r in found.levels), default=0)
    # with few in flight not every replica need have been met
    seen = {r.seen_replicas for r in found.levels if r.seen_replicas and r.concurrency >= ROOM * most}
    meanwhile = within(found.replicas)
    if max(len(counted), len(seen)) < 2 and meanwhile is None:
        return None
    told = [f"replicas seen: {history(found.levels)}", *([meanwhile] if meanwhile else [])]
    return Cause(
        "cannot tell",
        f"the number of replicas changed during the sweep ({'; '.join(told)}), so its levels are not those "
        "of one endpoint",
        "pin the replicas (least = most), wait until they are up, and repeat the sweep",
    )


def _rejections(found: Findings) -> Cause | None:
    """An endpoint that refuses what exceeds its limit: what succeeds stays at K by Little's law."""
    shares = {r.concurrency: sum(r.failures.get(o, 0) for o in REFUSALS) / r.n for r in found.levels}
    usual = min(shares.values())
    refusing = [r for r in found.levels if shares[r.concurrency] > usual + REJECTED and r.occupancy]
    if not refusing or refusing[-1] is not found.levels[-1]:
        return None
    inside = [(r, r.good_in_flight or r.occupancy or 0.0) for r in refusing]
    held = [(r, k) for r, k in inside if k <= REFUSES * r.concurrency]  # nearer to N it is N that holds them
    counts = [k for _, k in held]
    if not held or held[-1][0] is not found.levels[-1] or max(counts) > (1 + MEETS) * min(counts):
        return None
    k, x = sum(counts) / len(counts), mean_of(r.throughput_run for r, _ in held)
    why = f"from {refusing[0].concurrency} in flight on it refuses the rest with 429 or 503, and about "
    why += f"{k:.1f} requests are served at once"
    # who is refused while nobody waits in the scheduler was refused before it
    upstream = found.view.sees_engine and found.view.of("engine") is None
    doubt = f"a limit of {x or 0.0:.3g} requests a second, whatever their number at once, refuses the same"
    return replace(limited(k, why, HALVE, upstream=upstream, caveat=doubt), refuses=True)


def _queues(found: Findings) -> Cause | None:
    """The innermost layer with a queue."""
    held = found.view.binding
    if held is None or held.layer == "client":
        return None
    if held.layer == "engine":
        return _scheduler(found, held)
    k = _counted(found, held.admits)
    if k is None:
        k = found.shape.corner if found.shape else 1.0
    share = "some" if held.share is None else f"{held.share:.0%}"
    why = f"at {held.concurrency} in flight {share} of the latency is waiting at the {held.layer}, which "
    why += f"lets {max(1, round(k))} through at once"
    outer = [h for h in found.view.holdings if h.layer != held.layer]
    why = "; ".join([why, *map(_behind, outer)])
    return limited(k, why, _lift(held, found.largest), held.layer, seen=True, upstream=True)


def _behind(outer: Holding) -> str:
    admits = "" if outer.admits is None else f", which lets {round(outer.admits)} through"
    return f"others wait at the {outer.layer}{admits}: it would bind next"


def _lift(held: Holding, largest: int) -> str:
    return (
        f"raise the limit of the {held.layer} alone to {largest} or more and repeat the sweep; if throughput "
        "does not follow, the next layer binds, and only all four combinations of both limits separate them"
    )


def _counted(found: Findings, estimate: float | None) -> float | None:
    """K counted in the engine or in the burst; else `estimate`, to which the way to the limit adds."""
    view, replicas = found.view, found.levels[-1].seen_replicas or 1
    k = view.starved_at if view.starved_firm else None
    # of several replicas perhaps one alone shows its metrics
    part = replicas > 1 and estimate and k and abs(k * replicas / estimate - 1) <= MEETS
    if k is not None and not part:
        return k
    return float(found.burst.at_once) if found.burst and found.burst.at_once else estimate


def _scheduler(found: Findings, held: Holding) -> Cause:
    top, k = found.levels[-1], round(held.admits) if held.admits else None
    why = f"requests reach the engine and wait in its scheduler: of {top.concurrency} it runs {k or 'some'}"
    following = f"raise max_num_seqs to {top.concurrency} and repeat the sweep"
    if top.kv_usage is not None and top.kv_usage >= KV_FULL:
        why += f", with {top.kv_usage:.0%} of the KV cache in use: memory decides"
        following = "repeat with shorter prompts or answers: if more then run together, it is memory"
    elif k is not None and found.seqs_to_spare(k):
        decides = "the tokens of a step decide" + (", or memory" if top.kv_usage is None else "")
        why += f", fewer than the max_num_seqs of {found.max_num_seqs} that is declared: {decides}"
        following = TOKENS
    else:
        why += ", its max_num_seqs" if k is not None and found.max_num_seqs == k else ""
        following += "; if no more run then, look at max_num_batched_tokens and the length of the prompts"
    return Cause("scheduler-limited", why, following, k, layer="engine", seen=True)


def _starved(found: Findings) -> Cause | None:
    """The engine runs no more, nobody waits in it, and throughput does not grow either."""
    k = found.view.starved_at
    if k is None or gauges_late(found):
        return None
    why = f"the engine never runs more than {k:g} of {found.largest} in flight, and none waits in it"
    if found.view.sees_gateway:
        why += "; neither router nor replica reports a wait, so a layer that does not report holds them"
    following = "raise the limits of router and replica one at a time, and repeat the sweep after each"
    return limited(k, why, following, seen=True, upstream=True)


def gauges_late(found: Findings) -> bool:
    """Throughput exceeds what so few could do as the engine's gauges show.

    Short requests slip through between two samples, and gauges may be brought up to date too seldom.
    """
    k, shape = found.view.starved_at, found.shape
    if k is None or shape is None:
        return False
    corner = shape.corner_interval.low if found.view.starved_firm else shape.corner
    return corner > (1 + MEETS) * max(k, 1.0)


def _short(found: Findings) -> Cause | None:
    """Too few levels to draw a curve."""
    shape = found.shape
    if shape is not None and shape.concurrency[-1] >= WIDEST * shape.concurrency[0]:
        return None
    span = (
        "fewer than two levels" if shape is None else f"{shape.concurrency[0]} to {found.largest} in flight"
    )
    return Cause("cannot tell", f"{span} with good answers draw no curve", "measure 1, 2, 4, 8, 16 and 32")


def _together(found: Findings) -> Cause | None:
    """The engine has all of them."""
    shape = found.shape
    if not found.view.propagates or shape is None:
        return None
    ran = f"the engine runs {found.view.running_share:.0%} of the requests in flight and none waits"
    if shape.gain >= GAINS:
        return batching(shape, ran, seen=True)
    why = f"{ran}, so no layer holds them back, yet throughput grows by no more than × {shape.gain:.2f}: the "
    return Cause("cannot tell", f"{why}engine is as busy with one as with many", SPLIT, seen=True)
