"""One HTTP exchange with an ASGI application in this process: no socket, no thread, streaming kept.

The application runs in a task of its own, as behind a server: the body reaches the caller piece by piece
as it is sent, a caller that gives up is a disconnect, and an application that raises is an HTTP 500 or, once
its response has begun, a cut connection.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, MutableMapping
from contextlib import AsyncExitStack
from functools import lru_cache
from typing import Any
from urllib.parse import urlsplit

import httpx2

from nlqlib.serving.connection import Sink
from nlqlib.serving.endpoint import Address, parse_address
from nlqlib.serving.outcome import Broken

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]
RawHeaders = list[tuple[bytes, bytes]]

NOTICE_S = 0.05
CLOSING_S = 1.0
"""How long closing waits for an application: to see that its caller has gone, and to end when cancelled."""
log = logging.getLogger(__name__)


class Exchange:
    """One request to the application and its response, as the two ASGI callables see it."""

    def __init__(self, body: bytes, sink: Sink) -> None:
        self._body: bytes | None = body
        self._sink = sink
        self._started = False
        self.over = asyncio.get_running_loop().create_future()
        """Done when the caller is: with the response complete, broken, or given up."""

    async def receive(self) -> Message:
        """The whole body once; then nothing until the exchange is over, which is a disconnect."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        if not self.over.done():
            await asyncio.wait([self.over])
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        """Pass head and body on at once; what is sent after the end goes nowhere, as behind a server."""
        if self.over.done():
            return
        if message["type"] == "http.response.start":
            self._started = True
            self._sink.on_head(message["status"], _lower(message.get("headers", ())))
        elif message["type"] == "http.response.body":
            if piece := message.get("body", b""):
                self._sink.on_data(piece)
            if not message.get("more_body", False):
                self._sink.on_end()
                self.over.set_result(None)

    def ended(self, task: "asyncio.Task[None]") -> None:
        """The application has returned or raised."""
        failure = None if task.cancelled() else task.exception()
        if failure is not None:
            log.error("the application in this process raised", exc_info=failure)
        if self.over.done():
            return
        if self._started or task.cancelled():
            self.over.set_exception(Broken("the application ended in the middle of its response"))
        else:
            self._sink.on_head(500, {"content-type": "text/plain; charset=utf-8"})
            self._sink.on_data(b"Internal Server Error")
            self._sink.on_end()
            self.over.set_result(None)


class Applications:
    """Runs exchanges with one application and keeps hold of their tasks."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._tasks: set[asyncio.Task[None]] = set()
        self.open = 0
        self.peak_open = 0

    async def exchange(self, scope: Message, body: bytes, sink: Sink) -> None:
        """One exchange, up to the last byte of the response. Raises `Broken` when there is none."""
        exchange = Exchange(body, sink)
        task = asyncio.get_running_loop().create_task(self._run(scope, exchange))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(exchange.ended)
        self.open += 1
        self.peak_open = max(self.peak_open, self.open)
        try:
            await exchange.over  # cancelled with its awaiter, which the application sees as a disconnect
        finally:
            self.open -= 1

    async def _run(self, scope: Message, exchange: Exchange) -> None:
        await self._app(scope, exchange.receive, exchange.send)

    async def aclose(self) -> None:
        """End applications that are still busy with a caller who has gone."""
        left = set(self._tasks)
        if left:  # most end by themselves as soon as they see the disconnect
            _, left = await asyncio.wait(left, timeout=NOTICE_S)
        for task in left:
            task.cancel()
        if left:
            await asyncio.wait(left, timeout=CLOSING_S)


async def get(app: App, url: str, headers: Mapping[str, str]) -> tuple[int, dict[str, str], bytes]:
    """Status, headers and body of a page of an application in this process, awaited in the caller's task.

    For small pages that are read often. An application that raises is an HTTP 500, as behind a server.
    """
    address, path, query = _split(url)
    told = [(b"host", address.host_header.encode())]
    told += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
    scope = scope_of("GET", address.scheme, address.host, address.port, path, told, query)
    status, found, body = 500, {}, bytearray()

    async def receive() -> Message:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, found
        if message["type"] == "http.response.start":
            status, found = message["status"], _lower(message.get("headers", ()))
        elif message["type"] == "http.response.body":
            body.extend(message.get("body", b""))

    try:
        await app(scope, receive, send)
    except Exception:  # whatever it is, it is the application's and becomes its answer
        log.exception("the application in this process raised")
        return 500, {}, b"Internal Server Error"
    return status, found, bytes(body)


@lru_cache(maxsize=256)
def _split(url: str) -> tuple[Address, str, bytes]:
    there = urlsplit(url)
    return parse_address(f"{there.scheme}://{there.netloc}"), there.path, there.query.encode()


class InProcessTransport:
    """The `Transport` of the wire client when the endpoint is an application in this process."""

    def __init__(self, app: App, address: Address, path: str, headers: Mapping[str, str]) -> None:
        self._applications = Applications(app)
        self._address = address
        self._path = path
        self._headers = [(b"host", address.host_header.encode())]
        self._headers += [(name.lower().encode(), value.encode()) for name, value in headers.items()]
        self.waited = 0

    @property
    def open(self) -> int:
        """Exchanges in progress: each is a connection of its own."""
        return self._applications.open

    @property
    def peak_open(self) -> int:
        return self._applications.peak_open

    async def post(self, body: bytes, authorization: str | None, sink: Sink) -> None:
        """See `transport.Transport.post`."""
        headers = [*self._headers, (b"content-length", str(len(body)).encode())]
        if authorization:
            headers.append((b"authorization", authorization.encode()))
        scope = scope_of(
            "POST", self._address.scheme, self._address.host, self._address.port, self._path, headers
        )
        await self._applications.exchange(scope, body, sink)

    async def aclose(self) -> None:
        """See `transport.Transport.aclose`."""
        await self._applications.aclose()


class AsgiTransport(httpx2.AsyncBaseTransport):
    """The same exchange for the openai client: httpx's own hands a body over only when it is complete."""

    def __init__(self, app: App) -> None:
        self.applications = Applications(app)
        self.waited = 0

    @property
    def open(self) -> int:
        return self.applications.open

    @property
    def peak_open(self) -> int:
        return self.applications.peak_open

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """See `httpx2.AsyncBaseTransport`; the response streams."""
        url = request.url
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        port = url.port or (443 if url.scheme == "https" else 80)
        scope = scope_of(request.method, url.scheme, url.host, port, url.path, headers, url.query)
        stream = _Stream()
        body = await request.aread()
        task = asyncio.create_task(self._exchange(scope, body, stream))
        stream.task = task
        async with AsyncExitStack() as waiting:
            waiting.push_async_callback(stream.aclose)
            await stream.head
            waiting.pop_all()  # the response owns the stream now
        status, found = stream.head.result()
        return httpx2.Response(status, headers=list(found.items()), stream=stream, request=request)

    async def _exchange(self, scope: Message, body: bytes, stream: "_Stream") -> None:
        try:
            await self.applications.exchange(scope, body, stream)
        except Broken as failure:
            stream.broke(failure)

    async def aclose(self) -> None:
        await self.applications.aclose()


class _Stream(httpx2.AsyncByteStream):
    """A `Sink` on one side, httpx's byte stream on the other."""

    def __init__(self) -> None:
        self.task: asyncio.Task[None] | None = None
        self.head: asyncio.Future[tuple[int, Mapping[str, str]]] = asyncio.get_running_loop().create_future()
        self._pieces: asyncio.Queue[bytes | Broken | None] = asyncio.Queue()

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        if not self.head.done():
            self.head.set_result((status, headers))

    def on_data(self, piece: bytes) -> None:
        self._pieces.put_nowait(piece)

    def on_end(self) -> None:
        self._pieces.put_nowait(None)

    def broke(self, failure: Broken) -> None:
        if self.head.done():
            self._pieces.put_nowait(failure)
        else:
            self.head.set_exception(httpx2.RemoteProtocolError(str(failure)))

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while (piece := await self._pieces.get()) is not None:
            if isinstance(piece, Broken):
                raise httpx2.RemoteProtocolError(str(piece)) from piece
            yield piece

    async def aclose(self) -> None:
        if self.task is not None and not self.task.done():
            self.task.cancel()
            await asyncio.wait([self.task])


def scope_of(
    method: str, scheme: str, host: str, port: int, path: str, headers: RawHeaders, query: bytes = b""
) -> Message:
    """The ASGI scope of one request."""
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": scheme,
        "path": path,
        "raw_path": path.encode(),
        "query_string": query,
        "root_path": "",
        "headers": headers,
        "server": (host, port),
        "client": ("127.0.0.1", 0),
    }


def _lower(headers: Any) -> dict[str, str]:
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in headers}
