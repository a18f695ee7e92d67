"""One request → one `Completion`: two clients behind one protocol.

`wire` costs a twentieth of an ordinary client and carries all load and timing; `openai` is what an
application would use. For the same responses both return the same completions, times aside. Neither
retries, neither uses a proxy: a variable such as `HTTPS_PROXY` is ignored with one warning that names it.
"""

from typing import Literal, Protocol

from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.endpoint import Endpoint, EndpointError, warn_of_proxy
from nlqlib.serving.inprocess import App
from nlqlib.serving.reply import ClientStats
from nlqlib.serving.wire import WireClient

__all__ = ["Client", "ClientKind", "ClientStats", "Endpoint", "EndpointError", "make_client"]

ClientKind = Literal["wire", "openai"]


class Client(Protocol):
    """Sends chat completions to one endpoint; belongs to one event loop."""

    endpoint: Endpoint

    @property
    def stats(self) -> ClientStats:
        """Requests in flight and connections open, now and at their highest."""

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        """The completion of `request`; what goes wrong at the endpoint is its outcome, never an exception.

        Times are seconds of the running loop, `None` where the endpoint has no clock; `planned_s`, when the
        load meant to send, is passed on. Raises `EndpointError` when the key's variable is not set.
        """

    async def aclose(self) -> None:
        """Close every connection; requests in flight end as `disconnected`."""


def make_client(
    kind: ClientKind,
    endpoint: Endpoint,
    app: App | None = None,
    clock: bool = True,
    ceiling: int | None = None,
) -> Client:
    """A client of `endpoint`.

    `app`: an ASGI application that is the endpoint, in this process and without a socket. `clock=False`: the
    endpoint has no clock, so every time in a completion is missing. `ceiling`: the most connections at once,
    to provoke a pool that limits the load; `None` never limits. Raises `EndpointError` for a configuration
    that cannot work.
    """
    if kind not in ("wire", "openai"):
        raise EndpointError(f"unknown client {kind!r}: use wire or openai")
    if app is None:
        warn_of_proxy(endpoint.address)
    if kind == "wire":
        return WireClient(endpoint, app, clock, ceiling)
    from nlqlib.serving.openai_client import OpenAIClient  # its library takes a second to import

    return OpenAIClient(endpoint, app, clock, ceiling)
