"""`probe`: which ways of asking for compact JSON an endpoint honours, and which it silently ignores."""

import argparse
import json
import sys
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from nlqlib.experiments.contract_probe import Finding

EXAMPLE = """\
Sends nine small requests. Example:

  $ python -m nlqlib probe --target twin
                       field   promises     verdict
                 guided_json       form     ignored
          whitespace_pattern    compact     ignored
    structured_outputs.regex    compact    honoured
  Silently ignored, with HTTP 200: `guided_json`, `whitespace_pattern`.
"""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command to the command line's parser."""
    command = commands.add_parser(
        "probe",
        help="which output contracts an endpoint honours, and which it silently ignores",
        description=EXAMPLE,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    add = command.add_argument
    add("--target", default="", help="twin, local or a URL (default: the environment's TARGET, or twin)")
    add("--record", action="store_true", help="record the answers of a real engine for the twin to replay")
    add("--flagged", action="store_true", help="of a server started with the flag that minifies all JSON")
    add("--json", action="store_true", help="JSON instead of a table")
    command.set_defaults(command=lambda a: probe(a.target, a.record, a.flagged, a.json))


def probe(target: str, record: bool, flagged: bool, as_json: bool) -> int:
    """Print what became of each field, or where the answers were recorded; 0. Raises `TargetError`."""
    from nlqlib.experiments.contract_probe import found_on, record_probe
    from nlqlib.nlq.compact_grammar import SERVER_FLAG
    from nlqlib.serving.target import open_target

    with closing(open_target(target, progress=lambda line: print(line, file=sys.stderr))) as opened:
        if record:
            path = record_probe(opened, flagged)
            print(f"recorded: {path.parent.name}/{path.name}")
            return 0
        if not flagged:
            _print(found_on(opened), as_json)
            return 0
        with closing(opened.engine(**SERVER_FLAG)) as there:
            _print(found_on(there, SERVER_FLAG), as_json)
            return 0


def _print(found: "list[Finding]", as_json: bool) -> None:
    import pandas as pd

    from nlqlib.experiments.compact_page import found_sentence

    if as_json:
        print(json.dumps([asdict(one) for one in found], indent=2, ensure_ascii=False))
        return
    rows = [{k: getattr(one, k) for k in ("field", "promises", "verdict", "reason")} for one in found]
    print(pd.DataFrame(rows).to_string(index=False))
    print(found_sentence(found))
