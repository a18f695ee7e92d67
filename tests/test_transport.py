"""The wire client's connections, against a server that speaks scripted bytes, on asyncio and on uvloop."""

import asyncio
import socket
import threading
import time

import pytest
from scripted_bytes import HEAD, OK, Collect, Scripted, on_both_loops, post, run

from nlqlib.serving.endpoint import parse_address
from nlqlib.serving.outcome import Broken, NotHttp
from nlqlib.serving.transport import SocketTransport


@on_both_loops
def test_the_request_on_the_wire(loop: str) -> None:
    async def main() -> bytes:
        async with Scripted([OK]) as server:
            transport = server.transport()
            await post(transport, b'{"a":1}', "Bearer k")
            await transport.aclose()
            return server.requests[0].replace(str(server.port).encode(), b"PORT")

    assert run(loop, main()) == (
        b"POST /x HTTP/1.1\r\nhost: 127.0.0.1:PORT\r\nx-a: b\r\n"
        b'authorization: Bearer k\r\ncontent-length: 7\r\n\r\n{"a":1}'
    )


RESPONSES: dict[str, tuple[list[bytes], bytes]] = {
    "with a length": ([OK], b"ok"),
    "byte by byte": ([bytes([b]) for b in OK], b"ok"),
    "in chunks": ([HEAD + b"transfer-encoding: chunked\r\n\r\n1\r\no\r\n", b"1\r\nk\r\n0\r\n\r\n"], b"ok"),
    "in chunks with extension and trailer": (
        [HEAD + b"transfer-encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nx-t: 1\r\n\r\n"],
        b"ok",
    ),
    "after an interim response": ([b"HTTP/1.1 100 Continue\r\n\r\n", OK], b"ok"),
    "without a body": ([HEAD + b"content-length: 0\r\n\r\n"], b""),
    "no content": ([b"HTTP/1.1 204 No Content\r\n\r\n"], b""),
}


@on_both_loops
@pytest.mark.parametrize("name", RESPONSES)
def test_every_framing_is_read_and_the_connection_kept(loop: str, name: str) -> None:
    pieces, body = RESPONSES[name]

    async def main() -> tuple[list[Collect], int]:
        async with Scripted(pieces) as server:
            transport = server.transport()
            got = [await post(transport) for _ in range(3)]
            await transport.aclose()
            return got, server.connections

    got, connections = run(loop, main())
    assert [(sink.body, sink.ended) for sink in got] == [(body, 1)] * 3
    assert connections == 1


CLOSING: dict[str, tuple[bytes, bytes]] = {
    "connection: close": (HEAD + b"connection: close\r\ncontent-length: 2\r\n\r\nok", b"ok"),
    "until the end of the connection": (HEAD + b"\r\nall of it", b"all of it"),
    "HTTP/1.0": (b"HTTP/1.0 200 OK\r\n\r\nold", b"old"),
}


@on_both_loops
@pytest.mark.parametrize("name", CLOSING)
def test_a_response_that_ends_its_connection_is_whole_and_the_next_request_takes_a_new_one(
    loop: str, name: str
) -> None:
    raw, body = CLOSING[name]

    async def answer(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(raw)
        await writer.drain()
        writer.close()

    async def main() -> tuple[list[bytes], int]:
        async with Scripted(answer) as server:
            transport = server.transport()
            got = [(await post(transport)).body for _ in range(2)]
            await transport.aclose()
            return got, server.connections

    assert run(loop, main()) == ([body, body], 2)


@on_both_loops
def test_a_kept_connection_that_the_server_closed_is_replaced_before_anything_is_sent(loop: str) -> None:
    async def answer(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(OK)  # says nothing of closing, and closes
        await writer.drain()
        writer.close()

    async def main() -> tuple[int, int]:
        async with Scripted(answer) as server:
            transport = server.transport()
            await post(transport)
            await asyncio.sleep(0.05)
            await post(transport)
            await transport.aclose()
            return server.connections, len(server.requests)

    assert run(loop, main()) == (2, 2)


def answer_twice(listener: socket.socket, closed: threading.Event, requests: list[bytes]) -> None:
    """Answer one request on each of two connections; close the first, and only then tell of it."""
    for _ in range(2):
        connection, _peer = listener.accept()
        requests.append(connection.recv(65536))
        connection.sendall(OK)
        if not closed.is_set():
            time.sleep(0.02)
            connection.close()
            closed.set()


@on_both_loops
def test_an_end_that_still_waits_in_the_socket_is_seen_before_the_connection_is_used(loop: str) -> None:
    closed, requests = threading.Event(), list[bytes]()

    async def main(port: int) -> list[bytes]:
        transport = SocketTransport(parse_address(f"http://127.0.0.1:{port}"), "/x", {})
        got = [(await post(transport)).body]
        assert closed.wait(5)  # holds the loop up: it cannot have read the end of the connection
        assert not transport._idle[0].gone
        got.append((await post(transport)).body)
        await transport.aclose()
        return got

    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = threading.Thread(target=answer_twice, args=(listener, closed, requests))
        server.start()
        assert run(loop, main(listener.getsockname()[1])) == [b"ok", b"ok"]
        server.join(5)
    assert len(requests) == 2


@on_both_loops
def test_a_request_that_was_sent_is_never_sent_again(loop: str) -> None:
    async def answer(writer: asyncio.StreamWriter, number: int) -> None:
        if number == 0:
            writer.write(OK)
            await writer.drain()
        else:
            writer.close()  # read, perhaps worked on, and not answered

    async def main() -> int:
        async with Scripted(answer) as server:
            transport = server.transport()
            await post(transport)
            with pytest.raises(Broken):
                await post(transport)
            await transport.aclose()
            return len(server.requests)

    assert run(loop, main()) == 2


@on_both_loops
@pytest.mark.parametrize(
    ("raw", "failure"),
    [
        (HEAD + b"content-length: 9\r\n\r\nshort", Broken),
        (HEAD + b"transfer-encoding: chunked\r\n\r\n5\r\nsho", Broken),
        (b"HTTP/1.1 200", Broken),
        (b"", Broken),
        (b"220 mail.example ESMTP\r\n", NotHttp),
        (b"\x15\x03\x03\x00\x02\x02\x50", NotHttp),  # a TLS alert
        (b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n", NotHttp),
    ],
)
def test_a_response_that_is_not_whole_or_not_http_is_an_error(
    loop: str, raw: bytes, failure: type[Broken]
) -> None:
    async def answer(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(raw)
        await writer.drain()
        writer.close()

    async def main() -> None:
        async with Scripted(answer) as server:
            transport = server.transport()
            with pytest.raises(failure):
                await post(transport)
            await transport.aclose()
            assert transport.open == 0

    run(loop, main())


@on_both_loops
def test_what_is_said_on_an_idle_connection_belongs_to_no_request(loop: str) -> None:
    async def answer(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(OK)
        await asyncio.sleep(0.02)
        if number == 0:
            writer.write(OK.replace(b"ok", b"no"))

    async def main() -> tuple[bytes, int]:
        async with Scripted(answer) as server:
            transport = server.transport()
            await post(transport)
            await asyncio.sleep(0.06)
            second = await post(transport)
            await transport.aclose()
            return second.body, server.connections

    assert run(loop, main()) == (b"ok", 2)


@on_both_loops
def test_a_cancelled_request_closes_its_connection_and_meets_no_later_one(loop: str) -> None:
    async def answer(writer: asyncio.StreamWriter, number: int) -> None:
        if number == 0:
            await asyncio.sleep(0.1)
            writer.write(OK.replace(b"ok", b"no"))
        else:
            writer.write(OK)

    async def main() -> tuple[bytes, int]:
        async with Scripted(answer) as server:
            transport = server.transport()
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(post(transport), 0.05)
            assert transport.open <= 1
            second = await post(transport)
            await transport.aclose()
            return second.body, server.connections

    assert run(loop, main()) == (b"ok", 2)


@on_both_loops
def test_a_large_body_goes_out_and_comes_back(loop: str) -> None:
    size = 3_000_000

    async def answer(writer: asyncio.StreamWriter, number: int) -> None:
        writer.write(HEAD + f"content-length: {size}\r\n\r\n".encode() + b"y" * size)
        await writer.drain()

    async def main() -> tuple[int, int]:
        async with Scripted(answer) as server:
            transport = server.transport()
            got = await post(transport, b"x" * size)
            await transport.aclose()
            return len(server.requests[0]) - server.requests[0].index(b"\r\n\r\n") - 4, len(got.body)

    assert run(loop, main()) == (size, size)


@on_both_loops
def test_nothing_listening_is_refused(loop: str) -> None:
    async def main() -> None:
        transport = SocketTransport(parse_address("http://localhost:1"), "/x", {})
        with pytest.raises(ConnectionRefusedError):
            await post(transport)

    run(loop, main())
