"""Where the points of a figure lie on its picture, and what each says: for reading by pointer or key.

Pure: reads a `Figure` whose layout is computed. The page's script shows these; without it the table below the
figure has the same numbers.
"""

import html
import json
import re
from collections.abc import Iterator

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from nlqlib import plots_data

MAX_POINTS = 300  # more cannot be told apart by a pointer, and the table below is summarised as well
_UNIT = re.compile(r"^(.*) \(([^()]+)\)$")

Point = tuple[float, float, str]
"""Per cent from the left and from the top of the picture; what the point says."""


def points(fig: Figure) -> list[Point]:
    """Every drawn point of `fig`, panel by panel; none where there are more than `MAX_POINTS`."""
    found = [point for ax in fig.axes if not ax.images for point in _of_panel(fig, ax)]
    return found if len(found) <= MAX_POINTS else []


def element(fig: Figure) -> str:
    """The points as an invisible HTML element that a script can read; `""` where there are none."""
    found = points(fig)
    if not found:
        return ""
    told = html.escape(json.dumps(found, ensure_ascii=False), quote=True)
    return f'<div class="figure-points" hidden data-points="{told}"></div>'


def _of_panel(fig: Figure, ax: Axes) -> Iterator[Point]:
    width, height = fig.bbox.size
    for told in plots_data.marked(ax):
        across, up = ax.transData.transform((told.x, told.y))
        left, top = 100 * across / width, 100 * (1 - up / height)
        if 0 <= left <= 100 and 0 <= top <= 100:
            yield round(float(left), 2), round(float(top), 2), _says(told)


def _says(told: plots_data.Mark) -> str:
    """`steady: concurrency 24 requests in flight, throughput 5.53 req/s (5.5 to 5.56)`."""
    if told.text:
        return told.text
    shown = ", ".join(_with_unit(name, value) for name, value in told.cells)
    interval = f" ({told.interval})" if told.interval else ""
    return f"{told.series}: {shown}{interval}" if told.series else f"{shown}{interval}"


def _with_unit(name: str, value: str) -> str:
    """`throughput 5.53 req/s` of the axis `throughput (req/s)`."""
    name = " ".join(name.split())
    found = _UNIT.match(name)
    return f"{found[1]} {value} {found[2]}" if found else f"{name} {value}"
