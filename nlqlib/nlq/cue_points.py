"""A stretch of calendar time that a question names, and how to make one."""

from dataclasses import dataclass
from datetime import date

from nlqlib.nlq.cue_numbers import UNITS
from nlqlib.nlq.periods import DAY, start_of

SMALL = UNITS[1:]
LARGE = {"eighteen": 18, "twenty": 20, "twenty four": 24, "thirty": 30, "thirty six": 36, "forty five": 45}
LARGE |= {"sixty": 60, "ninety": 90, "couple of": 2, "few": 3}


@dataclass(frozen=True)
class Point:
    """A stretch of time that a question names: local dates, end exclusive, and how the contract writes it."""

    start: date
    end: date
    wire: str | None
    """`2024-Q2` or `last_month`; `None` where only a range of days can say it."""
    unit: str = ""
    """The time unit it is one of, or counts: `month` for March and for the last six months."""
    bare: str = ""
    """`day`, `month` or `quarter` where no year was given."""
    calendar: bool = True
    """Whether `wire` may stand in a range."""
    counted: bool = False

    def edge(self) -> str:
        """The wire form as one end of a range of calendar points; empty where days must say it."""
        return self.wire if self.wire and self.calendar else ""


def whole(unit: str, start: date, bare: str = "") -> Point:
    """The calendar year, quarter, month or day that begins on `start`."""
    wires = {
        "year": f"{start.year:04}",
        "quarter": f"{start.year:04}-Q{(start.month + 2) // 3}",
        "month": f"{start.year:04}-{start.month:02}",
    }
    return Point(start, ahead(start, unit), wires.get(unit, f"{start}"), unit, bare)


def ahead(day: date, unit: str, n: int = 1) -> date:
    """The first day of the `unit` that lies `n` after the one that begins on `day`."""
    length = {"day": 1, "week": 7, "month": 31, "quarter": 92, "year": 366}[unit]
    for _ in range(min(n, 400)):
        day = day + DAY if unit == "day" else start_of(day + length * DAY, unit, day.weekday())
    return day


def back(day: date, unit: str, n: int, first_weekday: int = 0) -> date:
    """First day of the `unit` that lies `n` before the one of `day`."""
    begin = start_of(day, unit, first_weekday)
    for _ in range(min(n, 1200)):
        if begin > date(1, 2, 1):
            begin = start_of(begin - DAY, unit, first_weekday)
    return begin


def with_year(point: Point, year: int) -> Point:
    """A bare month, quarter or day, in `year`."""
    try:
        return whole(point.bare, point.start.replace(year=year))
    except ValueError:
        return point


def stretch(first: date, last: date, unit: str) -> Point:
    """From the `unit` of `first` to that of `last`, both in."""
    begin, finish = whole(unit, start_of(first, unit)), whole(unit, start_of(last, unit))
    return Point(begin.start, finish.end, f"{begin.wire}..{finish.wire}", unit, calendar=False, counted=True)


def count(text: str) -> int:
    """`6`, `six`, `a couple of`, `ninety`; an article counts one."""
    if text.isdigit():
        return max(int(text), 1)
    return SMALL.index(text) + 1 if text in SMALL else LARGE.get(text, 1)
