"""What the retained runs say of each prediction: found by notebook and point, compared, judged.

Runs of other notebooks were made for other reasons; whether a prediction was written before its runs is read
from the times that both have kept.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path

from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Record
from nlqlib.experiments.control_data import OWN, Pick, Predicted, Row, rows
from nlqlib.experiments.control_verdict import CONFIRMED, Change, Side, Verdict, change, judge, of_row, paired
from nlqlib.experiments.study import Study
from nlqlib.experiments.sweep_rows import broken
from nlqlib.files import slug
from nlqlib.records import ANSWERED, Metric, MetricTag

SHARE = "share"
"""The unit and statistic of a metric that is `value · n` of `n`."""


OUTCOME = "outcome:"
FIXED = "share of fixed cases"
"""Chosen requests, not a sample of any: their share has no interval."""
JUDGED = {"raw strict accuracy": "raw_strict", "strict accuracy": "strict"}
"""Metrics of an evaluation, and where its rows hold the judgement of each question."""


@dataclass
class Retained:
    """The points at hand: the map's own, and those that other notebooks have kept for this target."""

    study: Study
    own: Sequence[Record]
    known: dict[str, list[Record]] = field(default_factory=dict)

    def points(self, notebook: str) -> list[Record]:
        """The successful points of a notebook under this profile, the newest of each name."""
        if notebook not in self.known:
            found = self.own if notebook == OWN else self._kept(notebook)
            self.known[notebook] = newest(r for r in found if self._fits(r))
        return self.known[notebook]

    def _kept(self, notebook: str) -> list[Record]:
        folder = self.study.store.root / slug(self.study.target.name) / slug(notebook)
        return [load_record(path) for path in _bodies(folder)]

    def _fits(self, record: Record) -> bool:
        return record.status == "success" and record.params.get("profile") == self.study.profile


def _bodies(folder: Path) -> list[Path]:
    return [p for p in sorted(folder.glob("*.json")) if not p.name.endswith(".run.json")]


def newest(records: Iterable[Record]) -> list[Record]:
    """Of each point's name the record that was completed last, by name."""
    found: dict[str, Record] = {}
    for record in sorted(records, key=lambda r: str(r.run.get("completed_at") or "")):
        found[record.body["point"]] = record
    return [found[name] for name in sorted(found)]


@dataclass(frozen=True)
class Finding:
    """One prediction with what was observed of it."""

    row: Row
    predicted: Predicted
    verdict: Verdict
    why: str
    change: Change | None = None
    unit: str = ""
    n: tuple[int, int] = (0, 0)
    """Runs on either side."""
    records: tuple[Record, ...] = ()
    foretold: bool | None = None
    """Whether the prediction was written before the first of its runs; `None`: a time is missing."""


@dataclass(frozen=True)
class Outcome:
    """One row of the map with its findings."""

    row: Row
    findings: tuple[Finding, ...]

    @property
    def verdict(self) -> Verdict:
        return of_row([f.verdict for f in self.findings])

    @property
    def headline(self) -> Finding | None:
        """The finding that decides: the first with the row's verdict."""
        return next((f for f in self.findings if f.verdict == self.verdict), None)


def outcomes(study: Study, own: Sequence[Record], of: Iterable[Row] = ()) -> list[Outcome]:
    """Every row with its findings, in the article's order; `own` are the map's own points."""
    there = Retained(study, own)
    written = next((r for r in own if "statements" in r.params), None)
    return [
        Outcome(row, tuple(_finding(there, row, p, written) for p in row.predicted)) for row in of or rows()
    ]


def _finding(there: Retained, row: Row, predicted: Predicted, written: Record | None) -> Finding:
    sides = [_side(there, pick) for pick in (predicted.before, predicted.after)]
    problems = [problem for _, _, problem in sides if problem]
    if problems:
        return Finding(row, predicted, "not observable here", problems[0])
    (before, first, _), (after, second, _) = sides
    assert before is not None and after is not None
    seen = _paired(predicted, first, second) or change(before, after)
    verdict, why = judge(seen, predicted.direction, predicted.least)
    if verdict in CONFIRMED and predicted.by_construction(there.study.target.kind == "twin"):
        verdict = "holds by construction"
    records = (*first, *second)
    return Finding(
        row,
        predicted,
        verdict,
        why,
        seen,
        _metric(second[0], predicted.after).unit,
        (len(first), len(second)),
        records,
        _before(written, records),
    )


def _side(there: Retained, pick: Pick) -> tuple[Side | None, list[Record], str]:
    """The values of one side and their records, or why there is none."""
    found = [r for r in there.points(pick.notebook) if fnmatchcase(r.body["point"], pick.point)]
    if not found:
        return None, [], _absent(there.study, pick)
    sound = [r for r in found if not broken(r)]
    if not sound:
        rule = broken(found[0])[0].rule
        return None, [], f"every run of {pick.point} broke a validity rule ({rule})"
    seen = [(r, m) for r in sound if (m := _metric(r, pick)).value is not None]
    if not seen:
        return None, [], f"{pick.metric} of {pick.point} is missing: this target does not show it"
    values = tuple(float(m.value) for _, m in seen if m.value is not None)
    share = seen[0][1].n if seen[0][1].unit == SHARE and seen[0][1].stat == SHARE else None
    return Side(values, share), [r for r, _ in seen], ""


def _paired(predicted: Predicted, first: Sequence[Record], second: Sequence[Record]) -> Change | None:
    """The change where both sides are judgements of the very same answers; else `None`."""
    fields = [JUDGED.get(pick.metric) for pick in (predicted.before, predicted.after)]
    if None in fields or [r.path for r in first] != [r.path for r in second] or len(first) != 1:
        return None
    rows_of = [row for row in first[0].samples() if row["outcome"] in ANSWERED]
    before, after = ([bool(row[str(name)]) for row in rows_of] for name in fields)
    return paired(before, after)


def _metric(record: Record, pick: Pick) -> Metric:
    """The metric of a record, or the share of an outcome; without a value where the record lacks it."""
    if pick.metric.startswith(OUTCOME):
        counts, outcome = record.requests, pick.metric.removeprefix(OUTCOME)
        n, seen = int(counts.get("total") or 0), counts.get(outcome, 0)
        tag: MetricTag = "replayed" if record.body["target"] == "twin" else "measured"
        return Metric(pick.metric, SHARE, FIXED, seen / n if n else None, n, tag)
    named = (m for m in record.metrics if (m.name, m.stat) == (pick.metric, pick.stat))
    return next(named, Metric(pick.metric, "", pick.stat, None, None, "measured"))


def _absent(study: Study, pick: Pick) -> str:
    """Why there is no such run, and what to do."""
    if pick.notebook != OWN:
        return f"no such run is kept for this target: run {pick.notebook} first"
    if study.target.kind == "url":
        return (
            f"{pick.point.rstrip('-*')} needs other settings of an engine that is not ours: deploy it so, "
            "name it by `cell`, and run this page once for each"
        )
    return f"{pick.point.rstrip('-*')} is not run on this target"


def _before(written: Record | None, records: Iterable[Record]) -> bool | None:
    """Whether the predictions were complete before any of `records` was started; times as both keep them."""
    told = str((written.run.get("completed_at") if written else None) or "")
    began = [str(r.run.get("started_at") or "") for r in records]
    return None if not told or not all(began) else all(told <= start for start in began)
