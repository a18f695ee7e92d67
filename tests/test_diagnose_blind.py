"""The diagnosis of an endpoint that shows nothing of itself, over sockets, with service times that vary."""

import random
from pathlib import Path
from typing import Any

import pytest
from fake_behaviours import Faults, Say
from fake_server import FakeServer, serve

from nlqlib.analysis.diagnosis import Diagnosis
from nlqlib.artifacts import Store
from nlqlib.experiments.diagnose import Plan, sweep, verdict
from nlqlib.experiments.study import Study
from nlqlib.records import ChatRequest
from nlqlib.serving.gateway import Gateway
from nlqlib.serving.target import open_target
from nlqlib.serving.twin_target import TwinSettings, twin_app

SERVICE_S, JITTER = 0.1, 0.1
GRID = (1, 2, 4, 8)
CASES = [(1, "serialised upstream"), (None, "batching works")]
each_case = pytest.mark.parametrize(("limit", "said"), CASES, ids=["serial upstream", "unlimited"])


def diagnosed(root: str, folder: Path, plan: Plan) -> tuple[Diagnosis, int]:
    """The verdict on the endpoint at `root`, and how often its levels were measured."""
    study = Study("diagnose", open_target(f"{root}/v1"), "quick", "wire", Store(folder))
    found = sweep(study, plan)
    return verdict(found), len(found.records) // len(plan.concurrency)


def jittered(seed: int) -> list[Say]:
    draw = random.Random(seed)
    return [Say(latency_s=SERVICE_S * draw.uniform(1 - JITTER, 1 + JITTER)) for _ in range(400)]


def hides_everything(found: Diagnosis) -> bool:
    return found.layer is None and {row.state for row in found.layers[2:]} == {"not observable"}


@each_case
@pytest.mark.parametrize("seed", [1, 2])
def test_service_times_that_vary_by_a_tenth_leave_the_verdict_right(
    limit: int | None, said: str, seed: int, tmp_path: Path
) -> None:
    server = FakeServer(jittered(seed), slots=limit)
    with serve(server) as root:
        found, _ = diagnosed(root, tmp_path, Plan(GRID, chats=chats(), repeats=2))
    assert found.verdict == said, found.sentence
    assert hides_everything(found) and not found.repeats_decide


def chats() -> tuple[ChatRequest, ...]:
    """Answers of nine to eleven tokens: a tenth more or less."""
    asked = ({"role": "user", "content": "revenue"},)
    ignored: dict[str, Any] = {"ignore_eos": True}
    return tuple(ChatRequest(f"c{i}", asked, 9 + i % 3, extra=ignored) for i in range(6))


@each_case
def test_the_twin_on_a_socket_without_headers_and_metrics_is_judged_right(
    limit: int | None, said: str, tmp_path: Path
) -> None:
    engine = twin_app(TwinSettings(words="synthetic"))
    with serve(Gateway({"one": engine}, router=limit, headers=False)) as root:
        found, _ = diagnosed(root, tmp_path, Plan((1, 2, 4), 6, chats=chats(), repeats=2))
    assert found.verdict == said, found.sentence
    assert hides_everything(found)


@each_case
def test_503s_at_random_over_a_socket_mark_the_verdict_and_leave_it_right(
    limit: int | None, said: str, tmp_path: Path
) -> None:
    server = FakeServer(jittered(3), Faults(share_503=0.1, seed=5), slots=limit)
    with serve(server) as root:
        found, _ = diagnosed(root, tmp_path, Plan(GRID, chats=chats(), repeats=2))
    assert found.verdict == said, found.sentence
    assert found.marked and "http_503" in found.sentence
