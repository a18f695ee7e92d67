"""The admission path in front of one or several replicas, as ASGI middleware, in either clock.

A request to generate passes two FIFO limits: the router's (for the endpoint as a whole), then that of the
replica it is sent to, which is the one with the fewest requests. It holds both slots until the last byte of
its response. Everything else (`/metrics`, `/health`, `/tokenize`, …) passes freely. The gateway adds response
headers with both waits, `/gateway/metrics`, and `/gateway/replicas/NAME/…`, which reaches one replica.
"""

import asyncio
import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from nlqlib.serving.admission import CallerGone, Closed, Limit, NotAdmitted, QueueFull, WaitedTooLong
from nlqlib.serving.admission_metrics import CONTENT_TYPE, exposition
from nlqlib.serving.inprocess import App, Message, RawHeaders, Receive, Send
from nlqlib.serving.reply import REPLICA, REPLICA_QUEUE, ROUTER_QUEUE

OWN = "/gateway/"
METRICS = "/gateway/metrics"
ONE = "/gateway/replicas/"
LIMITED = "/completions"
"""End of the paths that generate: `/v1/chat/completions` and `/v1/completions`."""
HIDDEN = tuple(name.encode() for name in (ROUTER_QUEUE, REPLICA_QUEUE, REPLICA))
JSON_TYPE = "application/json"
KINDS = {
    QueueFull: "admission_queue_full",
    WaitedTooLong: "admission_queue_timeout",
    Closed: "admission_closed",
}
"""Error type by reason."""
RETRY_AFTER_S = 1
"""What a rejected caller is told: the least that a whole number of seconds can say, not a forecast."""


@dataclass(frozen=True)
class Replica:
    """One upstream and its limit."""

    name: str
    app: App
    limit: Limit


class Gateway:
    """Router limit and replica limits in front of `upstreams`: one ASGI application, or several by name.

    `router` and `replica` bound what is in flight (`None`: no limit), `max_queue` how many may wait at each
    limit, beyond which the router answers 429 and a replica 503, and `queue_timeout_s` how long they may wait
    at each, then 503. With `headers` false no response header tells of waits or replicas. Raises `ValueError`
    for a bad limit.
    """

    def __init__(
        self,
        upstreams: App | Mapping[str, App],
        *,
        router: int | None = None,
        replica: int | None = None,
        max_queue: int | None = None,
        queue_timeout_s: float | None = None,
        headers: bool = True,
    ) -> None:
        apps = upstreams if isinstance(upstreams, Mapping) else {"replica-0": upstreams}
        if not apps:
            raise ValueError("a gateway needs at least one upstream")
        self.router = Limit(router, max_queue, queue_timeout_s)
        self.replicas = tuple(
            Replica(name, app, Limit(replica, max_queue, queue_timeout_s)) for name, app in apps.items()
        )
        self.headers = headers
        self._next = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """See the ASGI specification; HTTP only, and the lifespan of a single upstream."""
        if scope["type"] == "lifespan":
            await self._lifespan(scope, receive, send)
        elif scope["type"] != "http":
            raise ValueError(f"the gateway speaks HTTP, not {scope['type']}")
        elif scope["path"].startswith(OWN):
            await self._own(scope, receive, send)
        elif scope["method"] == "POST" and scope["path"].rstrip("/").endswith(LIMITED):
            await self._admit(scope, receive, send)
        elif scope["path"] == "/metrics" and len(self.replicas) > 1:
            await _answer(send, 404, self._told("there is no one /metrics here"))
        else:
            await self.replicas[self._least()].app(scope, receive, send)  # and nobody's turn has passed

    def metrics(self) -> str:
        """Prometheus text of both layers."""
        return exposition(self.router, {replica.name: replica.limit for replica in self.replicas})

    def close(self) -> None:
        """Turn away all who queue and all who come, with a 503; those in flight end as they would."""
        for limit in (self.router, *(replica.limit for replica in self.replicas)):
            limit.close()

    async def _admit(self, scope: Message, receive: Receive, send: Send) -> None:
        caller = Caller(receive)
        visit = Visit(send, self.headers, named=len(self.replicas) > 1)
        try:
            await caller.read()
            await visit.enter(ROUTER_QUEUE, self.router, caller)
            replica = self._choose()
            visit.replica = replica.name
            await visit.enter(REPLICA_QUEUE, replica.limit, caller)
            await replica.app(scope, caller.receive, visit.send)
        except CallerGone:
            return
        except NotAdmitted as why:
            await _refuse(visit, why)
        finally:
            visit.release()
            caller.close()

    def _choose(self) -> Replica:
        """The replica with the fewest requests; among equals, the next in turn."""
        chosen = self._least()
        self._next = (chosen + 1) % len(self.replicas)
        return self.replicas[chosen]

    def _least(self) -> int:
        n = len(self.replicas)
        return min(range(self._next, self._next + n), key=lambda i: self.replicas[i % n].limit.load) % n

    async def _own(self, scope: Message, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        if path == METRICS:
            await _answer(send, 200, self.metrics().encode(), CONTENT_TYPE)
            return
        name, slash, rest = path.removeprefix(ONE).partition("/")
        found = next((r for r in self.replicas if r.name == name), None)
        if path.startswith(ONE) and found and not rest.endswith(LIMITED):
            inner = {**scope, "path": slash + rest or "/", "raw_path": (slash + rest or "/").encode()}
            await found.app(inner, receive, send)
        else:
            await _answer(send, 404, self._told(f"nothing is served at {path}"))

    def _told(self, problem: str) -> bytes:
        names = ", ".join(replica.name for replica in self.replicas)
        advice = f"{METRICS} is the gateway's own, {ONE}NAME/metrics a replica's, and NAME one of {names}"
        return _error(404, f"{problem}: {advice}", "not_found")

    async def _lifespan(self, scope: Message, receive: Receive, send: Send) -> None:
        if len(self.replicas) == 1:
            await self.replicas[0].app(scope, receive, send)
            return
        while True:  # several are started and ended by whoever made them
            kind = (await receive())["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return


class Caller:
    """Whoever sent the request: its body, kept until it can be passed on, and whether it is still there."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._body: list[Message] = []
        self._watch: asyncio.Task[None] | None = None

    async def read(self) -> None:
        """Take in the whole body. Raises `CallerGone` when it ends early."""
        more = True
        while more:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                raise CallerGone("the caller went away before its request was complete")
            self._body.append(message)
            more = message.get("more_body", False)
        self._body.reverse()

    def gone(self) -> "asyncio.Task[None]":
        """Done when the caller has gone."""
        if self._watch is None:
            self._watch = asyncio.create_task(self._until_gone(), name="gateway watches a caller")
        return self._watch

    async def receive(self) -> Message:
        """What the upstream application receives: the body, then nothing until the caller goes."""
        if self._body:
            return self._body.pop()
        await asyncio.wait([self.gone()])
        return {"type": "http.disconnect"}

    def close(self) -> None:
        if self._watch is not None:
            self._watch.cancel()

    async def _until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            continue


class Visit:
    """One request on its way: what it waited, the slots it holds, and the response it gets."""

    def __init__(self, send: Send, headers: bool, named: bool) -> None:
        self._send = send
        self._headers = headers
        self._named = named
        self._held: list[Limit] = []
        self._waits: dict[str, tuple[float, bool]] = {}
        self.replica = ""

    async def enter(self, header: str, limit: Limit, caller: Caller) -> None:
        """Take a slot of `limit`; `header` will say how long that took. Raises `NotAdmitted`."""
        try:
            waited_s = await limit.enter(caller.gone)
        except NotAdmitted as why:
            self._waits[header] = why.waited_s, True
            raise
        self._held.append(limit)
        self._waits[header] = waited_s, limit.limit is not None

    def release(self) -> None:
        """Give up what is held, the replica's slot first."""
        while self._held:
            self._held.pop().leave()

    async def send(self, message: Message) -> None:
        """Pass the response on; the slots are free when its last byte has gone."""
        if message["type"] == "http.response.start":
            message = {**message, "headers": self._stamped(message.get("headers", ()))}
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.release()

    def _stamped(self, headers: Iterable[tuple[bytes, bytes]]) -> RawHeaders:
        """`headers` with ours; another gateway's behind this one stay where this one decides nothing."""
        if not self._headers:
            return [(name, value) for name, value in headers if name.lower() not in HIDDEN]
        theirs = {name.lower() for name, _ in headers}
        ours = {name: value for name, value, decided in self._said() if decided or name not in theirs}
        return [(name, value) for name, value in headers if name.lower() not in ours] + list(ours.items())

    def _said(self) -> Iterator[tuple[bytes, bytes, bool]]:
        """Header, value, and whether it was for this gateway to decide."""
        for name, (waited_s, limits) in self._waits.items():
            yield name.encode(), f"{1000 * waited_s:.3f}".encode(), limits
        if self.replica:
            yield REPLICA.encode(), self.replica.encode(), self._named


async def _refuse(visit: Visit, why: NotAdmitted) -> None:
    layer = "replica" if visit.replica else "router"
    status = 429 if isinstance(why, QueueFull) and layer == "router" else 503
    message = f"not admitted by the {layer}: {why}; retry later, or raise its limit or the bound of its queue"
    body = _error(status, message, KINDS[type(why)])
    await _answer(visit.send, status, body, extra=[(b"retry-after", str(RETRY_AFTER_S).encode())])


def _error(status: int, message: str, kind: str) -> bytes:
    """vLLM's error object."""
    return json.dumps({"error": {"message": message, "type": kind, "param": None, "code": status}}).encode()


async def _answer(
    send: Send, status: int, body: bytes, kind: str = JSON_TYPE, extra: Iterable[tuple[bytes, bytes]] = ()
) -> None:
    headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode()), *extra]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
