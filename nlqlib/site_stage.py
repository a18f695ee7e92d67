"""Everything Sphinx reads, written into one fresh folder: notebooks, prose pages, pictures of the front page.

Prose pages hold marks (`<!-- story -->`), which are replaced by what the notebooks found or the caller
computed; a mark without a text stays the comment it is.
"""

import json
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from nlqlib import paths

MARK = re.compile(r"<!-- ([a-z -]+) -->")
PAGE_SOURCE = re.compile(r'<span class="claims-source" data-page="([^"]+)">(.*?)</span>')
ARTIFACT_SOURCE = re.compile(r'<code class="claims-source" data-artifact="([^"]+)">(.*?)</code>')
ARTIFACTS = "_static/artifacts"


def stage(
    loaded: Mapping[str, Any],
    notebooks: Path,
    source: Path,
    texts: Mapping[str, str],
    pictures: Mapping[str, bytes],
) -> None:
    """Write a fresh folder `source`: the pages in `loaded`, and `notebooks`' prose, its marks replaced."""
    shutil.rmtree(source, ignore_errors=True)
    source.mkdir(parents=True)
    shutil.copy(notebooks / "conf.py", source)
    shutil.copytree(notebooks / "_static", source / "_static")
    for page, nb in loaded.items():
        _write(source / f"{page}.ipynb", json.dumps(_linked(nb, loaded, source), ensure_ascii=False).encode())
    for prose in notebooks.glob("*.md"):
        _write(source / prose.name, filled(prose.read_text("utf-8"), texts).encode())
    for name, picture in pictures.items():
        _write(source / name, picture)


def filled(text: str, texts: Mapping[str, str]) -> str:
    """`text` with each known mark replaced."""
    return MARK.sub(lambda mark: texts.get(mark[1], mark[0]), text)


def _write(path: Path, content: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)


def _linked(nb: Any, pages: Mapping[str, Any], source: Path) -> Any:
    """`nb` with what the claims table rests on as links, where the site has the page or the artifact."""
    for cell in nb["cells"]:
        for output in cell.get("outputs", ()):
            text = output.get("data", {}).get("text/html")
            if isinstance(text, str) and "claims-source" in text:
                output["data"]["text/html"] = _with_links(text, pages, source)
    return nb


def _with_links(text: str, pages: Mapping[str, Any], source: Path) -> str:
    def page(found: re.Match[str]) -> str:
        return f'<a href="../{found[1]}.html">{found[2]}</a>' if found[1] in pages else found[0]

    def artifact(found: re.Match[str]) -> str:
        kept = paths.ARTIFACTS / found[1]
        if not kept.is_file() or not kept.resolve().is_relative_to(paths.ARTIFACTS.resolve()):
            return found[0]
        _write(source / ARTIFACTS / found[1], kept.read_bytes())
        return f'<a href="../{ARTIFACTS}/{found[1]}"><code>{found[2]}</code></a>'

    return ARTIFACT_SOURCE.sub(artifact, PAGE_SOURCE.sub(page, text))
