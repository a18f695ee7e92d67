"""What a built page asks of a browser: links, images, anything from outside.

Pure: reads a folder of HTML and CSS, returns `Problem`s.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

from nlqlib.code_marks import MARKED
from nlqlib.site_gate import Problem

# Attributes whose value a browser loads, follows or sends to.
URL_ATTRIBUTES = (
    "href",
    "src",
    "srcset",
    "action",
    "formaction",
    "poster",
    "data",
    "background",
    "xlink:href",
)
EXTERNAL = re.compile(r"^\s*(?:[a-z][a-z0-9+.-]*:)?//", re.IGNORECASE)
CSS_EXTERNAL = re.compile(r"(?:url\(\s*['\"]?|@import\s+['\"])((?:https?:)?//[^'\")\s]+)", re.IGNORECASE)
# A script that names a file elsewhere loads it; licence headers and namespaces name no such file.
JS_EXTERNAL = re.compile(r"""['"`](?:https?:)?//[^'"`\s]+\.(?:m?js|css|json|woff2?|ttf|png|svg)\b""")
VERBATIM = ("code", "pre", "textarea", "title")
UNSCHEMED = ("mailto:", "javascript:", "data:")


@dataclass
class _Page(HTMLParser):
    """What one page holds: its ids, its links, and what is wrong with it by itself."""

    ids: set[str] = field(default_factory=set)
    links: list[str] = field(default_factory=list)
    external: list[str] = field(default_factory=list)
    bare_images: list[str] = field(default_factory=list)
    marks: list[str] = field(default_factory=list)
    inside: str = ""
    verbatim: int = 0
    """How many elements are open whose text is code."""

    def __post_init__(self) -> None:
        super().__init__()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.inside = tag
        self.verbatim += tag in VERBATIM
        self.ids |= {values[k] for k in ("id", "name") if k in values}
        for name in URL_ATTRIBUTES:
            if values.get(name):
                (self.external if EXTERNAL.match(values[name]) else self.links).append(values[name])
        self.external += CSS_EXTERNAL.findall(values.get("style", ""))
        if tag == "img" and not values.get("alt", "").strip():
            self.bare_images.append(values.get("src", ""))

    def handle_data(self, data: str) -> None:
        if self.inside == "style":
            self.external += CSS_EXTERNAL.findall(data)
        elif self.inside == "script":
            self.external += JS_EXTERNAL.findall(data)
        elif not self.verbatim:
            self.marks += [found[0] for found in MARKED.finditer(data)]

    def handle_endtag(self, tag: str) -> None:
        self.inside = ""
        self.verbatim -= tag in VERBATIM


def check_html(folder: Path) -> list[Problem]:
    """Broken links, images without alt text and external URLs in the built site `folder`."""
    pages = {p.relative_to(folder).as_posix(): _read(p) for p in sorted(folder.rglob("*.html"))}
    if not pages:
        return [Problem(str(folder.name), None, "no page", "build the site first: `make site`")]
    found = [problem for name, page in pages.items() for problem in _page_problems(name, page)]
    found += [p for name, page in pages.items() for p in _link_problems(folder, name, page, pages)]
    return found + list(_asset_problems(folder))


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text("utf-8"))
    page.close()
    return page


def _page_problems(name: str, page: _Page) -> Iterator[Problem]:
    for url in dict.fromkeys(page.external):
        yield Problem(name, None, f"an external URL ({url})", "write it as plain text, or package the file")
    for mark in dict.fromkeys(page.marks):
        yield Problem(
            name, None, f"a raw code mark ({mark})", "show the table with `captioned`, prose as Markdown"
        )
    for src in page.bare_images:
        yield Problem(
            name, None, f"an image without alt text ({src})", "draw it with `plots.show(fig, alt=…)`"
        )


def _link_problems(folder: Path, name: str, page: _Page, pages: dict[str, _Page]) -> Iterator[Problem]:
    root = folder.resolve()
    for link in dict.fromkeys(page.links):
        parts = urlsplit(link)
        if link.startswith(UNSCHEMED) or parts.scheme or link == "#":
            continue
        at = (root / name).parent / unquote(parts.path) if parts.path else root / name
        at = (at / "index.html" if at.is_dir() else at).resolve()
        inside = at.is_relative_to(root)
        goal = pages.get(at.relative_to(root).as_posix()) if inside else None
        if not inside or not at.is_file():
            yield Problem(name, None, f"a broken link ({link})", "correct it, or run the notebook it names")
        elif goal and parts.fragment and unquote(parts.fragment) not in goal.ids:
            yield Problem(name, None, f"a link to a missing heading ({link})", "correct the part after #")


def _asset_problems(folder: Path) -> Iterator[Problem]:
    for suffix, pattern in ((".css", CSS_EXTERNAL), (".js", JS_EXTERNAL)):
        for path in sorted(folder.rglob(f"*{suffix}")):
            for url in sorted(set(pattern.findall(path.read_text("utf-8")))):
                name = path.relative_to(folder).as_posix()
                yield Problem(name, None, f"loads from outside ({url})", "package the file and load that")
