"""Labels that lie on one another are moved apart, each as little as possible, when a figure is saved."""

from collections.abc import Iterator, Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.text import Annotation, Text
from matplotlib.transforms import Bbox, ScaledTranslation

STEP_PT = 3.0
REACH_PT = 60.0
"""How far a label may be moved at most: farther away it would name something else."""
TOUCH_PX = 0.5
"""Boxes that share less than this only touch."""
GAP_PT = 0.5
"""What a label that was moved keeps from the others."""
ROUNDS = 3


def part(fig: Figure) -> None:
    """Move texts inside the panels of `fig` apart; its layout must have been computed.

    A label of a horizontal line (its place along the line is free) moves along it, any other up or down.
    What stands first stays; a text that nothing within `REACH_PT` frees stays too.
    """
    for _ in range(ROUNDS):
        _part(fig)
        fig.draw_without_rendering()  # moved labels change the layout, which moves the labels
        if not overlapping(fig):
            return


def _part(fig: Figure) -> None:
    placed = [title.get_window_extent() for ax in fig.axes for title in _titles(ax)]
    for ax in fig.axes:
        for text in [t for t in ax.texts if t.get_text().strip() and t.get_visible()]:
            placed.append(_settled(ax, text, placed, fig))


def overlapping(fig: Figure) -> list[tuple[str, str]]:
    """Pairs of texts in the panels of `fig` whose boxes overlap, titles among them."""
    texts = [t for ax in fig.axes for t in (*_titles(ax), *ax.texts) if t.get_text().strip()]
    boxes = [(t.get_text(), _tight(t)) for t in texts]
    return [
        (one, other)
        for at, (one, box) in enumerate(boxes)
        for other, beside in boxes[at + 1 :]
        if _overlap(box, beside)
    ]


def _titles(ax: Axes) -> list[Text]:
    """The titles of a panel that say something."""
    every: list[Text] = [ax.title, getattr(ax, "_left_title", ax.title)]
    return [t for t in dict.fromkeys(every) if t.get_text().strip()]


def _settled(ax: Axes, text: Text, placed: Sequence[Bbox], fig: Figure) -> Bbox:
    """`text` moved to the nearest free place, and the box it has there."""
    box, px = _tight(text), fig.dpi / 72.0
    for dx, dy in _offsets(text.get_transform() == ax.get_yaxis_transform()):
        moved = box.translated(dx * px, dy * px)
        stays = (dx, dy) == (0.0, 0.0)
        apart = moved if stays else moved.padded(GAP_PT * px + TOUCH_PX)
        if not any(_overlap(apart, other) for other in placed) and _inside(moved, fig):
            if not stays and not _move(text, dx, dy, fig):
                break
            return moved
    return box


def _offsets(along: bool) -> Iterator[tuple[float, float]]:
    yield 0.0, 0.0
    steps = [STEP_PT * i for i in range(1, int(REACH_PT / STEP_PT) + 1)]
    if along:
        yield from ((2 * step, 0.0) for step in steps)
    for step in steps:
        yield from ((0.0, step), (0.0, -step))


def _move(text: Text, dx: float, dy: float, fig: Figure) -> bool:
    """Shift `text` by points; `False` where its place is not one that can be shifted."""
    if not isinstance(text, Annotation):
        text.set_transform(text.get_transform() + ScaledTranslation(dx / 72, dy / 72, fig.dpi_scale_trans))
        return True
    if text.anncoords != "offset points":
        return False
    x, y = text.xyann
    text.xyann = (float(x) + dx, float(y) + dy)
    return True


def _tight(text: Text) -> Bbox:
    """The box of the words alone, without an arrow."""
    return Bbox(Text.get_window_extent(text).get_points())


def _overlap(one: Bbox, other: Bbox) -> bool:
    return bool(
        one.x0 < other.x1 - TOUCH_PX
        and other.x0 < one.x1 - TOUCH_PX
        and one.y0 < other.y1 - TOUCH_PX
        and other.y0 < one.y1 - TOUCH_PX
    )


def _inside(box: Bbox, fig: Figure) -> bool:
    return bool(box.y0 >= 0 and box.y1 <= fig.bbox.y1)
