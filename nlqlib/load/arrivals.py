"""When requests arrive in an open loop: seconds from its start, ascending, as plain arrays.

`rate` is requests per second. Random plans take a seeded `numpy.random.Generator`, so that a run can be
repeated.
"""

import csv
import json
import math
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from nlqlib.analysis.stats import Floats

FIELD = "arrival_s"
"""The column of a CSV file or the key of a JSON line that holds a time, as in `simulate` scenarios."""
LATEST_S = 1e7
"""About four months: a trace that begins later than this holds times of day, not of a run."""


class TraceError(ValueError):
    """A trace file cannot be used; says which line and what to change."""


def constant(rate: float, n: int) -> Floats:
    """`n` arrivals 1/`rate` apart, the first at 0."""
    _check(rate, n)
    return np.arange(n) / rate


def poisson(rate: float, n: int, rng: np.random.Generator) -> Floats:
    """`n` arrivals of a Poisson process: exponential gaps of mean 1/`rate`, one before the first."""
    _check(rate, n)
    return np.cumsum(rng.exponential(1 / rate, n))


def gamma(rate: float, n: int, cv: float, rng: np.random.Generator) -> Floats:
    """`n` arrivals with gamma gaps of mean 1/`rate` and coefficient of variation `cv`.

    1 is Poisson, above 1 is burstier, near 0 is nearly constant. The shape is 1/cv² ("burstiness" elsewhere).
    """
    _check(rate, n)
    if not (math.isfinite(cv) and cv > 0):
        raise ValueError(f"the gaps' coefficient of variation must be positive and finite, not {cv}")
    return np.cumsum(rng.gamma(cv**-2, cv**2 / rate, n))


def trace(path: str | Path, *, from_first: bool = False) -> Floats:
    """The arrivals of a file: JSON lines (a number, or an object with `arrival_s`) or CSV.

    A CSV file has a header with `arrival_s`, or a single column of numbers without a header. `from_first`
    counts from the first arrival, for recorded times of day. Raises `TraceError`.
    """
    where = Path(path)
    try:
        text = where.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as problem:
        raise TraceError(f"the trace {where.name} cannot be read: {problem}") from None
    rows = list(_json_rows(where.name, text) if _is_json(where, text) else _csv_rows(where.name, text))
    if not rows:
        raise TraceError(f"the trace {where.name} holds no arrival: it needs at least one time in seconds")
    return _in_order(where.name, rows, rows[0][1] if from_first else 0.0)


def check_arrivals(arrivals_s: Sequence[float] | Floats) -> list[float]:
    """`arrivals_s` as plain floats. Raises `ValueError` unless finite, not negative and ascending."""
    plan = np.asarray(arrivals_s, dtype=np.float64).ravel()
    if not len(plan):
        raise ValueError("an open loop needs at least one arrival")
    if not np.isfinite(plan).all() or plan[0] < 0 or (np.diff(plan) < 0).any():
        raise ValueError("arrivals are seconds from the start: finite, not negative and in ascending order")
    return [float(at_s) for at_s in plan]


def _check(rate: float, n: int) -> None:
    if not (math.isfinite(rate) and rate > 0) or n < 1:
        raise ValueError(f"arrivals need a positive rate and a number of at least 1, not {rate} and {n}")


def _is_json(where: Path, text: str) -> bool:
    return where.suffix in (".jsonl", ".ndjson", ".json") or text.lstrip()[:1] == "{"


Row = tuple[int, float]
"""Number of the line, and the time on it."""


def _json_rows(name: str, text: str) -> Iterator[Row]:
    for line, content in enumerate(text.splitlines(), 1):
        if not content.strip():
            continue
        try:
            value = json.loads(content)
        except ValueError as problem:
            raise TraceError(f"{name}, line {line} is not JSON: {problem}") from None
        if isinstance(value, dict):
            if FIELD not in value:
                raise TraceError(f"{name}, line {line} has no {FIELD!r}, only {_named(value)}")
            value = value[FIELD]
        yield line, _time(name, line, value)


def _csv_rows(name: str, text: str) -> Iterator[Row]:
    rows = [(line, row) for line, row in enumerate(csv.reader(text.splitlines()), 1) if any(row)]
    column = 0
    if (rows and not _is_number(rows[0][1][0])) or (rows and len(rows[0][1]) > 1):
        header = [cell.strip() for cell in rows.pop(0)[1]]
        if FIELD not in header:
            raise TraceError(f"{name} needs a column named {FIELD!r}; its header has {_named(header)}")
        column = header.index(FIELD)
    for line, row in rows:
        if len(row) <= column:
            raise TraceError(f"{name}, line {line} has no column {FIELD!r}: it is too short")
        yield line, _time(name, line, row[column])


def _time(name: str, line: int, value: object) -> float:
    if isinstance(value, str) and _is_number(value):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise TraceError(f"{name}, line {line}: {value!r} is not a time in seconds")
    return float(value)


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _named(names: Sequence[str] | dict[str, object]) -> str:
    return ", ".join(map(repr, names)) or "nothing"


def _in_order(name: str, rows: list[Row], origin_s: float) -> Floats:
    before = origin_s if origin_s else 0.0
    for line, at_s in rows:
        if at_s < before:
            why = "negative" if at_s < 0 and before == 0.0 else f"before the arrival at {before:g} s above it"
            raise TraceError(f"{name}, line {line}: {at_s:g} s is {why}; times must ascend from 0")
        before = at_s
    if rows[0][1] - origin_s > LATEST_S:
        raise TraceError(
            f"{name} begins at {rows[0][1]:g} s, which looks like a time of day: read it with from_first=True"
        )
    return np.array([at_s for _, at_s in rows]) - origin_s
