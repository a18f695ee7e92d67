"""`window`: what a server did between two saved `/metrics` pages. Returns the exit status."""

import gzip
import json
import math
import zlib
from pathlib import Path

import pandas as pd

from nlqlib.analysis.decomposition import Decomposition, decompose_engine
from nlqlib.analysis.window import Scrape, Window, scrape_of
from nlqlib.analysis.window import window as between
from nlqlib.commands import InputError
from nlqlib.metric_names import HISTOGRAMS, QUANTITIES
from nlqlib.records import Json, Rule

COUNTS = (
    ("requests_finished", "requests"),
    ("prompt_tokens", "tokens"),
    ("computed_prompt_tokens", "tokens"),
    ("generation_tokens", "tokens"),
    ("queries", "tokens"),
    ("hits", "tokens"),
    ("preemptions", "preemptions"),
)
GAUGES = (
    ("hit_rate", "share"),
    ("kv_usage", "share"),
    ("running", "requests"),
    ("waiting", "requests"),
    ("blocks", "blocks"),
    ("block_size", "tokens"),
)
PERCENTILES = (50, 95, 99)
MARKS = {True: "ok", False: "INVALID", None: "not checked"}


def window(before: str, after: str, elapsed: float, as_json: bool) -> int:
    """Print what happened between the pages in `before` and `after`, saved `elapsed` seconds apart.

    0 for a valid window, 1 for one that a rule rejects. Raises `InputError` for a file that is no vLLM page.
    """
    if not (math.isfinite(elapsed) and elapsed > 0):
        raise InputError(f"--elapsed {elapsed:g}: give the seconds between the two pages, more than 0")
    found = between(read_page(before, 0.0), read_page(after, elapsed))
    parts = decompose_engine(found)
    print(json.dumps(told(found, parts), indent=1, allow_nan=False) if as_json else shown(found, parts))
    return 0 if found.valid else 1


def read_page(path: str, at_s: float) -> Scrape:
    """The saved page in `path`, plain or gzipped. Raises `InputError`."""
    try:
        data = Path(path).read_bytes()
        text = (gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data).decode("utf-8")
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(f"{path} is gzipped and cut or damaged: {error}") from error
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8 text: {error.reason} at byte {error.start}") from error
    scrape = scrape_of([text], at_s)
    if scrape.reasons:
        raise InputError(f"{path}: {scrape.reasons[0]}")
    return scrape


def told(found: Window, parts: Decomposition) -> Json:
    """The window as JSON types; missing is `null`."""
    values = {name: getattr(found, name) for name, _ in (*COUNTS, *GAUGES)}
    return {
        "elapsed_s": found.elapsed_s,
        "valid": found.valid,
        "engines": found.engines,
        "models": list(found.models),
        **values,
        **{key: found.mean(key) for key in HISTOGRAMS},
        "observed": {key: found.count(key) for key in HISTOGRAMS},
        "percentiles": {key: _percentiles(found, key) for key in HISTOGRAMS if key in found.histograms},
        "decomposition": {
            "total": parts.total,
            "total_s": parts.total_s,
            "n": parts.n,
            "terms": [vars(term) for term in parts.terms],
            "residual": vars(parts.residual),
            "missing": list(parts.missing),
            "closes": parts.closes,
        },
        "rules": [vars(rule) for rule in (*found.rules, *parts.rules)],
    }


def _percentiles(found: Window, key: str) -> dict[str, str | None]:
    bounds = {q: found.percentile(key, q) for q in PERCENTILES}
    return {f"p{q}": b.text if b is not None else None for q, b in bounds.items()}


def shown(found: Window, parts: Decomposition) -> str:
    """The window as text: counts, times, where the time goes, and what was checked."""
    head = f"{found.elapsed_s:g} s, engines: {found.engines}, model: {', '.join(found.models) or 'unnamed'}"
    if not found.valid:
        return f"{head}\n\nthis window is invalid, so nothing in it is shown\n\n{_rules(found.rules)}"
    sections = (_counts(found), _times(found), _terms(parts), _rules((*found.rules, *parts.rules)))
    return "\n\n".join((head, *sections))


def _counts(found: Window) -> str:
    rows = [_row(name, getattr(found, name), unit, found.elapsed_s) for name, unit in COUNTS]
    return _table(rows + [_row(name, getattr(found, name), unit, None) for name, unit in GAUGES])


def _row(name: str, value: float | None, unit: str, elapsed_s: float | None) -> dict[str, str]:
    rate = None if value is None or elapsed_s is None else value / elapsed_s
    return {"quantity": name, "value": _number(value), "per second": _number(rate, ""), "unit": unit}


def _times(found: Window) -> str:
    """Means by Δsum / Δn, and between which bounds of the server's buckets percentiles lie."""
    rows = []
    for key in HISTOGRAMS:
        count = found.count(key)
        bounds = {q: text or "none" for q, text in _percentiles(found, key).items()}
        mean = _number(found.mean(key), "missing" if count is None else "none")
        row = {"time (s)": QUANTITIES[key].names[0].name, "mean": mean, "n": _number(count)}
        rows.append(row | bounds)
    return _table(rows)


def _terms(parts: Decomposition) -> str:
    if parts.n == 0:
        return "no request finished in this window, so there is no latency to take apart"
    rows = [
        {"term": t.name, "mean (s)": _number(t.mean_s), "share": "" if t.share is None else f"{t.share:.1%}"}
        for t in (*parts.terms, parts.residual)
    ]
    total = {"term": f"= {parts.total}", "mean (s)": _number(parts.total_s), "share": ""}
    absent = (
        f"\nmissing, so their time is in the residual: {', '.join(parts.missing)}" if parts.missing else ""
    )
    return _table([*rows, total]) + absent


def _rules(rules: tuple[Rule, ...]) -> str:
    rows = [
        {"rule": r.rule, "found": _number(r.value), "threshold": _number(r.threshold, ""), "": MARKS[r.ok]}
        for r in rules
    ]
    return _table(rows)


def _number(value: float | str | None, missing: str = "missing") -> str:
    """A count in full, anything else with six digits."""
    if value is None or isinstance(value, str):
        return missing if value is None else value
    return f"{value:.0f}" if float(value).is_integer() else f"{value:.6g}"


def _table(rows: list[dict[str, str]]) -> str:
    return pd.DataFrame(rows).to_string(index=False)
