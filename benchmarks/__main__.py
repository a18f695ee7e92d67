"""How fast the twin is: `python -m benchmarks [--json] [--quick] [--no-socket]`, or `make bench`.

Its engine alone (with KV hashing, leaping), the whole client path in virtual time (wire client, streaming,
openai client), and a socket in real time. Prints a table, keeps it as an artifact of kind bench, and exits 1
if a stated bound is missed. `--quick` runs a tenth of the requests once, into build/: to try things out.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path

from benchmarks import speeds
from nlqlib import paths


def main(argv: Sequence[str] | None = None, root: Path = paths.ARTIFACTS) -> int:
    """Measure, print, keep; the exit status."""
    parser = argparse.ArgumentParser("python -m benchmarks", description=__doc__)
    parser.add_argument("--json", action="store_true", help="JSON instead of a table")
    parser.add_argument(
        "--quick", action="store_true", help="a tenth of the requests, once, into build/bench"
    )
    parser.add_argument("--no-socket", action="store_true", help="leave out the server in real time")
    args = parser.parse_args(argv)
    effort = speeds.QUICK if args.quick else speeds.FULL
    folder = paths.BUILD / "bench" if args.quick else root
    with redirect_stdout(sys.stderr):  # what the store says of the last run belongs beside the table
        kept = speeds.keep(effort, not args.no_socket, folder, _tell)
    found = speeds.of_record(kept)
    rows = [asdict(s) | {"ok": s.ok} for s in found]
    print(json.dumps(rows, indent=1, ensure_ascii=False) if args.json else speeds.table(found))
    _tell(f"kept: {kept.path.name}")
    return 0 if all(s.ok for s in found) else 1


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
