"""Times that no answer can be about: days that no calendar has, and a time to come."""

import re
from collections.abc import Sequence
from datetime import date
from itertools import pairwise

from nlqlib.nlq.cue_tags import Item
from nlqlib.nlq.cue_text import MONTHS, Token

FORECAST = re.compile(r"(?:forecast|predict|project)(?:s|ed|ing|ion|ions)?")
AHEAD = frozenset({"next", "upcoming", "coming", "following"})
COMING = re.compile(
    r"\b(?:what|how (?:much|many)(?: \w+){0,3}?|which(?: \w+){1,3}?) (?:will|would|(?:is|are) going to)\b"
    r"(?! (?:you|it take)\b)"
)
"""A question for what has not happened yet."""
_NAMES = "|".join([*MONTHS, "jan", "feb", "mar", "apr", "jun", "jul", "aug", "sept?", "oct", "nov", "dec"])
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_DATES = (
    re.compile(r"(?<![\w-])(?P<year>\d{4})-(?P<number>\d\d)(?:-(?P<day>\d\d))?(?![\w-]|\.\d)"),
    re.compile(
        rf"\b(?P<name>{_NAMES})\.?\s+(?:the\s+)?{_DAY}(?:,?\s+(?P<year>\d{{4}}))?(?![\w%.,]*\d)", re.I
    ),
    re.compile(rf"(?<![\w.,-]){_DAY}\s+(?:of\s+)?(?P<name>{_NAMES})\b(?:,?\s+(?P<year>\d{{4}}))?", re.I),
)
_SLASHED = re.compile(r"(?<![\w/])(?P<a>\d{1,2})/(?P<b>\d{1,2})/(?P<year>\d{4})(?![\w/])")
_QUARTER = re.compile(r"(?<!\w)q(?P<n>[05-9])(?!\w)", re.I)
UNITS = ("day", "week", "month", "quarter", "year")
LEAP = 2024
"""The year of a day without one: a 29th of February may be meant."""


def impossible(question: str) -> tuple[str, tuple[int, int]] | None:
    """A day, month or quarter in `question` that no calendar has (`2024-02-30`), and where it stands."""
    for pattern in _DATES:
        for m in pattern.finditer(question):
            if not _possible(_year(m), _month(m), int(m["day"] or 1)):
                return " ".join(m[0].split()), m.span()
    for m in _SLASHED.finditer(question):
        if not any(_possible(_year(m), int(m[x]), int(m[y])) for x, y in ("ab", "ba")):
            return m[0], m.span()
    quarter = _QUARTER.search(question)
    return (quarter[0], quarter.span()) if quarter else None


def _year(m: re.Match[str]) -> int:
    return int(m["year"] or LEAP)


def _month(m: re.Match[str]) -> int:
    if "number" in m.re.groupindex:
        return int(m["number"])
    return next(n for n, month in enumerate(MONTHS, 1) if month.startswith(m["name"].lower()[:3]))


def _possible(year: int, month: int, day: int) -> bool:
    try:
        return date(year, month, day) > date.min
    except ValueError:
        return False


def to_come(items: Sequence[Item], words: Sequence[Token]) -> tuple[str, int, int] | None:
    """Words for a time to come, with the first and the one behind the last: a forecast, `next quarter`.

    Only where it is asked about: `for next week's meeting` is not, nor `by tomorrow`.
    """
    for item in items:
        if item.code == "?" and FORECAST.fullmatch(item.words):
            return item.words, item.start, item.end
    coming = COMING.search(" ".join(word.text for word in words)) is not None
    for before, item in pairwise(items):
        start = item.start - 1
        counted = item.code == "N" and words[start].text in AHEAD and item.end < len(words)
        if counted and _asked_for(before, items, start) and words[item.end].text.rstrip("s") in UNITS:
            return f"{words[start].text} {item.words} {words[item.end].text}", start, item.end + 1
        if item.code not in "TU" or words[start].text not in AHEAD or words[item.end - 1].base:
            continue
        if coming or _asked_for(before, items, start):
            return f"{words[start].text} {words[item.start].text}", start, item.end
    return _tomorrow(items, words)


def _tomorrow(items: Sequence[Item], words: Sequence[Token]) -> tuple[str, int, int] | None:
    """`orders tomorrow`: right behind a name, and no word for a meeting behind it."""
    for item in items:
        at = item.end
        if item.code in "MDEXV" and at < len(words) and words[at].text == "tomorrow" and not words[at].apart:
            return "tomorrow", at, at + 1
    return None


def _asked_for(before: Item, items: Sequence[Item], start: int) -> bool:
    """Does a name of the catalog stand right before word `start`, at most with a preposition between?"""
    if before.end not in (start, start - 1):
        return False
    if before.code == "f":
        return any(item.end == before.start and item.code in "MDEXV" for item in items)
    return before.end == start and before.code in "MDEXV"
