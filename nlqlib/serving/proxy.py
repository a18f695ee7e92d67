"""A streaming reverse proxy to one server, as an ASGI application, and the gateway in front of several.

Each piece of a response is passed on when it comes; nothing is collected but the request's body. Headers pass
as they are, the key among them, and nothing of a request is logged or stored.
"""

import asyncio
import json
import logging
from collections.abc import Iterable, Mapping, Sequence

from nlqlib.serving.endpoint import Endpoint, EndpointError, parse_address
from nlqlib.serving.gateway import Gateway
from nlqlib.serving.inprocess import App, Message, RawHeaders, Receive, Send
from nlqlib.serving.upstream import Fields, Piping, Upstream, UpstreamConnection, head_of, why

HELD_BACK = 1 << 20
"""Bytes that may wait for a slow caller before the server is made to wait as well."""
HOP_BY_HOP = frozenset(
    b"connection keep-alive proxy-connection proxy-authenticate proxy-authorization te trailer "
    b"transfer-encoding upgrade".split()
)
"""Headers that speak of one connection only (RFC 9110, 7.6.1)."""
REWRITTEN = frozenset({b"host", b"content-length", b"expect"})
BODYLESS = ("GET", "DELETE", "OPTIONS")
END = {"type": "http.response.body", "body": b"", "more_body": False}
log = logging.getLogger(__name__)


class Proxy:
    """Passes HTTP requests to the server at `url` (its root; a trailing `/v1` is understood) as `name`.

    Belongs to the loop of its first request. A server that cannot be reached or breaks off before its answer
    is a 502; one that breaks off in the middle breaks the response off. Raises `EndpointError` for a bad URL
    or `ca_file`.
    """

    def __init__(self, url: str, name: str = "upstream", ca_file: str | None = None) -> None:
        root = url.rstrip("/").removesuffix("/v1")
        self.name = name
        self.address = parse_address(root)
        self._tls = Endpoint(root, None, ca_file=ca_file).tls_context()
        self._upstream: Upstream | None = None

    @property
    def upstream(self) -> Upstream:
        """Its connections."""
        if self._upstream is None:
            self._upstream = Upstream(self.address, self._tls)
        return self._upstream

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """See the ASGI specification; the lifespan has nothing to start."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        body = await _read(receive)
        if body is None:
            return
        response = Response()
        passing = asyncio.create_task(self.upstream.exchange(self._head(scope, body), body, response))
        gone = asyncio.create_task(_until_gone(receive))
        for task in (passing, gone):
            task.add_done_callback(response.wake)
        try:
            await self._pass_on(response, passing, gone, send)
        finally:
            passing.cancel()
            gone.cancel()
            await asyncio.wait([passing, gone])

    async def aclose(self) -> None:
        """Close every connection."""
        if self._upstream is not None:
            await self._upstream.aclose()

    def _head(self, scope: Message, body: bytes) -> bytes:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]  # whoever serves us drops the body
        path = (scope.get("raw_path") or scope["path"].encode()).partition(b"?")[0]
        query = b"?" + scope["query_string"] if scope.get("query_string") else b""
        headers = [(b"host", self.address.host_header.encode())]
        headers += [pair for pair in end_to_end(scope["headers"]) if pair[0] not in REWRITTEN]
        length = len(body) if body or method not in BODYLESS else None
        return head_of(method, self.address.prefix.encode() + path + query, headers, length)

    async def _pass_on(
        self, response: "Response", passing: "asyncio.Task[None]", gone: "asyncio.Task[None]", send: Send
    ) -> None:
        while True:
            for message in response.take():
                await send(message)
            if gone.done():
                return
            if passing.done():
                break
            await response.more()
        problem = passing.exception()
        if problem is None:
            await send(END)
        elif not isinstance(problem, OSError):
            raise problem
        elif response.started:  # without an end: whoever serves us cuts the connection, and the caller knows
            log.warning("%s broke off in the middle of a response", self.name)
        else:
            for message in bad_gateway(f"{self.name} {why(problem)}"):
                await send(message)


class Response(Piping):
    """What has arrived of a response and is not yet passed on, as ASGI messages."""

    def __init__(self) -> None:
        self.connection: UpstreamConnection | None = None
        self.started = False
        self._messages: list[Message] = []
        self._size = 0
        self._news = asyncio.Event()

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        pairs = headers.pairs if isinstance(headers, Fields) else []
        self.started = True
        self._add({"type": "http.response.start", "status": status, "headers": end_to_end(pairs)})

    def on_data(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._size > HELD_BACK and self.connection is not None:
            self.connection.hold(True)
        self._add({"type": "http.response.body", "body": piece, "more_body": True})

    def on_end(self) -> None:
        """The exchange returns, which says as much."""

    def take(self) -> Iterable[Message]:
        """What has come, in order, until nothing is left."""
        while self._messages:
            messages, held, self._messages, self._size = self._messages, self._size > HELD_BACK, [], 0
            yield from messages
            if held and self.connection is not None:
                self.connection.hold(False)

    async def more(self) -> None:
        """Wait until something happens."""
        await self._news.wait()
        self._news.clear()

    def wake(self, _: object) -> None:
        """Something has happened."""
        self._news.set()

    def _add(self, message: Message) -> None:
        self._messages.append(message)
        self._news.set()


def reverse_proxy(
    urls: Sequence[str],
    *,
    router: int | None = None,
    replica: int | None = None,
    max_queue: int | None = None,
    queue_timeout_s: float | None = None,
    headers: bool = True,
    ca_file: str | None = None,
) -> Gateway:
    """The gateway in front of the servers at `urls`, which it names `replica-0`, `replica-1`, …

    Raises `EndpointError` for a bad or repeated URL and `ValueError` for a bad limit; see `Gateway`.
    """
    proxies = [Proxy(url, f"replica-{i}", ca_file) for i, url in enumerate(urls)]
    if len({proxy.address for proxy in proxies}) < len(proxies):
        raise EndpointError("an upstream is named twice and would get two queues: name each once")
    apps: dict[str, App] = {proxy.name: proxy for proxy in proxies}
    return Gateway(
        apps,
        router=router,
        replica=replica,
        max_queue=max_queue,
        queue_timeout_s=queue_timeout_s,
        headers=headers,
    )


def end_to_end(headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
    """`headers` without those that speak of one connection only; `Connection` may name further ones."""
    pairs = [(name.lower(), value) for name, value in headers]
    named = b",".join(value for name, value in pairs if name == b"connection").lower().split(b",")
    dropped = HOP_BY_HOP | {name.strip() for name in named}
    return [(name, value) for name, value in pairs if name not in dropped]


def bad_gateway(message: str) -> Iterable[Message]:
    """A 502 with vLLM's error object."""
    error = {"message": message, "type": "bad_gateway", "param": None, "code": 502}
    body = json.dumps({"error": error}).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    yield {"type": "http.response.start", "status": 502, "headers": headers}
    yield {"type": "http.response.body", "body": body}


async def _read(receive: Receive) -> bytes | None:
    """The whole body; `None` when the caller goes before it is complete."""
    pieces, more = [], True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return None
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        continue


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        kind = (await receive())["type"]
        await send({"type": f"{kind}.complete"})
        if kind == "lifespan.shutdown":
            return
