"""The wire client: what all load and timing uses, because it costs a twentieth of an ordinary client.

The body is serialised once, only the needed fields are read, and every time is taken in the callback in
which the bytes arrive.
"""

import json
from collections.abc import Hashable
from typing import Any

from nlqlib.records import ChatRequest, Json, Message
from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.inprocess import App, InProcessTransport
from nlqlib.serving.reply import PATH, ClientStats, Completing, Reply, stats_of
from nlqlib.serving.transport import SocketTransport, Transport

HEADERS = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "nlqlib"}


KEPT = 512
"""Bodies and lists of messages whose JSON is kept: a workload cycles through far fewer."""


class BodyEncoder:
    """Request bodies as JSON. A workload repeats its prompts and settings, so each is serialised once.

    Messages, contract and extra fields are recognised by their identity and kept, hence must not be changed
    after they were first sent.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._json = json.JSONEncoder(separators=(",", ":"))
        self._bodies: dict[Hashable, tuple[ChatRequest, bytes]] = {}
        self._messages: dict[int, tuple[tuple[Message, ...], bytes]] = {}

    def encode(self, request: ChatRequest) -> bytes:
        """The body of POST /chat/completions."""
        key = _key(request)
        kept = self._bodies.get(key)
        if kept is None:
            kept = (request, self._encode(request))  # the request keeps alive whatever the key identifies
            _keep(self._bodies, key, kept)
        return kept[1]

    def _encode(self, request: ChatRequest) -> bytes:
        rest = request.body(self._model)
        messages = rest.pop("messages")
        if "messages" in request.extra or "messages" in request.contract.fields:
            head = self._json.encode(messages).encode()
        else:
            head = self._encode_messages(request.messages, messages)
        return b'{"messages":' + head + b"," + self._json.encode(rest)[1:].encode()

    def _encode_messages(self, given: tuple[Message, ...], messages: list[Json]) -> bytes:
        kept = self._messages.get(id(given))
        if kept is None:
            kept = (given, self._json.encode(messages).encode())
            _keep(self._messages, id(given), kept)
        return kept[1]


def _key(request: ChatRequest) -> Hashable:
    """Equal for two requests whose bodies are the same because they are made of the same objects."""
    return (
        id(request.messages),
        id(request.contract),
        id(request.extra) if request.extra else None,
        request.max_tokens,
        request.temperature,
        request.stream,
        request.logprobs,
        request.want_token_ids,
    )


def _keep(store: dict[Any, Any], key: Hashable, value: object) -> None:
    if len(store) >= KEPT:
        store.clear()
    store[key] = value


class WireClient(Completing):
    """See `client.Client`; belongs to the loop that runs when its first request is sent."""

    def __init__(
        self, endpoint: Endpoint, app: App | None = None, clock: bool = True, ceiling: int | None = None
    ) -> None:
        super().__init__(endpoint, clock)
        self._app = app
        self._ceiling = ceiling
        self._tls = endpoint.tls_context() if app is None else None
        self._bodies = BodyEncoder(self.model)
        self._made: Transport | None = None

    @property
    def transport(self) -> Transport:
        """The connections; made in the running loop."""
        if self._made is None:
            path = self.address.prefix + PATH
            headers = {**HEADERS, **self.endpoint.headers}
            if self._app is not None:
                self._made = InProcessTransport(self._app, self.address, path, headers)
            else:
                self._made = SocketTransport(self.address, path, headers, self._tls, self._ceiling)
        return self._made

    @property
    def stats(self) -> ClientStats:
        """Connections and requests, now and at their highest."""
        return stats_of(self.gauge, self._made, self._ceiling)

    async def _post(self, request: ChatRequest, reply: Reply) -> None:
        await self.transport.post(self._bodies.encode(request), self.endpoint.authorization(), reply)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._made is not None:
            await self._made.aclose()
