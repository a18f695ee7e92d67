"""A pool of connections around a client that needs none, to show in virtual time what a small pool does.

Over sockets the client has a pool of its own (`make_client`); in process there is no connection to wait for.
"""

import asyncio
from dataclasses import replace

from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Client, ClientStats, Endpoint


class Pooled:
    """`client` with at most `ceiling` requests under way; the others wait in order, and their time counts."""

    def __init__(self, client: Client, ceiling: int) -> None:
        if ceiling < 1:
            raise ValueError(f"a pool of {ceiling} connections carries nothing: use 1 or more")
        self.endpoint: Endpoint = client.endpoint
        self._client, self._ceiling = client, ceiling
        self._places = asyncio.Semaphore(ceiling)
        self._waited = 0

    @property
    def stats(self) -> ClientStats:
        """As the client's own; with the pool's ceiling and how many waited for a place."""
        return replace(self._client.stats, waited=self._waited, ceiling=self._ceiling)

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        """See `Client.complete`; the wait for a place belongs to the request, as it does over sockets."""
        asked_s = asyncio.get_running_loop().time()
        self._waited += self._places.locked()
        async with self._places:
            done = await self._client.complete(request, planned_s)
        return done if done.start_s is None else replace(done, start_s=asked_s)

    async def aclose(self) -> None:
        """Close the client."""
        await self._client.aclose()
