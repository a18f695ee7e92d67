"""Code marks of prose (`` `name` ``) as HTML elements, and back again. Pure, on escaped text."""

import re

MARKED = re.compile(r"(?<!`)`([^`<>\n]+)`(?!`)")
_TAG = re.compile(r"(<[^>]*>)")
_ELEMENT = re.compile(r"<code>(.*?)</code>", re.DOTALL)
_VERBATIM = ("code", "pre", "script", "style", "textarea")


def coded(markup: str) -> str:
    """`markup` with every pair of backticks in its text as a `code` element; code itself is left alone."""
    told: list[str] = []
    depth = 0
    for part in _TAG.split(markup):
        if part.startswith("<"):
            depth += _step(part)
            told.append(part)
        else:
            told.append(part if depth else MARKED.sub(r"<code>\1</code>", part))
    return "".join(told)


def _step(tag: str) -> int:
    """+1 where `tag` opens an element whose text is shown as it is, -1 where it closes one."""
    name = re.match(r"</?([a-z]+)", tag)
    if name is None or name[1] not in _VERBATIM:
        return 0
    return -1 if tag.startswith("</") else 1


def uncoded(markup: str) -> str:
    """`code` elements as backticks again: for prose that goes on as Markdown or as an attribute."""
    return _ELEMENT.sub(r"`\1`", markup)
