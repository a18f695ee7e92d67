"""Both clients, in process and over a socket, against a server that misbehaves on purpose."""

import asyncio
from typing import Any

import pytest
from client_world import TIMES, ask, both_clients, everywhere, request, running, shared_socket, until
from fake_behaviours import MODEL, Behaviour, Hang, Say, Status, delta, error_object, stream
from fake_server import FakeServer

from nlqlib.records import ChatRequest, Completion, OutputContract
from nlqlib.serving.client import Endpoint, EndpointError, make_client

__all__ = ["shared_socket"]  # the fixture must be found in this module


@both_clients
@everywhere
def test_everything_a_completion_carries_is_read_plain_and_streamed(kind: str, place: str) -> None:
    said = Say(
        "one two",
        prompt_tokens=3300,
        output_tokens=37,
        cached_tokens=3296,
        token_ids=(11, 12),
        logprobs=({"token": "one", "logprob": -0.1}, {"token": " two", "logprob": -0.2}),
        headers=(("x-router-queue-ms", "12.5"), ("x-replica-queue-ms", "250"), ("x-replica", "b")),
    )
    asked = [request(streams, want_token_ids=True, logprobs=1) for streams in (False, True)]
    for got in ask(kind, place, said, *asked):
        assert (got.outcome, got.text, got.finish_reason, got.model) == ("ok", "one two", "stop", MODEL)
        assert (got.prompt_tokens, got.output_tokens, got.cached_tokens) == (3300, 37, 3296)
        assert got.token_ids == (11, 12)
        assert [entry["logprob"] for entry in got.logprobs or ()] == [-0.1, -0.2]
        assert (got.router_queue_s, got.replica_queue_s, got.replica) == (0.0125, 0.25, "b")


@both_clients
def test_what_was_not_asked_for_is_not_kept(kind: str) -> None:
    said = Say("one two", token_ids=(11, 12), logprobs=({"token": "one"}, {"token": " two"}))
    got = ask(kind, "in process", said, request())[0]
    assert got.token_ids is None
    assert got.logprobs is None


@both_clients
@everywhere
def test_the_body_on_the_wire_is_the_body_of_the_request(kind: str, place: str) -> None:
    server = FakeServer()
    contract = OutputContract("structured_outputs", {"structured_outputs": {"json": {"type": "object"}}})
    asked = request(True, contract=contract, logprobs=2, want_token_ids=True, extra={"seed": 7})
    ask(kind, place, server, asked)
    assert server.seen[0].body == asked.body(MODEL)


@both_clients
@everywhere
def test_one_good_one_empty_one_broken_one_refused_is_one_of_four(kind: str, place: str) -> None:
    script: list[Behaviour] = [
        Say("yes"),
        Say(""),
        stream(delta(content="y"), error_object(500, "engine died")),
        Status(400, error_object(400, "bad field")),
    ]
    got = ask(kind, place, script, *[request(True)] * 4)
    assert [c.outcome for c in got] == ["ok", "empty", "mid_stream_error", "http_4xx"]
    assert [c.e2e_s is not None for c in got] == [True, False, False, False]
    assert "engine died" in (got[2].error or "")
    assert "bad field" in (got[3].error or "")


@both_clients
@everywhere
def test_a_503_is_one_rejection_and_never_retried(kind: str, place: str) -> None:
    server = FakeServer([Status(503), Say("yes")])
    got = ask(kind, place, server, request(), request())
    assert [c.outcome for c in got] == ["http_503", "ok"]
    assert got[0].e2e_s is None
    assert len(server.seen) == 2


@both_clients
@everywhere
def test_a_hanging_server_ends_in_a_timeout_and_sees_its_caller_go(kind: str, place: str) -> None:
    server = FakeServer([Hang(), Say("yes")])

    async def main(root: str, app: FakeServer | None) -> list[Completion]:
        client = make_client(kind, Endpoint(root + "/v1", MODEL, timeout_s=1.0), app=app)  # type: ignore[arg-type]
        got = [await client.complete(request()), await client.complete(request())]
        await until(lambda: server.disconnects == 1)
        await client.aclose()
        return got

    with running(place, server) as (root, app):
        got = asyncio.run(main(root, app))
    assert [c.outcome for c in got] == ["timeout", "ok"]
    assert got[0].error == "no complete answer within 1 s"
    assert server.disconnects == 1


@both_clients
@everywhere
def test_a_stream_that_stalls_ends_in_a_timeout(kind: str, place: str) -> None:
    got = ask(kind, place, stream(delta(content="ye"), end="hang"), request(True), timeout_s=0.3)[0]
    assert got.outcome == "timeout"
    assert got.text == "ye"


@both_clients
@everywhere
def test_a_cancelled_request_leaves_the_client_usable(kind: str, place: str) -> None:
    server = FakeServer([Say(latency_s=5), Say("yes")])

    async def main(root: str, app: FakeServer | None) -> Completion:
        client = make_client(kind, Endpoint(root + "/v1", MODEL), app=app)  # type: ignore[arg-type]
        task = asyncio.create_task(client.complete(request()))
        await until(lambda: server.in_flight == 1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.stats.in_flight == 0
        got = await client.complete(request())
        await until(lambda: server.disconnects == 1)
        await client.aclose()
        return got

    with running(place, server) as (root, app):
        assert asyncio.run(main(root, app)).outcome == "ok"
    assert server.disconnects == 1


@both_clients
@everywhere
def test_without_a_clock_every_time_is_missing(kind: str, place: str) -> None:
    said = Say("yes", headers=(("x-router-queue-ms", "1"),))
    got = ask(kind, place, said, request(True), clock=False)[0]
    assert got.outcome == "ok"
    assert {getattr(got, name) for name in (*TIMES, "router_queue_s", "e2e_s", "ttft_s")} == {None}
    assert got.token_times_s == ()


@both_clients
def test_requests_in_flight_and_connections_are_counted(kind: str) -> None:
    server = FakeServer(Say(latency_s=0.5))

    async def main(root: str) -> Any:
        client = make_client(kind, Endpoint(root + "/v1", MODEL))  # type: ignore[arg-type]
        await asyncio.gather(*(client.complete(request()) for _ in range(20)))
        stats = client.stats
        await client.aclose()
        return stats

    with running("socket", server) as (root, _):
        stats = asyncio.run(main(root))
    assert (stats.in_flight, stats.peak_in_flight, stats.sent) == (0, 20, 20)
    assert (stats.peak_connections, stats.ceiling) == (20, None)
    assert server.peak_in_flight == 20


@both_clients
def test_a_ceiling_on_connections_limits_what_the_server_sees(kind: str) -> None:
    server = FakeServer(Say(latency_s=0.02))

    async def main(root: str) -> Any:
        client = make_client(kind, Endpoint(root + "/v1", MODEL), ceiling=4)  # type: ignore[arg-type]
        got = await asyncio.gather(*(client.complete(request()) for _ in range(12)))
        stats = client.stats
        await client.aclose()
        return stats, {c.outcome for c in got}

    with running("socket", server) as (root, _):
        stats, outcomes = asyncio.run(main(root))
    assert outcomes == {"ok"}
    assert (server.peak_in_flight, stats.peak_in_flight, stats.ceiling) == (4, 12, 4)


def test_an_unknown_kind_of_client_names_the_known_ones() -> None:
    with pytest.raises(EndpointError, match="wire or openai"):
        make_client("curl", Endpoint("http://fake/v1", MODEL))  # type: ignore[arg-type]


@both_clients
def test_an_endpoint_without_a_model_says_what_to_set(kind: str) -> None:
    with pytest.raises(EndpointError, match="set MODEL"):
        make_client(kind, Endpoint("http://fake/v1", None))  # type: ignore[arg-type]


def test_a_prompt_that_repeats_is_serialised_once_and_still_sent_right() -> None:
    server = FakeServer()
    shared = ({"role": "user", "content": "Umsatz €"},)
    asked = [
        ChatRequest("a", shared),
        ChatRequest("b", shared, max_tokens=9, extra={"cache_salt": "x"}),
        ChatRequest("c", shared, extra={"messages": [{"role": "user", "content": "another"}]}),
        ChatRequest("d", ({"role": "user", "content": "other"},)),
    ]
    ask("wire", "in process", server, *asked)
    assert [seen.body for seen in server.seen] == [one.body(MODEL) for one in asked]
