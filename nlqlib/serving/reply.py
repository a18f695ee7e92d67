"""From one request to one `Completion`, whichever client carries it: reading, judging, timing, redacting."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from nlqlib.records import ChatRequest, Completion
from nlqlib.serving import outcome
from nlqlib.serving.answer import Answer, fold, whole
from nlqlib.serving.deadlines import Deadlines, Limit
from nlqlib.serving.endpoint import Endpoint, EndpointError, ignored_proxy, parse_address
from nlqlib.serving.outcome import Verdict
from nlqlib.serving.sse import DONE, EventDecoder

ROUTER_QUEUE = "x-router-queue-ms"
REPLICA_QUEUE = "x-replica-queue-ms"
REPLICA = "x-replica"
PATH = "/chat/completions"
TAIL_S = 0.1
"""How long a connection may stay open after `[DONE]` before it is given up; the answer is complete."""


class Reply:
    """One response while it arrives: the `Sink` of the wire client; the openai client fills its fields."""

    def __init__(self, streams: bool, loop: asyncio.AbstractEventLoop, limit: Limit) -> None:
        self._streams = streams
        self._limit = limit
        self._loop = loop
        self._decoder: EventDecoder | None = None
        self.status: int | None = None
        self.headers: Mapping[str, str] = {}
        self.body = bytearray()
        """The whole body of a plain response or of an error; a stream leaves it empty."""
        self.answer = Answer()
        self.complete = False
        self.end_s: float | None = None

    def on_head(self, status: int, headers: Mapping[str, str]) -> None:
        """Status and headers (names in lower case); says whether events or one body will follow."""
        self.status, self.headers = status, headers
        content_type = headers.get("content-type", "") if self._streams and status == 200 else ""
        if content_type.startswith("text/event-stream"):
            self._decoder = EventDecoder()

    @property
    def is_stream(self) -> bool:
        """Is an event stream answered, and was one asked for? A server may ignore `stream`."""
        return self._decoder is not None

    def now(self) -> float:
        """Seconds of the loop."""
        return self._loop.time()

    def on_data(self, piece: bytes) -> None:
        if self._decoder is None:
            self.body += piece
            return
        now = self._loop.time()
        for payload in self._decoder.feed(piece):
            if payload == DONE:
                self.on_done()
            elif not self.complete:
                fold(self.answer, payload, now)

    def on_done(self) -> None:
        """The stream has said that it is over, whatever its connection does afterwards."""
        self.answer.streamed = True
        self.complete = True
        self.end_s = self._loop.time()
        self._limit.hurry()

    def on_end(self) -> None:
        """The last byte is there."""
        if not self.complete:
            self.complete = True
            self.end_s = self._loop.time()
        if self.is_stream:
            self.answer.streamed = True
        elif self.status == 200:
            whole(bytes(self.body), self.answer)

    def verdict(self, request: ChatRequest) -> Verdict:
        """The outcome of a response that came to its end."""
        if self.status is None or self.status != 200:
            return outcome.of_status(self.status or 0, bytes(self.body))
        fixed = bool(request.extra.get("ignore_eos"))
        return outcome.of_answer(self.answer, request.max_tokens, fixed)


@dataclass(frozen=True)
class ClientStats:
    """What a client has, and ever had, open and in flight: a client is a suspect too."""

    in_flight: int
    peak_in_flight: int
    sent: int
    open_connections: int
    peak_connections: int
    waited: int | None
    """Requests that waited for a connection below the pool's ceiling; `None`: the client does not say."""
    ceiling: int | None
    """Most connections the pool may have; `None`: as many as there are requests."""


class Gauge:
    """Counts the requests of one client that are in flight."""

    def __init__(self) -> None:
        self.in_flight = 0
        self.peak_in_flight = 0
        self.sent = 0

    def __enter__(self) -> None:
        self.sent += 1
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)

    def __exit__(self, *_: object) -> None:
        self.in_flight -= 1


class Connections(Protocol):
    """What is counted of a client's connections."""

    @property
    def open(self) -> int: ...
    @property
    def peak_open(self) -> int: ...
    @property
    def waited(self) -> int | None: ...


def stats_of(gauge: Gauge, connections: Connections | None, ceiling: int | None) -> ClientStats:
    """The counts now; `connections` is `None` before the first request."""
    here = connections
    seen = (here.open, here.peak_open, here.waited) if here is not None else (0, 0, 0)
    return ClientStats(gauge.in_flight, gauge.peak_in_flight, gauge.sent, *seen, ceiling)


class Completing(ABC):
    """The part that both clients share: `complete` around `_post`, which each brings along."""

    def __init__(self, endpoint: Endpoint, clock: bool) -> None:
        if not endpoint.model:
            raise EndpointError("the endpoint has no model: set MODEL to one that GET /models lists")
        self.endpoint = endpoint
        self.model = endpoint.model
        self.address = parse_address(endpoint.base_url)
        self.gauge = Gauge()
        self._limits: tuple[Deadlines, Deadlines] | None = None
        self._clock = clock
        self._proxy = ignored_proxy(self.address)
        endpoint.key()  # a key that is not set is a mistake of the configuration, not of every request

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        """The completion of `request`, failures included; times are of the running loop.

        `planned_s` is passed on. Raises `EndpointError` when the key's variable is not set, and nothing for
        whatever the endpoint does.
        """
        loop = asyncio.get_running_loop()
        limit = self._limit(loop)
        reply = Reply(request.stream, loop, limit)
        start_s = loop.time()
        with self.gauge:
            verdict = await self._attempt(request, reply, limit)
        end_s = reply.end_s if reply.end_s is not None else loop.time()
        return self._completion(request, reply, verdict, (planned_s, start_s, end_s))

    def _limit(self, loop: asyncio.AbstractEventLoop) -> Limit:
        """The time limit of one more request on the running `loop`."""
        if self._limits is None or self._limits[0].loop is not loop:
            self._limits = Deadlines(loop, self.endpoint.timeout_s), Deadlines(loop, TAIL_S)
        return Limit(*self._limits)

    async def _attempt(self, request: ChatRequest, reply: Reply, limit: Limit) -> Verdict:
        limit.begin()
        try:
            await self._post(request, reply)
        except asyncio.CancelledError:
            if not limit.end():
                raise
            if not reply.complete:
                return outcome.of_timeout(self.endpoint.timeout_s)
        except OSError as failure:
            if not reply.complete and limit.expired:
                return outcome.of_timeout(self.endpoint.timeout_s)
            if not reply.complete:
                return outcome.of_exception(failure, self.address, reply.status is not None, self._proxy)
        finally:
            limit.end()
        return reply.verdict(request)

    @property
    @abstractmethod
    def stats(self) -> ClientStats:
        """Connections and requests, now and at their highest."""

    @abstractmethod
    async def aclose(self) -> None:
        """Close every connection."""

    @abstractmethod
    async def _post(self, request: ChatRequest, reply: Reply) -> None:
        """Send `request`, fill `reply` to its end. Raises `OSError` when the response is not complete."""

    def _completion(
        self,
        request: ChatRequest,
        reply: Reply,
        verdict: Verdict,
        times: tuple[float | None, float, float],
    ) -> Completion:
        answer, headers, timed = reply.answer, reply.headers, self._clock
        return _made(
            request_id=request.request_id,
            outcome=verdict.outcome,
            text=answer.text if answer.parts or verdict.outcome == "empty" else None,
            finish_reason=answer.finish_reason,
            http_status=reply.status,
            error=None if verdict.error is None else self.endpoint.redact(verdict.error),
            model=answer.model,
            prompt_tokens=answer.prompt_tokens,
            output_tokens=answer.output_tokens,
            cached_tokens=answer.cached_tokens,
            planned_s=times[0] if timed else None,
            start_s=times[1] if timed else None,
            first_token_s=answer.first_token_s if timed else None,
            first_content_s=answer.first_content_s if timed else None,
            end_s=times[2] if timed else None,
            token_times_s=tuple(answer.token_times_s) if timed else (),
            router_queue_s=milliseconds(headers.get(ROUTER_QUEUE)) if timed else None,
            replica_queue_s=milliseconds(headers.get(REPLICA_QUEUE)) if timed else None,
            replica=headers.get(REPLICA),
            retry_after_s=seconds(headers.get("retry-after")),
            token_ids=_kept(answer.token_ids, request.want_token_ids),
            logprobs=_kept(answer.logprobs, request.logprobs is not None),
        )


def _made(**fields: Any) -> Completion:
    """`Completion(**fields)`, whose own `__init__` of a frozen class with so many fields takes 4 µs."""
    made = object.__new__(Completion)
    vars(made).update(fields)
    return made


def _kept(values: list[Any] | None, wanted: bool) -> tuple[Any, ...] | None:
    return tuple(values) if wanted and values is not None else None


def seconds(text: str | None) -> float | None:
    """A header's non-negative number; `None` where it is missing, a date or nonsense."""
    try:
        value = float(text) if text is not None else None
    except ValueError:
        return None
    return value if value is not None and 0 <= value < float("inf") else None


def milliseconds(text: str | None) -> float | None:
    """A header in milliseconds, in seconds."""
    value = seconds(text)
    return None if value is None else value / 1000
