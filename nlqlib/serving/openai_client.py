"""The openai client behind the same protocol: what an application would use.

Where it would differ from the wire client by its own settings, it is set to agree: no retries, no proxy and
no `.netrc` (`trust_env=False`), no redirects, no compression, no ceiling on connections, our timeout instead
of its own (which does not hold in virtual time). The key never enters it: a hook writes the header.

Before its first request it calls `asyncio.to_thread` once (openai 3.57, `AsyncAPIClient.request`: the
platform is looked up for the `x-stainless-os` header), so a virtual-time loop must run `run_in_executor`
inline. A host name is looked up in a thread too, but only over sockets, hence never in virtual time.
"""

import json
from contextvars import ContextVar
from typing import Any

import httpx2
import openai
from openai import AsyncOpenAI

from nlqlib.records import ChatRequest
from nlqlib.serving.answer import decode, fold, whole
from nlqlib.serving.connection import KEEP_S
from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.inprocess import App, AsgiTransport
from nlqlib.serving.outcome import Broken
from nlqlib.serving.reply import ClientStats, Completing, Reply, stats_of

OWN_HEADERS = ("host", "content-type", "content-length", "accept", "user-agent", "connection")
"""Headers of the openai client that are kept; `OPENAI_*` variables would add an organisation and others."""


class CountedTransport(httpx2.AsyncHTTPTransport):
    """httpx's socket transport, which also says how many connections it has."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.peak_open = 0
        self.waited: int | None = None  # httpx does not say

    @property
    def open(self) -> int:
        """Connections that exist now, idle ones included."""
        return len(self._pool.connections)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        self.peak_open = max(self.peak_open, self.open)
        return response


WAITING: ContextVar[Reply] = ContextVar("WAITING")
"""The reply that the running task waits for: httpx tells of a response's head before it reads the body."""


async def _take_head(response: httpx2.Response) -> None:
    WAITING.get().on_head(response.status_code, response.headers)


class OpenAIClient(Completing):
    """See `client.Client`; belongs to the loop that runs when its first request is sent."""

    def __init__(
        self, endpoint: Endpoint, app: App | None = None, clock: bool = True, ceiling: int | None = None
    ) -> None:
        super().__init__(endpoint, clock)
        self._ceiling = ceiling
        self._transport = AsgiTransport(app) if app is not None else _sockets(endpoint, ceiling)
        http = httpx2.AsyncClient(
            transport=self._transport,
            trust_env=False,
            follow_redirects=False,
            timeout=None,
            event_hooks={"request": [self._set_headers], "response": [_take_head]},
        )
        self._client = AsyncOpenAI(
            base_url=endpoint.base_url, api_key="unused", max_retries=0, timeout=None, http_client=http
        )

    @property
    def stats(self) -> ClientStats:
        """Connections and requests, now and at their highest."""
        return stats_of(self.gauge, self._transport, self._ceiling)

    async def aclose(self) -> None:
        """Close every connection."""
        await self._client.close()

    async def _set_headers(self, request: httpx2.Request) -> None:
        for name in list(request.headers):
            if name not in OWN_HEADERS and not name.startswith("x-stainless-"):
                del request.headers[name]
        request.headers["accept-encoding"] = "identity"
        request.headers.update(dict(self.endpoint.headers))
        if authorization := self.endpoint.authorization():
            request.headers["authorization"] = authorization

    async def _post(self, request: ChatRequest, reply: Reply) -> None:
        WAITING.set(reply)
        try:
            await self._create(request, reply)
        except openai.APIStatusError as failure:
            reply.body += failure.response.content
            reply.on_end()
        except (openai.APIConnectionError, httpx2.RequestError) as failure:
            raise Broken("see the cause") from failure

    async def _create(self, request: ChatRequest, reply: Reply) -> None:
        body = request.body(self.model)
        messages, model = body.pop("messages"), body.pop("model")
        stream = bool(body.pop("stream", False))
        raw = await self._client.chat.completions.with_raw_response.create(
            messages=messages, model=model, stream=stream, extra_body=body
        )
        if reply.is_stream:
            await self._read_events(raw.parse(), reply)
        elif stream:
            reply.body += await raw.http_response.aread()
            reply.on_end()
        else:
            self._read_whole(raw, reply)

    def _read_whole(self, raw: Any, reply: Reply) -> None:
        reply.body += raw.content
        reply.on_end()
        if reply.answer.malformed is None and reply.answer.error is None:
            reply.answer = whole(raw.parse().to_dict(mode="json", warnings=False))

    async def _read_events(self, stream: Any, reply: Reply) -> None:
        try:
            async for chunk in stream:
                fold(reply.answer, chunk.to_dict(mode="json", warnings=False), reply.now())
        except openai.APIConnectionError:
            raise
        except openai.APIError as failure:  # an error object among the events
            reply.answer.error = (
                failure.body if isinstance(failure.body, dict) else {"message": failure.message}
            )
        except json.JSONDecodeError as failure:
            decode(reply.answer, failure.doc)
        reply.on_end()


def _sockets(endpoint: Endpoint, ceiling: int | None) -> CountedTransport:
    limits = httpx2.Limits(max_connections=ceiling, max_keepalive_connections=None, keepalive_expiry=KEEP_S)
    context = endpoint.tls_context()
    return CountedTransport(verify=context if context is not None else True, trust_env=False, limits=limits)
