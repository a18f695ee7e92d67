"""The wire client: what all load and timing uses, because it costs a twentieth of an ordinary client.

The body is serialised once, only the needed fields are read, and every time is taken in the callback in
which the bytes arrive.
"""

from nlqlib.records import ChatRequest
from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.inprocess import App, InProcessTransport
from nlqlib.serving.reply import PATH, ClientStats, Completing, Reply, encode, stats_of
from nlqlib.serving.transport import SocketTransport, Transport

HEADERS = {"content-type": "application/json", "accept-encoding": "identity", "user-agent": "nlqlib"}


class WireClient(Completing):
    """See `client.Client`; belongs to the loop that runs when its first request is sent."""

    def __init__(
        self, endpoint: Endpoint, app: App | None = None, clock: bool = True, ceiling: int | None = None
    ) -> None:
        super().__init__(endpoint, clock)
        self._app = app
        self._ceiling = ceiling
        self._tls = endpoint.tls_context() if app is None else None
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
        await self.transport.post(encode(request, self.model), self.endpoint.authorization(), reply)

    async def aclose(self) -> None:
        """Close every connection."""
        if self._made is not None:
            await self._made.aclose()
