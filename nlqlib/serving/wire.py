"""The wire client: what all load and timing uses, because it costs a twentieth of an ordinary client.

The body is serialised once, only the needed fields are read, and every time is taken in the callback in
which the bytes arrive.
"""

import json

from nlqlib.records import ChatRequest, Json, Message
from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.inprocess import App, InProcessTransport
from nlqlib.serving.reply import PATH, ClientStats, Completing, Reply, stats_of
from nlqlib.serving.transport import SocketTransport, Transport

HEADERS = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "nlqlib"}


MESSAGES_KEPT = 512
"""Lists of messages whose JSON is kept: a workload cycles through far fewer."""


class BodyEncoder:
    """Request bodies as JSON. A workload repeats its prompts, so each list of messages is serialised once.

    The list is recognised by its identity and kept, hence must not be changed after it was first sent.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._json = json.JSONEncoder(separators=(",", ":"))
        self._kept: dict[int, tuple[tuple[Message, ...], bytes]] = {}

    def encode(self, request: ChatRequest) -> bytes:
        """The body of POST /chat/completions."""
        rest = request.body(self._model)
        messages = rest.pop("messages")
        if "messages" in request.extra or "messages" in request.contract.fields:
            head = self._json.encode(messages).encode()
        else:
            head = self._messages(request.messages, messages)
        return b'{"messages":' + head + b"," + self._json.encode(rest)[1:].encode()

    def _messages(self, key: tuple[Message, ...], messages: list[Json]) -> bytes:
        kept = self._kept.get(id(key))
        if kept is not None and kept[0] is key:
            return kept[1]
        if len(self._kept) >= MESSAGES_KEPT:
            self._kept.clear()
        encoded = self._json.encode(messages).encode()
        self._kept[id(key)] = key, encoded
        return encoded


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
