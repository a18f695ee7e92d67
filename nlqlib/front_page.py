"""The front page: the story of one target in ten figures, each with the sentence its notebook says of it.

Pure: executed notebooks in, MyST texts and pictures out. Only the order of the story is decided here; every
question, number and verdict is the notebooks' own.
"""

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from nlqlib.front_page_lift import LiftedFigure, as_myst, figure, shortened
from nlqlib.front_page_study import opening, summary
from nlqlib.front_page_targets import about_target, targets_of
from nlqlib.site_reader import boxed

FIGURES = 10
PICTURES = "_static/front"


@dataclass(frozen=True)
class Scene:
    """One step of the story: a figure of one notebook."""

    notebook: str
    """Its number."""
    made_by: str = ""
    """The function that draws the figure; empty: its first."""
    together: int = 1
    """So many of the notebook's sentences are told, as one."""
    spare: bool = False
    """Told only where another step is missing."""


STORY = (
    Scene("03", "sweeps_figure"),
    Scene("02", "stairs_figure", 2),
    Scene("03", "interaction_figure"),
    Scene("04", "scrape_figure", spare=True),
    Scene("05", "bend_figure"),
    Scene("05", "efficiency_figure", spare=True),
    Scene("06", "beyond_figure"),
    Scene("07", "bars_figure"),
    Scene("08"),
    Scene("09"),
    Scene("10", spare=True),
    Scene("11", "savings_figure"),
    Scene("12", spare=True),
    Scene("01", "arms_figure", spare=True),
    Scene("13", "accuracy_figure"),
    Scene("14", spare=True),
    Scene("15", spare=True),
    Scene("16", spare=True),
    Scene("00", spare=True),
)


@dataclass(frozen=True)
class Front:
    """What the site's pages say of its targets: texts by mark (`<!-- story -->`), pictures by path."""

    texts: Mapping[str, str]
    pictures: Mapping[str, bytes]


def front(loaded: Mapping[str, Any], target: str, suite: Sequence[str]) -> Front:
    """Texts and pictures about `target`, from `loaded`: page (`twin/05_knee`) → executed notebook.

    `suite`: the names of all notebooks there are, so that those not run are named.
    """
    told = story(loaded, target)
    names = [f"{PICTURES}/{target}-{at:02}.png" for at, _ in enumerate(told, 1)]
    texts = {
        "opening": opening(loaded, target, suite),
        "story": "\n".join(
            _told(at, scene, lifted, name)
            for (at, (scene, lifted)), name in zip(enumerate(told, 1), names, strict=True)
        ),
        "claims": summary(loaded, target),
        "targets": "\n".join(about_target(loaded, name) for name in targets_of(loaded)),
        "front": about_target(loaded, target),
        "count": str(len(told)),
    }
    return Front(texts, {name: lifted.png for name, (_, lifted) in zip(names, told, strict=True)})


def story(loaded: Mapping[str, Any], target: str) -> list[tuple[Scene, LiftedFigure]]:
    """At most `FIGURES` steps that `target` has figures for, spare ones only where others are missing."""
    found = [(scene, lifted) for scene in STORY if (lifted := _scene(loaded, target, scene))]
    main = [pair for pair in found if not pair[0].spare][:FIGURES]
    spare = [pair for pair in found if pair[0].spare][: FIGURES - len(main)]
    return [pair for pair in found if pair in main or pair in spare]


def _scene(loaded: Mapping[str, Any], target: str, scene: Scene) -> LiftedFigure | None:
    pages = [page for page in loaded if page.startswith(f"{target}/{scene.notebook}_")]
    return figure(loaded[pages[0]], pages[0], scene.made_by) if pages else None


def _told(at: int, scene: Scene, lifted: LiftedFigure, picture: str) -> str:
    said = as_myst(shortened(lifted.sentence, scene.together))
    return "\n".join(
        [
            f"### {at}. {as_myst(lifted.heading)}\n",
            f"{said} [Page {lifted.page}]({lifted.page}.ipynb).\n",
            "```{raw} html",
            '<div class="story-figure">',
            f'<img src="{picture}" alt="{html.escape(lifted.alt)}" width="{lifted.width_px}">',
            boxed(lifted.numbers).replace("\n\n", "\n"),
            "</div>",
            "```\n",
        ]
    )
