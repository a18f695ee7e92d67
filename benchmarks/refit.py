"""Fit a stored twin anew to its own observations: `python -m benchmarks.refit data/twins/NAME.json
[--write]`.

Prints what each observation comes to, fitted or predicted. Without `--write` the file stays as it is.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from nlqlib.twin import model
from nlqlib.twin.calibrate import Calibration


def table(calibration: Calibration) -> str:
    """One line per observation: interval, the twin's value, relative error, and whether it was used."""
    lines = [f"{'observation':<52}{'measured':>18}{'twin':>10}{'error':>9}  use"]
    for prediction in calibration.predictions:
        seen = prediction.observation
        measured = f"{seen.low:g}" if seen.low == seen.high else f"{seen.low:g}–{seen.high:g}"
        value = "missing" if prediction.value is None else f"{prediction.value:.4g}"
        error = "" if prediction.error is None else f"{prediction.error:+.2%}"
        lines.append(f"{seen.name:<52}{measured:>18}{value:>10}{error:>9}  {prediction.tag}")
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path)
    parser.add_argument("--write", action="store_true", help="store the fit")
    args = parser.parse_args(argv)
    stored, calibration = model.refit(model.document(args.path))
    print(table(calibration))
    print("not determined by the observations: " + (", ".join(calibration.unknown) or "none"))
    if args.write:
        args.path.write_text(model.dumps(stored), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
