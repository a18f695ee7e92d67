"""Rules for time: the period, the unit a question splits by, trends, and units that are compared."""

import re
from dataclasses import replace

from nlqlib.nlq.cue_board import Board, Match
from nlqlib.nlq.cue_periods import Period
from nlqlib.nlq.cue_tags import Item
from nlqlib.nlq.cue_text import MONTHS

DATED = re.compile(rf"\d{{4}}$|q[1-4]$|h[12]$|(?:{'|'.join(MONTHS)})$")
"""What the two years 2023 and 2024 are called by."""


def time(board: Board) -> None:
    """All rules of this module, in order."""
    compared_periods(board)
    period(board)
    grains(board)


def compared_periods(board: Board) -> None:
    """`2023 versus 2024`, `each of the last six months`: the periods together, split by their unit."""
    board.replace(r"(?<![\^R])f?NU(?=P)", lambda m: [] if DATED.match(m.items[-1].following) else None)
    listed = any(item.code == "V" and len(item.value.names) > 1 for item in board.items)
    set_apart = not listed and board.has("[ycm]")
    parts = max((item.value.parts for item in board.items if item.code == "P"), default=1)
    if parts > 1 and board.has("W[TU].*m"):  # which year had more, 2023 or 2024
        board.replace("m", lambda m: [replace(item, code="^") for item in m.items])
        return

    def split(m: Match) -> list[Item] | None:
        item = m["p"][0]
        told: Period = item.value
        several = told.parts > 1 and (told.versus or set_apart)
        if not told.unit or not (several or (m["each"] and (told.parts > 1 or told.counted))):
            return None
        board.note("grain", told.unit, "periods side by side", m.items)
        return [replace(item, value=replace(told, versus=False, counted=False, parts=1))]

    board.replace(r"(?P<each>(?:[jb]f?)?)(?P<p>P)", split)


def period(board: Board) -> None:
    """The one stretch of time meant: of several, the narrowest that lies in the others."""
    for item in board.items:
        if item.code == "P":
            board.note("period", item.value, "period", [item])
    board.items = [item for item in board.items if item.code != "P"]


def grains(board: Board) -> None:
    """`monthly`, `per week`, `each quarter`, `by day`, `over time`, `trend`."""

    def noted(m: Match) -> list[Item]:
        board.note("grain", m.items[-1].value, "split by time", m.items)
        return []

    board.replace(r"(?:[fbj]*)G", noted)
    board.replace(r"[bjc][fjR]?[TU]", noted)

    def beside(m: Match) -> list[Item]:
        board.note("grain", m.items[-1].value, "split by time", m.items[-1:])
        return m["split"]

    board.replace(r"(?P<split>[bj][DE])\+[TU]", beside)  # per region and month
    if not board.has("R"):
        board.replace(r"f?a[TU]", noted)

    def trend(m: Match) -> list[Item]:
        unit = next((item.value for item in m.items if item.code == "t" and item.value != "trend"), None)
        board.note("trend", unit, "trend", m.items)
        return []

    board.replace(r"f?t+", trend)
