"""Every page of a built site in a headless Chromium, in light and dark, on a desk and on a phone.

    make check-site        (python tests/site_check.py build/site)

Says what a reader would stumble over: errors on the console, requests to anywhere else, what is missing,
pages that scroll sideways, and what axe-core calls serious or critical. Ends with 0 when there is nothing.
"""

import importlib.util
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from site_browser import chromium, serving

from nlqlib.site_html import check_html

BAD = ("serious", "critical")
INLINE = ("data:", "blob:", "about:")
SHOWN_CHARS = 160


@dataclass(frozen=True)
class View:
    """How a page is looked at."""

    scheme: str
    width_px: int
    height_px: int = 900

    def __str__(self) -> str:
        return f"{self.scheme}, {self.width_px} px"


VIEWS = tuple(View(scheme, width) for scheme in ("light", "dark") for width in (1280, 390))


def axe_script() -> Path | None:
    """axe-core as its Python package carries it, or the file named by `NLQLIB_AXE`."""
    spec = importlib.util.find_spec("axe_playwright_python")
    packaged = Path(spec.origin).with_name("axe.min.js") if spec and spec.origin else None
    named = os.environ.get("NLQLIB_AXE")
    return Path(named) if named else packaged


def pages(folder: Path) -> list[str]:
    """Every page of the built site in `folder`, as a path within it."""
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*.html"))


def check(folder: Path, views: Sequence[View] = VIEWS) -> list[str]:
    """Everything found on the pages of `folder`, one line each; broken links are looked for in the files."""
    found = [f"{problem}" for problem in check_html(folder)]
    with serving(folder) as address, chromium() as browser:
        for view in views:
            size = {"width": view.width_px, "height": view.height_px}
            with closing(browser.new_context(color_scheme=view.scheme, viewport=size)) as context:
                for path in pages(folder):
                    found += [f"{path} ({view}): {text}" for text in look(context, address, path, view)]
            print(f"{view}: {len(found)} problems so far", file=sys.stderr, flush=True)
    return found


def look(context: Any, address: str, path: str, view: View) -> list[str]:
    """What is wrong with one page under one view."""
    with closing(context.new_page()) as page:
        heard: list[str] = []
        page.on("console", lambda m: heard.append(f"console: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: heard.append(f"script: {error}"))
        page.on("request", lambda r: heard.extend(_abroad(r.url, address)))
        page.on("response", lambda r: heard.append(f"HTTP {r.status}: {r.url}") if r.status >= 400 else None)
        page.goto(address + path, wait_until="networkidle")
        wide = page.evaluate("document.documentElement.scrollWidth")
        if wide > view.width_px:
            heard.append(f"scrolls sideways: {wide} px")
        return [*heard, *_axe(page)]


def _abroad(url: str, address: str) -> list[str]:
    home = url.startswith((address, *INLINE))
    return [] if home else [f"external request: {url}"]


def _axe(page: Any) -> Iterator[str]:
    """Serious and critical violations, each with the first element that has it."""
    script = axe_script()
    if script is None:
        raise FileNotFoundError("axe-core is not installed: make env, or name its file by NLQLIB_AXE")
    page.add_script_tag(path=str(script))
    # a colour on its way from light to dark is judged as it will be
    page.wait_for_function("document.getAnimations().every(a => a.playState !== 'running')")
    for found in page.evaluate("axe.run().then(r => r.violations)"):
        if found["impact"] in BAD:
            first = found["nodes"][0]["html"][:SHOWN_CHARS]
            yield f"axe {found['id']} ({found['impact']}, {len(found['nodes'])} times): {first}"


def main(folder: Path) -> int:
    """Check the site in `folder` and say what was found; 0: nothing."""
    if not (folder / "index.html").is_file():
        print(f"no site in {folder}: `make site` builds it", file=sys.stderr)
        return 2
    began = time.monotonic()
    found = check(folder)
    for text, times in Counter(found).items():
        print(text if times == 1 else f"{text} ({times} times)")
    count, took_s = len(pages(folder)), time.monotonic() - began
    print(f"{count} pages, {len(VIEWS)} views each: {len(found)} problems, in {took_s:.0f} s")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
