"""Both clients over TLS with a private authority, and over IPv6, as a real deployment would have it."""

import asyncio
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop
from client_world import both_clients, request
from fake_behaviours import MODEL, Raw, Say, delta, event, stream
from fake_server import FakeServer, Tls, private_tls, serve

from nlqlib.records import Completion
from nlqlib.serving.client import Endpoint, make_client

KEY = "sk-private"
BODY = b'{"model":"fake","choices":[{"message":{"content":"yes"},"finish_reason":"stop"}]}'
EVENTS = event(delta(content="é")) + event(delta(content="", finish_reason="stop")) + b"data: [DONE]\n\n"
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}

BEHAVIOURS: dict[str, Any] = {
    "with a length": Say("yes"),
    "in chunks": Raw((BODY[:30], 0.005, BODY[30:])),
    "closed afterwards": Say("yes", headers=(("Connection", "close"),)),
    "streamed in pieces": stream(*(EVENTS[i : i + 7] for i in range(0, len(EVENTS), 7))),
}


@pytest.fixture(scope="module")
def tls(tmp_path_factory: pytest.TempPathFactory) -> Tls:
    return private_tls(tmp_path_factory.mktemp("tls"))


@pytest.fixture(scope="module")
def secure(tls: Tls) -> Iterator[tuple[str, FakeServer]]:
    """Root URL of a server behind TLS, a key and a path prefix; and the server, to be given a behaviour."""
    server = FakeServer(prefix="/gate/v1", api_key=KEY)
    with serve(server, tls=tls) as root:
        yield root, server


def ask_twice(kind: str, loop: str, endpoint: Endpoint, streams: bool = False) -> list[Completion]:
    async def main() -> list[Completion]:
        client = make_client(kind, endpoint)  # type: ignore[arg-type]
        got = [await client.complete(request(streams)) for _ in range(2)]
        await client.aclose()
        return got

    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(main())


@both_clients
@pytest.mark.parametrize("loop", LOOPS)
@pytest.mark.parametrize("name", BEHAVIOURS)
def test_a_private_authority_a_key_and_a_prefix_together(
    kind: str,
    loop: str,
    name: str,
    secure: tuple[str, FakeServer],
    tls: Tls,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("PRIVATE_KEY", KEY)
    root, server = secure
    server.behaviours = BEHAVIOURS[name]
    endpoint = Endpoint(f"{root}/gate/v1", MODEL, api_key_env="PRIVATE_KEY", ca_file=tls.ca_file)
    got = ask_twice(kind, loop, endpoint, streams=name.startswith("streamed"))
    assert [c.outcome for c in got] == ["ok", "ok"], got
    assert {c.text for c in got} == {"é" if name.startswith("streamed") else "yes"}


@both_clients
@pytest.mark.parametrize("loop", LOOPS)
def test_an_authority_that_is_not_named_is_not_trusted(
    kind: str, loop: str, secure: tuple[str, FakeServer]
) -> None:
    got = ask_twice(kind, loop, Endpoint(f"{secure[0]}/gate/v1", MODEL))[0]
    assert got.outcome == "disconnected"
    assert "is not trusted" in (got.error or "")
    assert "ca_file" in (got.error or "")


@both_clients
@pytest.mark.parametrize("loop", LOOPS)
def test_a_certificate_for_another_host_is_not_trusted(kind: str, loop: str, tmp_path: Path) -> None:
    other = private_tls(tmp_path, "other.example")
    with serve(FakeServer(), tls=other) as root:
        got = ask_twice(kind, loop, Endpoint(f"{root}/v1", MODEL, ca_file=other.ca_file))[0]
    assert got.outcome == "disconnected"
    assert "is not trusted" in (got.error or "")


@both_clients
@pytest.mark.parametrize("loop", LOOPS)
def test_https_to_a_plain_port_says_so(kind: str, loop: str) -> None:
    with serve(FakeServer()) as root:
        got = ask_twice(kind, loop, Endpoint(root.replace("http:", "https:") + "/v1", MODEL))[0]
    assert got.outcome == "disconnected"
    assert "https" in (got.error or "")


@both_clients
@pytest.mark.parametrize("loop", LOOPS)
def test_plain_http_to_a_tls_port_says_so(kind: str, loop: str, secure: tuple[str, FakeServer]) -> None:
    got = ask_twice(kind, loop, Endpoint(secure[0].replace("https:", "http:") + "/v1", MODEL))[0]
    assert got.outcome == "disconnected"


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


@both_clients
@pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6 loopback")
def test_an_ipv6_host_is_reached_with_and_without_tls(kind: str, tls: Tls) -> None:
    for secured in (None, tls):
        server = FakeServer()
        with serve(server, tls=secured, host="::1") as root:
            endpoint = Endpoint(f"{root}/v1", MODEL, ca_file=tls.ca_file)
            assert ask_twice(kind, "asyncio", endpoint)[0].outcome == "ok"
        assert server.seen[0].headers["host"].startswith("[::1]:")


@both_clients
def test_a_host_name_is_looked_up(kind: str) -> None:
    with serve(FakeServer()) as root:
        got = ask_twice(kind, "uvloop", Endpoint(root.replace("127.0.0.1", "localhost") + "/v1", MODEL))
    assert [c.outcome for c in got] == ["ok", "ok"]


@both_clients
def test_an_unknown_host_says_to_check_the_url(kind: str) -> None:
    got = ask_twice(kind, "asyncio", Endpoint("http://no.such.host.invalid/v1", MODEL))[0]
    assert got.outcome == "disconnected"
    assert "check the base URL" in (got.error or "")
