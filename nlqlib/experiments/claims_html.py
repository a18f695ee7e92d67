"""The claims table as HTML that a page can filter, and as plain text.

The one table of the class `claims-table`: every row of its body carries `data-target`, `data-verdict` and
`data-section`, and every cell its column as `data-label`. What a row rests on is named in elements of the
class `claims-source` with `data-page` (`twin/05_knee`) or `data-artifact` (`twin/05_knee/….json`), for
whoever builds pages to link.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from nlqlib.article import shown
from nlqlib.article_data import Claim
from nlqlib.code_marks import coded
from nlqlib.experiments.claims import Line

COLUMNS = (
    *("claim", "article", "target", "value", "interval", "tag", "difference", "tolerance"),
    *("verdict", "because", "rests on"),
)
PLAIN = ("claim", "article", "target", "value", "difference", "tag", "verdict")
"""Columns of the plain form."""
NONE = "—"


@dataclass(frozen=True)
class ClaimsTable:
    """Lines under a caption; shows itself in a notebook."""

    lines: tuple[Line, ...]
    caption: str

    def _repr_html_(self) -> str:
        return claims_html(self.lines, self.caption)

    def __repr__(self) -> str:
        """Without a browser: the judged lines, with what fits the screen."""
        judged = [line for line in self.lines if line.word in ("differs", "reproduced")]
        rest = len(self.lines) - len(judged)
        below = f"\n… and {rest} that are not comparable or not measured" if rest else ""
        return f"{self.caption}\n{plain(judged)}{below}"


def claims_html(lines: Sequence[Line], caption: str) -> str:
    """The table of `lines` in their order; every verdict is a row of the same style."""
    head = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in COLUMNS)
    body = "\n".join(_tr(line) for line in lines)
    return coded(
        '<div class="claims">\n<table class="claims-table dataframe">\n'
        f"<caption>{html.escape(caption)}</caption>\n"
        f"<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>\n</div>"
    )


def claims_frame(lines: Sequence[Line]) -> pd.DataFrame:
    """The same table as a frame of text."""
    return pd.DataFrame([cells(line) for line in lines], columns=list(COLUMNS), dtype=object)


def plain(lines: Sequence[Line]) -> str:
    """The lines as text, with what fits the screen."""
    frame = claims_frame(lines).assign(claim=[line.claim.id for line in lines])
    return frame[list(PLAIN)].to_string(index=False) if lines else "no such line"


def cells(line: Line) -> dict[str, str]:
    """One row, as text."""
    v = line.verdict
    known = v.value is not None
    interval = NONE if v.interval is None else f"{shown(v.interval[0])} to {shown(v.interval[1])}"
    return {
        "claim": f"{v.claim.id}: {described(v.claim)}",
        "article": with_unit(v.claim),
        "target": line.target,
        "value": f"{shown(v.value)} {v.claim.unit}" if v.value is not None else NONE,
        "interval": interval,
        "tag": v.tag if known else NONE,
        "difference": NONE if v.relative_difference is None else f"{v.relative_difference:+.1%}",
        "tolerance": str(v.tolerance),
        "verdict": v.verdict,
        "because": v.reason,
        "rests on": ", ".join([line.notebook, *_named(line)]),
    }


def described(c: Claim) -> str:
    """What the number is: its statistic and its condition."""
    told = [_condition(name, value) for name, value in c.condition.items()]
    return f"{c.stat} ({', '.join(told)})" if told else c.stat


def _condition(name: str, value: object) -> str:
    """`concurrency 8`; a name that ends in `_s` has seconds."""
    words = name.removesuffix("_s").replace("_", " ")
    return f"{words} {value} s" if name.endswith("_s") else f"{words} {value}"


def with_unit(c: Claim) -> str:
    """The number as printed, with its unit where the article has it elsewhere."""
    bare = c.printed.lstrip("~≈<>=$").replace(",", "").replace(".", "").isdigit()
    return f"{c.shown} {c.unit}" if bare and c.unit != "share" and not c.printed.startswith("$") else c.shown


def _named(line: Line) -> list[str]:
    """The first artifact's name, and how many more there are."""
    names = [path.rpartition("/")[2] for path in line.artifacts]
    return [names[0], *([f"{len(names) - 1} more"] if len(names) > 1 else [])] if names else []


def _tr(line: Line) -> str:
    about = {"target": line.target, "verdict": line.word.replace(" ", "-"), "section": line.claim.section}
    data = " ".join(f'data-{name}="{html.escape(value)}"' for name, value in about.items())
    told = {name: html.escape(text) for name, text in cells(line).items()}
    told["claim"] = f"<code>{html.escape(line.claim.id)}</code> {html.escape(described(line.claim))}"
    told["rests on"] = _sources(line)
    tds = "".join(f'<td data-label="{name}">{text}</td>' for name, text in told.items())
    return f"<tr {data}>{tds}</tr>"


def _sources(line: Line) -> str:
    """The notebook and the artifacts, each with what a link to it needs; only the first artifact is named."""
    page = f"{line.target}/{line.notebook}"
    found = [
        f'<span class="claims-source" data-page="{html.escape(page)}">{html.escape(line.notebook)}</span>'
    ]
    names = _named(line)
    if names:
        first, rest = html.escape(line.artifacts[0]), ", ".join(names[1:])
        found.append(f'<code class="claims-source" data-artifact="{first}">{html.escape(names[0])}</code>')
        found += [rest] if rest else []
    return ", ".join(found)
