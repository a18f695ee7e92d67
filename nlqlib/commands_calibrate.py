"""`calibrate`: a twin of any endpoint, fitted to at most eight short points and judged on others."""

import json
import sys
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import pandas as pd

from nlqlib.commands import InputError
from nlqlib.experiments.calibration import calibrate, predictions
from nlqlib.experiments.probes import ProbeError
from nlqlib.files import check_writable, write_atomic
from nlqlib.load.closed_loop import LoadError
from nlqlib.records import Json
from nlqlib.serving.target import open_target
from nlqlib.twin.calibrate import CalibrationError
from nlqlib.twin.limits import EngineError
from nlqlib.twin.model import dumps

BLIND = "without /metrics the way in and out cannot be told from the engine's own time"


def run(target: str, out: str, force: bool, as_json: bool) -> int:
    """Measure, fit, judge, and write the document to `out`; a file that exists stays unless `force`."""
    path = Path(out)
    if path.suffix != ".json":
        raise InputError(f"{out}: a twin is a .json file, for example data/twins/mine.json")
    if path.exists() and not force:
        raise InputError(f"{out} exists: choose another name, or replace it with --force")
    check_writable(path)
    with closing(open_target(target, progress=_tell)) as opened:
        try:
            found, _, _ = calibrate(opened, path.stem, tell=_tell)
        except (CalibrationError, EngineError, LoadError, ProbeError) as error:
            raise InputError(str(error)) from error
    write_atomic(path, dumps(found).encode())
    _show(found, out, as_json)
    return 0


def _show(found: Json, out: str, as_json: bool) -> None:
    rows = predictions(found)
    unknown = found["fit"]["unknown"]
    if as_json:
        print(json.dumps({"out": out, "step_time": found["step_time"], "unknown": unknown, "points": rows}))
        return
    table = pd.DataFrame(rows)
    table["error"] = [f"{100 * e:+.1f} %" for e in table["error"]]
    print(table.to_string(index=False, float_format="{:.4g}".format))
    print(f"\nworst error: fitted {_worst(rows, 'fitted')}, predicted {_worst(rows, 'predicted')}")
    if unknown:
        why = f" ({BLIND})" if "network_s" in unknown else ""
        print(f"unknown, because no point determines them: {', '.join(unknown)}{why}")
    for limit in found["is_not"][2:]:
        print(f"assumed: {limit}")
    print(f"{out}: use it with TWIN={out} or `serve twin --twin {out}`")


def _worst(rows: Sequence[Json], tag: str) -> str:
    errors = [abs(row["error"]) for row in rows if row["tag"] == tag]
    return f"{100 * max(errors):.1f} %" if errors else "none"


def _tell(line: str) -> None:
    print(line, file=sys.stderr, flush=True)
