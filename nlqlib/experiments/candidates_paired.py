"""Candidates beside each other, question by question: exact McNemar tests with Holm's adjustment."""

from collections.abc import Mapping, Sequence

import pandas as pd

from nlqlib.analysis.evaluation import Paired
from nlqlib.artifacts import Record
from nlqlib.experiments.candidates import Candidate, Measurements
from nlqlib.experiments.condition_report import paired
from nlqlib.experiments.heldout import rows
from nlqlib.experiments.heldout_page import indexed
from nlqlib.records import Json

ALPHA = 0.05


def paired_table(found: Measurements, candidates: Sequence[Candidate]) -> pd.DataFrame:
    """On each set every candidate that was measured and must answer, against the first of them.

    Holm's adjustment is over all candidates compared on a set.
    """
    table = {
        (source, one["candidate"]): {k: v for k, v in one.items() if k != "candidate"}
        for source, records in found.items()
        for one in _compared(records, candidates)
    }
    return indexed(table, "set", "candidate")


def _compared(records: Mapping[str, Record | None], candidates: Sequence[Candidate]) -> list[Json]:
    judged = measured(records, candidates)
    first = next(iter(judged), "")
    return [
        {
            "candidate": one.name,
            "against": first,
            "right only there": one.only_first,
            "right only here": one.only_second,
            "both answered": one.n,
            "p (exact McNemar)": f"{one.p:.2g}" if one.n else "n/a",
            "p (Holm)": f"{one.p_holm:.2g}" if one.n else "n/a",
        }
        for one in paired(judged)
    ]


def measured(records: Mapping[str, Record | None], candidates: Sequence[Candidate]) -> dict[str, list[Json]]:
    """The answered rows of the forced candidates of one set, in their order; none of who answered nothing."""
    found = {c.name: records.get(c.name) for c in candidates if c.forced}
    return {name: told for name, record in found.items() if record is not None and (told := rows(record))}


def paired_sentence(found: Measurements, candidates: Sequence[Candidate]) -> str:
    """Which candidates differ from the first by more than luck, by set."""
    parts = []
    for source, records in found.items():
        judged = measured(records, candidates)
        tests = [one for one in paired(judged) if one.n]
        sure = [f"{one.name} ({_way(one)})" for one in tests if one.p_holm < ALPHA]
        if tests:
            parts.append(f"on {source}: {', '.join(sure) or 'none'}")
    if not parts:
        return "No two candidates were measured on one set, so nothing can be compared."
    return f"Different from the first by more than luck (Holm's p below {ALPHA}) {'; '.join(parts)}."


def _way(one: Paired) -> str:
    return "better" if one.only_second > one.only_first else "worse"
