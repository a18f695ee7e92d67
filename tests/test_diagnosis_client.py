"""The client as a suspect of the diagnosis: convicted only of what its faults can have cost."""

from dataclasses import replace

import pytest
from queue_world import Site, Slots, constant, from_outside, of_the_curve, sweep

from nlqlib.analysis.diagnosis import SweepLevel, diagnose
from nlqlib.analysis.diagnosis_client import cost
from nlqlib.records import Rule

LAG, DISPATCH = "client: event-loop lag p99 (s)", "client: dispatch delay p99 (s)"
SIXTEEN = Site(lambda: Slots(constant(0.3)), router=16, network_s=0.0)


def late(seconds: float, name: str = LAG) -> Rule:
    return Rule(name, seconds, 0.03, False)


def accused(rows: list[SweepLevel], since: int, *rules: Rule) -> list[SweepLevel]:
    """`rows` whose client broke `rules` from `since` in flight on."""
    return [replace(row, client_rules=rules) if row.concurrency >= since else row for row in rows]


def test_a_lag_of_a_twentieth_of_the_latency_does_not_explain_half_the_throughput() -> None:
    rows = [from_outside(row) for row in sweep(SIXTEEN)]
    assert [round(row.throughput or 0, 1) for row in rows] == [3.3, 6.7, 13.3, 26.7, 53.3, 53.3]
    found = diagnose(accused(rows, 32, late(0.035)))
    assert found.verdict == "limited at 16" and not found.seen
    assert found.marked and "the client was a suspect: client: event-loop lag" in found.sentence


def test_without_the_burst_as_well_so_small_a_lag_convicts_nobody() -> None:
    rows = [of_the_curve(row) for row in sweep(SIXTEEN)]
    assert diagnose(accused(rows, 32, late(0.035))).kind != "client-limited"


def test_a_lag_as_long_as_half_the_latency_does() -> None:
    eight = Site(lambda: Slots(constant(0.3)), router=8, network_s=0.0)
    rows = [of_the_curve(row) for row in sweep(eight)]
    found = diagnose(accused(rows, 16, late(0.3)))
    assert found.verdict == "client-limited" and "event-loop lag p99 (s) 0.3" in found.sentence


def test_a_full_core_explains_anything_but_steps_of_several() -> None:
    full = Rule("client: share of a core", 0.99, 0.9, False)
    rows = sweep(SIXTEEN)
    assert diagnose(accused([of_the_curve(r) for r in rows], 16, full)).verdict == "client-limited"
    assert diagnose(accused([from_outside(r) for r in rows], 16, full)).verdict == "limited at 16"


@pytest.mark.parametrize(
    ("rule", "share"),
    [
        (late(0.05), 0.1),
        (late(0.1, DISPATCH), 0.2),
        (late(5.0), 1.0),
        (Rule("client: requests that waited for a connection", 5, 0, False), 0.05),
        (Rule("client: share of a core", 0.95, 0.9, False), 1.0),
        (Rule("client: connection pool / N", 0.25, 2.0, False), 0.0),
        (Rule(LAG, 5.0, 6.0, True), 0.0),
        (Rule(LAG, None, 6.0, None), 0.0),
    ],
)
def test_what_a_fault_may_have_cost(rule: Rule, share: float) -> None:
    row = SweepLevel(8, n=100, ok=100, mean_s=1.0, in_flight_peak=8.0, in_flight_mean=8.0)
    assert cost(replace(row, client_rules=(rule,))) == pytest.approx(share)


def test_requests_that_were_never_in_flight_cost_their_share() -> None:
    row = SweepLevel(8, n=100, ok=100, mean_s=1.0)
    assert cost(replace(row, in_flight_peak=6.0)) == 0.25
    assert cost(replace(row, in_flight_mean=4.0)) == 0.5
    assert cost(replace(row, in_flight_mean=4.0, ok=90)) == 0.0  # failures leave places empty
