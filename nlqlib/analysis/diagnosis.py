"""Where concurrency is lost: one verdict from a sweep, with its evidence, its blind spots and the remedy.

It combines the slopes of X(N) and p95(N), the burst at the beginning of a level, the staircase of independent
processes, running and waiting in the engine against N, the waits of each admission layer, and the client's
own health. What succeeded is judged; what failed is counted and said beside the verdict. Pure: the levels
may come from an endpoint just measured or from saved runs.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from nlqlib.analysis.diagnosis_burst import burst
from nlqlib.analysis.diagnosis_cause import Cause, Kind
from nlqlib.analysis.diagnosis_decision import KV_FULL, Findings, decide, gauges_late
from nlqlib.analysis.diagnosis_doubts import no_level, reservations, sound
from nlqlib.analysis.diagnosis_layers import LayerName, inside
from nlqlib.analysis.diagnosis_levels import SweepLevel
from nlqlib.analysis.diagnosis_remedies import remedies
from nlqlib.analysis.diagnosis_repeats import agreed, bursts, noise, pooled
from nlqlib.analysis.diagnosis_replicas import ReplicasSeen
from nlqlib.analysis.diagnosis_report import Evidence, Layer, evidence, layers, not_observable
from nlqlib.analysis.diagnosis_shape import Shape, alone_spread, shape
from nlqlib.analysis.staircase import ControlledStaircase, Staircase
from nlqlib.analysis.stats import Interval
from nlqlib.records import Json

__all__ = ["Diagnosis", "Evidence", "Layer", "SweepLevel", "diagnose"]

UPSTREAM = "concurrency is lost before the engine's scheduler"


@dataclass(frozen=True)
class Diagnosis:
    """The verdict on one endpoint."""

    verdict: str
    """`serialised upstream`, `limited at K`, `client-limited`, `scheduler-limited`, `batching works` or
    `cannot tell, because …`."""
    kind: Kind
    sentence: str
    """Everything in one sentence, reservations included."""
    limit: int | None
    """Requests served at once by the whole endpoint, where there is a limit."""
    limit_interval: Interval | None
    """Where the curve puts it, when it could not be counted."""
    limit_per_replica: float | None
    """The same for one replica, where their number is known."""
    layer: LayerName | None
    """The layer that limits; `None`: none, or not observable."""
    knee: float | None
    """Concurrency of the knee, when batching works and there is one."""
    seen: bool
    """Seen directly in a layer; else inferred from outside."""
    evidence: tuple[Evidence, ...]
    not_observable: tuple[str, ...]
    reservations: tuple[str, ...]
    """Why the verdict is marked; empty when it is not."""
    next_experiment: str
    remedy: Mapping[str, str]
    """Platform → setting to change."""
    layers: tuple[Layer, ...]
    """The study's table of layers, filled in."""
    repeats_decide: bool = False
    """It cannot tell since the levels are noisy: repeats of them may settle it."""

    @property
    def marked(self) -> bool:
        return bool(self.reservations)

    def as_json(self) -> Json:
        """All fields as plain values."""
        return asdict(self)


def diagnose(
    levels: Sequence[SweepLevel],
    *,
    staircase: ControlledStaircase | Staircase | None = None,
    max_num_seqs: int | None = None,
    lost: Sequence[str] = (),
    replicas: Sequence[ReplicasSeen] = (),
) -> Diagnosis:
    """The diagnosis of `levels`; repeats of a concurrency are pooled.

    `staircase`: of independent processes, counted only if its controls hold. `max_num_seqs`: what the server
    declares. `lost`: why levels that were wanted are not there. `replicas`: who answered in each of them.
    Raises `ValueError` without any level.
    """
    if not levels:
        raise ValueError("no levels to diagnose: run a sweep first")
    every = pooled(levels)
    believed = sound(every)
    stairs = _stairs(staircase)
    if not believed:
        return _nothing(every, stairs)
    kept = {r.concurrency for r in believed}
    singly = [r for r in levels if r.invalid is None and r.concurrency in kept]
    watched = tuple(s for s in replicas if s.concurrency in kept and s.appearances)
    found = replace(_findings(believed, singly, stairs), max_num_seqs=max_num_seqs, replicas=watched)
    cause = decide(found)
    doubts = [*reservations(every, believed, staircase), *lost]
    doubts += [cause.caveat] if cause.caveat else []
    if found.view.client_complaints and cause.kind != "client-limited":
        doubts.append("the client was a suspect: " + "; ".join(found.view.client_complaints))
    doubts += _contradictions(found, cause)
    return _diagnosis(found, cause, tuple(doubts), stairs)


def _contradictions(found: Findings, cause: Cause) -> Iterator[str]:
    """What was seen beside the verdict and does not go with it."""
    shape, k = found.shape, found.view.starved_at
    if shape is not None and shape.fallen_from is not None and cause.kind != "cannot tell":
        yield (
            f"from {shape.fallen_from} in flight on throughput falls, to {shape.throughput[-1]:.3g} req/s at "
            f"{shape.concurrency[-1]}, {shape.lost:.0%} below its best"
        )
    if k is not None and not cause.seen and gauges_late(found):
        yield f"the engine's gauges are late: they show at most {k:g} running, too few for what is served"


def _stairs(given: ControlledStaircase | Staircase | None) -> Staircase | None:
    """The endpoint's staircase, if it may be used."""
    if isinstance(given, ControlledStaircase):
        return given.endpoint if given.controls_hold else None
    return given


def _findings(
    levels: tuple[SweepLevel, ...],
    singly: Sequence[SweepLevel],
    stairs: Staircase | None,
) -> Findings:
    """The readings of pooled `levels`; `singly` are their repeats, each for itself."""
    curve, alone = shape(levels, noise(singly)), alone_spread(levels)
    widest = max((r.concurrency for r in singly if r.burst_s), default=0)
    read = [burst(ends, _corner(curve, widest), alone) for ends in bursts(singly)]
    return Findings(levels, curve, inside(levels), agreed(read), stairs)


def _corner(curve: Shape | None, widest: int) -> float | None:
    """The corner, if a burst of the `widest` level is wide enough to show it."""
    return curve.corner if curve is not None and curve.corner < widest else None


def _diagnosis(
    found: Findings, cause: Cause, reservations: tuple[str, ...], stairs: Staircase | None
) -> Diagnosis:
    replicas = found.levels[-1].seen_replicas
    each = cause.limit / replicas if cause.limit is not None and replicas else None
    top = found.levels[-1]
    spare = cause.limit is not None and found.seqs_to_spare(cause.limit)
    memory = cause.layer == "engine" and top.kv_usage is not None and top.kv_usage >= KV_FULL
    return Diagnosis(
        verdict=cause.verdict,
        kind=cause.kind,
        sentence=_sentence(cause, replicas, each, reservations),
        limit=cause.limit,
        limit_interval=cause.limit_interval,
        limit_per_replica=each,
        layer=cause.layer,
        knee=cause.knee,
        seen=cause.seen,
        evidence=evidence(found),
        not_observable=not_observable(found, cause, stairs),
        reservations=reservations,
        next_experiment=cause.next_experiment,
        remedy=remedies(cause, found.largest, memory, spare),
        layers=layers(found, cause),
        repeats_decide=cause.repeats_decide,
    )


def _sentence(cause: Cause, replicas: int | None, each: float | None, reservations: tuple[str, ...]) -> str:
    """Verdict, place, reason, replicas and reservations."""
    place = f", so {UPSTREAM}" if cause.upstream else ""
    parts = [cause.verdict if cause.kind == "cannot tell" else f"{cause.verdict}{place}: {cause.why}"]
    if replicas is not None and replicas > 1:
        per = f", {each:g} each" if each is not None else ""
        parts.append(f"{replicas} replicas answered{per}")
    if cause.limit is not None and cause.layer is None:
        open_to = (
            "which layer before it" if cause.upstream else "whether before the engine's scheduler or in it"
        )
        parts.append(f"{open_to} is not observable from here")
    parts += [f"marked, since {r}" for r in reservations]
    return "; ".join(parts)


def _nothing(every: tuple[SweepLevel, ...], stairs: Staircase | None) -> Diagnosis:
    """No level can be judged."""
    rows = tuple(r for r in every if r.ok and r.invalid is None) or every
    found = Findings(rows, shape(rows), inside(rows), None, stairs)
    return _diagnosis(found, no_level(every), (), stairs)
