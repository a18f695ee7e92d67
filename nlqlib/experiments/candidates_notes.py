"""What the page on candidates says below its tables: what is missing, what failed, how times came about."""

from collections.abc import Mapping, Sequence

from nlqlib.artifacts import Record
from nlqlib.experiments.candidates import Candidate, Measurements
from nlqlib.experiments.heldout import unheard
from nlqlib.experiments.heldout_page import failures_sentence
from nlqlib.experiments.quiet import RULE
from nlqlib.records import Rule

Heard = Mapping[str, Mapping[str, Record | None]]
"""Evaluations by set and then by name; `None`: not measured here."""


def missing_sentence(found: Measurements, candidates: Sequence[Candidate]) -> str:
    """Which services were not measured, and the command that does it; which requests failed."""
    measured = {n for records in found.values() for n, record in records.items() if record is not None}
    absent = list(dict.fromkeys(c.service.name for c in candidates if c.name not in measured))
    told = [_absent(absent) if absent else "Every candidate was measured.", *_failed(found, candidates)]
    return " ".join(told)


def _absent(services: Sequence[str]) -> str:
    command = f'make reproduce PARAMS="--notebooks 14 -p \'run=[\\"{services[0]}\\"]\'"'
    return (
        f"Not measured here: {', '.join(services)}. One command measures a service with all of its "
        f"candidates, once the variables above are set: `{command}`."
    )


def _failed(found: Measurements, candidates: Sequence[Candidate]) -> list[str]:
    """The target's own by condition, with the command that records them on the twin; others by name."""
    own = {c.name: c.condition.name for c in candidates if c.service.here}
    known = {s: {n: r for n, r in records.items() if r is not None} for s, records in found.items()}
    here = {s: {own[n]: r for n, r in records.items() if n in own} for s, records in known.items()}
    there = {s: {n: r for n, r in records.items() if n not in own} for s, records in known.items()}
    told = [failures_sentence(here)] if unheard(here) else []
    return told + [f"{name} on {source}: {reason}." for source, name, reason in unheard(there)]


def busy(found: Heard) -> Rule | None:
    """The rule that some machine was not idle besides; `None` where none says so."""
    rules = [rule for r in _records(found) for rule in r.validity if rule.rule == RULE and rule.ok is False]
    return max(rules, key=lambda rule: float(rule.value or 0.0), default=None)


def _records(found: Heard) -> list[Record]:
    return [r for records in found.values() for r in records.values() if r is not None]


def beside(found: Heard) -> str:
    """` beside other work` where times were measured so: for captions and axes."""
    return " beside other work" if busy(found) else ""


def times_sentence(found: Heard) -> str:
    """That times are those of a busy machine, and what rate limits cost, where they are and did."""
    rule, waited_s = busy(found), sum(r.results["rate_limit_wait_s"] for r in _records(found))
    told = (
        [f"{waited_s:.0f} s were spent waiting for rate limits; no latency counts them."] if waited_s else []
    )
    if rule is None:
        return " ".join(told)
    told.append(
        f"Times were measured beside other work: the machine was {float(rule.value or 0.0):.0%} busy while "
        "its engine had nothing to do. Read accuracy here, and times on the pages that measure them."
    )
    return " ".join(told)
