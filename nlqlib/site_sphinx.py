"""A Sphinx extension for pages that ask nothing of the outside: formulas as MathML, outside links as text."""

from typing import Any

from docutils import nodes
from docutils.transforms import Transform
from docutils.utils.math import MathError, latex2mathml
from sphinx.application import Sphinx
from sphinx.util import logging

LOGGER = logging.getLogger(__name__)

OUTSIDE = ("http://", "https://", "//", "ftp://")


class LinksToText(Transform):
    """Turns links that leave the site into their own text: a citation is read, not followed."""

    default_priority = 870  # after all links of the page are known

    def apply(self, **kwargs: Any) -> None:
        for link in list(self.document.findall(nodes.reference)):
            if str(link.get("refuri", "")).startswith(OUTSIDE):
                link.replace_self(nodes.inline("", "", *link.children, classes=["outside"]))


def write_math(translator: Any, node: nodes.Element) -> None:
    """One formula as MathML, which browsers draw without any script; a faulty one is a warning."""
    block = isinstance(node, nodes.math_block)
    try:
        mathml = latex2mathml.tex2mathml(node.astext(), as_block=block)
    except MathError as error:
        LOGGER.warning("formula %r: %s", node.astext(), error, location=node)
        raise nodes.SkipNode from error
    translator.body.append(f'<div class="math">{mathml}</div>' if block else mathml)
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    """Called by Sphinx."""
    app.add_transform(LinksToText)
    app.add_html_math_renderer("mathml", (write_math, None), (write_math, None))
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
