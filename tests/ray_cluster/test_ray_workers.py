"""A closed loop whose workers are Ray tasks, on a Ray of this machine."""

from collections.abc import Iterator
from dataclasses import replace

import pytest
import ray
from fake_behaviours import MODEL
from fake_server import FakeServer, serve

from benchmarks.clients import fixed_server
from nlqlib.analysis.latency import outcome_counts
from nlqlib.load.errors import LoadError
from nlqlib.load.ray_workers import MAX_SPREAD, RayRun, closed_loop_on_ray
from nlqlib.records import ChatRequest
from nlqlib.serving.endpoint import Endpoint

ASKED = [ChatRequest("q", ({"role": "user", "content": "revenue by region"},), 8)]


@pytest.fixture(scope="module")
def cluster() -> Iterator[None]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


@pytest.fixture(scope="module")
def fixed_address() -> Iterator[str]:
    with fixed_server() as root:
        yield f"{root}/v1"


@pytest.fixture(scope="module")
def found(cluster: None, fixed_address: str) -> RayRun:
    return closed_loop_on_ray(Endpoint(fixed_address, "fixed"), ASKED, 8, 160, 2)


def test_every_request_is_answered_once_and_in_two_processes(found: RayRun) -> None:
    assert len(found.run.completions) == 160 and all(c.ok for c in found.run.completions)
    assert len({c.request_id for c in found.run.completions}) == 160
    assert len(set(found.workers)) == 2


def test_in_flight_stays_at_the_concurrency_asked_for(found: RayRun) -> None:
    assert found.run.health.peak_in_flight <= 8
    rule = next(r for r in found.rules() if "in flight" in r.rule)
    assert rule.ok


def test_the_release_spread_is_a_rule_of_the_run(found: RayRun) -> None:
    rule = found.rules()[-1]
    assert rule.rule == "release spread / mean latency" and rule.threshold == MAX_SPREAD
    assert rule.value == pytest.approx(found.clock_spread_s / 0.05, rel=0.2)


def test_a_worker_that_fails_says_where_and_why(cluster: None) -> None:
    with pytest.raises(LoadError, match=r"worker 1 of 2 on .+/\d+: the first 20 requests all failed"):
        closed_loop_on_ray(Endpoint("http://127.0.0.1:9/v1", "fixed"), ASKED, 4, 400_000, 2)


def test_a_worker_whose_part_only_fails_ends_no_run_in_which_another_is_answered(cluster: None) -> None:
    refused = [*ASKED, replace(ASKED[0], extra={"model": "another"})]
    with serve(FakeServer(check_model=True)) as root:
        run = closed_loop_on_ray(Endpoint(f"{root}/v1", MODEL), refused, 4, 80, 2).run
    assert outcome_counts(run.completions) == {"ok": 40, "wrong_model": 40}
