"""Signed numbers as they are set in print: a true minus, and no space before the per cent of a change.

Applied once, to what executed notebooks show, so that pages, front page and README agree. Code stays.
"""

import re
from typing import Any

VERBATIM = re.compile(r"(`[^`]*`|<code.*?</code>|<pre.*?</pre>|<[^<>]*>)", re.DOTALL)
"""Code, and the inside of tags: copied or read by scripts, so no sign of it may change."""
POINTS = " data-points="
"""The attribute of a tag that is shown after all: what a point of a figure says under the pointer."""
HYPHEN = re.compile(r"(?<![^\s(\[→])-(?=\d)")
"""A hyphen that stands where a sign does: at the beginning, after a blank or after a bracket."""
SPACED = re.compile(r"(?<![^\s(\[→])([+−]\d[\d,.]*)\s%")
SHOWN = ("text/html", "text/markdown")


def signed(text: str) -> str:
    """`text` with true minus signs: `−14%`, `−0.03 s`."""
    parts = VERBATIM.split(text)
    return "".join(part if i % 2 and POINTS not in part else _signed(part) for i, part in enumerate(parts))


def _signed(text: str) -> str:
    return SPACED.sub(r"\1%", HYPHEN.sub("−", text))


def typeset(nb: Any) -> Any:
    """The executed notebook `nb` with the signs of its tables, sentences and alternative texts set."""
    for output in (o for cell in nb["cells"] for o in cell.get("outputs", ())):
        shown = output.get("data", {})
        for mime in SHOWN:
            if isinstance(shown.get(mime), str):
                shown[mime] = signed(shown[mime])
        for about in output.get("metadata", {}).values():
            if isinstance(about, dict) and isinstance(about.get("alt"), str):
                about["alt"] = _signed(about["alt"])
    return nb
