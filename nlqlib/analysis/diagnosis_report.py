"""What a diagnosis shows beside its verdict: the evidence, the layers one by one, and the blind spots."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from nlqlib.analysis.diagnosis_cause import Cause
from nlqlib.analysis.diagnosis_decision import Findings
from nlqlib.analysis.diagnosis_layers import Holding, LayerName
from nlqlib.analysis.diagnosis_levels import SweepLevel, mean_of, totals
from nlqlib.analysis.diagnosis_replicas import history, within
from nlqlib.analysis.staircase import Staircase

State = Literal["passes", "limits", "queues", "not reached", "suspect", "not observable"]


@dataclass(frozen=True)
class Evidence:
    """One observation and what it says."""

    name: str
    value: str
    reading: str


@dataclass(frozen=True)
class Layer:
    """One row of the study's table of layers, filled in."""

    name: str
    question: str
    state: State
    finding: str


def evidence(found: Findings) -> tuple[Evidence, ...]:
    """Everything that was looked at, the outside first."""
    return (*_curves(found), *_tests(found), *_inside(found), *_replicas(found), *_failures(found))


def _curves(found: Findings) -> Iterator[Evidence]:
    shape = found.shape
    if shape is None:
        return
    n, x = shape.concurrency, shape.throughput
    value = ", ".join(f"{a}: {b:.3g}" for a, b in zip(n, x, strict=True))
    if shape.plateau_from is None:
        reading = f"still grows at {n[-1]} (× {shape.gain:.2f} over {n[0]})"
    else:
        reading = f"no further growth from {shape.plateau_from} on (× {shape.gain:.2f} over {n[0]})"
    if shape.fallen_from is not None:
        reading += f"; falls from {shape.fallen_from} on, by {shape.lost:.0%} at {n[-1]}"
    yield Evidence("throughput by concurrency, req/s", value, reading)
    if shape.p95_slope_s is not None:
        due = f"1/X is {1 / shape.plateau:.3g} s" if shape.plateau else "no plateau to compare with"
        fit = "" if shape.p95_r2 is None else f", R² {shape.p95_r2:.3f}"
        yield Evidence("p95 for each further request, s", f"{shape.p95_slope_s:.3g}{fit}", due)
    if shape.knee.status == "knee" and shape.knee.at is not None:
        yield Evidence("knee of throughput", f"{shape.knee.at:.1f}", shape.knee.reason)


def _tests(found: Findings) -> Iterator[Evidence]:
    if found.burst is not None:
        yield Evidence("burst, all sent at once", f"{found.burst.n} requests", found.burst.reason)
    stairs = found.stairs
    if stairs is not None:
        slope = "" if stairs.slope_share is None else f", slope {stairs.slope_share:.2f} service times"
        yield Evidence("independent processes", f"{stairs.k}{slope}", f"{stairs.verdict}: {stairs.reason}")


def _inside(found: Findings) -> Iterator[Evidence]:
    top, view = found.levels[-1], found.view
    if top.in_flight_peak is not None:
        mean = "" if top.in_flight_mean is None else f", {top.in_flight_mean:.1f} on average"
        told = "; ".join(view.client_complaints) or "the client offered what it was asked to"
        yield Evidence(f"in flight at {top.concurrency}", f"{top.in_flight_peak:g} at most{mean}", told)
    if top.pool_waits is not None:
        pool = "no ceiling" if top.pool_ceiling is None else f"at most {top.pool_ceiling} connections"
        yield Evidence("waits for a connection in the client", f"{top.pool_waits:g} of {top.n}", pool)
    for name, wait_s in (
        ("router", top.router_queue_s),
        ("replica", top.replica_queue_s),
        ("engine", top.engine_queue_s),
    ):
        if wait_s is not None and top.mean_s:
            held = next((h for h in view.holdings if h.layer == name), None)
            through = "no queue" if held is None else "; ".join(["a queue", *_admitted(held)])
            share = f"{wait_s:.3g} s, {wait_s / top.mean_s:.0%} of the latency"
            yield Evidence(f"mean wait at the {name}, {top.concurrency} in flight", share, through)
    if top.running_max is not None:
        waiting = "" if top.waiting_mean is None else f", {top.waiting_mean:.1f} wait on average"
        reading = "as many as are in flight" if view.propagates else "fewer than are in flight"
        yield Evidence(
            f"running in the engine, {top.concurrency} in flight", f"{top.running_max:g}{waiting}", reading
        )


def _admitted(held: Holding) -> list[str]:
    """How many requests a layer with a queue lets go on, and how that is known; nothing where it is not."""
    if held.admits is None:
        return []
    if held.layer == "engine":
        return [f"{held.admits:g} run at once"]
    return [f"lets about {held.admits:.1f} through at once (estimated by Little's law)"]


def _replicas(found: Findings) -> Iterator[Evidence]:
    told = history(found.levels)
    if told is not None:
        reading = within(found.replicas) or "nobody came or went while a level ran"
        yield Evidence(
            "replicas seen", told, reading if found.replicas else "by level, not watched within it"
        )


def _failures(found: Findings) -> Iterator[Evidence]:
    total = sum(r.n for r in found.levels)
    for name, counts in (
        ("failed requests", totals(r.failures for r in found.levels)),
        ("answers served but of no use", totals(r.unusable for r in found.levels)),
    ):
        if counts:
            value = ", ".join(f"{outcome} × {n}" for outcome, n in counts.items())
            yield Evidence(name, value, f"{sum(counts.values()) / total:.1%} of {total}")
    told_s = mean_of(r.retry_after_s for r in found.levels)
    if told_s is not None:
        reading = "a limit on the rate knows when the next may come, one on requests at once does not"
        yield Evidence("wait that refusals ask for (Retry-After), s", f"{told_s:.3g}", reading)


def not_observable(found: Findings, cause: Cause, stairs: Staircase | None) -> tuple[str, ...]:
    """What nobody could have seen from here."""
    view, missing = found.view, []
    if not view.sees_gateway:
        missing.append(
            "waits at the router and at replica admission: answers carry no x-router-queue-ms header"
        )
    if not view.sees_engine:
        why = _no_engine(found.levels)
        missing.append(f"running and waiting requests and queue time of the engine: {why}")
    if not view.sees_client:
        missing.append("the client's own pool and delays: the levels do not say")
    if all(r.seen_replicas is None for r in found.levels):
        missing.append("how many replicas answered, and whether that changed")
    if stairs is None or stairs.verdict == "refused":
        missing.append("whether independent processes queue as well: no valid staircase")
    if cause.limit is not None:
        missing.append(f"any limit of {cause.limit} or more behind the one found: it is never reached")
    if cause.kind in ("limited", "serialised upstream") and cause.layer is None:
        missing.append("which layer limits")
    return tuple(missing)


QUESTIONS = {
    "Client": "Are requests actually issued concurrently?",
    "Transport": "Are connections, pools, or subprocesses serializing traffic?",
    "Router": "How many in-flight requests are directed to one replica?",
    "Replica admission": "How many requests can the container accept simultaneously?",
    "Engine scheduler": "How many sequences may remain active in a batch?",
    "Autoscaler": "Is scale-out obscuring single-replica capacity?",
}
"""The study's own table: layer and diagnostic question."""


def layers(found: Findings, cause: Cause) -> tuple[Layer, ...]:
    """The table of layers, from the outside in."""
    told = {
        "Client": _client(found),
        "Transport": _transport(found),
        "Router": _gateway(found, cause, "router"),
        "Replica admission": _gateway(found, cause, "replica"),
        "Engine scheduler": _engine(found, cause),
        "Autoscaler": _autoscaler(found),
    }
    return tuple(Layer(name, QUESTIONS[name], state, finding) for name, (state, finding) in told.items())


def _client(found: Findings) -> tuple[State, str]:
    view, top = found.view, found.levels[-1]
    if view.client_complaints:
        return "suspect", "; ".join(view.client_complaints)
    apart = ""
    if found.stairs is not None and found.stairs.verdict in ("serial", "limited"):
        apart = f"; {found.stairs.k} independent processes queue as well"
    if top.in_flight_peak is None:
        return (
            ("passes", apart[2:]) if apart else ("not observable", "the levels do not say what was in flight")
        )
    return "passes", f"{top.in_flight_peak:g} of {top.concurrency} in flight{apart}"


def _transport(found: Findings) -> tuple[State, str]:
    top = found.levels[-1]
    if top.pool_waits is None:
        return "not observable", "the levels do not say whether requests waited for a connection"
    held = found.view.of("client")
    pool = "" if top.pool_ceiling is None else f" for one of {top.pool_ceiling} connections"
    if held is None:
        return "passes", f"no request waited{pool or ' for a connection'}"
    inner = found.view.binding is not held
    return ("queues" if inner else "limits"), f"{top.pool_waits:g} of {top.n} requests waited{pool}"


def _gateway(found: Findings, cause: Cause, layer: LayerName) -> tuple[State, str]:
    top, held = found.levels[-1], found.view.of(layer)
    wait_s = top.router_queue_s if layer == "router" else top.replica_queue_s
    if wait_s is None:
        return "not observable", "its waits are not told"
    if held is not None:
        state: State = "limits" if found.view.binding is held else "queues"
        seen = f"mean wait {wait_s:.3g} s at {top.concurrency} in flight"
        return state, "; ".join([*_admitted(held), seen])
    return _untouched(found, cause, layer, f"mean wait {wait_s:.3g} s at {top.concurrency} in flight")


def _untouched(found: Findings, cause: Cause, layer: LayerName, seen: str) -> tuple[State, str]:
    """A layer without a queue: it passes, or something before it never let it be tried."""
    order: list[LayerName | None] = ["client", "router", "replica", "engine"]
    limit = cause.limit
    before = cause.layer is None or order.index(cause.layer) < order.index(layer)
    if limit is None or not before:
        return "passes", seen
    if layer == "engine" or cause.layer is not None:
        return "not reached", f"{seen}; it is given no more than {limit} at once"
    return "passes", seen


def _engine(found: Findings, cause: Cause) -> tuple[State, str]:
    top, held = found.levels[-1], found.view.of("engine")
    if top.running_max is None:
        return "not observable", _no_engine(found.levels)
    waits = "" if top.waiting_mean is None else f", {top.waiting_mean:.1f} wait on average"
    seen = f"{top.running_max:g} run at most{waits}, {top.concurrency} in flight"
    if held is not None:
        return ("limits" if found.view.binding is held else "queues"), seen
    return _untouched(found, cause, "engine", seen)


def _no_engine(levels: tuple[SweepLevel, ...]) -> str:
    return next((r.hidden for r in reversed(levels) if r.hidden), "no /metrics")


def _autoscaler(found: Findings) -> tuple[State, str]:
    counts = {r.seen_replicas for r in found.levels if r.seen_replicas is not None}
    if not counts:
        return "not observable", "answers do not name their replica, and nothing counts them"
    meanwhile = within(found.replicas)
    if len(counts) > 1 or meanwhile is not None:
        told = f"replicas seen: {history(found.levels)}"
        return "suspect", f"{told}; {meanwhile}" if meanwhile else told
    [n] = counts
    plural = "replica" if n == 1 else "replicas"
    shared = "" if n == 1 else ": the capacity is that of all together"
    watched = ", the same from the first answer to the last" if found.replicas else ""
    return "passes", f"{n} {plural} at every level{watched}{shared}"
