"""Before and after: differences of queues that are really run, with intervals that know what they do not."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from queue_world import Site, Slots, constant, offer, varied

from nlqlib.analysis.comparison import TIMED, Change, changes, common
from nlqlib.analysis.stats import Interval
from nlqlib.records import Completion

ONE_RUN = "one run, cannot tell"


def run(site: Site, n: int, requests: int = 200) -> list[Completion]:
    return offer(site, n, requests).completions


def at(found: tuple[Change, ...], concurrency: int, quantity: str) -> Change:
    return next(c for c in found if (c.concurrency, c.quantity) == (concurrency, quantity))


def serial(seed: int) -> Site:
    return Site(lambda: Slots(varied(2.0, 0.1, seed)), router=1)


def free(seed: int) -> Site:
    return Site(lambda: Slots(varied(2.0, 0.1, seed)))


def slowed(latency_s: float, n: int = 4) -> list[Completion]:
    """A run of a machine whose every answer takes so long."""
    return run(Site(lambda: Slots(constant(latency_s))), n, 20)


SERIAL, FREE = serial(0), free(7)


def test_a_limit_lifted_shows_in_throughput_and_latency() -> None:
    found = changes({8: [run(serial(s), 8) for s in (1, 2)]}, {8: [run(free(s), 8) for s in (3, 4)]})
    throughput = at(found, 8, "throughput")
    assert throughput.reading == "higher" and throughput.ratio == pytest.approx(8.0, rel=0.05)
    assert throughput.interval is not None and throughput.interval.low > 3.0
    assert at(found, 8, "p95 latency").reading == "lower"
    assert at(found, 8, "mean latency").reading == "lower"
    assert {c.method for c in found if c.quantity in TIMED} == {"runs, Welch"}


def test_the_same_endpoint_twice_shows_no_difference() -> None:
    found = changes({4: [run(free(s), 4) for s in range(3)]}, {4: [run(free(s), 4) for s in range(3, 6)]})
    assert {c.reading for c in found} == {"no difference shown"}


def test_only_concurrencies_of_both_sides_are_compared() -> None:
    found = changes({1: [run(FREE, 1)], 4: [run(FREE, 4)]}, {4: [run(FREE, 4)], 8: [run(FREE, 8)]})
    assert {c.concurrency for c in found} == {4}


# ---- one run on a side -----------------------------------------------------------------------------------


@pytest.mark.parametrize("after", [1, 3])
def test_from_one_run_on_a_side_only_what_no_drift_makes_is_read(after: int) -> None:
    found = changes({8: [run(SERIAL, 8)]}, {8: [run(free(s), 8) for s in range(after)]})
    assert {q: at(found, 8, q).reading for q in TIMED} == {
        "throughput": "higher",
        "mean latency": "lower",
        "p95 latency": "lower",
    }
    throughput = at(found, 8, "throughput")
    assert throughput.ratio == pytest.approx(8.0, rel=0.05)  # what was seen is still shown


def test_its_interval_is_over_requests_and_says_so() -> None:
    for change in changes({4: [run(SERIAL, 4)]}, {4: [run(FREE, 4)]}):
        assert change.interval is not None and change.difference is not None
        assert change.interval.low <= change.difference <= change.interval.high
        assert change.quantity == "failed" or "no drift in it" in change.method


@pytest.mark.parametrize("slower", [2.04, 2.3])
def test_requests_in_lockstep_make_no_verdict(slower: float) -> None:
    """Four that end together give an interval without width, between runs that drifted by 2 or 15 %."""
    [throughput, *_] = changes({4: [slowed(2.0)]}, {4: [slowed(slower)]})
    inside = throughput.interval
    assert inside is not None and inside.low == pytest.approx(inside.high)
    assert throughput.reading == ONE_RUN


def test_too_few_requests_have_no_interval_either() -> None:
    found = changes({4: [run(FREE, 4, 4)]}, {4: [run(SERIAL, 4, 4)]})
    assert at(found, 4, "throughput").interval is None
    assert changes({}, {}) == ()


def test_a_side_where_nothing_succeeded_has_no_latency() -> None:
    dead = Site(lambda: Slots(constant(1.0)), failing=1.0)
    for runs in (1, 2):
        found = changes({4: [run(FREE, 4)] * runs}, {4: [run(dead, 4)] * runs})
        assert at(found, 4, "mean latency").after is None
        assert at(found, 4, "mean latency").reading == "not comparable"


# ---- failures --------------------------------------------------------------------------------------------


def test_failures_are_counted_and_leave_latency_to_what_succeeded() -> None:
    failing, whole = (
        [run(Site(lambda s=s: Slots(varied(2.0, 0.1, s)), failing=share), 4) for s in (s0, s0 + 1)]
        for share, s0 in ((0.3, 0), (0.0, 5))
    )
    found = changes({4: whole}, {4: failing})
    failed = at(found, 4, "failed")
    assert failed.reading == "higher" and failed.before == 0.0 and failed.after == pytest.approx(0.3, abs=0.1)
    assert at(found, 4, "mean latency").reading == "no difference shown"
    assert at(changes({4: whole[:1]}, {4: failing[:1]}), 4, "failed").reading == "higher"


def test_with_a_failure_anywhere_both_sides_count_good_answers_per_second_of_the_run() -> None:
    failing = Site(lambda: Slots(constant(2.0)), failing=0.5)
    found = changes({4: [slowed(2.0)] * 2}, {4: [run(failing, 4, 20)] * 2})
    throughput = at(found, 4, "throughput")
    good = sum(c.ok for c in run(failing, 4, 20))
    assert throughput.before == pytest.approx(2.0, rel=0.05)  # 20 answers in 5 rounds of 2 s, begun apart
    assert throughput.after is not None and throughput.after < 2.0 and good < 20


# ---- pairs -----------------------------------------------------------------------------------------------


def drifting(effect: float, levels: tuple[int, ...] = (1, 2, 4)) -> tuple[Change, ...]:
    """A B B A on a machine that slows down by 5 % from run to run; the change costs `effect`."""
    pace = [2.0, 2.1, 2.2, 2.3]
    before = {n: [slowed(pace[0], n), slowed(pace[3], n)] for n in levels}
    after = {n: [slowed(pace[1] * (1 + effect), n), slowed(pace[2] * (1 + effect), n)] for n in levels}
    return changes(before, after, paired=True)


def test_drift_alone_is_no_difference_when_the_sides_take_turns() -> None:
    found = drifting(0.0)
    throughput = at(found, 4, "throughput")
    assert throughput.method == "pairs of runs, t" and throughput.reading == "no difference shown"
    assert throughput.by_pair == pytest.approx((2.0 / 2.1, 2.3 / 2.2), rel=0.005)
    assert throughput.difference == pytest.approx(0.0, abs=0.02)
    told = common(found, "throughput")
    assert told is not None and abs(told.share) < 0.003  # and that not 0: the drift is a line, not a power
    assert told.reading == "the pairs disagree"
    assert told.by_pair == pytest.approx((2.0 / 2.1 - 1, 2.3 / 2.2 - 1), abs=0.005)


def test_a_change_larger_than_the_drift_shows_in_what_all_levels_share() -> None:
    told = common(drifting(0.2), "mean latency")
    assert told is not None and told.reading == "higher" and told.levels == 3
    assert told.share == pytest.approx(0.2, abs=0.01) and min(told.by_pair) > 0


def test_pairs_that_disagree_are_no_change_however_narrow_the_interval() -> None:
    told = common(drifting(0.01), "mean latency")
    assert told is not None and told.interval.low > 0
    assert told.reading == "the pairs disagree" and told.by_pair[0] > 0 > told.by_pair[1]


def test_runs_in_pairs_have_as_many_on_both_sides() -> None:
    with pytest.raises(ValueError, match="2 before and 1 after at concurrency 4"):
        changes({4: [slowed(2.0)] * 2}, {4: [slowed(2.0)]}, paired=True)


def test_single_runs_and_single_levels_share_nothing() -> None:
    once = {n: [slowed(2.0, n)] for n in (1, 2)}
    assert common(changes(once, once), "throughput") is None
    assert common(drifting(0.0, levels=(4,)), "throughput") is None


@given(st.lists(st.floats(0.1, 10), min_size=2, max_size=6), st.floats(0.5, 2))
def test_what_every_level_does_is_what_they_share(values: list[float], ratio: float) -> None:
    rows = [
        Change(n, "throughput", "req/s", x, x * ratio, None, Interval(0, 0), "no difference shown", "")
        for n, x in enumerate(values, 1)
    ]
    told = common(rows, "throughput")
    assert told is not None
    assert math.isclose(told.share, ratio - 1, abs_tol=1e-9)
    assert told.interval.low == pytest.approx(told.interval.high, abs=1e-6)
