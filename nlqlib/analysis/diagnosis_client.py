"""The client as a suspect: it is convicted when what was wrong with it can explain what is missing.

A late event loop or a few waits for a connection cost at most their share of a request's time. Only a client
that may have cost a good part of what throughput lacks is the limit; else its faults are a reservation.
"""

from nlqlib.analysis.diagnosis_cause import Cause
from nlqlib.analysis.diagnosis_findings import Findings
from nlqlib.analysis.diagnosis_layers import MEETS
from nlqlib.analysis.diagnosis_levels import SweepLevel
from nlqlib.analysis.diagnosis_outside import WORKERS
from nlqlib.records import Rule

SCALES = 0.8
"""Scaling efficiency that leaves no room for a client that limits."""
EXPLAINS = 0.5
"""Of what is missing; a client that cost at most less did not cause it."""
TURNS = 2
"""Turns of the client's loop in one request, each of which may be late: sending it, and taking its answer."""


def client(found: Findings) -> Cause | None:
    """The client did not offer the load, and no layer behind it explains the curve; else `None`."""
    view, held = found.view, found.view.binding
    if held is not None and (held.layer != "client" or _tighter(found, held.admits)):
        return None
    if held is not None:
        k = held.admits
        pool = f"pool of {k:.0f}" if k else "pool"
        why = f"requests wait in the client for a connection: its {pool} is the limit"
        following = "let the pool hold at least twice the largest concurrency and repeat the sweep"
        limit = round(k) if k else None
        return Cause("client-limited", why, following, limit, layer="client", seen=True)
    if view.complained_from is None or _flat_before(found, view.complained_from) or _in_steps(found):
        return None
    missing = _missing(found)
    if missing is not None and (missing <= 1 - SCALES or cost(found.levels[-1]) < EXPLAINS * missing):
        return None
    if found.stairs is not None and found.stairs.verdict in ("serial", "limited"):
        return None  # processes that share nothing with the client queue as well
    why = "the client did not offer the load: " + "; ".join(view.client_complaints[:3])
    following = f"spread the load over several client processes ({WORKERS}) and repeat the levels"
    return Cause("client-limited", why, following, layer="client", seen=True)


def cost(row: SweepLevel) -> float:
    """The largest share of its throughput that the client's faults may have cost a level, 0 to 1."""
    found = [_cost(r, row) for r in row.client_rules if r.ok is False and "pool" not in r.rule]
    if row.in_flight_peak is not None:
        found.append(1 - row.in_flight_peak / min(row.concurrency, row.n))
    if row.in_flight_mean is not None and not row.failed:
        found.append(1 - row.in_flight_mean / row.concurrency)
    return min(1.0, max(found, default=0.0))


def _cost(rule: Rule, row: SweepLevel) -> float:
    """Of one broken rule: a delay costs its share of the latency, a full core perhaps everything."""
    if not isinstance(rule.value, int | float):
        return 1.0
    if rule.rule.endswith("(s)"):
        return TURNS * rule.value / row.mean_s if row.mean_s else 1.0
    return rule.value / row.n if "waited for a connection" in rule.rule else 1.0


def _tighter(found: Findings, pool: float | None) -> bool:
    """Something behind the pool admits clearly fewer than the pool does."""
    shape = found.shape
    if pool is None or shape is None or shape.plateau_from is None:
        return False
    return shape.corner < (1 - MEETS) * pool


def _flat_before(found: Findings, concurrency: int) -> bool:
    """Throughput had stopped growing well before the client became a suspect."""
    begins = found.shape.plateau_from if found.shape else None
    return begins is not None and sum(begins < r.concurrency < concurrency for r in found.levels) >= 1


def _in_steps(found: Findings) -> bool:
    """The burst came back several at a time: a client that is too busy takes its answers one by one."""
    return found.burst is not None and (found.burst.at_once or 1) > 1 and found.burst.verdict == "steps"


def _missing(found: Findings) -> float | None:
    """By which share the largest concurrency falls short of what the smallest promises."""
    shape = found.shape
    if shape is None:
        return None
    growth = shape.concurrency[-1] / shape.concurrency[0]
    return 1 - shape.throughput[-1] / (growth * shape.throughput[0])
