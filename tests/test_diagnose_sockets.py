"""Over real sockets: clients that really are the limit, streams that end in the middle, several processes."""

import json
from pathlib import Path
from typing import Any

import pytest
from fake_behaviours import Behaviour, Raw, Say, completion, delta, stream
from fake_server import FakeServer, serve

from nlqlib.analysis.diagnosis import Diagnosis
from nlqlib.artifacts import Store
from nlqlib.experiments.diagnose import Plan, Swept, sweep, verdict
from nlqlib.experiments.study import Study
from nlqlib.records import ChatRequest
from nlqlib.serving.client import ClientKind
from nlqlib.serving.gateway import Gateway
from nlqlib.serving.target import TargetError, open_target

GRID = (1, 2, 4, 8)


def chats(streamed: bool = False) -> tuple[ChatRequest, ...]:
    asked: tuple[Any, ...] = ({"role": "user", "content": "revenue"},)
    return tuple(ChatRequest(f"c{i}", asked, 8, stream=streamed) for i in range(4))


def swept(server: FakeServer, folder: Path, plan: Plan, client: ClientKind = "wire") -> Swept:
    with serve(server) as root:
        study = Study("diagnose", open_target(f"{root}/v1"), "quick", client, Store(folder))
        return sweep(study, plan)


def states(found: Diagnosis) -> dict[str, str]:
    return {row.name: row.state for row in found.layers}


def heavy_answer(tokens: int = 4000) -> Raw:
    """An answer whose log-probabilities cost an SDK many milliseconds to read, and the server nothing."""
    one = {"token": "word", "logprob": -0.1, "bytes": [119], "top_logprobs": []}
    body = json.dumps(completion(Say(logprobs=(one,) * tokens))).encode()
    return Raw((0.05, body), length=len(body))


def test_a_client_whose_processor_is_the_limit_is_named_the_limit(tmp_path: Path) -> None:
    found = verdict(swept(FakeServer(heavy_answer()), tmp_path, Plan((1, 4, 16), chats=chats()), "openai"))
    assert (found.kind, found.layer) == ("client-limited", "client"), found.sentence
    assert states(found)["Client"] == "suspect"
    assert "`--workers 4` of `sweep` and `diagnose`" in found.next_experiment


def test_a_pool_of_eight_over_sockets_is_the_client(tmp_path: Path) -> None:
    server = FakeServer(Say(latency_s=0.06))
    found = verdict(swept(server, tmp_path, Plan((1, 4, 8, 16, 32), chats=chats(), pool=8)))
    assert (found.verdict, found.limit, found.layer) == ("client-limited", 8, "client"), found.sentence
    assert states(found)["Transport"] == "limits" and server.peak_in_flight == 8


def test_a_gateway_that_refuses_over_sockets_is_a_limit_though_refusals_come_first(tmp_path: Path) -> None:
    gateway = Gateway(FakeServer(Say(latency_s=0.2)), replica=4, max_queue=0, headers=False)
    with serve(gateway) as root:
        study = Study("diagnose", open_target(f"{root}/v1"), "quick", "wire", Store(tmp_path))
        found = sweep(study, Plan((1, 4, 8), chats=chats()))
    told = verdict(found)
    assert told.verdict == "limited at 4" and not found.lost, told.sentence
    assert told.marked and "refuses the rest with 429 or 503" in told.sentence


def cut_streams(every: int) -> list[Behaviour]:
    """Streamed answers of which one in `every` ends in the middle, the connection with it."""
    whole = Say(latency_s=0.03, itl_s=0.003)
    cut = stream(0.03, delta(role="assistant", content=""), delta(content="an"), end="cut")
    return [cut if i % every == every - 2 else whole for i in range(600)]


@pytest.mark.parametrize(("slots", "said"), [(1, "serialised upstream"), (None, "batching works")])
def test_streams_that_end_in_the_middle_mark_the_verdict_and_leave_it_right(
    slots: int | None, said: str, tmp_path: Path
) -> None:
    server = FakeServer(cut_streams(every=9), slots=slots)
    found = swept(server, tmp_path, Plan(GRID, 18, chats=chats(streamed=True), repeats=2))
    told = verdict(found)
    assert told.verdict == said, told.sentence
    lost = {k for r in found.records for k, n in r.requests.items() if n and k not in ("total", "ok")}
    assert lost and lost <= {"disconnected", "mid_stream_error"}
    assert told.marked and all(outcome in told.sentence for outcome in lost)


def test_several_processes_offer_a_level_and_the_verdict_is_the_same(tmp_path: Path) -> None:
    server = FakeServer(Say(latency_s=0.05), slots=1)
    found = swept(server, tmp_path, Plan((1, 8), chats=chats(), workers=2))
    told = verdict(found)
    assert told.verdict == "serialised upstream", told.sentence
    assert server.peak_in_flight == 8 and [r.params["workers"] for r in found.records] == [2, 2]
    assert {e.name: e.value for e in told.evidence}["in flight at 8"].startswith("8 at most")


def test_processes_on_the_twin_are_refused_with_what_to_do(tmp_path: Path) -> None:
    study = Study("diagnose", open_target("twin"), "quick", "wire", Store(tmp_path))
    with pytest.raises(TargetError, match="run `serve twin`, and give its address"):
        sweep(study, Plan((1, 4), workers=2))
