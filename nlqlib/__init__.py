"""A reproducible study of one LLM-backed service: question → intent → SQL → rows, served by vLLM.

The names a notebook uses. Each is imported when it is first asked for, so that the command line and the
engine's supervisor do not pay for figures and data frames.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlqlib.experiments.study import Study, say
    from nlqlib.plots import show
    from nlqlib.runs import run_metrics, runs
    from nlqlib.serving.running import run
    from nlqlib.serving.target import Target, TargetError, open_target

__all__ = ["Study", "Target", "TargetError", "open_target", "run", "run_metrics", "runs", "say", "show"]

_HOMES = {
    "Study": "nlqlib.experiments.study",
    "say": "nlqlib.experiments.study",
    "Target": "nlqlib.serving.target",
    "TargetError": "nlqlib.serving.target",
    "open_target": "nlqlib.serving.target",
    "run": "nlqlib.serving.running",
    "run_metrics": "nlqlib.runs",
    "runs": "nlqlib.runs",
    "show": "nlqlib.plots",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'nlqlib' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)
