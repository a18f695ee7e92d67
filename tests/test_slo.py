"""Policies over the article's sweep, and what happens when nothing meets them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.analysis.cost import cost_per_1000
from nlqlib.analysis.slo import ARTICLE_POLICIES, OperatingPoint, Policy, choose, policy_table

ROWS = [
    (1, 0.31, 3.24),
    (8, 2.22, 3.62),
    (16, 4.21, 3.91),
    (18, 4.29, 4.16),
    (20, 4.64, 4.22),
    (24, 5.63, 4.32),
    (32, 6.87, 4.6),
]
SATURATION = [(32, 6.63, 5.16), (40, 6.94, 8.54), (48, 6.93, 8.67)]


def points(rows):
    return [OperatingPoint(n, x, p95, cost_per_1000=cost_per_1000(x, 1.0)) for n, x, p95 in rows]


def test_the_articles_policies_choose_the_articles_points():
    chosen = [c.point.concurrency for c in policy_table(points(ROWS), ARTICLE_POLICIES)]
    assert chosen == [16, 24, 32]


def test_the_region_of_a_policy_is_every_concurrency_that_meets_it():
    assert choose(points(ROWS), Policy("p95", 4.5)).meeting == (1, 8, 16, 18, 20, 24)


def test_by_the_articles_saturation_run_none_meets_its_third_policy():
    choice = choose(points(SATURATION), ARTICLE_POLICIES[2])
    assert choice.point is None
    assert choice.reason == "none meets it: the lowest p95 is 5.16 s, the bound 5 s"


def test_a_bound_is_strict():
    assert choose([OperatingPoint(8, 2.0, 4.0)], Policy("p95", 4.0)).point is None


def test_invalid_points_and_missing_p95_meet_nothing():
    rows = [OperatingPoint(8, 2.0, 3.0, valid=False), OperatingPoint(16, 4.0, None)]
    choice = choose(rows, Policy("p95", 4.0))
    assert choice.point is None
    assert "2 of 2 points are invalid or lack a number" in choice.reason


def test_no_points_at_all():
    assert choose([], Policy("p95", 4.0)).reason == "none meets it: no usable point"


def test_lowest_cost_needs_a_cost():
    rows = [OperatingPoint(8, 2.0, 3.0, cost_per_1000=0.14), OperatingPoint(16, 4.0, 3.5)]
    assert choose(rows, Policy("cost", 4.0, "cost")).point.concurrency == 8


def test_lowest_latency_is_a_goal_too():
    assert choose(points(ROWS), Policy("latency", 5.0, "latency")).point.concurrency == 1


def test_a_cautious_policy_judges_the_upper_end_of_the_interval():
    rows = [OperatingPoint(8, 2.0, 3.6, 3.7), OperatingPoint(16, 4.2, 3.9, 4.1), OperatingPoint(24, 5.0, 3.9)]
    assert choose(rows, Policy("p95", 4.0)).point.concurrency == 24
    assert choose(rows, Policy("p95", 4.0, cautious=True)).point.concurrency == 8


def test_a_tie_goes_to_the_smaller_concurrency():
    rows = [OperatingPoint(40, 6.9, 4.0), OperatingPoint(32, 6.9, 4.0)]
    assert choose(rows, Policy("p95", 5.0)).point.concurrency == 32


def test_a_bound_that_is_no_time_is_refused():
    with pytest.raises(ValueError, match="positive number of seconds"):
        choose([], Policy("p95", 0.0))


@given(
    st.lists(st.tuples(st.integers(1, 64), st.floats(0.1, 10), st.floats(0.1, 10)), max_size=12),
    st.floats(0.1, 10),
)
def test_the_choice_meets_its_bound_and_nothing_that_meets_it_is_better(rows, bound):
    choice = choose(points(rows), Policy("p95", bound))
    meeting = [x for _, x, p95 in rows if p95 < bound]
    if choice.point is None:
        assert not meeting
    else:
        assert choice.point.p95_s < bound
        assert choice.point.throughput == max(meeting)
