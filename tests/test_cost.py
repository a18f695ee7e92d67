"""Cost: the article's column, and no price where there was no answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.analysis.cost import (
    Counts,
    TokenPrices,
    cost_per_1000,
    hosted_cost,
    loop_cost,
    machine_cost,
    per_1000,
    token_cost,
)
from nlqlib.records import Completion

PRICES = TokenPrices(input=1.0, output=5.0, cached_input=0.1)


def used(outcome="ok", prompt=3300, output=115, cached=None, end=1.0):
    return Completion(
        "r", outcome, start_s=0.0, end_s=end, prompt_tokens=prompt, output_tokens=output, cached_tokens=cached
    )


@pytest.mark.parametrize(
    ("x", "dollars"),
    [(2.22, 0.125), (4.21, 0.066), (4.29, 0.065), (5.63, 0.049), (6.87, 0.040), (0.311, 0.893)],
)
def test_the_cost_column_of_the_article_at_one_dollar_an_hour(x, dollars):
    assert cost_per_1000(x, 1.0) == pytest.approx(dollars, abs=5e-4)


def test_without_an_answer_there_is_no_price():
    assert cost_per_1000(None, 1.0) is None
    assert cost_per_1000(0.0, 1.0) is None
    assert machine_cost([used("timeout")], 1.0) is None
    assert hosted_cost([used("empty")], PRICES) is None


def test_failures_raise_the_price_of_the_answers():
    good, mixed = [used()] * 4, [used(), used(), used("empty"), used("bad_json")]
    assert machine_cost(mixed, 1.0) == pytest.approx(2 * machine_cost(good, 1.0))
    assert hosted_cost(mixed, PRICES) == pytest.approx(2 * hosted_cost(good, PRICES))


def test_replicas_multiply_the_price():
    assert machine_cost([used()], 1.0, replicas=3) == pytest.approx(3 * machine_cost([used()], 1.0))


def test_cached_tokens_have_their_own_price():
    assert token_cost(used(cached=3296), PRICES) == pytest.approx((4 + 329.6 + 575) / 1e6)
    assert token_cost(used(cached=3296), TokenPrices(1.0, 5.0)) == pytest.approx((3300 + 575) / 1e6)


def test_counts_that_were_kept_cost_what_the_request_did():
    done = used(cached=3296)
    kept = Counts(done.prompt_tokens, done.cached_tokens, done.output_tokens)
    assert token_cost(kept, PRICES) == token_cost(done, PRICES)


@given(st.floats(0.1, 100), st.integers(1, 256), st.floats(0.01, 100))
def test_in_a_closed_loop_the_price_is_that_of_its_rate_by_littles_law(seconds, in_flight, price):
    rate = in_flight / seconds
    assert 1000 * loop_cost(seconds, in_flight, price) == pytest.approx(cost_per_1000(rate, price))


def test_a_loop_without_requests_is_refused():
    with pytest.raises(ValueError, match="at least one request"):
        loop_cost(1.0, 0, 1.0)


def test_what_was_billed_and_failed_is_paid_by_the_answers_and_an_answer_without_a_price_has_none():
    assert per_1000([(True, 0.002), (False, 0.001), (False, None)]) == pytest.approx(3.0)
    assert per_1000([(True, 0.002), (True, None)]) is None
    assert per_1000([(False, 0.001)]) is None and per_1000([]) is None


def test_unreported_tokens_leave_the_price_missing():
    assert token_cost(used(prompt=None), PRICES) is None
    assert hosted_cost([used(), used(prompt=None)], PRICES) is None
    assert hosted_cost([used(), used("http_5xx", prompt=None)], PRICES) == pytest.approx(3.875)


@pytest.mark.parametrize(("x", "price"), [(1.0, -1.0), (-1.0, 1.0)])
def test_negative_numbers_are_refused(x, price):
    with pytest.raises(ValueError, match="cannot be negative"):
        cost_per_1000(x, price)


@given(st.floats(0.01, 1e4), st.floats(0.01, 100))
def test_cost_times_throughput_is_the_hourly_price(x, price):
    assert cost_per_1000(x, price) * x * 3.6 == pytest.approx(price)
