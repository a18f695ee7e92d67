"""POST over a socket: HTTP/1.1 on an `asyncio.Protocol`, with a pool of kept connections.

The pool has no ceiling unless one is given, because a client that limits the load measures itself. A request
is written at most once: a kept connection is looked at before it is used, and one that the server has closed
is thrown away *before* a byte is sent. After that nothing is repeated, since an answer that never came says
nothing about what the server did, and a repeat would turn a failure into a latency.
"""

import asyncio
import socket
import ssl
from collections import deque
from collections.abc import Mapping
from typing import Protocol

from nlqlib.serving.connection import Connection, Sink
from nlqlib.serving.endpoint import Address
from nlqlib.serving.outcome import Broken

CLOSING_S = 1.0
"""How long closing waits for connections to end in good order (TLS says goodbye) before it cuts them."""


class Transport(Protocol):
    """Carries one POST at a time per call, any number of calls at once."""

    @property
    def open(self) -> int:
        """Connections that exist now."""

    @property
    def peak_open(self) -> int:
        """Most connections that ever existed at once."""

    @property
    def waited(self) -> int:
        """Calls that waited for a connection."""

    async def post(self, body: bytes, authorization: str | None, sink: Sink) -> None:
        """Send `body`; return when the response is complete.

        Raises `OSError` (`Broken` among them) when there was no complete response.
        """

    async def aclose(self) -> None:
        """Close every connection; requests in flight end with `Broken`."""


class SocketTransport:
    """POST to one path of one address; belongs to the loop that runs when it is made."""

    def __init__(
        self,
        address: Address,
        path: str,
        headers: Mapping[str, str],
        tls: ssl.SSLContext | None = None,
        ceiling: int | None = None,
    ) -> None:
        self.loop = asyncio.get_running_loop()
        self._address = address
        self._tls = tls
        self._ceiling = ceiling
        self._head = _head(address, path, headers)
        self._hosts: list[str] = []
        self._idle: list[Connection] = []
        self._alive: set[Connection] = set()
        self._queue: deque[asyncio.Future[None]] = deque()
        self._taken = 0
        self._closed = False
        self.peak_open = 0
        self.waited = 0

    @property
    def open(self) -> int:
        """Connections that exist now, idle ones included."""
        return len(self._alive)

    async def post(self, body: bytes, authorization: str | None, sink: Sink) -> None:
        """See `Transport.post`."""
        secret = f"authorization: {authorization}\r\n" if authorization else ""
        head = self._head + f"{secret}content-length: {len(body)}\r\n\r\n".encode()
        await self._enter()
        try:
            connection = self._kept() or await self._connect()
            await connection.exchange(head, body, sink)
            if not connection.gone:
                connection.idle_since = self.loop.time()
                self._idle.append(connection)
        finally:
            self._leave()

    async def aclose(self) -> None:
        """See `Transport.aclose`."""
        self._closed = True
        self._idle.clear()
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_exception(Broken("this client is closed"))
        for connection in self._alive:
            connection.close()
        for _ in range(20):
            if not self._alive:
                return
            await asyncio.sleep(CLOSING_S / 20)
        for connection in list(self._alive):
            connection.abort()
        await asyncio.sleep(0)

    def opened(self, connection: Connection) -> None:
        """Called by a connection that has been made."""
        self._alive.add(connection)
        self.peak_open = max(self.peak_open, len(self._alive))

    def lost(self, connection: Connection) -> None:
        """Called by a connection that is gone."""
        self._alive.discard(connection)

    def _kept(self) -> Connection | None:
        while self._idle:
            connection = self._idle.pop()
            if connection.usable:
                return connection
            connection.abort()
        return None

    async def _enter(self) -> None:
        """Take a place below the ceiling, waiting in order of arrival."""
        if self._closed:
            raise Broken("this client is closed")
        if self._ceiling is not None and (self._taken >= self._ceiling or self._queue):
            self.waited += 1
            turn = self.loop.create_future()
            self._queue.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():  # the place had just been handed over
                    self._leave()
                raise
        else:
            self._taken += 1

    def _leave(self) -> None:
        """Hand the place to the first that still waits, so that nobody can slip in between."""
        while self._queue:
            turn = self._queue.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._taken -= 1

    async def _connect(self) -> Connection:
        """A new connection. Raises `OSError`; the last address tried gives the reason."""
        if not self._hosts:
            self._hosts = await self._resolve()
        problem: OSError = Broken("no address")
        for host in list(self._hosts):
            try:
                _, connection = await self.loop.create_connection(
                    lambda: Connection(self),
                    host,
                    self._address.port,
                    ssl=self._tls,
                    server_hostname=self._address.host if self._tls else None,
                )
            except OSError as failure:
                problem = failure
            else:
                self._hosts = [host]
                return connection
        self._hosts = []
        raise problem

    async def _resolve(self) -> list[str]:
        """IP addresses of the host, looked up once: a look-up is a thread, and there are many connections."""
        found = await self.loop.getaddrinfo(self._address.host, self._address.port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(info[4][0]) for info in found))


def _head(address: Address, path: str, headers: Mapping[str, str]) -> bytes:
    """The part of every request's head that stays the same."""
    lines = [f"POST {path} HTTP/1.1", f"host: {address.host_header}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n").encode("latin-1")
