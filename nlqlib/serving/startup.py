"""How long each phase of an engine's start-up took, told from the lines of its log. Pure.

The marks are lines of vLLM 0.12 to 0.32 on CPU and GPU. They end a phase; a phase whose mark does not appear
is missing (`None`), and its time is in the next one that does.
"""

import re
from collections.abc import Iterable, Mapping

MARKS: Mapping[str, re.Pattern[str]] = {
    "imports": re.compile(r"non-default args:"),
    "configuration": re.compile(r"Using max model len"),
    "engine_process": re.compile(r"Initializing a V1 LLM engine"),
    "worker_process": re.compile(r"Starting to load model"),
    "weights": re.compile(r"Loading weights took"),
    "kv_cache": re.compile(r"KV cache size: [\d,]+ tokens"),
    "warm_up": re.compile(r"init engine \(.*\) took"),
    "server": re.compile(r"Starting vLLM (API )?server"),
}
"""Phase → the log line that ends it, in order; `ready` (answers to /health) follows."""
DOING = {
    "imports": "importing vLLM",
    "configuration": "reading the model's configuration",
    "engine_process": "starting the engine process",
    "worker_process": "starting the worker",
    "weights": "loading weights",
    "kv_cache": "allocating the KV cache",
    "warm_up": "profiling and warming up",
    "server": "starting the server",
    "ready": "waiting for the first answer",
}


def phase_ended_by(line: str) -> str | None:
    """The phase that `line` of the log ends, if any."""
    return next((phase for phase, mark in MARKS.items() if mark.search(line)), None)


def current_phase(ended: Iterable[str]) -> str:
    """What goes on after the phases `ended`: the one after the last of them."""
    names = [*MARKS, "ready"]
    reached = max((names.index(phase) + 1 for phase in ended), default=0)
    return names[min(reached, len(names) - 1)]


def durations(ends_s: Mapping[str, float], ready_s: float) -> dict[str, float | None]:
    """Seconds of each phase from the times at which they ended, since the spawn; with `ready` and `total`."""
    found: dict[str, float | None] = {}
    last = 0.0
    for phase in MARKS:
        end = ends_s.get(phase)
        found[phase] = None if end is None else round(max(0.0, end - last), 3)
        last = max(last, end or 0.0)
    return found | {"ready": round(ready_s - last, 3), "total": round(ready_s, 3)}
