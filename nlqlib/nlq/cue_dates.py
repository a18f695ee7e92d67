"""Points in time as people write them: `March 2024`, `Q4 of last year`, `the last week of May`, `yesterday`.

The forms are data (`data/english_dates.toml`); here is what each of them means. A month, quarter or day
without a year is *bare*: it takes the year of its neighbour, or is the latest one that has begun.
"""

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import date
from functools import lru_cache
from typing import Any

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_points import Point, ahead, back, count, stretch, whole
from nlqlib.nlq.cue_text import MONTHS
from nlqlib.nlq.periods import DAY, start_of
from nlqlib.paths import DATA

FORMS = DATA / "english_dates.toml"
SHORT = {"ytd": "year", "mtd": "month", "qtd": "quarter", "wtd": "week", "today": "day"}
ROUND = {"fortnight": (2, "week"), "half year": (6, "month"), "half a year": (6, "month")}
ROUND |= {"dozen months": (12, "month"), "dozen weeks": (12, "week"), "dozen days": (12, "day")}
"""Stretches of time with a name of their own."""
ORDINALS = re.findall(
    r"\w+",
    "first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth "
    "fifteenth sixteenth seventeenth eighteenth nineteenth twentieth",
)


Groups = Mapping[str, str | None]


def _dated(unit: str, month: int, day: int, year: int | None, catalog: Catalog) -> Point | None:
    """The point of `month` and `day`; without a year the latest that has begun."""
    try:
        if year is not None:
            return whole(unit, date(year, month, day))
        this = date(catalog.today.year, month, day)
        latest = this if this <= catalog.today else this.replace(year=this.year - 1)
        return whole(unit, latest, bare=unit)
    except ValueError:
        return None


def _year_of(text: str | None, catalog: Catalog) -> int | None:
    if text is None:
        return None
    digits = re.search(r"\d{4}", text)
    if digits:
        return int(digits[0])
    back_by = 2 if "before" in text else 0 if re.search(r"this|current", text) else 1
    return catalog.today.year - back_by


def _iso(m: Groups, text: str, catalog: Catalog) -> Point | None:
    if "q" in text:
        return _dated("quarter", 3 * int(text[-1]) - 2, 1, int(text[:4]), catalog)
    year, month, *rest = (int(part) for part in text.split("-"))
    return _dated("day" if rest else "month", month, rest[0] if rest else 1, year, catalog)


def _slashed(m: Groups, text: str, catalog: Catalog) -> Point | None:
    """Month first, as in New York, unless only day first can be."""
    first, second, year = (int(part) for part in text.split("/"))
    return _dated("day", first, second, year, catalog) or _dated("day", second, first, year, catalog)


def _day(m: Groups, text: str, catalog: Catalog) -> Point | None:
    day = _ordinal(m["day"] or "1")
    return _dated("day", _number(m["month"]), day, _year_of(m.get("year"), catalog), catalog)


def _ordinal(text: str) -> int:
    """31 for `31`, `31 st` and `thirty first`."""
    digits = re.match(r"\d+", text)
    if digits:
        return int(digits[0])
    tens, _, rest = text.rpartition(" ")
    return 30 if rest == "thirtieth" else {"": 0, "twenty": 20, "thirty": 30}[tens] + ORDINALS.index(rest) + 1


def _days(m: Groups, text: str, catalog: Catalog) -> Point | None:
    """The 3rd to the 10th of June."""
    month, year = _number(m["month"]), _year_of(m.get("year"), catalog)
    said = (_ordinal(m[name] or "1") for name in ("first", "last"))
    first, last = (_dated("day", month, day, year, catalog) for day in said)
    return Point(first.start, last.end, None, "day") if first and last and first.start < last.end else None


def _number(month: str | None) -> int:
    return next(i for i, name in enumerate(MONTHS, 1) if name.startswith((month or "jan")[:3]))


def _month(m: Groups, text: str, catalog: Catalog) -> Point | None:
    said, month = m.get("said"), _number(m["month"])
    point = _dated("month", month, 1, _year_of(m.get("year"), catalog), catalog)
    if said and said != "this" and point and point.end > catalog.today:  # last June, said in June
        return _dated("month", month, 1, catalog.today.year - 1, catalog)
    return replace(point, bare="") if said and point else point


def _quarter(m: Groups, text: str, catalog: Catalog) -> Point | None:
    said = m["q"] or ""
    n = int(said[1:] or said) if said[:1] in "q1234" and said.strip("q").isdigit() else _nth(said)
    n = 4 if n < 0 else n
    return _dated("quarter", 3 * n - 2, 1, _year_of(m.get("year"), catalog), catalog)


def _nth(text: str) -> int:
    """1 for `first`, `1 st`, `opening`; -1 for `last`."""
    ranks = {"fi": 1, "op": 1, "1": 1, "on": 1, "se": 2, "2": 2, "tw": 2, "th": 3, "3": 3, "fo": 4, "4": 4}
    return -1 if text.startswith("final") else ranks.get(text[:1], ranks.get(text[:2], -1))


def _half(m: Groups, text: str, catalog: Catalog) -> Point:
    first = (m["half"] or "")[:2] in ("h1", "fi", "1 ", "1s")
    begun = catalog.today.month > 6 or first
    year = _year_of(m.get("year"), catalog) or catalog.today.year - (0 if begun else 1)
    return stretch(date(year, 1 if first else 7, 1), date(year, 6 if first else 12, 1), "month")


def _part(m: Groups, text: str, catalog: Catalog) -> Point | None:
    """The first two months of 2025, the last quarter of 2024, the last week of March."""
    inside = _outer(m["outer"] or "", catalog)
    if inside is None:
        return None
    n, unit, nth = count(m["n"] or "one"), m["unit"] or "month", _nth(m["nth"] or "")
    first = nth == 1
    if nth > 1 and n == 1 and unit in ("week", "month"):
        begin = inside.start + (nth - 1) * 7 * DAY if unit == "week" else ahead(inside.start, unit, nth - 1)
        return Point(begin, begin + 7 * DAY, None, unit) if unit == "week" else whole(unit, begin)
    if nth > 1:
        return None
    if unit in ("day", "week"):
        length = n * (7 if unit == "week" else 1) * DAY
        start = inside.start if first else inside.end - length
        return whole("day", start) if length == DAY else Point(start, start + length, None, unit)
    last = ahead(inside.start, unit, n - 1) if first else start_of(inside.end - DAY, unit)
    begin = inside.start if first else back(last, unit, n - 1)
    return stretch(begin, last, unit) if n > 1 else whole(unit, begin)


def _outer(text: str, catalog: Catalog) -> Point | None:
    """The year, quarter or month that `text` names, whole."""
    found = point_at(text, 0, catalog)
    if found is None or found[1] != len(text) or found[0].unit not in ("year", "quarter", "month"):
        return None
    return whole(found[0].unit, start_of(found[0].start, found[0].unit))


def _last_n(m: Groups, text: str, catalog: Catalog) -> Point:
    n, unit = count(m.get("n") or "one"), m["unit"] or "day"
    if unit in ROUND:
        times, unit = ROUND[unit]
        n *= times
    if unit == "day":
        begin, end = catalog.today + DAY - min(n, 9999) * DAY, catalog.today + DAY
        return Point(begin, end, f"last_{n}_days", unit, calendar=False, counted=True)
    end = start_of(catalog.today, unit, catalog.first_weekday)
    begin = back(end, unit, n, catalog.first_weekday)
    if unit in ("week", "month"):
        return Point(begin, end, f"last_{n}_{unit}s", unit, calendar=False, counted=True)
    return stretch(begin, end - DAY, unit)


def _last(m: Groups, text: str, catalog: Catalog) -> Point:
    unit = m["unit"] or "day"
    if unit == "day":
        return whole("day", catalog.today - DAY)
    end = start_of(catalog.today, unit, catalog.first_weekday)
    return Point(back(end, unit, 1, catalog.first_weekday), end, f"last_{unit}", unit, calendar=False)


def _this(m: Groups, text: str, catalog: Catalog) -> Point:
    unit = m["unit"] or SHORT[m.get("short") or "today"]
    begin = start_of(catalog.today, unit, catalog.first_weekday)
    if unit == "day":
        return whole("day", begin)
    wire = f"this_{unit}" if unit in ("month", "quarter", "year") else None
    return Point(begin, catalog.today + DAY, wire, unit, calendar=False)


def _ago(m: Groups, text: str, catalog: Catalog) -> Point:
    """Two months ago; the month before last; the day before yesterday."""
    n = count(m["n"] or "one") if "n" in m else 2
    unit = m["unit"] or "day"
    begin = back(catalog.today, unit, n, catalog.first_weekday)
    return Point(begin, begin + 7 * DAY, None, unit) if unit == "week" else whole(unit, begin)


def _ending(m: Groups, text: str, catalog: Catalog) -> Point | None:
    """The year to 31 March 2025; the three months ending May 2024."""
    found = point_at(m["outer"] or "", 0, catalog)
    if found is None or found[1] != len(m["outer"] or ""):
        return None
    n, unit, end = count(m["n"] or "one"), m["unit"] or "day", found[0].end
    if unit in ("day", "week"):
        return Point(end - n * (7 if unit == "week" else 1) * DAY, end, None, unit)
    months = n * {"month": 1, "quarter": 3, "year": 12}[unit]
    first = back(end, "month", months)
    begin = first if end.day == 1 else first.replace(day=min(end.day, 28))
    return Point(begin, end, None, unit)


def _week_of(m: Groups, text: str, catalog: Catalog) -> Point | None:
    """The week of June 2."""
    found = point_at(m["outer"] or "", 0, catalog)
    if found is None:
        return None
    begin = start_of(found[0].start, "week", catalog.first_weekday)
    return Point(begin, begin + 7 * DAY, None, "week")


def _weekday(m: Groups, text: str, catalog: Catalog) -> Point:
    """Since Monday, last Friday: the latest day of that name before today."""
    names = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
    back_by = (catalog.today.weekday() - names.index(m["name"] or "monday")) % 7 or 7
    return whole("day", catalog.today - back_by * DAY)


def _yesterday(m: Groups, text: str, catalog: Catalog) -> Point:
    return whole("day", catalog.today - DAY)


def _all(m: Groups, text: str, catalog: Catalog) -> Point:
    return Point(catalog.first_day, catalog.today + DAY, "all", calendar=False)


def _year(m: Groups, text: str, catalog: Catalog) -> Point | None:
    year = _year_of(m["year"], catalog)
    digits = re.search(r"\d{4}", text)
    return whole("year", date(year, 1, 1)) if year and (digits or "before" in text) else None


MAKERS: dict[str, Callable[[Groups, str, Catalog], Point | None]] = {
    "iso": _iso,
    "slashed": _slashed,
    "day": _day,
    "days": _days,
    "month": _month,
    "quarter": _quarter,
    "half": _half,
    "part": _part,
    "last_n": _last_n,
    "last": _last,
    "this": _this,
    "ago": _ago,
    "ending": _ending,
    "weekday": _weekday,
    "week_of": _week_of,
    "yesterday": _yesterday,
    "all": _all,
    "year": _year,
}


@lru_cache(maxsize=1)
def words_of_time() -> dict[str, Any]:
    """The file of forms, with every place for a piece filled in and every pattern compiled."""
    raw = tomllib.loads(FORMS.read_text("utf-8"))

    def filled(pattern: str) -> str:
        return re.sub(r"(?<!\?P)<(\w+)>", lambda m: filled(raw["pieces"][m[1]]), pattern)

    return {
        "forms": [(re.compile(filled(form["pattern"])), MAKERS[form["make"]]) for form in raw["form"]],
        "openers": {name: re.compile(filled(text)) for name, text in raw["openers"].items()},
        "joints": {name: re.compile(filled(text)) for name, text in raw["joints"].items()},
    }


def point_at(text: str, at: int, catalog: Catalog) -> tuple[Point, int] | None:
    """The longest point that begins at character `at` of `text`, and where it ends."""
    best: tuple[Point, int] | None = None
    for form, make in words_of_time()["forms"]:
        match = form.match(text, at)
        if match is None or match.end() == at or text[match.end() : match.end() + 1].isalnum():
            continue
        if best is None or match.end() > best[1]:
            point = make(match.groupdict(), match[0], catalog)
            best = (point, match.end()) if point is not None else best
    return best
