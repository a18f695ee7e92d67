"""How far the twin is from what it models, told from its own document: rows fitted apart from rows predicted.

Pure: reads `data/twins/*.json`, whose observations hold the value printed, the value modelled and the error.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from nlqlib import paths

WORDS = {
    "throughput_run": ("throughput over a whole run", "req/s"),
    "p95_s": ("p95 of latency", "s"),
    "itl_s": ("gap between tokens", "s"),
    "prefill_s": ("prefill", "s"),
    "ttft_s": ("time to first token", "s"),
    "e2e_s": ("time in the engine", "s"),
}


def document(name: str = "l4-qwen2.5-3b", folder: Path = paths.DATA / "twins") -> Mapping[str, Any]:
    """The twin's document as JSON."""
    found: Mapping[str, Any] = json.loads((folder / f"{name}.json").read_text("utf-8"))
    return found


def error_sentence(twin: Mapping[str, Any]) -> str:
    """The mean and the greatest error over the predicted rows, by quantity."""
    told = [text for quantity in WORDS if (text := _told(twin["observations"], quantity))]
    return f"Over the rows it was not fitted on, {twin['title']} as modelled is off by: {'; '.join(told)}."


def _told(observations: Sequence[Mapping[str, Any]], quantity: str) -> str:
    errors = [abs(o["error"]) for o in observations if (o["quantity"], o["tag"]) == (quantity, "predicted")]
    if not errors:
        return ""
    told = f"{mean(errors):.1%} on average and {max(errors):.1%} at most"
    return f"{WORDS[quantity][0]} {told} ({len(errors)} rows)"


def error_table(twin: Mapping[str, Any]) -> str:
    """Every row of the twin's document as a Markdown table."""
    head = "| row | the article | the twin | error | tag |\n|---|---|---|---|---|"
    return "\n".join([head, *map(_row, twin["observations"])])


def _row(row: Mapping[str, Any]) -> str:
    unit = WORDS.get(row["quantity"], ("", ""))[1]
    low, high = row["low"], row["high"]
    printed = f"{low:.4g}" if low == high else f"{low:.4g} to {high:.4g}"
    seen = (f"{printed} {unit}", f"{row['value']:.4g} {unit}", f"{row['error']:+.1%}")
    return f"| {' | '.join([row['name'], *seen, row['tag']])} |"


def limits(twin: Mapping[str, Any]) -> str:
    """What the twin is not, in its document's own words."""
    return "\n".join(f"- {text}" for text in twin["is_not"])
