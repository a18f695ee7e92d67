"""The README's story: its pictures, sentences and costs, made anew from executed notebooks of the twin.

A block of the README stands between `<!-- NAME -->` and `<!-- /NAME -->`; the rest is written by hand.
"""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from nlqlib.files import write_if_changed
from nlqlib.front_page import Scene, story
from nlqlib.front_page_lift import LiftedFigure, as_myst, shortened

TARGET = "twin"
PICTURES = Path("docs/figures")
SHOWN = 6
"""Steps of the story in the README: enough for a visitor, the site has the rest."""
MEANING = "13"
"""The notebook whose step is the last one here: whether the answers are right."""


def renew(readme: Path, loaded: Mapping[str, Any], costs: Mapping[str, str]) -> list[Path]:
    """Rewrite the blocks `story` and those in `costs` of `readme`, and its pictures; what was written."""
    told = chosen(story(loaded, TARGET))
    names = [
        PICTURES / f"{at:02}_{scene.made_by or scene.notebook}.png" for at, (scene, _) in enumerate(told, 1)
    ]
    written = [readme.parent / name for name in names]
    for old in (readme.parent / PICTURES).glob("*.png"):
        if old not in written:
            old.unlink()
    for path, (_, lifted) in zip(written, told, strict=True):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_if_changed(path, lifted.png)
    steps = zip(names, told, strict=True)
    texts = {"story": "\n\n".join(_step(name, lifted, scene.together) for name, (scene, lifted) in steps)}
    write_if_changed(readme, with_blocks(readme.read_text("utf-8"), {**texts, **costs}).encode())
    return [*written, readme]


def chosen(told: Sequence[tuple[Scene, LiftedFigure]]) -> list[tuple[Scene, LiftedFigure]]:
    """`SHOWN` steps of the story: its first ones, and the one about meaning where there is one."""
    meaning = [step for step in told if step[0].notebook == MEANING][:1]
    return [*[step for step in told if step not in meaning][: SHOWN - len(meaning)], *meaning]


def _step(name: Path, lifted: LiftedFigure, together: int) -> str:
    said = as_myst(shortened(lifted.sentence, together))
    alt = lifted.alt.replace("[", "(").replace("]", ")")
    return f"**{lifted.heading}** {said}\n\n![{alt}]({name.as_posix()})"


def with_blocks(text: str, blocks: Mapping[str, str]) -> str:
    """`text` with the content of each block replaced; raises `ValueError` for a missing one."""
    for name, content in blocks.items():
        pattern = re.compile(rf"(<!-- {re.escape(name)} -->\n).*?(<!-- /{re.escape(name)} -->)", re.DOTALL)
        if not pattern.search(text):
            raise ValueError(f"no block {name} between <!-- {name} --> and <!-- /{name} -->: add both marks")
        text = pattern.sub(rf"\g<1>{_literal(content)}\n\g<2>", text)
    return text


def _literal(text: str) -> str:
    """`text` as a replacement of a pattern: its backslashes are no escapes."""
    return text.replace("\\", r"\\")
