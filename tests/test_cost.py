"""Cost: the article's column, and no price where there was no answer."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.analysis.cost import TokenPrices, cost_per_1000, hosted_cost, machine_cost, token_cost
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
