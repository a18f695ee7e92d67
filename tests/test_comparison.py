"""Before and after: differences of queues that are really run, with intervals that know what they do not."""

import pytest
from queue_world import Site, Slots, constant, offer, varied

from nlqlib.analysis.comparison import Change, changes
from nlqlib.records import Completion


def run(site: Site, n: int, requests: int = 200) -> list[Completion]:
    return offer(site, n, requests).completions


def at(found: tuple[Change, ...], concurrency: int, quantity: str) -> Change:
    return next(c for c in found if (c.concurrency, c.quantity) == (concurrency, quantity))


SERIAL = Site(lambda: Slots(varied(2.0, 0.1)), router=1)
FREE = Site(lambda: Slots(varied(2.0, 0.1, 7)))


def test_a_limit_lifted_shows_in_throughput_and_latency() -> None:
    found = changes({8: [run(SERIAL, 8)]}, {8: [run(FREE, 8)]})
    throughput = at(found, 8, "throughput")
    assert throughput.reading == "higher" and throughput.ratio == pytest.approx(8.0, rel=0.05)
    assert throughput.interval is not None and throughput.interval.low > 3.0
    assert at(found, 8, "p95 latency").reading == "lower"
    assert at(found, 8, "mean latency").reading == "lower"


def test_the_interval_holds_the_difference() -> None:
    for change in changes({4: [run(SERIAL, 4)]}, {4: [run(FREE, 4)]}):
        assert change.interval is not None and change.difference is not None
        assert change.interval.low <= change.difference <= change.interval.high


def test_the_same_endpoint_twice_shows_no_difference() -> None:
    other = Site(lambda: Slots(varied(2.0, 0.1, 99)))
    found = changes({4: [run(FREE, 4)]}, {4: [run(other, 4)]})
    assert {c.reading for c in found} == {"no difference shown"}


def test_repeats_on_both_sides_are_compared_by_their_means() -> None:
    before = [run(Site(lambda s=s: Slots(varied(2.0, 0.1, s)), router=1), 4) for s in range(3)]
    after = [run(Site(lambda s=s: Slots(varied(2.0, 0.1, s))), 4) for s in range(10, 13)]
    change = at(changes({4: before}, {4: after}), 4, "throughput")
    assert change.method == "repeats, Welch" and change.reading == "higher"


def test_only_concurrencies_of_both_sides_are_compared() -> None:
    found = changes({1: [run(FREE, 1)], 4: [run(FREE, 4)]}, {4: [run(FREE, 4)], 8: [run(FREE, 8)]})
    assert {c.concurrency for c in found} == {4}


def test_failures_are_a_quantity_of_their_own_and_leave_latency_to_what_succeeded() -> None:
    failing, whole = (Site(lambda: Slots(varied(2.0, 0.1)), failing=share) for share in (0.3, 0.0))
    found = changes({4: [run(whole, 4)]}, {4: [run(failing, 4)]})
    failed = at(found, 4, "failed")
    assert failed.reading == "higher" and failed.before == 0.0 and failed.after == pytest.approx(0.3, abs=0.1)
    assert at(found, 4, "mean latency").reading == "no difference shown"
    assert at(found, 4, "throughput").reading == "not comparable"  # no interval with failures in the window


def test_too_few_requests_are_not_comparable() -> None:
    found = changes({4: [run(FREE, 4, 4)]}, {4: [run(SERIAL, 4, 4)]})
    assert at(found, 4, "throughput").interval is None
    assert changes({}, {}) == ()


def test_a_side_where_nothing_succeeded_has_no_latency() -> None:
    dead = Site(lambda: Slots(constant(1.0)), failing=1.0)
    found = changes({4: [run(FREE, 4)]}, {4: [run(dead, 4)]})
    assert at(found, 4, "mean latency").after is None
    assert at(found, 4, "mean latency").reading == "not comparable"
