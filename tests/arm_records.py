"""Arms as records made by hand: what the pages on decomposition and KV pressure are tested on."""

from pathlib import Path
from typing import Any

from nlqlib.artifacts import Record
from nlqlib.records import Json

ALONE = {"engine queue": 0.0, "prefill": 0.0315, "decode": 3.110}
"""The article's sequential row, in seconds."""
UNITS = {"hit_rate": "share", "kv_usage": "share", "output_tokens": "tokens", "preemptions": "requests"}


def arm(
    concurrency: int = 1,
    parts: dict[str, float | None] | None = None,
    total_s: float | None = 3.211,
    closes: bool | None = True,
    blocks: int | None = 23_500,
    block_size: int | None = 16,
    gpu_problem: str | None = "the twin is a model and has no GPU",
    settings: Json | None = None,
    **values: float | None,
) -> Record:
    """An arm; `values` by `metric` or `metric__stat` (default: mean), missing ones were not observed."""
    found = {name.partition("__")[::2]: value for name, value in values.items()}
    terms = ALONE if parts is None else parts
    seen = [v for v in terms.values() if v is not None]
    share = sum(seen) / total_s if total_s and seen else None
    metrics: list[dict[str, Any]] = [
        {"name": n, "unit": UNITS.get(n, "s"), "stat": stat or "mean", "value": v, "n": 4, "tag": "modelled"}
        for (n, stat), v in found.items()
    ]
    body: Json = {
        "status": "success",
        "point": f"arm-n{concurrency:02d}",
        "params": {"concurrency": concurrency, **(settings or {})},
        "requests": {"total": 150, "ok": 150},
        "metrics": metrics,
        "validity": [
            {
                "rule": "sum of the terms / client E2E",
                "value": share,
                "threshold": "0.95 … 1.05",
                "ok": closes,
            }
        ],
        "results": {
            "terms": {
                "total_s": total_s,
                "parts": terms,
                "residual_s": total_s - sum(seen) if total_s and seen else None,
                "outside_engine_s": None,
                "closes": closes,
            },
            "blocks": blocks,
            "block_size": block_size,
            "gpu_problem": gpu_problem,
        },
        "samples": None,
        "server": None,
    }
    return Record(Path("arm.json"), body, {})
