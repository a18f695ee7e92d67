"""The reverse proxy and the gateway command, over real sockets: behind uvicorn, in front of real servers."""

import asyncio
import json
import logging
import signal
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import httpx2
import pytest
import uvicorn
import uvloop
from fake_behaviours import MODEL, Hang, Raw, Say, Status, completion
from fake_server import FakeServer, respond
from scripted_bytes import HEAD, OK, Scripted

from nlqlib.__main__ import parser
from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Endpoint, make_client
from nlqlib.serving.endpoint import EndpointError
from nlqlib.serving.gateway import Gateway
from nlqlib.serving.inprocess import App
from nlqlib.serving.proxy import Proxy, end_to_end, reverse_proxy

T = TypeVar("T")
CHAT = "/v1/chat/completions"
QUESTION = ({"role": "user", "content": "Umsatz je Région?"},)
SECRET = "sk-secret-of-the-caller"


def run(coroutine: Coroutine[Any, Any, T], within_s: float = 30) -> T:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(asyncio.wait_for(coroutine, within_s))


@asynccontextmanager
async def served(app: App) -> AsyncIterator[str]:
    """`app` under uvicorn in the running loop; its root URL."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        quiet = {"log_level": "critical", "lifespan": "off", "server_header": False, "date_header": False}
        config = uvicorn.Config(app, timeout_graceful_shutdown=1, **quiet)  # type: ignore[arg-type]
        config.load()
        server = uvicorn.Server(config)
        server.lifespan = config.lifespan_class(config)
        await server.startup([listener])  # and not `serve`, whose loop looks for the end ten times a second
        try:
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            for acceptor in server.servers:  # and not `shutdown`, which sleeps
                acceptor.close()
            for connection in list(server.server_state.connections):
                connection.shutdown()


@asynccontextmanager
async def proxied(upstream: App, **limits: Any) -> AsyncIterator[tuple[str, Gateway]]:
    """A gateway in front of `upstream`, both on sockets; its root URL and the gateway."""
    async with served(upstream) as root, served(gateway := reverse_proxy([root], **limits)) as here:
        yield here, gateway
        await gateway.replicas[0].app.aclose()  # type: ignore[attr-defined]


async def complete(root: str, n: int, stream: bool = False, kind: str = "wire") -> list[Completion]:
    """`n` requests at once."""
    client = make_client(kind, Endpoint(f"{root}/v1", MODEL))  # type: ignore[arg-type]
    try:
        requests = [ChatRequest(f"r{i}", QUESTION, stream=stream) for i in range(n)]
        return list(await asyncio.gather(*map(client.complete, requests)))
    finally:
        await client.aclose()


async def speak(root: str, raw: bytes) -> bytes:
    """Everything that comes back for `raw`, until the connection ends."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(root.rsplit(":", 1)[1]))
    writer.write(raw)
    answer = await reader.read()
    writer.close()
    return answer


async def until(happened: Callable[[], bool]) -> None:
    """Wait for what others do; gives up when the test does."""
    while not happened():
        await asyncio.sleep(0.005)


class Held:
    """A server that answers each request when it is told to."""

    def __init__(self) -> None:
        self.turns: list[asyncio.Event] = []
        self.peak = self._in_flight = 0
        self._open = False

    def open(self) -> None:
        """Answer all, now and later."""
        self._open = True
        for turn in self.turns:
            turn.set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        turn = asyncio.Event()
        self.turns.append(turn)
        self._in_flight += 1
        self.peak = max(self.peak, self._in_flight)
        if not self._open:
            await turn.wait()
        self._in_flight -= 1  # before the last byte: the next may come at once
        await respond(send, Status(200, completion(Say())))


# Limits, as they are seen through the proxy


@pytest.mark.parametrize("layer", ["router", "replica"])
@pytest.mark.parametrize("limit", [1, 4])
def test_a_limit_holds_through_the_proxy_and_its_waits_are_told(layer: str, limit: int) -> None:
    n = 8

    async def main() -> tuple[list[Completion], int]:
        async with proxied(held := Held(), **{layer: limit}) as (root, gateway):
            here = gateway.router if layer == "router" else gateway.replicas[0].limit
            asked = asyncio.create_task(complete(root, n))
            await until(lambda: len(held.turns) == limit and here.depth == n - limit)
            for i in range(n):
                held.turns[i].set()
                await until(lambda i=i: len(held.turns) == min(n, limit + i + 1))  # type: ignore[misc]
            return await asked, held.peak

    got, peak = run(main())
    assert ({c.outcome for c in got}, peak) == ({"ok"}, limit)
    waits = sorted(getattr(c, f"{layer}_queue_s") for c in got)
    assert waits[:limit] == [0.0] * limit
    assert waits[limit] > 0


def test_no_pool_limits_what_no_limit_limits() -> None:
    n, come = 300, 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal come
        come += 1
        if come == n:
            all_here.set()
        await all_here.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b""})

    all_here = asyncio.Event()

    async def main() -> int:
        async with proxied(app) as (root, gateway):
            await complete(root, n)
            return gateway.replicas[0].app.upstream.peak_open  # type: ignore[attr-defined]

    assert run(main()) == n


def test_one_after_another_use_one_connection() -> None:
    async def main() -> tuple[int, list[str]]:
        async with Scripted([OK]) as server, served(Proxy(f"http://127.0.0.1:{server.port}")) as root:
            async with httpx2.AsyncClient() as client:
                got = [(await client.post(root + CHAT, content=b"{}")).text for _ in range(5)]
            return server.connections, got

    assert run(main()) == (1, ["ok"] * 5)


def test_equal_replicas_take_turns() -> None:
    async def main() -> list[str | None]:
        one, two = Held(), Held()
        async with served(one) as a, served(two) as b, served(reverse_proxy([a, f"{b}/v1"])) as root:
            asked = asyncio.create_task(complete(root, 4))
            await until(lambda: len(one.turns) == len(two.turns) == 2)
            for turn in one.turns + two.turns:
                turn.set()
            return [c.replica for c in await asked]

    assert sorted(filter(None, run(main()))) == ["replica-0", "replica-0", "replica-1", "replica-1"]


@pytest.mark.parametrize(
    "limits, outcome", [({"router": 1}, "http_429"), ({"replica": 1}, "http_503"), ({"router": 2}, None)]
)
def test_a_full_queue_is_an_outcome_of_its_own(limits: dict[str, int], outcome: str | None) -> None:
    async def main() -> list[Completion]:
        async with proxied(held := Held(), max_queue=1, **limits) as (root, gateway):
            asked = asyncio.create_task(complete(root, 3))
            counts = (gateway.router.counts, gateway.replicas[0].limit.counts)
            await until(lambda: sum(c.rejected for c in counts) == (outcome is not None))
            await until(lambda: bool(held.turns))
            held.open()
            return await asked

    got = run(main())
    assert sorted(c.outcome for c in got) == sorted(["ok", "ok", outcome or "ok"])
    assert [c.retry_after_s for c in got if c.outcome != "ok"] == [1.0] * (outcome is not None)


def test_a_long_wait_is_a_503_that_says_how_long_it_was() -> None:
    async def main() -> list[Completion]:
        async with proxied(held := Held(), router=1, queue_timeout_s=0.2) as (root, gateway):
            asked = asyncio.create_task(complete(root, 3))
            await until(lambda: gateway.router.counts.timed_out == 2)
            held.open()
            return await asked

    got = run(main())
    assert sorted(c.outcome for c in got) == ["http_503", "http_503", "ok"]
    assert all((c.router_queue_s or 0) >= 0.2 for c in got if c.outcome == "http_503")


# Streaming


@pytest.mark.parametrize("kind", ["wire", "openai"])
def test_a_stream_is_whole_and_no_two_tokens_come_at_once(kind: str) -> None:
    async def main() -> list[Completion]:
        async with proxied(FakeServer(Say(itl_s=0.05)), router=1) as (root, _):
            return await complete(root, 1, stream=True, kind=kind)

    [got] = run(main())
    assert (got.outcome, got.text, got.output_tokens) == ("ok", "an answer of five words", 5)
    assert len(got.token_times_s) == 5
    assert list(got.token_times_s) == sorted(set(got.token_times_s))


def test_each_piece_passes_before_the_next_is_made() -> None:
    step = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for n in range(3):
            await send({"type": "http.response.body", "body": b"%d" % n, "more_body": True})
            await step.wait()
            step.clear()
        await send({"type": "http.response.body", "body": b""})

    async def main() -> list[bytes]:
        got = []
        async with (
            proxied(app, replica=1) as (root, _),
            httpx2.AsyncClient() as client,
            client.stream("POST", root + CHAT) as response,
        ):
            async for piece in response.aiter_raw():
                got.append(piece)
                step.set()  # only what has arrived lets the server go on
        return got

    assert run(main()) == [b"0", b"1", b"2"]


def test_a_slow_reader_slows_the_server_down_and_gets_every_byte() -> None:
    sent = 0

    async def app(scope: Any, receive: Any, send: Any) -> None:
        nonlocal sent
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(400):
            await send({"type": "http.response.body", "body": b"x" * 100_000, "more_body": True})
            sent += 100_000
        await send({"type": "http.response.body", "body": b""})

    async def main() -> tuple[int, int]:
        async with (
            proxied(app) as (root, _),
            httpx2.AsyncClient(timeout=None) as client,
            client.stream("GET", f"{root}/big") as response,
        ):
            await asyncio.sleep(0.5)
            early = sent
            return early, sum([len(piece) async for piece in response.aiter_raw()])

    early, whole = run(main())
    assert whole == 40_000_000
    assert early < 30_000_000


def test_the_slot_is_free_after_the_last_byte_and_not_before() -> None:
    seen: list[str] = []
    step = asyncio.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append("come")
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"first", "more_body": True})
        await step.wait()
        seen.append("last")
        await send({"type": "http.response.body", "body": b"last"})

    async def main() -> None:
        async with proxied(app, replica=1) as (root, gateway), httpx2.AsyncClient() as client:
            asked = asyncio.gather(*(client.post(root + CHAT) for _ in range(2)))
            await until(lambda: gateway.replicas[0].limit.depth == 1 and bool(seen))
            assert seen == ["come"]
            step.set()
            await asked

    run(main())
    assert seen == ["come", "last", "come", "last"]


# Callers who go, servers that fail


def test_a_caller_who_goes_is_gone_for_the_server_too_and_its_slot_is_free() -> None:
    async def main() -> tuple[int, int]:
        fake = FakeServer(Hang())
        async with proxied(fake, router=1) as (root, gateway):
            task = asyncio.create_task(complete(root, 1))
            await until(lambda: fake.in_flight == 1)
            task.cancel()
            await until(lambda: fake.disconnects == 1 and gateway.router.in_flight == 0)
            return fake.disconnects, gateway.router.counts.finished

    assert run(main()) == (1, 1)


def test_a_caller_who_goes_while_queued_never_reaches_the_server() -> None:
    async def main() -> tuple[int, int]:
        fake = FakeServer(Say(latency_s=0.3))
        async with proxied(fake, router=1) as (root, gateway):
            first = asyncio.create_task(complete(root, 1))
            await until(lambda: gateway.router.in_flight == 1)
            second = asyncio.create_task(complete(root, 1))
            await until(lambda: gateway.router.depth == 1)
            second.cancel()
            await until(lambda: gateway.router.depth == 0)
            await first
            return len(fake.seen), gateway.router.counts.left

    assert run(main()) == (1, 1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_server_that_is_down_is_502_by_name_without_its_address() -> None:
    port = free_port()

    async def main() -> httpx2.Response:
        gateway = reverse_proxy([f"http://127.0.0.1:{port}"], router=1)
        async with served(gateway) as root, httpx2.AsyncClient() as client:
            await client.post(root + CHAT, json={})
            return await client.post(root + CHAT, json={})  # the slot of the first is free again

    got = run(main())
    error = got.json()["error"]
    assert (got.status_code, error["code"], error["type"]) == (502, 502, "bad_gateway")
    assert error["message"] == "replica-0 refuses connections: is its server running?"
    assert got.headers["x-router-queue-ms"] == "0.000"


Answer = Callable[[asyncio.StreamWriter, int], Awaitable[None]]


async def _hangs_up(writer: asyncio.StreamWriter, number: int) -> None:
    writer.close()


async def _talks_nonsense(writer: asyncio.StreamWriter, number: int) -> None:
    writer.write(b"SSH-2.0-x\r\n\r\n")


@pytest.mark.parametrize("answer", [_hangs_up, _talks_nonsense])
def test_a_server_that_breaks_off_before_its_answer_is_502_and_is_not_asked_again(answer: Answer) -> None:
    async def main() -> tuple[int, str, int]:
        async with Scripted(answer) as server, served(Proxy(f"http://127.0.0.1:{server.port}", "r")) as root:
            async with httpx2.AsyncClient() as client:
                got = await client.post(root + CHAT, content=b"{}")
            return got.status_code, got.json()["error"]["message"], len(server.requests)

    status, message, asked = run(main())
    assert (status, asked) == (502, 1)
    assert message.startswith("r broke off before it answered")


@pytest.mark.parametrize("length", [None, 1000])
def test_a_server_that_breaks_off_in_the_middle_breaks_the_answer_off(length: int | None) -> None:
    async def main() -> tuple[list[Completion], int]:
        half = Raw((b'{"id": "half', 0.02), length=length, end="cut")
        async with proxied(FakeServer([half, Say()]), router=1) as (root, gateway):
            first = await complete(root, 1)
            return first + await complete(root, 1), gateway.router.in_flight

    (first, second), held = run(main())
    assert first.outcome == "disconnected"
    assert (second.outcome, held) == ("ok", 0)


def test_a_stream_that_is_cut_is_an_error_in_the_middle_with_what_had_come() -> None:
    def event(text: str) -> bytes:
        chunk = {"choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None}]}
        return f"data: {json.dumps(chunk)}\n\n".encode()

    async def main() -> list[Completion]:
        raw = Raw((event("a"), 0.02, event(" b")), content_type="text/event-stream", end="cut")
        async with proxied(FakeServer(raw)) as (root, _):
            return await complete(root, 1, stream=True)

    [got] = run(main())
    assert got.outcome in ("mid_stream_error", "disconnected")
    assert len(got.token_times_s) == 2


def test_the_servers_own_errors_pass_unchanged() -> None:
    async def main() -> httpx2.Response:
        said = Status(400, {"error": {"message": "maximum context length"}}, headers=(("X-Why", "long"),))
        async with proxied(FakeServer(said), router=1) as (root, _), httpx2.AsyncClient() as client:
            return await client.post(root + CHAT, json={})

    got = run(main())
    assert (got.status_code, got.headers["x-why"]) == (400, "long")
    assert got.json() == {"error": {"message": "maximum context length"}}


# What passes, and what does not


def test_requests_reach_the_server_as_they_were_sent() -> None:
    sent = (
        b"POST /v1/a%20b?q=1&r=%C3%A9 HTTP/1.1\r\nHost: caller\r\nAuthorization: Bearer KEY\r\n"
        b"X-Twice: 1\r\nX-Twice: 2\r\nConnection: close, X-Mine\r\nX-Mine: hop\r\nTE: trailers\r\n"
        b"Keep-Alive: 5\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n"
    )

    async def main() -> bytes:
        async with Scripted([OK]) as server:
            async with served(Proxy(f"http://127.0.0.1:{server.port}/deep/v1")) as root:
                await speak(root, sent)
            return server.requests[0].replace(str(server.port).encode(), b"PORT")

    assert run(main()) == (
        b"POST /deep/v1/a%20b?q=1&r=%C3%A9 HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\n"
        b"authorization: Bearer KEY\r\nx-twice: 1\r\nx-twice: 2\r\n"
        b"content-length: 5\r\n\r\nabcde"
    )


def test_responses_reach_the_caller_as_they_were_sent() -> None:
    raw = (
        HEAD
        + b"Set-Cookie: a=1\r\nSet-Cookie: b=2\r\nContent-Encoding: gzip\r\nConnection: X-Hop\r\nX-Hop: 1\r\n"
        b"Content-Length: 3\r\nServer: theirs\r\n\r\n\x1f\x8b\x00"
    )

    async def main() -> bytes:
        async with Scripted([raw]) as server, served(Proxy(f"http://127.0.0.1:{server.port}")) as root:
            return await speak(root, b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")

    head, _, body = run(main()).partition(b"\r\n\r\n")
    assert body == b"\x1f\x8b\x00"
    assert head.split(b"\r\n") == [
        b"HTTP/1.1 200 OK",
        b"set-cookie: a=1",
        b"set-cookie: b=2",
        b"content-encoding: gzip",
        b"content-length: 3",
        b"server: theirs",
        b"connection: close",
    ]


def test_head_get_and_empty_responses_pass() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        status = 204 if scope["path"] == "/nothing" else 200
        await send(
            {"type": "http.response.start", "status": status, "headers": [(b"x-m", scope["method"].encode())]}
        )
        await send({"type": "http.response.body", "body": b"" if status == 204 else b"text"})

    async def main() -> list[tuple[int, bytes]]:
        async with proxied(app) as (root, _), httpx2.AsyncClient() as client:
            asked = [client.head(root), client.get(root), client.get(f"{root}/nothing"), client.delete(root)]
            return [((got := await one).status_code, got.content) for one in asked]

    assert run(main()) == [(200, b""), (200, b"text"), (204, b""), (200, b"text")]


def test_headers_that_the_connection_names_are_dropped_whatever_their_case() -> None:
    pairs = [(b"Connection", b"Keep-Alive, X-A"), (b"X-a", b"1"), (b"Upgrade", b"h2c"), (b"X-B", b"2")]
    assert end_to_end(pairs) == [(b"x-b", b"2")]


def test_metrics_health_and_tokenize_pass_while_the_limit_is_taken() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == CHAT:
            await taken.wait()
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send(
            {"type": "http.response.body", "body": scope["path"].encode() + b"?" + scope["query_string"]}
        )

    taken = asyncio.Event()

    async def main() -> list[str]:
        async with proxied(app, router=1, replica=1) as (root, gateway), httpx2.AsyncClient() as client:
            blocked = asyncio.create_task(client.post(root + CHAT))
            await until(lambda: gateway.router.in_flight == 1)
            got = [(await client.get(root + path)).text for path in ("/metrics?name[]=a&name[]=b", "/health")]
            got.append((await client.post(f"{root}/tokenize", json={})).text)
            own = (await client.get(f"{root}/gateway/metrics")).text
            assert 'nlqlib_gateway_in_flight{layer="replica",replica="replica-0"} 1.0' in own
            taken.set()
            await blocked
            return got

    metrics, health, tokenize = run(main())
    assert (health, tokenize) == ("/health?", "/tokenize?")
    assert metrics.startswith("/metrics?name") and metrics.endswith("=b")


def test_the_key_passes_and_is_neither_logged_nor_told(caplog: pytest.LogCaptureFixture) -> None:
    async def main() -> tuple[str, str]:
        fake = FakeServer([Raw((b"half", 0.02), end="cut"), Say()])
        with caplog.at_level(logging.DEBUG):
            async with proxied(fake, router=1) as (root, gateway), httpx2.AsyncClient() as client:
                headers = {"Authorization": f"Bearer {SECRET}"}
                for _ in range(2):
                    try:
                        await client.post(root + CHAT, json={"model": MODEL}, headers=headers)
                    except httpx2.RemoteProtocolError:
                        continue
                told = gateway.metrics()
        return fake.seen[1].headers["authorization"], told

    passed, told = run(main())
    assert passed == f"Bearer {SECRET}"
    assert "broke off" in caplog.text
    assert SECRET not in caplog.text + told


def test_a_large_body_passes_whole() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        length, more = 0, True
        while more:
            message = await receive()
            length, more = length + len(message["body"]), message["more_body"]
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": str(length).encode()})

    async def main() -> str:
        async with proxied(app, router=1) as (root, _), httpx2.AsyncClient() as client:
            return (await client.post(root + CHAT, content=b"x" * 3_000_000)).text

    assert run(main()) == "3000000"


@pytest.mark.parametrize(
    "urls", [["ftp://host"], ["http://user:key@host"], ["http://h:1", "http://h:1/v1"], ["http://h?x=1"]]
)
def test_upstreams_that_cannot_work_are_refused(urls: list[str]) -> None:
    with pytest.raises(EndpointError):
        reverse_proxy(urls)


# The command


COMMAND = """
import argparse
from nlqlib import commands_gateway

parser = argparse.ArgumentParser()
commands_gateway.register(parser.add_subparsers())
args = parser.parse_args()
raise SystemExit(args.command(args))
"""
"""The command without the others, whose imports take seconds."""


@pytest.mark.parametrize("stop", [signal.SIGINT, signal.SIGTERM])
def test_the_command_serves_until_it_is_told_to_end(stop: signal.Signals) -> None:
    async def main() -> tuple[list[str], list[Completion]]:
        async with served(FakeServer(Say(latency_s=0.05))) as upstream:
            arguments = ["gateway", "--upstream", upstream, "--router-limit", "1", "--replica-limit", "4"]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", COMMAND, *arguments, **pipes)
            assert process.stdout is not None
            lines = [(await process.stdout.readline()).decode().strip() for _ in range(3)]
            root = lines[0].split()[2].removesuffix("/v1:")
            got = await complete(root, 3)
            process.send_signal(stop)
            rest, errors = await process.communicate()
            assert (process.returncode, rest, errors) == (0, b"", b"gateway: ended\n")
            return [line.replace(root, "ROOT").replace(upstream, "UPSTREAM") for line in lines], got

    lines, got = run(main(), within_s=60)
    assert lines == [
        "gateway at ROOT/v1: router limit 1, replica limit 4, queues without bound",
        "replica-0 is UPSTREAM",
        "metrics at ROOT/gateway/metrics; Ctrl-C ends it",
    ]
    assert [c.outcome for c in got] == ["ok"] * 3
    assert max(c.router_queue_s or 0 for c in got) > 0


def test_the_command_ends_although_requests_are_queued_and_in_flight() -> None:
    async def main() -> list[str]:
        fake = FakeServer(Hang())
        async with served(fake) as upstream:
            arguments = ["gateway", "--upstream", upstream, "--router-limit", "1"]
            pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
            process = await asyncio.create_subprocess_exec(sys.executable, "-c", COMMAND, *arguments, **pipes)
            assert process.stdout is not None
            root = (await process.stdout.readline()).decode().split()[2].removesuffix("/v1:")
            asked = [asyncio.create_task(complete(root, 1)) for _ in range(3)]
            await until(lambda: fake.in_flight == 1)
            await asyncio.sleep(0.2)  # the other two queue
            process.send_signal(signal.SIGINT)
            while len(outcomes := [task.result() for task in asked if task.done()]) < 2:
                await asyncio.sleep(0.01)
            assert [c.outcome for [c] in outcomes] == ["http_503"] * 2  # those who queued
            process.send_signal(signal.SIGINT)  # a second one cuts what has not ended
            rest, errors = await process.communicate()
            assert (process.returncode, rest.count(b"\n"), errors) == (0, 2, b"gateway: ended\n")
            return [c.outcome for task in asked for c in await task]

    assert sorted(run(main(), within_s=60)) == ["http_503", "http_503", "http_5xx"]


@pytest.mark.parametrize(
    "arguments, said",
    [
        (["--upstream", "http://h:1", "--router-limit", "0"], "would admit nobody"),
        (["--upstream", "ftp://h:1"], "http or https"),
        (["--upstream", "http://h:1", "--port", "70000"], "0 to 65535"),
        (["--upstream", "http://h:1", "--queue-timeout", "-1"], "positive number of seconds"),
        (["--upstream", "https://h:1", "--ca-file", "/nowhere.pem"], "cannot be used"),
    ],
)
def test_the_command_says_what_cannot_work(arguments: list[str], said: str) -> None:
    args = parser().parse_args(["gateway", *arguments])
    with pytest.raises(EndpointError, match=said):
        args.command(args)


def test_the_command_says_that_a_port_is_taken() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        args = parser().parse_args(["gateway", "--upstream", "http://h:1", "--port", str(port)])
        with pytest.raises(EndpointError, match=f"port {port} cannot be used"):
            args.command(args)


def test_the_help_shows_an_example(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["gateway", "--help"])
    told = capsys.readouterr().out
    assert "python -m nlqlib gateway --upstream http://127.0.0.1:8000 --router-limit 1" in told
    assert "x-router-queue-ms: 2140.512" in told
