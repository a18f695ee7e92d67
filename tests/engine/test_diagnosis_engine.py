"""Where concurrency is lost, on a real vLLM: in its scheduler, before it, or nowhere.

One engine that may run four sequences at once. As it is, the scheduler is the limit; behind a gateway of one
at a time, concurrency is lost before it.
"""

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from nlqlib.analysis.diagnosis import Diagnosis
from nlqlib.artifacts import Store
from nlqlib.experiments.diagnose import NOTEBOOK, Plan, sweep, verdict
from nlqlib.experiments.study import Study
from nlqlib.serving.target import Target, open_target

SEQS = 4
GRID = (1, 2, 4, 8)
SERIAL_GRID = (1, 4)
REQUESTS = 12
"""Of each level where everything is serial: 3 s each."""


@pytest.fixture(scope="module")
def target(request: pytest.FixtureRequest) -> Iterator[Target]:
    capture = request.config.pluginmanager.getplugin("capturemanager")

    def tell(line: str) -> None:
        with capture.global_and_fixture_disabled():
            print(line, flush=True)

    opened = open_target("local", progress=tell).engine(max_num_seqs=SEQS)
    yield opened
    opened.close()


def diagnosed(target: Target, folder: Path, plan: Plan) -> Diagnosis:
    study = Study(NOTEBOOK, target, "quick", "wire", Store(folder))
    return verdict(sweep(study, plan))


def test_four_sequences_at_once_are_the_scheduler_s_limit(target: Target, tmp_path: Path) -> None:
    found = diagnosed(target, tmp_path, Plan(GRID))
    assert (found.kind, found.limit) == ("scheduler-limited", SEQS), found.sentence


def test_one_at_a_time_at_the_router_is_serialised_upstream(target: Target, tmp_path: Path) -> None:
    with closing(target.limited(router=1)) as limited:
        found = diagnosed(limited, tmp_path, Plan(SERIAL_GRID, REQUESTS))
    assert (found.kind, found.layer) == ("serialised upstream", "router"), found.sentence
