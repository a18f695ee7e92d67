"""Periods in words become half-open local dates, clipped to the data."""

from datetime import date, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.nlq.catalog import QuestionError, load_catalog
from nlqlib.nlq.periods import parse_period, start_of, utc

CATALOG = load_catalog()  # today is Sunday 2025-06-15, data from 2023-01-01


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("all", "2023-01-01", "2025-06-16"),
        ("2024", "2024-01-01", "2025-01-01"),
        ("2024-Q2", "2024-04-01", "2024-07-01"),
        ("2024-Q4", "2024-10-01", "2025-01-01"),
        ("2024-02", "2024-02-01", "2024-03-01"),
        ("2024-12", "2024-12-01", "2025-01-01"),
        ("2024-02-29", "2024-02-29", "2024-03-01"),
        ("2024-03..2024-05", "2024-03-01", "2024-06-01"),
        ("2023-Q4..2024-02-10", "2023-10-01", "2024-02-11"),
        ("2024..2024-03", "2024-01-01", "2024-04-01"),
        ("2025-01..2025-06-15", "2025-01-01", "2025-06-16"),
        ("this_month", "2025-06-01", "2025-06-16"),
        ("this_quarter", "2025-04-01", "2025-06-16"),
        ("this_year", "2025-01-01", "2025-06-16"),
        ("last_week", "2025-06-02", "2025-06-09"),
        ("last_month", "2025-05-01", "2025-06-01"),
        ("last_quarter", "2025-01-01", "2025-04-01"),
        ("last_year", "2024-01-01", "2025-01-01"),
        ("last_1_days", "2025-06-15", "2025-06-16"),
        ("last_30_days", "2025-05-17", "2025-06-16"),
        ("last_2_weeks", "2025-05-26", "2025-06-09"),
        ("last_6_months", "2024-12-01", "2025-06-01"),
        ("last_12_months", "2024-06-01", "2025-06-01"),
    ],
)
def test_a_period_is_half_open(text: str, start: str, end: str):
    assert parse_period(text, CATALOG) == (date.fromisoformat(start), date.fromisoformat(end))


@pytest.mark.parametrize(
    ("text", "start", "end"),
    [
        ("2025", "2025-01-01", "2025-06-16"),
        ("2025-Q2", "2025-04-01", "2025-06-16"),
        ("2022..2023-01", "2023-01-01", "2023-02-01"),
        ("2024-06..2099", "2024-06-01", "2025-06-16"),
        ("last_999_months", "2023-01-01", "2025-06-01"),
        ("last_9999_months", "2023-01-01", "2025-06-01"),
        ("last_9999_weeks", "2023-01-01", "2025-06-09"),
    ],
)
def test_a_period_is_clipped_to_the_first_day_and_to_today(text: str, start: str, end: str):
    assert parse_period(text, CATALOG) == (date.fromisoformat(start), date.fromisoformat(end))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("2024-13", "no calendar has 2024-13|is no period"),
        ("2024-02-30", "no calendar has 2024-02-30"),
        ("2023-02-29", "no calendar has 2023-02-29"),
        ("0000", "no calendar has 0000"),
        ("9999", "no calendar has 9999|outside"),
        ("2024-05..2024-03", "ends before it begins"),
        ("2024..2023", "ends before it begins"),
        ("2022", "outside the data, which goes from 2023-01-01 to 2025-06-15"),
        ("2025-07", "outside the data"),
        ("2024-Q5", "is no period"),
        ("last_0_days", "is no period"),
        ("last_day", "is no period"),
        ("this_week", "is no period"),
        ("2024\n", "is no period"),
        ("٢٠٢٤", "is no period"),
        ("", "is no period"),
        ("yesterday; DROP TABLE orders", "is no period"),
    ],
)
def test_an_impossible_period_is_one_line_that_says_why(text: str, told: str):
    with pytest.raises(QuestionError, match=told) as caught:
        parse_period(text, CATALOG)
    assert "\n" not in str(caught.value)


@given(st.dates(date(2023, 1, 1), date(2025, 6, 15)), st.dates(date(2023, 1, 1), date(2025, 6, 15)))
def test_any_range_of_days_inside_the_data_is_itself(one: date, other: date):
    first, last = sorted((one, other))
    assert parse_period(f"{first}..{last}", CATALOG) == (first, last + timedelta(days=1))


@given(st.text(max_size=40))
def test_anything_else_is_a_question_error_and_never_a_crash(text: str):
    try:
        start, end = parse_period(text, CATALOG)
        assert start < end
    except QuestionError as error:
        assert "\n" not in str(error)


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.integers(0, 6))
def test_a_week_starts_on_its_weekday_and_holds_its_day(day: date, first_weekday: int):
    start = start_of(day, "week", first_weekday)
    assert start.weekday() == first_weekday and 0 <= (day - start).days < 7


@given(st.dates(date(2000, 1, 1), date(2100, 1, 1)), st.sampled_from(["day", "month", "quarter", "year"]))
def test_the_start_of_a_start_is_itself(day: date, unit: str):
    start = start_of(day, unit)
    assert start <= day and start_of(start, unit) == start


def test_local_midnight_follows_daylight_saving():
    assert utc(date(2024, 1, 15), "America/New_York") == datetime(2024, 1, 15, 5)
    assert utc(date(2024, 7, 15), "America/New_York") == datetime(2024, 7, 15, 4)
    assert utc(date(2024, 7, 15), "Asia/Kolkata") == datetime(2024, 7, 14, 18, 30)
