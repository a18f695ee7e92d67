"""What stands beside a verdict: how many a layer lets through, and how that is known."""

import re
from dataclasses import replace

from queue_world import Site, Twin, sweep

from nlqlib.analysis.diagnosis import Diagnosis, diagnose

LETS = re.compile(r"lets about (\d\.\d) through at once \(estimated by Little's law\)")


def seen_by(**limits: int) -> Diagnosis:
    return diagnose(sweep(Site(Twin, **limits)))


def test_a_layer_that_limits_says_how_many_it_lets_through_and_how_that_is_known() -> None:
    told = {row.name: row.finding for row in seen_by(router=4).layers}
    found = LETS.match(told["Router"])
    assert found is not None and 3.5 <= float(found[1]) <= 4.5
    assert re.search(r"\); mean wait [\d.]+ s at \d+ in flight$", told["Router"])


def test_the_evidence_says_it_in_the_same_words() -> None:
    readings = [
        e.reading for e in seen_by(replica=4).evidence if e.name.startswith("mean wait at the replica")
    ]
    assert len(readings) == 1 and readings[0].startswith("a queue; ") and LETS.search(readings[0])


def test_an_engine_with_a_queue_says_how_many_run() -> None:
    rows = [
        replace(row, engine_queue_s=0.5 * (row.mean_s or 0.0) if row.concurrency > 8 else 0.0)
        for row in sweep(Site(lambda: Twin(max_num_seqs=8)))
    ]
    readings = [e.reading for e in diagnose(rows).evidence if e.name.startswith("mean wait at the engine")]
    assert readings == ["a queue; 8 run at once"]
