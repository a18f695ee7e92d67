"""From the runs of one staircase test to the numbers and rules of its point, and back. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from nlqlib.analysis.staircase import (
    MAX_SKEW_SHARE,
    ControlledStaircase,
    ProcessTimes,
    Staircase,
    controlled,
    staircase,
)
from nlqlib.analysis.window import Scrape, Window, foreign_traffic_rules, window
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.sweep_result import Tag
from nlqlib.files import slug
from nlqlib.load.processes import Release
from nlqlib.records import Completion, Json, Metric, Rule

AS_IT_IS, ONE_AT_A_TIME = "as it is", "router limit 1"
PARALLEL, SERIAL = "parallel control", "serial control"
CONTROLS = (PARALLEL, SERIAL)
SAME_WITHIN: Mapping[str, float] = {"service median": 0.2, "last max": 0.3}
"""Two runs in real time are no copies of each other: what moves less than this has come back."""


@dataclass(frozen=True)
class Run:
    """One release of k processes on one server."""

    name: str
    alone: tuple[Completion, ...]
    """Requests sent one by one to the idle server, each over a connection of its own."""
    release: Release
    before: Scrape | None = None
    after: Scrape | None = None

    @property
    def service_s(self) -> float | None:
        """Median latency of one request alone; `None` when none was answered."""
        return _median([c.e2e_s for c in self.alone if c.e2e_s is not None])

    @property
    def staircase(self) -> Staircase:
        """What the release shows."""
        return staircase(self.release.times, self.service_s)

    @property
    def engine(self) -> Window | None:
        """What the engine says of the release alone."""
        return window(self.before, self.after) if self.before and self.after else None


def _median(values: Sequence[float]) -> float | None:
    if not values:
        return None
    ordered, half = sorted(values), len(values) // 2
    return ordered[half] if len(values) % 2 else (ordered[half - 1] + ordered[half]) / 2


def measured(runs: Sequence[Run], tag: Tag) -> Measured:
    """The point of a test: every run with its staircase; both controls must be among them.

    `tag` is how the endpoint's times came about; a control's are always measured.
    """
    found = {run.name: run.staircase for run in runs}
    own = [run for run in runs if run.name not in CONTROLS]
    scrapes: dict[str, bytes] = {}
    for run in own:
        for when, scrape in (("before", run.before), ("after", run.after)):
            scrapes |= scrape.raw(f"{slug(run.name)}-{when}") if scrape else {}
    return Measured(
        requests=_requests(own),
        metrics=[m for run in runs for m in _metrics(run, "measured" if run.name in CONTROLS else tag)],
        samples=[row for run in runs for row in _rows(run)],
        validity=[*(r for run in runs for r in _rules(run)), *_control_rules(found)],
        results=_results(found, own),
        scrapes=scrapes,
    )


def _requests(own: Sequence[Run]) -> Json:
    """Counts of the endpoint's requests; the controls' are not its."""
    done = [c for run in own for c in run.release.completions]
    failed: dict[str, int] = {}
    for c in done:
        if not c.ok:
            failed[c.outcome] = failed.get(c.outcome, 0) + 1
    return {"total": len(done), "ok": sum(c.ok for c in done), **failed}


def _results(found: Mapping[str, Staircase], own: Sequence[Run]) -> Json:
    judged = judge(found)
    return {
        "clock": "real",
        "runs": list(found),
        "service_s": {name: s.service_s for name, s in found.items()},
        "verdicts": {name: s.verdict for name, s in found.items()},
        "judged": {name: c.verdict for name, c in judged.items()},
        "reasons": {name: c.reason for name, c in judged.items()},
        "reproduced_if": {
            "equal": ["verdicts", "judged"],
            "within": {f"{slug(r.name)}_{what}": share for r in own for what, share in SAME_WITHIN.items()},
        },
    }


def _metrics(run: Run, tag: Tag) -> list[Metric]:
    """Named after the run: `router-limit-1_slope` …"""
    s, seen, name = run.staircase, run.engine, slug(run.name)
    interval, times = s.slope_interval, s.completions_s
    waits = [c.router_queue_s for c in run.release.completions if c.router_queue_s is not None]
    told = [
        ("service", "s", "median", s.service_s, len(run.alone)),
        ("first", "s", "min", times[0] if times else None, s.k),
        ("last", "s", "max", times[-1] if times else None, s.k),
        ("slope", "s", "least squares", s.slope_s, s.k),
        ("slope", "s", "low", interval.low if interval else None, s.k),
        ("slope", "s", "high", interval.high if interval else None, s.k),
        ("slope_share", "service times", "least squares", s.slope_share, s.k),
        ("r2", "share", "least squares", s.r2, s.k),
        ("skew", "s", "max", s.skew_s, s.k),
        ("skew_share", "service times", "max", s.skew_share, s.k),
    ]
    if run.name not in CONTROLS:
        told += [
            ("e2e_latency", "s", "mean", _mean([c.e2e_s for c in run.release.completions]), s.k),
            ("router_queue", "s", "mean", _mean(waits), len(waits)),
            ("engine_e2e", "s", "mean", seen.e2e_s if seen else None, s.k),
            ("engine_queue", "s", "mean", seen.queue_s if seen else None, s.k),
        ]
    return [Metric(f"{name}_{what}", unit, stat, value, n, tag) for what, unit, stat, value, n in told]


def _mean(values: Sequence[float | None]) -> float | None:
    seen = [v for v in values if v is not None]
    return sum(seen) / len(seen) if seen else None


def _rows(run: Run) -> list[Json]:
    """One row per process; seconds since the release."""
    return [
        {
            "run": run.name,
            "i": i,
            "id": c.request_id,
            "outcome": c.outcome,
            "error": c.error,
            "woken_s": woken,
            "start_s": c.start_s,
            "end_s": c.end_s,
            "output_tokens": c.output_tokens,
            "router_queue_s": c.router_queue_s,
        }
        for i, (woken, c) in enumerate(zip(run.release.woken_s, run.release.completions, strict=True))
    ]


def _rules(run: Run) -> list[Rule]:
    k, done = len(run.release.completions), run.release.completions
    processes, answered = len(set(run.release.pids)), sum(c.ok for c in done)
    share, seen = run.staircase.skew_share, run.engine
    held = None if share is None else share <= MAX_SKEW_SHARE
    rules = [
        Rule("independent processes", processes, k, processes == k),
        Rule("answers", answered, k, answered == k),
        Rule("release skew / service time", share, MAX_SKEW_SHARE, held),
        *(seen.rules if seen else ()),
        *(foreign_traffic_rules(seen, k, k, ())[:1] if seen else ()),
    ]
    return [Rule(f"{run.name}: {r.rule}", r.value, r.threshold, r.ok) for r in rules]


def _control_rules(found: Mapping[str, Staircase]) -> list[Rule]:
    wanted = {PARALLEL: "parallel", SERIAL: "serial"}
    return [
        Rule(f"the {name} is called", found[name].verdict, word, found[name].verdict == word)
        for name, word in wanted.items()
    ]


def judge(found: Mapping[str, Staircase]) -> dict[str, ControlledStaircase]:
    """The endpoint's runs, each beside both controls."""
    own = {name: s for name, s in found.items() if name not in CONTROLS}
    return {name: controlled(s, found[PARALLEL], found[SERIAL]) for name, s in own.items()}


def staircases(record: Record) -> dict[str, Staircase]:
    """The staircase of every run of a retained test, from its rows. Raises `ArtifactError`."""
    alone = record.results["service_s"]
    rows: dict[str, list[Json]] = {name: [] for name in record.results["runs"]}
    for row in record.samples():
        rows[row["run"]].append(row)
    return {name: staircase([_times(r) for r in found], alone[name]) for name, found in rows.items()}


def _times(row: Json) -> ProcessTimes:
    end_s = row["end_s"] if row["outcome"] == "ok" else None
    return ProcessTimes(row["woken_s"], row["start_s"], end_s, row["output_tokens"])
