"""Periods in words of the intent contract, as half-open local dates."""

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from zoneinfo import ZoneInfo

from nlqlib.nlq.catalog import Catalog, QuestionError, short

_FORM = re.compile(
    r"(all|[0-9]{4}(-Q[1-4]|-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?"
    r"(\.\.[0-9]{4}(-Q[1-4]|-(0[1-9]|1[0-2])(-(0[1-9]|[12][0-9]|3[01]))?)?)?"
    r"|this_(month|quarter|year)|last_(week|month|quarter|year)"
    r"|last_[1-9][0-9]{0,3}_(days|weeks|months))"
)

DAY = timedelta(days=1)


class ImpossiblePeriod(QuestionError):
    """A period that no calendar has, or that lies outside the data."""


@dataclass(frozen=True)
class Span:
    """Local dates from `start` up to, but not including, `end`."""

    start: date
    end: date


def parse_period(text: str, catalog: Catalog) -> tuple[date, date]:
    """`text` as half-open local dates, clipped to the data's first day and the end of today.

    Raises `ImpossiblePeriod`.
    """
    if not _FORM.fullmatch(text):
        raise ImpossiblePeriod(
            f"{short(text)} is no period; use all, 2024, 2024-Q2, 2024-03, 2024-03-05 or last_month"
        )
    span = _span(text, catalog)
    clipped = Span(max(span.start, catalog.first_day), min(span.end, catalog.today + DAY))
    if clipped.start >= clipped.end:
        raise ImpossiblePeriod(
            f"the period {text} lies outside the data, which goes from {catalog.first_day} to {catalog.today}"
        )
    return clipped.start, clipped.end


def _span(text: str, catalog: Catalog) -> Span:
    if text == "all":
        return Span(catalog.first_day, catalog.today + DAY)
    if text.startswith("this_"):
        begin = start_of(catalog.today, text.removeprefix("this_"), catalog.first_weekday)
        return Span(begin, catalog.today + DAY)
    if text.startswith("last_"):
        return _last(text.removeprefix("last_"), catalog)
    first, _, last = text.partition("..")
    start = _calendar(first)
    end = _calendar(last) if last else start
    if end.end <= start.start:
        raise ImpossiblePeriod(f"the period {text} ends before it begins")
    return Span(start.start, end.end)


def _last(what: str, catalog: Catalog) -> Span:
    """The last complete week, month, quarter or year, or the last N complete days, weeks or months."""
    today, monday = catalog.today, catalog.first_weekday
    if "_" not in what:
        end = start_of(today, what, monday)
        return Span(start_of(end - DAY, what, monday), end)
    count, unit = what.split("_")
    n = int(count)
    if unit == "days":
        return Span(today + DAY - n * DAY, today + DAY)
    if unit == "weeks":
        end = start_of(today, "week", monday)
        return Span(end - 7 * n * DAY, end)
    end = start_of(today, "month")
    return Span(_months_before(end, n), end)


def _months_before(day: date, n: int) -> date:
    months = max(day.year * 12 + day.month - 1 - n, 12)  # the calendar begins with the year 1
    return date(months // 12, months % 12 + 1, 1)


def utc(day: date, zone: str) -> datetime:
    """The UTC time stamp at which local `day` begins in time `zone`."""
    midnight = datetime(day.year, day.month, day.day, tzinfo=ZoneInfo(zone))
    return midnight.astimezone(UTC).replace(tzinfo=None)


def start_of(day: date, unit: str, first_weekday: int = 0) -> date:
    """First day of the `unit` (day, week, month, quarter, year) of `day`; weeks start on `first_weekday`."""
    if unit == "day":
        return day
    if unit == "week":
        return day - (day.weekday() - first_weekday) % 7 * DAY
    month = {"month": day.month, "quarter": day.month - (day.month - 1) % 3, "year": 1}[unit]
    return date(day.year, month, 1)


def _calendar(text: str) -> Span:
    """A year, quarter, month or day."""
    try:
        if len(text) == 4:
            return Span(date(int(text), 1, 1), date(int(text) + 1, 1, 1))
        if "Q" in text:
            year, quarter = int(text[:4]), int(text[-1])
            start = date(year, 3 * quarter - 2, 1)
            return Span(start, _months_before(start, -3))
        if len(text) == 7:
            start = date(int(text[:4]), int(text[5:]), 1)
            return Span(start, _months_before(start, -1))
        start = date.fromisoformat(text)
        return Span(start, start + DAY)
    except (ValueError, OverflowError):
        raise ImpossiblePeriod(f"no calendar has {text}") from None
