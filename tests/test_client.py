"""Both clients, in process and over a socket, against a server that misbehaves on purpose."""

import asyncio
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from fake_behaviours import MODEL, Behaviour, Hang, Raw, Say, Status, delta, error_object, event, last, stream
from fake_server import FakeServer, serve

from nlqlib.records import ChatRequest, Completion, OutputContract
from nlqlib.serving.client import Client, Endpoint, EndpointError, make_client

KINDS = ("wire", "openai")
PLACES = ("in process", "socket")
QUESTION = ({"role": "user", "content": "Umsatz je Région?"},)
TIMES = ("planned_s", "start_s", "first_token_s", "first_content_s", "end_s")

both_clients = pytest.mark.parametrize("kind", KINDS)
everywhere = pytest.mark.parametrize("place", PLACES)


class Switch:
    """One socket for all tests of this file; behind it stands whichever server a test brings."""

    app: FakeServer
    root: str

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


SHARED = Switch()


@pytest.fixture(scope="module", autouse=True)
def shared_socket() -> Iterator[None]:
    with serve(SHARED) as SHARED.root:
        yield


def request(stream: bool = False, **fields: Any) -> ChatRequest:
    return ChatRequest("r1", QUESTION, stream=stream, **fields)


@contextmanager
def running(place: str, server: FakeServer) -> Iterator[tuple[str, FakeServer | None]]:
    """Root URL of `server`, and the server itself where it is in process."""
    if place == "in process":
        yield "http://fake", server
    else:
        SHARED.app = server
        yield SHARED.root, None


def ask(
    kind: str,
    place: str,
    behaviours: Behaviour | list[Behaviour] | FakeServer,
    *requests: ChatRequest,
    **settings: Any,
) -> list[Completion]:
    """The completions of `requests`, one after another."""
    server = behaviours if isinstance(behaviours, FakeServer) else FakeServer(behaviours)

    async def all_of(client: Client) -> list[Completion]:
        try:
            return [await client.complete(r) for r in requests]
        finally:
            await client.aclose()

    async def main(root: str, app: FakeServer | None) -> list[Completion]:
        clock = settings.pop("clock", True)
        endpoint = Endpoint(**{"base_url": root + server.prefix, "model": MODEL, **settings})
        return await all_of(make_client(kind, endpoint, app=app, clock=clock))  # type: ignore[arg-type]

    with running(place, server) as (root, app):
        return asyncio.run(main(root, app))


def timeless(completion: Completion) -> Completion:
    """`completion` without times and without the address of the server of this run."""
    error = completion.error and re.sub(r"(127\.0\.0\.1:\d+|fake:80)", "ADDRESS", completion.error)
    gone: dict[str, Any] = dict.fromkeys(TIMES)
    n_tokens = len(completion.token_times_s)
    return replace(completion, error=error, token_times_s=(0.0,) * n_tokens, **gone)


WHOLE = event(delta(content="yes")) + event(delta(content="", finish_reason="stop"))
COUNTS = {"prompt_tokens": 5, "completion_tokens": 37, "total_tokens": 42}
JSON_BODY = b'{"model":"fake","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},'
JSON_BODY += b'"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}'
OVERFLOW_12 = (
    "'max_tokens' or 'max_completion_tokens' is too large: 256. This model's maximum context length is 4096 "
    "tokens and your request has 4090 input tokens (256 > 4096 - 4090)."
)
OVERFLOW_32 = "However, your prompt contains 5000 input tokens, which exceeds this limit"

PLAIN: dict[str, tuple[Behaviour, str, str | None]] = {
    "an answer": (Say("yes"), "ok", None),
    "chunked body": (Raw((JSON_BODY[:40], 0.01, JSON_BODY[40:])), "ok", None),
    "connection closed after the answer": (Say("yes", headers=(("Connection", "close"),)), "ok", None),
    "no text": (Say(""), "empty", "without any text"),
    "blanks only": (Say(" \n "), "empty", "without any text"),
    "reasoning only": (Say("", reasoning="hm"), "empty", "only reasoning"),
    "cut at max_tokens": (
        Say("a b", finish_reason="length", output_tokens=256),
        "length",
        "cut at max_tokens=256",
    ),
    "silently clamped": (Say("a b", finish_reason="length", output_tokens=6), "length", "clamped"),
    "aborted": (Say("a b", finish_reason="abort"), "mid_stream_error", "abort"),
    "overflow, vLLM 0.12": (Status(400, error_object(400, OVERFLOW_12)), "context_overflow", "4090 input"),
    "overflow, vLLM 0.32": (
        Status(400, error_object(400, OVERFLOW_32, param="input_tokens")),
        "context_overflow",
        "5000 input",
    ),
    "another 400": (Status(400, error_object(400, "temperature must be ≥ 0")), "http_4xx", "temperature"),
    "wrong path": (Status(404, {"detail": "Not Found"}), "http_4xx", "/v1"),
    "401": (Status(401, {"error": "Unauthorized"}), "unauthorized", "Unauthorized"),
    "403": (Status(403, "no"), "unauthorized", "check the key"),
    "429": (Status(429, {"detail": "slow"}, headers=(("Retry-After", "2"),)), "http_429", "slow"),
    "503": (Status(503, ""), "http_503", "without a body"),
    "500": (Status(500, "Internal Server Error"), "http_5xx", "Internal Server Error"),
    "redirect": (Status(307, "", headers=(("Location", "/v2"),)), "bad_response", "redirects"),
    "not JSON": (Raw((b"<html>hello</html>",), content_type="text/html"), "bad_response", "not JSON"),
    "bad JSON": (Raw((JSON_BODY[:-9],)), "bad_response", "not JSON"),
    "an empty body": (Raw(()), "bad_response", "empty"),
    "a JSON list": (Raw((b"[1, 2]",)), "bad_response", "list"),
    "no choices": (Raw((b'{"object": "list", "data": []}',)), "bad_response", "no choices"),
    "an error inside 200": (Raw((b'{"error": {"message": "boom"}}',)), "bad_response", "boom"),
    "truncated, with length": (
        Raw((JSON_BODY[:50],), length=300, end="cut"),
        "disconnected",
        "in the middle",
    ),
    "truncated, in chunks": (Raw((JSON_BODY[:50],), end="cut"), "disconnected", "in the middle"),
    "JSON under another name": (Raw((JSON_BODY,), content_type="text/plain"), "ok", None),
}

STREAMED: dict[str, tuple[Behaviour, str, str | None]] = {
    "an answer": (Say("yes it is", itl_s=0.002), "ok", None),
    "reasoning first": (Say("yes", reasoning="let me see"), "ok", None),
    "counts of usage, not of chunks": (stream(WHOLE, last(COUNTS), "[DONE]"), "ok", None),
    "no usage": (stream(WHOLE, "[DONE]"), "ok", None),
    "CRLF": (stream(WHOLE.replace(b"\n", b"\r\n"), "[DONE]"), "ok", None),
    "comments and other fields": (
        stream(b": ping\n\nretry: 9\nevent: x\n", WHOLE, b":\n\n", "[DONE]"),
        "ok",
        None,
    ),
    "a character split in two": (
        stream(
            event(delta(content="é"))[:-17],
            *[bytes([b]) for b in event(delta(content="é"))[-17:]],
            WHOLE,
            "[DONE]",
        ),
        "ok",
        None,
    ),
    "one event in ten segments": (stream(*(p for b in WHOLE for p in (bytes([b]),)), "[DONE]"), "ok", None),
    "no [DONE] after the end": (stream(WHOLE), "ok", None),
    "no end at all": (stream(delta(content="yes")), "mid_stream_error", "finish_reason"),
    "nothing at all": (stream("[DONE]"), "mid_stream_error", "finish_reason"),
    "an error in the middle": (
        stream(delta(content="ye"), error_object(500, "engine died"), "[DONE]"),
        "mid_stream_error",
        "engine died",
    ),
    "cut in the middle": (stream(delta(content="ye"), end="cut"), "disconnected", "in the middle"),
    "an event that is no JSON": (stream(delta(content="ye"), "{oops"), "bad_response", "not JSON"),
    "a plain answer to a stream": (Raw((JSON_BODY,)), "ok", None),
    "hangs after [DONE]": (stream(WHOLE, "[DONE]", end="hang"), "ok", None),
    "no text": (stream(delta(content="", finish_reason="stop"), "[DONE]"), "empty", None),
    "503": (Status(503, {"detail": "busy"}), "http_503", "busy"),
    "cut at max_tokens": (Say("a b", finish_reason="length", output_tokens=256), "length", "cut at"),
}

CASES = [(name, False, *case) for name, case in PLAIN.items()]
CASES += [(name, True, *case) for name, case in STREAMED.items()]


@pytest.mark.parametrize(
    ("streams", "behaviour", "outcome", "says"),
    [case[1:] for case in CASES],
    ids=[f"{'stream' if case[1] else 'plain'}: {case[0]}" for case in CASES],
)
def test_both_clients_return_the_same_completion_in_process_and_over_a_socket(
    streams: bool, behaviour: Behaviour, outcome: str, says: str | None
) -> None:
    found = {
        (kind, place): timeless(ask(kind, place, behaviour, request(streams))[0])
        for kind in KINDS
        for place in PLACES
    }
    first = found["wire", "in process"]
    assert first.outcome == outcome, first
    assert says is None or says in (first.error or "")
    assert (first.error is None) == (outcome == "ok")
    for combination, completion in found.items():
        assert completion == first, combination


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
        client = make_client(kind, Endpoint(root + "/v1", MODEL, timeout_s=0.3), app=app)  # type: ignore[arg-type]
        got = [await client.complete(request()), await client.complete(request())]
        for _ in range(100):
            if server.disconnects:
                break
            await asyncio.sleep(0.01)
        await client.aclose()
        return got

    with running(place, server) as (root, app):
        got = asyncio.run(main(root, app))
    assert [c.outcome for c in got] == ["timeout", "ok"]
    assert got[0].error == "no complete answer within 0.3 s"
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
        await asyncio.sleep(0.2)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert client.stats.in_flight == 0
        got = await client.complete(request())
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
    server = FakeServer(Say(latency_s=0.2))

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
