"""Which levels of a sweep can be believed, and what is said of the others and of the rest's blemishes."""

from collections.abc import Sequence

from nlqlib.analysis.diagnosis_cause import Cause
from nlqlib.analysis.diagnosis_decision import REFUSALS
from nlqlib.analysis.diagnosis_levels import SweepLevel, totals
from nlqlib.analysis.staircase import ControlledStaircase, Staircase

MOST_FAILED = 0.5
"""A level of which more failed shows what survived, not the endpoint."""
FEW_FAILED = 0.01
"""Up to this share a failure is not worth a reservation."""
MOST_HUNG = 0.25
"""Of the places in flight; a level that lost more to requests that hung was another concurrency."""


def sound(every: Sequence[SweepLevel]) -> tuple[SweepLevel, ...]:
    """Levels whose successes stand for the endpoint: mostly successful, or refused by a limit on purpose."""
    usable = [r for r in every if r.ok and r.invalid is None and not _hung(r)]
    grows = bool(usable) and usable[0].failed_share <= MOST_FAILED
    on_purpose = [r for r in usable if grows and set(r.failures) <= set(REFUSALS)]
    return tuple(r for r in usable if r.failed_share <= MOST_FAILED or r in on_purpose)


def _hung(row: SweepLevel) -> bool:
    return (row.hung_share or 0.0) > MOST_HUNG


def reservations(
    every: Sequence[SweepLevel],
    believed: Sequence[SweepLevel],
    staircase: ControlledStaircase | Staircase | None,
) -> tuple[str, ...]:
    """Why a verdict on the `believed` levels of `every` (at least one) is marked; empty when it is not."""
    found = []
    if max(r.failed_share for r in believed) > FEW_FAILED:
        total, ok = sum(r.n for r in believed), sum(r.ok for r in believed)
        kinds = ", ".join(sorted({k for r in believed for k in r.failures}))
        found.append(f"{total - ok} of {total} requests failed ({kinds}); only what succeeded is judged")
    found += [f"the level at {r.concurrency} is left out: {left_out(r)}" for r in every if r not in believed]
    partial = [r for r in believed if r.hidden]
    if partial:
        found.append(f"the engine's numbers are left out: at {partial[-1].concurrency} {partial[-1].hidden}")
    if isinstance(staircase, ControlledStaircase) and not staircase.controls_hold:
        found.append(f"the staircase does not count, {staircase.reason}")
    return tuple(found)


def left_out(row: SweepLevel) -> str:
    """Why a level is not believed."""
    if row.invalid is not None:
        return row.invalid
    if _hung(row):
        return f"requests that never came back held {row.hung_share:.0%} of what was in flight"
    return f"{row.failed} of {row.n} failed"


def no_level(every: Sequence[SweepLevel]) -> Cause:
    """The cause where no level can be believed."""
    told = [left_out(r) for r in every if r.invalid is not None or _hung(r)]
    if told:
        hung = any(_hung(r) for r in every)
        following = (
            "set TIMEOUT_S to a few times the usual latency" if hung else "repeat the levels undisturbed"
        )
        return Cause("cannot tell", "; ".join(dict.fromkeys(told)), following)
    failed = ", ".join(f"{outcome} × {n}" for outcome, n in totals(r.failures for r in every).items())
    why = f"most requests failed at every level ({failed or 'none was answered'})"
    return Cause("cannot tell", why, "make one request at a time succeed first")
