"""Direct labels: each line named at its end, and the article named where nothing else is drawn.

Where the article's label goes is decided when a figure is saved: its limits and all it draws are known then.
"""

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection, PathCollection
from matplotlib.colors import to_hex, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.text import Annotation
from numpy.typing import NDArray

from nlqlib.plots_apart import part

ARTICLE_ID = "article-label"
ARTICLE_LINE = "_article"
ARTICLE_WORD = "article"
CLEAR_PT = 5.0  # farther from what is drawn than this is as good as any distance
AROUND_PT = (
    (0, 12),
    (0, -12),
    (20, -12),
    (-20, 12),
    (20, 12),
    (-20, -12),
    (27, 0),
    (-27, 0),
    (0, 20),
    (0, -20),
)
SAMPLES = 24  # points looked at between two corners of a line

TEXT_CONTRAST = 4.5  # what WCAG asks of text, here on white

Points = NDArray[np.float64]


def ink(colour: Any) -> str:
    """`colour`, darkened as far as text in it needs to be read on white."""
    rgb = np.array(to_rgb(colour))
    while 1.05 / (luminance(rgb) + 0.05) < TEXT_CONTRAST:
        rgb = rgb * 0.97
    return to_hex((float(rgb[0]), float(rgb[1]), float(rgb[2])))


def luminance(rgb: Points) -> float:
    """Relative luminance of an sRGB colour of three numbers in 0..1, as WCAG 2 defines it."""
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    return float(linear @ np.array([0.2126, 0.7152, 0.0722]))


def _drawn(line: Line2D) -> list[tuple[float, float]]:
    """The finite points of `line`, in order."""
    xy = np.asarray(line.get_xydata(), dtype=float)
    return [(float(x), float(y)) for x, y in xy if np.isfinite(x) and np.isfinite(y)]


def label_lines(ax: Axes, *, gap_pt: float = 12.0) -> None:
    """Name each labelled line at its right end, in its colour, at least `gap_pt` points apart.

    Call it last: it reads the limits. Replaces a legend; labels that begin with `_` are left out.
    """
    fig = ax.get_figure()
    lines = [ln for ln in ax.get_lines() if not str(ln.get_label()).startswith("_")]
    ends = [(ln, points[-1]) for ln in lines if len(points := _drawn(ln))]
    if not ends or fig is None:
        return
    pt_per_px = 72.0 / fig.dpi
    wanted = [(ax.transData.transform(end)[1] * pt_per_px, ln, end) for ln, end in ends]
    floor_pt = float("-inf")
    for at_pt, ln, end in sorted(wanted, key=lambda w: w[0]):
        placed = max(at_pt, floor_pt)
        floor_pt = placed + gap_pt
        ax.annotate(
            str(ln.get_label()), end, (8, placed - at_pt), textcoords="offset points",
            va="center", color=ink(ln.get_color()), fontsize=10, annotation_clip=False,
        )  # fmt: skip


def settle(fig: Figure) -> None:
    """Move labels of `fig` apart, and the article's to the clearest place beside one of its points."""
    if not any(ax.texts for ax in fig.axes):
        return
    fig.draw_without_rendering()  # the layout is known only now
    labels = [(ax, text) for ax in fig.axes for text in ax.texts if _is_the_articles(text)]
    for _, text in labels:
        text.set_visible(False)  # it goes last, where the others have left room
    part(fig)
    for ax, text in labels:
        text.set_visible(True)
        if isinstance(text, Annotation):
            _settle(ax, text, 72.0 / fig.dpi)


def _is_the_articles(text: Any) -> bool:
    return bool(text.get_gid() == ARTICLE_ID or text.get_text() == ARTICLE_WORD)


def _settle(ax: Axes, text: Annotation, pt_per_px: float) -> None:
    width, height = np.array(text.get_window_extent().size) * pt_per_px
    taken, frame = np.vstack([*_taken(ax, text, pt_per_px)]), ax.bbox
    best, clearest, half = None, -1.0, np.array([width, height]) / 2
    for data in _article(ax):
        at = np.array(ax.transData.transform(data)) * pt_per_px
        for offset in AROUND_PT:
            centre = at + np.array(offset)
            corners = (centre + half * sign for sign in (-1, 1))
            inside = all(frame.contains(*(corner / pt_per_px)) for corner in corners)
            room = min(_distance(taken, centre, width, height), CLEAR_PT) if inside else -1.0
            if room > clearest:
                best, clearest = (data, offset), room
    if best is not None:
        text.xy, text.xyann = best[0], best[1]
        text.set(ha="center", va="center")


def _article(ax: Axes) -> Iterator[tuple[float, float]]:
    for line in ax.get_lines():
        if line.get_label() == ARTICLE_LINE:
            yield from ((float(x), float(y)) for x, y in np.asarray(line.get_xydata(), dtype=float))


def _distance(taken: Points, centre: Points, width: float, height: float) -> float:
    """The least distance in points from a box of that size around `centre` to what is drawn."""
    outside = np.maximum(np.abs(taken - centre) - np.array([width, height]) / 2, 0.0)
    return float(np.min(np.hypot(*outside.T)))


def _taken(ax: Axes, but: Annotation, pt_per_px: float) -> Iterator[Points]:
    """Points of the page, in typographic points, on which something is drawn."""
    yield np.full((1, 2), -1e6)  # so that an empty panel has one, far away
    for line in ax.get_lines():
        corners = np.asarray(line.get_xydata(), dtype=float)
        corners = corners[np.isfinite(corners).all(axis=1)]
        if len(corners):
            yield _between(line.get_transform().transform(corners)) * pt_per_px
    for drawn in ax.collections:
        yield from (points * pt_per_px for points in _of_collection(ax, drawn))
    for text in ax.texts:
        if text is not but and text.get_text():
            box: Any = text.get_window_extent()
            yield _between(box.corners()[[0, 1, 3, 2]]) * pt_per_px


def _of_collection(ax: Axes, drawn: Any) -> Iterator[Points]:
    """Pixels of dots and of strokes such as intervals; areas are no ink that hides a label."""
    if isinstance(drawn, PathCollection) and np.size(drawn.get_offsets()):
        yield ax.transData.transform(np.asarray(drawn.get_offsets(), dtype=float))
    elif isinstance(drawn, LineCollection):
        for stroke in drawn.get_segments():
            if len(stroke) > 1 and np.isfinite(stroke).all():
                yield _between(drawn.get_transform().transform(stroke))


def _between(corners: Points) -> Points:
    steps = np.linspace(0.0, 1.0, SAMPLES)[:, None]
    parts = [a + (b - a) * steps for a, b in pairwise(corners)]
    return np.vstack(parts) if parts else corners
