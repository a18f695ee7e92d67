"""The period of a question: points, lists and ranges of them, with the words around (`since`, `until`).

Works on folded words joined by single spaces and says which characters it has used.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date
from itertools import pairwise

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.cue_dates import point_at, words_of_time
from nlqlib.nlq.cue_lexicon import lexicon
from nlqlib.nlq.cue_points import Point, with_year
from nlqlib.nlq.periods import DAY


def _joint(name: str) -> re.Pattern[str]:
    """The pattern called `name` of what stands between, before and behind points."""
    found: re.Pattern[str] = words_of_time()["joints"][name]
    return found


@dataclass(frozen=True)
class Period:
    """What the question says about time: the wire form (`None`: no one range is meant), and its pieces."""

    wire: str | None
    start: date
    end: date
    unit: str
    """The time unit that the pieces are of, or that the period counts."""
    parts: int = 1
    versus: bool = False
    counted: bool = False
    begin: int = 0
    """First character used, in the joined words."""
    stop: int = 0


def periods(text: str, catalog: Catalog) -> tuple[Period, ...]:
    """All periods in `text`, folded words joined by single spaces, in order."""
    found: list[Period] = []
    at = 0
    while at < len(text):
        period = _modal(text, at) or period_at(text, at, catalog)
        if isinstance(period, Period):
            found.append(period)
        at = period.stop if isinstance(period, Period) else (period or text.find(" ", at) + 1 or len(text))
    return tuple(found)


def periods_among(words: Sequence[str], catalog: Catalog) -> list[tuple[Period, int, int]]:
    """The periods in folded `words`, each with its first word and the one behind its last."""
    starts: dict[int, int] = {}
    place = 0
    for index, word in enumerate(words):
        starts[place] = index
        place += len(word) + 1
    found = periods(" ".join(words), catalog)
    return [(p, starts[p.begin], starts.get(p.stop + 1, len(words))) for p in found]


def _modal(text: str, at: int) -> int | None:
    """Where to go on after a `may` that is no month."""
    match = _joint("modal").match(text, at)
    return match.end() + 1 if match else None


def period_at(text: str, at: int, catalog: Catalog) -> Period | None:
    """The period that begins at character `at`."""
    for name, pattern in words_of_time()["openers"].items():
        opened = pattern.match(text, at)
        if opened:
            period = _opened(name, text, opened.end(), catalog)
            if period:
                return replace(period, begin=at)
    plain = _joint("in").match(text, at)
    start = plain.end() if plain else at
    period = _listed(text, start, catalog) or _listed(text, at, catalog)
    return replace(period, begin=at) if period else None


def _opened(name: str, text: str, at: int, catalog: Catalog) -> Period | None:
    first = _first(text, at, catalog)
    if first is None:
        return None
    point, stop, edge = first
    closed = _closing(name, point, stop, text, catalog)
    if closed:
        return closed
    if name == "from" and edge != "start":
        now = _now(text, stop, catalog)
        return _since(point, now.end(), catalog) if now else None
    if name in ("since", "from"):
        now = _now(text, stop, catalog)
        point = replace(point, start=point.end, wire=None) if edge == "end" else point
        return _since(point, now.end() if now else stop, catalog)
    if name == "after":
        return _made(Point(point.end, catalog.today + DAY, None, point.unit), stop, catalog)
    if name in ("before", "until"):
        end = point.start if name == "before" else point.end
        return _made(Point(catalog.first_day, end, None, point.unit), stop, catalog)
    return None


def _now(text: str, at: int, catalog: Catalog) -> re.Match[str] | None:
    """`until today`, `from March on`; not the `on` of a value with its dimension, `on web channel`."""
    found = _joint("now").match(text, at)
    said = tuple(text[found.end() :].split()[:2]) if found and found[0] == " on" else ()
    known = lexicon(catalog)
    place = any(e.code == "V" for e in known.at(said[:1])) and any(e.code in "DE" for e in known.at(said[1:]))
    return None if place else found


def _first(text: str, at: int, catalog: Catalog) -> tuple[Point, int, str] | None:
    """The first point after an opener, where it ends, and which edge of it is meant."""
    edge = _joint("edge").match(text, at)
    after = edge.end() if edge else at
    said = (edge["edge"] or "") if edge else ""
    said = "start" if said == "beginning" else said
    found = point_at(text, after, catalog) or point_at(text, at, catalog)
    if found:
        return found[0], found[1], said
    naked = _joint("naked").match(text, after) if said else None
    if naked:
        this = point_at(f"this {naked['unit']}", 0, catalog)
        return (this[0], naked.end(), said) if this else None
    return None


def _closing(name: str, point: Point, stop: int, text: str, catalog: Catalog) -> Period | None:
    """The range that `point` opens, where a second point closes it."""
    to = _joint("to").match(text, stop) or (_joint("and").match(text, stop) if name == "between" else None)
    if to is None or name in ("before", "until", "after"):
        return None
    second = point_at(text, to.end(), catalog)
    return _ranged(point, second[0], second[1], catalog) if second else None


def _since(point: Point, stop: int, catalog: Catalog) -> Period:
    first = point.edge() or f"{point.start}"
    return Period(f"{first}..{catalog.today}", point.start, catalog.today + DAY, point.unit, stop=stop)


def _ranged(first: Point, last: Point, stop: int, catalog: Catalog) -> Period:
    first, last = _in_one_year(first, last, catalog)
    begin, end = first.edge(), last.edge()
    whole = begin and end
    wire = f"{begin if whole else first.start}..{end if whole else last.end - DAY}"
    return Period(wire if first.start < last.end else None, first.start, last.end, last.unit, stop=stop)


def _in_one_year(first: Point, last: Point, catalog: Catalog) -> tuple[Point, Point]:
    """Bare points take the year of their neighbour: March to May 2024, November 2024 to February."""
    if first.bare and not last.bare:
        first = with_year(first, last.start.year)
        return (
            (with_year(replace(first, bare=first.unit), last.start.year - 1), last)
            if first.start > last.start
            else (first, last)
        )
    if last.bare and not first.bare:
        last = with_year(last, first.start.year)
        return first, with_year(
            replace(last, bare=last.unit), first.start.year + 1
        ) if last.start < first.start else last
    if first.bare and first.start > last.start:
        first = with_year(
            first, last.start.year - 1 if first.start.month > last.start.month else last.start.year
        )
    if first.bare and last.start.year > first.start.year and first.start.month <= last.start.month:
        first = with_year(replace(first, bare=first.unit), last.start.year)
    return first, last


def _listed(text: str, at: int, catalog: Catalog) -> Period | None:
    """One point, a range of two, or several points side by side."""
    found = point_at(text, at, catalog)
    if found is None or _is_quantity(text, at, found):
        return None
    points, stop, versus = [found[0]], found[1], False
    compared = re.search(r"compar(?:e|ing) (?:the )?$", text[:at]) is not None
    while len(points) < 12:
        to = _joint("to").match(text, stop)
        second = point_at(text, to.end(), catalog) if to else None
        if second and len(points) == 1 and not compared:
            return _ranged(points[0], second[0], second[1], catalog)
        more = (
            _joint("versus").match(text, stop)
            or _joint("and").match(text, stop)
            or (to if compared else None)
        )
        second = point_at(text, more.end(), catalog) if more else None
        if second is None or more is None or not _side_by_side(points[-1], second[0]):
            break
        if _is_quantity(text, more.end(), second):
            break
        versus = versus or compared or _joint("versus").match(text, stop) is not None
        points, stop = [*points, second[0]], second[1]
    return _made(points[0], stop, catalog) if len(points) == 1 else _several(points, stop, versus, catalog)


def _is_quantity(text: str, at: int, found: tuple[Point, int]) -> bool:
    """Is the year that was read a number of something?"""
    word = text[at : found[1]]
    if not re.fullmatch(r"\d{4}", word):
        return False
    return bool(_joint("quantity").search(text[max(0, at - 12) : at])) or not 2015 <= int(word) <= 2035


def _side_by_side(one: Point, other: Point) -> bool:
    """Can they stand in one list? Units of one kind, none of them counted."""
    return one.unit == other.unit and other.wire != "all" and not (one.counted or other.counted)


def _several(points: Sequence[Point], stop: int, versus: bool, catalog: Catalog) -> Period:
    dated = list(points)
    for i in range(len(dated) - 2, -1, -1):
        dated[i], _ = _in_one_year(dated[i], dated[i + 1], catalog)
    for i in range(1, len(dated)):
        _, dated[i] = _in_one_year(dated[i - 1], dated[i], catalog)
    ordered = sorted(dated, key=lambda p: p.start)
    joined = all(a.end == b.start for a, b in pairwise(ordered))
    hull = _ranged(replace(ordered[0], bare=""), replace(ordered[-1], bare=""), stop, catalog)
    return replace(hull, wire=hull.wire if joined else None, parts=len(points), versus=versus)


def _made(point: Point, stop: int, catalog: Catalog) -> Period | None:
    """A single point; what ends before it begins is none."""
    if point.start >= point.end:
        return None
    wire = point.wire or f"{point.start}..{point.end - DAY}"
    return Period(wire, point.start, point.end, point.unit, counted=point.counted, stop=stop)
