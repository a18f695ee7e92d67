"""`compare`: two saved runs, before and after a change, with intervals and both verdicts."""

import json
from collections.abc import Sequence
from dataclasses import asdict

import pandas as pd

from nlqlib.analysis.comparison import Change, changes
from nlqlib.analysis.diagnosis import Diagnosis
from nlqlib.artifacts import Record
from nlqlib.commands import InputError
from nlqlib.commands_diagnose import one_sweep, wrapped
from nlqlib.experiments.diagnose import of_records
from nlqlib.experiments.saved_levels import completions_of
from nlqlib.records import Completion, Json


def compare(before: str, after: str, points: str = "*", as_json: bool = False) -> int:
    """Two folders of saved runs, before and after a change: differences with intervals, and both verdicts."""
    sides = [one_sweep(folder, points) for folder in (before, after)]
    found = changes(*(_runs(side) for side in sides))
    if not found:
        raise InputError("the two runs have no concurrency in common: measure the same levels on both sides")
    verdicts, settings = [of_records(side) for side in sides], _settings(*sides)
    if as_json:
        told = {
            "before": {"source": before, "verdict": verdicts[0].verdict, "sentence": verdicts[0].sentence},
            "after": {"source": after, "verdict": verdicts[1].verdict, "sentence": verdicts[1].sentence},
            "settings": settings,
            "changes": [asdict(c) | {"ratio": c.ratio} for c in found],
        }
        print(json.dumps(told, indent=2, ensure_ascii=False))
        return 0
    print(_compared(found, verdicts, settings))
    return 0


def _runs(records: Sequence[Record]) -> dict[int, list[list[Completion]]]:
    found: dict[int, list[list[Completion]]] = {}
    for record in records:
        found.setdefault(int(record.params["concurrency"]), []).append(completions_of(record))
    return found


def _settings(before: Sequence[Record], after: Sequence[Record]) -> Json:
    """What was declared differently, before and after; more than one change cannot be told apart."""
    first, second = _declared(before[0]), _declared(after[0])
    names = sorted(set(first) | set(second))
    return {n: [first.get(n), second.get(n)] for n in names if first.get(n) != second.get(n)}


def _declared(record: Record) -> Json:
    """Settings by their names, one level of nesting taken apart."""
    flat: Json = {}
    for part in ("identity", "server", "workload"):
        for name, value in (record.body.get(part) or {}).items():
            inner = value.items() if isinstance(value, dict) else [("", value)]
            flat |= {f"{part}.{name}" + (f".{key}" if key else ""): told for key, told in inner}
    return flat


def _compared(found: Sequence[Change], verdicts: Sequence[Diagnosis], settings: Json) -> str:
    rows = [
        {
            "in flight": c.concurrency,
            "quantity": f"{c.quantity}, {c.unit}",
            "before": _number(c.before),
            "after": _number(c.after),
            "difference": _number(c.difference),
            "95 % interval": "—" if c.interval is None else f"{c.interval.low:.3g} to {c.interval.high:.3g}",
            "reading": c.reading,
        }
        for c in found
    ]
    changed = [f"  {name}: {old} → {new}" for name, (old, new) in settings.items()]
    warning = ["more than one setting differs: the change cannot be put down to one of them"]
    return "\n".join(
        [
            *wrapped("before: " + verdicts[0].sentence),
            *wrapped("after:  " + verdicts[1].sentence),
            "",
            "settings that differ:" if changed else "no declared setting differs",
            *changed,
            *(warning if len(changed) > 1 else []),
            "",
            pd.DataFrame(rows).to_string(index=False),
        ]
    )


def _number(value: float | None) -> str:
    return "—" if value is None else f"{value:.4g}"
