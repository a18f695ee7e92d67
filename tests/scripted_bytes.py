"""A server that speaks scripted bytes, and a sink that keeps what comes back."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

import pytest
import uvloop

from nlqlib.serving.endpoint import parse_address
from nlqlib.serving.transport import SocketTransport

T = TypeVar("T")
LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
on_both_loops = pytest.mark.parametrize("loop", LOOPS)

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
HEAD = b"HTTP/1.1 200 OK\r\n"


def run(loop: str, coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=LOOPS[loop]) as runner:
        return runner.run(asyncio.wait_for(coroutine, 10))


class Collect:
    """A sink that keeps everything."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: Mapping[str, str] = {}
        self.pieces: list[bytes] = []
        self.ended = 0

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        self.status, self.headers = status, headers

    def on_data(self, piece: bytes) -> None:
        self.pieces.append(piece)

    def on_end(self) -> None:
        self.ended += 1

    @property
    def body(self) -> bytes:
        return b"".join(self.pieces)


Answer = Callable[[asyncio.StreamWriter, int], Awaitable[None]]
"""Answers one request, given its number; it may close the writer."""


class Scripted:
    """A server of raw bytes, which counts connections and requests."""

    def __init__(self, answer: Answer | list[bytes]) -> None:
        self._answer = answer
        self.connections = 0
        self.requests: list[bytes] = []

    async def __aenter__(self) -> "Scripted":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()

    def transport(self, ceiling: int | None = None) -> SocketTransport:
        address = parse_address(f"http://127.0.0.1:{self.port}")
        return SocketTransport(address, "/x", {"x-a": "b"}, ceiling=ceiling)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                self.requests.append(head + await reader.readexactly(length))
                await self._respond(writer, len(self.requests) - 1)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    async def _respond(self, writer: asyncio.StreamWriter, number: int) -> None:
        if callable(self._answer):
            await self._answer(writer, number)
            return
        for piece in self._answer:
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.002)


async def post(transport: SocketTransport, body: bytes = b"{}", auth: str | None = None) -> Collect:
    sink = Collect()
    await transport.post(body, auth, sink)
    return sink
