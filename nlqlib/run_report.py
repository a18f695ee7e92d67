"""The end of a batch run: the table, every failure, and the command that resumes what is left."""

import json
import sys
from collections.abc import Sequence

from nlqlib.notebook_run import DONE, Finished
from nlqlib.plan import duration, table
from nlqlib.records import Json
from nlqlib.run_settings import RunSettings, resume_command

UNCHANGED = "unchanged: nothing it follows from has changed, so it was kept (`make clean` has all run again)"
COLUMNS = ["notebook", "status", "measured", "reused", "failed", "wall"]


def report(settings: RunSettings, results: Sequence[Finished], wall_s: float) -> int:
    """Print the final table, every failure, and how to resume; the exit status."""
    left = [r.notebook.name for r in results if r.status not in DONE]
    command = resume_command(settings, left)
    if settings.json:
        print(json.dumps([_as_json(r) for r in results], ensure_ascii=False, indent=2))
    else:
        print(table(COLUMNS, [_row(r) for r in results]))
    for result in results:
        if result.failure:
            print("\n" + "\n".join(result.failure.lines(result.notebook.name)), file=sys.stderr)
    if left:
        print(f"\nfinished points are kept; resume with:\n  {command}", file=sys.stderr)
    took = f"{wall_s:,.0f} s of wall time ({duration(wall_s)})"
    settings.say(f"{len(results) - len(left)} of {len(results)} notebooks in {took}")
    if any(r.status == "unchanged" for r in results):
        settings.say(UNCHANGED)
    if any(r.status in ("interrupted", "not run") for r in results):
        return 130
    return 1 if left else 0


def _row(result: Finished) -> list[str]:
    points = result.points
    wall = "—" if result.wall_s is None else f"{result.wall_s:.1f} s"
    counts = (points.measured, points.reused, points.failed + points.open)
    return [result.notebook.name, result.status, *map(str, counts), wall]


def _as_json(result: Finished) -> Json:
    points = result.points
    return {
        "notebook": result.notebook.name,
        "status": result.status,
        "points": {
            "measured": points.measured,
            "reused": points.reused,
            "failed": points.failed + points.open,
        },
        "wall_s": result.wall_s,
        "error": result.failure.lines(result.notebook.name) if result.failure else None,
    }
