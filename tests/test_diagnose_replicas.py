"""Replicas that come while a sweep runs: seen in the answers' headers, level by level and within a level."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from queue_world import Site, Slots, constant
from queue_world import sweep as queued

from nlqlib.analysis.diagnosis import Diagnosis, diagnose
from nlqlib.analysis.diagnosis_levels import SweepLevel
from nlqlib.analysis.diagnosis_replicas import history, replicas_seen, within
from nlqlib.artifacts import Store
from nlqlib.experiments.diagnose import Plan, sweep, verdict
from nlqlib.experiments.study import Study
from nlqlib.records import Completion
from nlqlib.serving.gateway import Gateway
from nlqlib.serving.target import Target, open_target


class Growing(Gateway):
    """A second replica takes requests only after `after` requests have been admitted."""

    after = 10**9
    admitted = 0

    def _choose(self) -> Any:
        self.admitted += 1
        return super()._choose() if self.admitted > self.after else self.replicas[0]


def growing(after: int) -> Target:
    """Two twins behind one address in virtual time, the second one started late."""
    plain = open_target("twin").engine(words="synthetic")

    def connect() -> Any:
        there = plain.connect()
        gateway = Growing({"first": there.app, "second": plain.connect().app}, replica=2)
        gateway.after = after
        return replace(there, app=gateway, metrics_urls=())

    grown = replace(plain, connect=connect)
    return replace(grown, variant=lambda flags: grown)


def seen(folder: Path, after: int, grid: tuple[int, ...] = (1, 4, 8, 16)) -> Diagnosis:
    return verdict(sweep(Study("diagnose", growing(after), "full", "wire", Store(folder)), Plan(grid)))


def autoscaler(found: Diagnosis) -> tuple[str, str]:
    row = found.layers[-1]
    assert row.name == "Autoscaler"
    return row.state, row.finding


def test_a_replica_that_comes_between_levels_leaves_the_verdict_open(tmp_path: Path) -> None:
    found = seen(tmp_path, after=44 + 48)  # the levels at 1 and 4, with their twenty warming requests each
    assert found.verdict.startswith("cannot tell, because the number of replicas changed during the sweep")
    assert "replicas seen: 1 → 2 at 8 in flight" in found.sentence
    assert autoscaler(found)[0] == "suspect" and "pin the replicas" in found.next_experiment


def test_a_replica_that_comes_within_the_last_level_is_told_with_its_time(tmp_path: Path) -> None:
    found = seen(tmp_path, after=44 + 48 + 76 + 20 + 60)
    state, finding = autoscaler(found)
    assert state == "suspect" and "1 → 2 at 16 in flight" in finding
    assert "at 16 in flight second first answered at" in finding
    told = {e.name: e for e in found.evidence}["replicas seen"]
    assert told.value == "1 → 2 at 16 in flight" and "second first answered" in told.reading


def test_a_replica_that_comes_within_the_only_level_that_could_show_two_is_noticed(tmp_path: Path) -> None:
    found = seen(tmp_path, after=44 + 44 + 20 + 14, grid=(1, 2, 4))
    assert found.kind == "cannot tell" and "first answered" in found.sentence


def test_replicas_that_were_there_all_along_are_watched_and_pass(tmp_path: Path) -> None:
    found = seen(tmp_path, after=0)
    assert found.verdict == "limited at 4"
    assert autoscaler(found) == (
        "passes",
        "2 replicas at every level, the same from the first answer to the last: the capacity is that of all "
        "together",
    )


def done(names: str) -> list[Completion]:
    return [Completion(str(i), "ok", start_s=5.0 + i, end_s=6.0 + i, replica=n) for i, n in enumerate(names)]


def test_first_and_last_answers_are_counted_from_the_levels_own_start() -> None:
    [a, b] = replicas_seen(done("aabab"), 4).appearances
    assert (a.replica, a.first_s, a.last_s, a.before, a.after) == ("a", 0.0, 3.0, 0, 1)
    assert (b.replica, b.first_s, b.last_s, b.before, b.after) == ("b", 2.0, 4.0, 2, 0)
    assert replicas_seen([Completion("x", "ok", start_s=0.0, end_s=1.0)], 4).appearances == ()


@pytest.mark.parametrize(
    ("names", "concurrency", "said"),
    [
        ("a" * 13 + "bab", 4, None),  # 13 answers can all have missed a replica that was there
        ("a" * 14 + "bab", 4, "b first answered at 14 s"),
        ("ab" + "a" * 14, 4, "b last answered at 1 s"),
        ("a" * 14 + "bab", 3, None),  # with so few in flight a router need not use both
        ("a" * 20, 4, None),
    ],
)
def test_who_came_or_went_is_told_where_chance_would_not_explain_it(
    names: str, concurrency: int, said: str | None
) -> None:
    assert replicas_seen(done(names), concurrency).changed == said


def test_the_history_names_the_concurrency_of_every_change() -> None:
    rows = [SweepLevel(n, n=9, ok=9, replica_count=k) for n, k in ((1, 1), (4, 1), (8, 2), (16, 3))]
    assert history(rows) == "1 → 2 at 8 in flight → 3 at 16 in flight"
    assert history([SweepLevel(1, n=9, ok=9)]) is None and within([]) is None


def test_without_names_in_the_answers_nothing_is_claimed_about_who_came() -> None:
    rows = [replace(row, replicas=None) for row in queued(Site(lambda: Slots(constant(2.0)), router=1))]
    found = diagnose(rows, replicas=[replicas_seen([], row.concurrency) for row in rows])
    assert autoscaler(found) == (
        "not observable",
        "answers do not name their replica, and nothing counts them",
    )
