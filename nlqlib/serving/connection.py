"""One HTTP/1.1 connection: an `asyncio.Protocol` in front of llhttp, on any asyncio loop, TLS or not."""

import asyncio
import select
from collections.abc import Mapping
from typing import Any, Protocol, cast

import httptools

from nlqlib.serving.outcome import Broken, NotHttp

KEEP_S = 4.0
"""A connection idle for longer is not used again: vLLM and uvicorn close theirs after 5 s."""


class Sink(Protocol):
    """Where a response goes while it arrives; called in the loop, at the moment of arrival."""

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers (names in lower case) are there."""

    def on_data(self, piece: bytes) -> None:
        """A piece of the body is there, already freed of its framing."""

    def on_end(self) -> None:
        """The last byte of the body is there."""


class Pool(Protocol):
    """Who must know of a connection's beginning and end."""

    loop: asyncio.AbstractEventLoop

    def opened(self, connection: "Connection") -> None:
        """The connection has been made."""

    def lost(self, connection: "Connection") -> None:
        """The connection is gone."""


class Connection(asyncio.Protocol):
    """One connection, which carries one request after another."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._poll = select.poll()
        self._sink: Sink | None = None
        self._done: asyncio.Future[None] | None = None
        self._parser: Any = httptools.HttpResponseParser(self)
        self._headers: dict[str, str] = {}
        self._in_body = False
        self._close_after = False
        self.idle_since = 0.0

    async def exchange(self, head: bytes, body: bytes, sink: Sink) -> None:
        """Send one request and wait for its whole response. Raises `Broken`."""
        if self._transport is None or self._transport.is_closing():
            raise Broken("closed before the request was sent")
        self._sink = sink
        self._done = self._pool.loop.create_future()
        self._transport.write(head + body)
        try:
            await self._done
        finally:
            if self._sink is not None:  # given up: the rest of the response must not meet the next request
                self._sink = None
                self._transport.abort()

    @property
    def usable(self) -> bool:
        """May the next request go over this connection? Nothing can be waiting to be read on an idle one."""
        if self.gone or self._pool.loop.time() - self.idle_since > KEEP_S:
            return False
        return not self._poll.poll(0)

    @property
    def gone(self) -> bool:
        """Has this connection been closed, or is it about to be?"""
        return self._transport is None or self._transport.is_closing()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # asyncio.Protocol
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._poll.register(transport.get_extra_info("socket").fileno(), select.POLLIN)
        self._pool.opened(self)

    def data_received(self, data: bytes) -> None:
        if self._sink is None:  # nobody asked: what is said on an idle connection belongs to no request
            self.abort()
            return
        try:
            self._parser.feed_data(data)
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as problem:
            self._fail(NotHttp(str(problem)))

    def eof_received(self) -> None:
        if self._in_body and not {"content-length", "transfer-encoding"} & self._headers.keys():
            self._close_after = True
            self._finish()  # a body without a length ends where the connection does

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.lost(self)
        self._fail(Broken(str(exc or "closed by the server")))

    # httptools
    def on_message_begin(self) -> None:
        self._headers = {}
        self._close_after = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        status = self._parser.get_status_code()
        if status >= 200 and self._sink is not None:  # 1xx only announces a response
            self._in_body = True
            self._sink.on_head(status, self._headers)

    def on_body(self, piece: bytes) -> None:
        if self._sink is not None:
            self._sink.on_data(piece)

    def on_message_complete(self) -> None:
        if self._in_body:
            self._close_after = not self._parser.should_keep_alive()
            self._finish()

    def _finish(self) -> None:
        sink, done, transport = self._sink, self._done, self._transport
        self._sink, self._in_body = None, False
        if sink is None or done is None or transport is None:
            return
        sink.on_end()
        if self._close_after or transport.get_write_buffer_size():
            transport.close()
        if not done.done():
            done.set_result(None)

    def _fail(self, problem: Broken) -> None:
        self._sink, self._in_body = None, False
        if self._done is not None and not self._done.done():
            self._done.set_exception(problem)
        self.abort()
