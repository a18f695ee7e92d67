"""How long the engine took to start, phase by phase: kept with its identity, where its start was watched."""

import pandas as pd

from nlqlib.artifacts import Record
from nlqlib.experiments.captions import Table, captioned
from nlqlib.experiments.study import Study
from nlqlib.records import Metric
from nlqlib.serving.startup import DOING
from nlqlib.serving.target import Target

NAME = "startup"
"""Metric of the identity point in seconds, one `stat` for each phase (`startup.MARKS`), `ready`, `total`."""


def startup_metrics(target: Target) -> list[Metric]:
    """Seconds of each phase of the start of `target`'s engine, in order; none where nobody watched it.

    A phase whose mark the log lacks is `None`, and its time is in the next one. Connects.
    """
    told = target.connection.engine.get("startup_s") or {}
    return [Metric(NAME, "s", phase, s, None if s is None else 1, "measured") for phase, s in told.items()]


def startup_phases(record: Record) -> dict[str, float | None]:
    """Phase → seconds, in order, as an identity point keeps them; empty where it does not."""
    return {m.stat: m.value for m in record.metrics if m.name == NAME}


def startup_table(record: Record, study: Study) -> Table | None:
    """The phases of the start, one a row; `None` where none was watched."""
    phases = startup_phases(record)
    if not phases:
        return None
    rows = [{"phase": DOING.get(phase, phase), "seconds": _shown(s)} for phase, s in phases.items()]
    return captioned(pd.DataFrame(rows).set_index("phase"), study, "The engine's start, told from its log")


def startup_sentence(record: Record, study: Study) -> str:
    """What the start cost in one sentence, or why there is none to show."""
    known = {phase: s for phase, s in startup_phases(record).items() if s is not None}
    total = known.pop("total", None)
    if total is None or not known:
        return NOT_SEEN[study.target.kind]
    longest = max(known, key=lambda phase: known[phase])
    return (
        f"From its launch to its first answer the engine took {total:.1f} s, {known[longest]:.1f} s of them "
        f"{DOING[longest]}. It is one start, of an engine installed before; what of its files was in memory "
        "already is not known."
    )


NOT_SEEN = {
    "twin": "Nothing was started here: the twin is a model of an engine that runs already.",
    "url": "Not observable here: this endpoint ran before we came.",
    "local": "Not known: this point was kept without the times of the engine's start.",
}
"""Kind of target → why it has no start to show."""


def _shown(seconds: float | None) -> str:
    return "—" if seconds is None else f"{seconds:.1f}"
