"""`claims`: every number of the article beside what is retained, from artifacts alone."""

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from nlqlib import paths
from nlqlib.records import Json

if TYPE_CHECKING:
    from nlqlib.experiments.claims import Line

EXAMPLE = """\
Reads artifacts/ and contacts nothing. Example:

  $ python -m nlqlib claims --target local --verdict reproduced
  Targets: local (measured on the machine that ran it)
          claim article target                              value difference      tag    verdict
    staircase.1    ≈ 1x  local 1.024 single-request service times      +2.4% measured reproduced
  prompt.tokens  ≈ 3.3K  local                       3,319 tokens      +0.6% measured reproduced
  On local 2 of 157 results could be judged: 0 differ and 2 are reproduced.
"""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line's parser."""
    command = commands.add_parser(
        "claims",
        help="every number of the article beside what is retained",
        description=EXAMPLE,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    command.add_argument(
        "--target", action="append", default=[], help="this target alone (repeat for several)"
    )
    command.add_argument("--verdict", choices=["differs", "reproduced", "not-comparable", "not-measured"])
    command.add_argument(
        "--artifacts", type=Path, default=paths.ARTIFACTS, help="folder of the retained runs"
    )
    command.add_argument("--json", action="store_true", help="JSON instead of a table")
    command.set_defaults(command=lambda a: claims(a.target, a.verdict, a.artifacts, a.json))


def claims(targets: Sequence[str], verdict: str | None, root: Path, as_json: bool) -> int:
    """Print the lines of these targets (default: all) and this verdict; 0. Raises `ArtifactError`."""
    from nlqlib.experiments.claims import summarised
    from nlqlib.experiments.claims_html import plain
    from nlqlib.experiments.claims_page import counts_sentence, how

    found = summarised(root=root, only=tuple(targets))
    lines = [x for x in found.lines if verdict in (None, x.word.replace(" ", "-"))]
    if as_json:
        print(json.dumps([_json(x) for x in lines], indent=2, ensure_ascii=False))
        return 0
    print(f"{how(found)}\n{plain(lines)}")
    print(counts_sentence(found))
    return 0


def _json(line: "Line") -> Json:
    v = line.verdict
    return {
        "claim": v.claim.id,
        "section": v.claim.section,
        "article": {
            "printed": v.claim.printed,
            "low": v.claim.low,
            "high": v.claim.high,
            "unit": v.claim.unit,
        },
        "target": line.target,
        "value": v.value,
        "interval": None if v.interval is None else list(v.interval),
        "tag": None if v.value is None else v.tag,
        "relative_difference": v.relative_difference,
        "tolerance": {"relative": v.tolerance.relative, "absolute": v.tolerance.absolute},
        "verdict": v.verdict,
        "because": v.reason,
        "notebook": line.notebook,
        "artifacts": list(line.artifacts),
    }
