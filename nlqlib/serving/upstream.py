"""Exchanges with one server on behalf of others: any method and path, every header, pieces as they come.

Connections are kept and have no ceiling: whoever limits concurrency says so in a `Limit`, not in a pool. A
request is written at most once, for the reason given in `transport`.
"""

import asyncio
import ssl
from collections.abc import Iterable

from nlqlib.serving.connection import Connection, Sink
from nlqlib.serving.endpoint import Address
from nlqlib.serving.outcome import Broken, causes

CONNECT_S = 10.0
"""How long a connection may take to be made."""
Pairs = list[tuple[bytes, bytes]]


class Fields(dict[str, str]):
    """Response headers by name, as every `Sink` gets them, and as pairs in the order they came."""

    def __init__(self) -> None:
        super().__init__()
        self.pairs: Pairs = []
        """Names in lower case; a repeated header (`set-cookie`) is repeated."""


class UpstreamConnection(Connection):
    """A connection that keeps repeated headers and can be made to wait."""

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._headers = self._fields = Fields()

    def on_header(self, name: bytes, value: bytes) -> None:
        super().on_header(name, value)
        self._fields.pairs.append((name.lower(), value))

    def hold(self, wait: bool) -> None:
        """Stop reading, so that the server has to wait, or go on."""
        if self._transport is None or self.gone:
            return
        if wait:
            self._transport.pause_reading()
        else:
            self._transport.resume_reading()


class Upstream:
    """The connections to one server; belongs to the loop that runs when it is made."""

    def __init__(self, address: Address, tls: ssl.SSLContext | None = None) -> None:
        self.loop = asyncio.get_running_loop()
        self._address = address
        self._tls = tls
        self._idle: list[UpstreamConnection] = []
        self._alive: set[Connection] = set()
        self._closed = False
        self.peak_open = 0

    @property
    def open(self) -> int:
        """Connections that exist now, idle ones included."""
        return len(self._alive)

    async def exchange(self, head: bytes, body: bytes, sink: "Piping") -> None:
        """Send one request; return when its response is complete. Raises `OSError` when there was none."""
        connection = self._kept() or await self._connect()
        if self._closed:
            connection.abort()
            raise Broken("closed")
        sink.connection = connection
        await connection.exchange(head, body, sink)
        if not connection.gone:
            connection.idle_since = self.loop.time()
            self._idle.append(connection)

    async def aclose(self) -> None:
        """Cut every connection; exchanges in progress and later ones end with `Broken`."""
        self._closed = True
        self._idle.clear()
        for connection in list(self._alive):
            connection.abort()
        await asyncio.sleep(0)

    def opened(self, connection: Connection) -> None:
        """See `connection.Pool`."""
        self._alive.add(connection)
        self.peak_open = max(self.peak_open, self.open)

    def lost(self, connection: Connection) -> None:
        """See `connection.Pool`."""
        self._alive.discard(connection)

    def _kept(self) -> UpstreamConnection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.abort()
        return None

    async def _connect(self) -> UpstreamConnection:
        async with asyncio.timeout(CONNECT_S):
            _, connection = await self.loop.create_connection(
                lambda: UpstreamConnection(self),
                self._address.host,
                self._address.port,
                ssl=self._tls,
                server_hostname=self._address.host if self._tls else None,
            )
        return connection


class Piping(Sink):
    """A `Sink` that may slow its connection down."""

    connection: UpstreamConnection | None


def head_of(method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]], length: int | None) -> bytes:
    """Request line and headers as bytes; `length` of the body, `None` where there is none."""
    lines = [method.encode() + b" " + target + b" HTTP/1.1"]
    lines += [name + b": " + value for name, value in headers]
    if length is not None:
        lines.append(b"content-length: %d" % length)
    return b"\r\n".join(lines) + b"\r\n\r\n"


def why(problem: OSError) -> str:
    """What to tell a caller of a failed exchange, without the server's address."""
    found = list(causes(problem))
    if any(isinstance(cause, ConnectionRefusedError) for cause in found):
        return "refuses connections: is its server running?"
    if any(isinstance(cause, ssl.SSLError) for cause in found):
        return "cannot be reached over TLS: are its scheme and its certificate right?"
    if any(isinstance(cause, Broken) for cause in found):
        return "broke off before it answered: see its server's log; the request was not sent again"
    if any(isinstance(cause, TimeoutError) for cause in found):
        return f"took no connection within {CONNECT_S:g} s: is it overloaded, or its address wrong?"
    return f"cannot be reached ({type(problem).__name__}): is its URL right?"
