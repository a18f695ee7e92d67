"""The numbers that a figure draws, read back from it: what stands in a table below it.

Pure: reads a matplotlib `Figure`, returns frames and HTML. Lines, bars, dots and cells of a matrix are read,
with the intervals drawn at them; shaded areas are not.
"""

import html
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.container import BarContainer
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator

from nlqlib.code_marks import coded

MAX_ROWS = 80  # of one panel; more are summarised
MAX_CURVE_POINTS = (
    24  # a line without markers and with more points is a curve: every so many of them are named
)
SUMMARY = "The numbers in this figure"
SERIES, LOW, HIGH = "series", "low", "high"
ARTICLE = {"_article": "article"}


@dataclass(frozen=True)
class Panel:
    """What one panel of a figure draws."""

    caption: str
    frame: pd.DataFrame


@dataclass(frozen=True)
class _Row:
    series: str
    x: float
    y: float
    text: str = ""


@dataclass(frozen=True)
class _Segment:
    """A straight stroke along one axis, from `low` to `high`, at `at` on the other."""

    along: str
    at: float
    low: float
    high: float

    def marks(self, row: _Row) -> bool:
        """Whether it is the interval of `row`."""
        value, place = (row.x, row.y) if self.along == "x" else (row.y, row.x)
        return bool(np.isclose(place, self.at) and self.low <= value <= self.high)


@dataclass(frozen=True)
class Mark:
    """One drawn point: where it lies in its panel, and what it says."""

    x: float
    y: float
    series: str
    cells: tuple[tuple[str, str], ...]
    """The names of both axes and the values there, as text."""
    interval: str = ""
    text: str = ""
    """All that is to be said of it, where the one who drew it knows better."""


TOLD = "told: "
"""A line whose gid begins so says the rest of it at each of its points."""


def marked(ax: Axes) -> list[Mark]:
    """The points that `ax` draws, in the order of drawing."""
    words = {"x": _words(ax.xaxis), "y": _words(ax.yaxis)}
    strokes = [s for s in _segments(ax) if not words[s.along]]
    names = (ax.get_xlabel(), ax.get_ylabel())
    rows = [*_of_lines(ax), *_of_dots(ax), *_of_bars(ax)]
    return [_mark(row, names, words, strokes) for row in rows]


def _mark(
    row: _Row, names: tuple[str, str], words: dict[str, dict[float, str]], strokes: list[_Segment]
) -> Mark:
    values = [_word(words["x"], row.x), _word(words["y"], row.y)]
    shown = [value if isinstance(value, str) else _told(value) for value in values]
    stroke = next((s for s in strokes if s.marks(row)), None)
    interval = f"{_told(stroke.low)} to {_told(stroke.high)}" if stroke else ""
    return Mark(row.x, row.y, row.series, tuple(zip(names, shown, strict=True)), interval, row.text)


def drawn(fig: Figure) -> list[Panel]:
    """A table for each panel of `fig` that draws numbers."""
    found = [(ax, _matrix(ax) if ax.images else _frame(ax)) for ax in fig.axes]
    return [Panel(_caption(ax), frame) for ax, frame in found if not frame.empty]


def below(fig: Figure, data: pd.DataFrame | None = None) -> str:
    """The folded table under `fig`: of `data`, else of what it draws; `""` where it draws no number."""
    return details(drawn(fig) if data is None else [Panel(_caption(fig.axes[0]), data)])


def details(tables: list[Panel]) -> str:
    """`tables` as folded HTML; `""` where there is none."""
    if not tables:
        return ""
    body = "\n".join(_table(panel) for panel in tables)
    return f'<details class="figure-data">\n<summary>{SUMMARY}</summary>\n{body}\n</details>'


def _table(panel: Panel) -> str:
    opening, rest = panel.frame.to_html(border=0, index=False, na_rep="—", float_format=_told).split("\n", 1)
    return coded(f"<div>{opening}\n<caption>{html.escape(panel.caption)}</caption>\n{rest}</div>")


def _told(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def _caption(ax: Axes) -> str:
    words = [" ".join(text.split()) for text in (ax.get_title("left") or ax.get_title(), ax.get_ylabel())]
    return ": ".join(word for word in words if word) or ax.get_xlabel()


def _frame(ax: Axes) -> pd.DataFrame:
    rows = [*_of_lines(ax), *_of_dots(ax), *_of_bars(ax)]
    words = {"x": _words(ax.xaxis), "y": _words(ax.yaxis)}
    strokes = [s for s in _segments(ax) if not words[s.along]]
    names = (ax.get_xlabel() or "x", ax.get_ylabel() or ("row" if words["y"] else "y"))
    table = pd.DataFrame([_cells(row, names, words, strokes) for row in rows])
    return _brief(_without_blanks(table), names)


def _cells(
    row: _Row, names: tuple[str, str], words: dict[str, dict[float, str]], strokes: list[_Segment]
) -> Any:
    marked = next((s for s in strokes if s.marks(row)), None)
    return {
        SERIES: row.series,
        names[0]: _word(words["x"], row.x),
        names[1]: _word(words["y"], row.y),
        LOW: marked.low if marked else None,
        HIGH: marked.high if marked else None,
    }


def _without_blanks(table: pd.DataFrame) -> pd.DataFrame:
    empty = [c for c in (SERIES, LOW, HIGH) if c in table and table[c].isin(["", None, np.nan]).all()]
    return table.drop(columns=empty)


def _brief(table: pd.DataFrame, names: tuple[str, str]) -> pd.DataFrame:
    """`table`, or count, least, median and greatest of its numbers by series and word, where it is long."""
    if len(table) <= MAX_ROWS:
        return table
    number = next((n for n in reversed(names) if pd.api.types.is_numeric_dtype(table[n])), None)
    keys = [c for c in table.columns if c in (SERIES, *names) and not pd.api.types.is_numeric_dtype(table[c])]
    if number is None or not keys:
        return table.head(MAX_ROWS)
    found = table.groupby(keys, sort=False)[number].agg(
        n="count", least="min", median="median", greatest="max"
    )
    return found.reset_index()


def _of_lines(ax: Axes) -> Iterator[_Row]:
    lines = [ln for ln in ax.get_lines() if ln.get_transform() == ax.transData]  # not axhline and the like
    for line in lines:
        label = str(line.get_label())
        name = ARTICLE.get(label, "" if label.startswith("_") else label)
        gid = str(line.get_gid() or "")
        text = gid.removeprefix(TOLD) if gid.startswith(TOLD) else ""
        for x, y in _points(line):
            yield _Row(name, x, y, text)


def _points(line: Line2D) -> list[tuple[float, float]]:
    xy = np.asarray(line.get_xydata(), dtype=float)
    found = [(float(x), float(y)) for x, y in xy if np.isfinite(x) and np.isfinite(y)]
    if line.get_marker() not in ("None", None, "", " ") or len(found) <= MAX_CURVE_POINTS:
        return found
    return [found[i] for i in np.linspace(0, len(found) - 1, MAX_CURVE_POINTS // 2).astype(int)]


def _of_dots(ax: Axes) -> Iterator[_Row]:
    for dots in ax.collections:
        if isinstance(dots, PathCollection):
            label = str(dots.get_label())
            for x, y in np.ma.filled(np.ma.asarray(dots.get_offsets(), dtype=float), np.nan):
                if np.isfinite(x) and np.isfinite(y):
                    yield _Row("" if label.startswith("_") else label, float(x), float(y))


def _of_bars(ax: Axes) -> Iterator[_Row]:
    for bars in ax.containers:
        if not isinstance(bars, BarContainer):
            continue
        label = str(bars.get_label())
        name = "" if label.startswith("_") else label
        for bar in bars.patches:
            across, along = bar.get_x() + bar.get_width() / 2, bar.get_y() + bar.get_height() / 2
            lying = bars.orientation == "horizontal"
            yield _Row(name, bar.get_width(), along) if lying else _Row(name, across, bar.get_height())


def _segments(ax: Axes) -> Iterator[_Segment]:
    for strokes in ax.collections:
        if isinstance(strokes, LineCollection) and strokes.get_transform() == ax.transData:
            for path in strokes.get_segments():
                if not len(path):  # an interval that is missing
                    continue
                (x0, y0), (x1, y1) = path[0], path[-1]
                if x0 == x1 and y0 != y1:
                    yield _Segment("y", x0, min(y0, y1), max(y0, y1))
                elif y0 == y1 and x0 != x1:
                    yield _Segment("x", y0, min(x0, x1), max(x0, x1))


def _words(axis: Axis) -> dict[float, str]:
    """Tick positions and their words, where the axis names things instead of counting them."""
    if not isinstance(axis.get_major_locator(), FixedLocator):
        return {}
    places = [float(at) for at in axis.get_majorticklocs()]
    told = axis.get_major_formatter().format_ticks(places)
    words = {at: " ".join(str(text).split()) for at, text in zip(places, told, strict=True)}
    return {} if all(_is_number(text) for text in words.values()) else words


def _is_number(text: str) -> bool:
    bare = text.replace("−", "-").rstrip("%").replace(",", "")
    return bare.lstrip("-").replace(".", "", 1).isdigit()


def _word(words: Mapping[float, str], value: float) -> float | str:
    return words[min(words, key=lambda at: abs(at - value))] if words else value


def _matrix(ax: Axes) -> pd.DataFrame:
    """The cells of a drawn matrix, a row per row of it."""
    values = np.ma.filled(np.ma.asarray(ax.images[0].get_array(), dtype=float), np.nan)
    if values.ndim != 2:
        return pd.DataFrame()
    across, down = _words(ax.xaxis), _words(ax.yaxis)
    columns = [str(_word(across, float(j))) for j in range(values.shape[1])]
    table = pd.DataFrame(values, columns=columns)
    table.insert(0, ax.get_ylabel() or "row", [str(_word(down, float(i))) for i in range(values.shape[0])])
    return table
