"""An OpenAI-compatible endpoint that misbehaves on purpose: in process, on a socket, or over TLS.

What it does with each request is a list of the behaviours of `fake_behaviours`; the last one repeats. It
keeps what it saw: requests, how many were in flight, how many callers went away. Time passes on the running
loop only, so it works in virtual time too.
"""

import asyncio
import contextlib
import json
import socket
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import trustme
import uvicorn
from fake_behaviours import (
    MODEL,
    Behaviour,
    EchoHeaders,
    Faults,
    Hang,
    Headers,
    Json,
    Raw,
    Say,
    Status,
    chunks,
    completion,
    error_object,
    event,
    unknown_model,
)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


ANSWER = Say()
NO_FAULTS = Faults()


class ConnectionCut(Exception):
    """Raised by the server to make whoever runs it drop the connection."""


@dataclass(frozen=True)
class Seen:
    """One request as it came in."""

    path: str
    headers: dict[str, str]
    body: Json


@dataclass
class FakeServer:
    """The ASGI application."""

    behaviours: Behaviour | Sequence[Behaviour] = ANSWER
    faults: Faults = NO_FAULTS
    slots: int | None = None
    """How many requests are worked on at once; the others wait in order. 1 is a serial endpoint."""
    prefix: str = "/v1"
    api_key: str | None = None
    check_model: bool = False
    seen: list[Seen] = field(default_factory=list)
    in_flight: int = 0
    peak_in_flight: int = 0
    disconnects: int = 0
    _turn: asyncio.Semaphore | None = None

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        if scope["path"] == f"{self.prefix}/models":
            await self._models(send)
        elif scope["path"] == f"{self.prefix}/chat/completions":
            await self._chat(scope, receive, send)
        else:
            await respond(send, Status(404, {"detail": "Not Found"}))

    async def _models(self, send: Send) -> None:
        cards = {"object": "list", "data": [{"id": MODEL, "object": "model", "max_model_len": 4096}]}
        await respond(send, Status(200, cards))

    async def _chat(self, scope: Message, receive: Receive, send: Send) -> None:
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        body = json.loads(await read_body(receive))
        number = len(self.seen)
        self.seen.append(Seen(scope["path"], headers, body))
        self.in_flight += 1
        self.peak_in_flight = max(self.peak_in_flight, self.in_flight)
        done = False

        def leave() -> None:
            nonlocal done
            self.in_flight -= not done
            done = True

        async def sending(message: Message) -> None:
            if message["type"] == "http.response.body" and not message.get("more_body"):
                leave()  # before the last byte: the caller's next request may come at once
            await send(message)

        try:
            async with self._slot():
                await self._behave(self._pick(number, headers, body), headers, body, receive, sending)
        finally:
            leave()

    def _slot(self) -> contextlib.AbstractAsyncContextManager[Any]:
        if self.slots is None:
            return contextlib.nullcontext()
        self._turn = self._turn or asyncio.Semaphore(self.slots)
        return self._turn

    def _pick(self, number: int, headers: dict[str, str], body: Json) -> Behaviour:
        if self.api_key is not None and headers.get("authorization") != f"Bearer {self.api_key}":
            return Status(401, {"error": "Unauthorized"})
        if self.check_model and body.get("model") != MODEL:
            return unknown_model(body.get("model"))
        if isinstance(self.behaviours, Say | Status | Raw | Hang | EchoHeaders):
            chosen: Behaviour = self.behaviours
        else:
            chosen = self.behaviours[min(number, len(self.behaviours) - 1)]
        return self.faults.of(number) or chosen

    async def _behave(
        self, behaviour: Behaviour, headers: dict[str, str], body: Json, receive: Receive, send: Send
    ) -> None:
        if isinstance(behaviour, Hang):
            await self._wait_for_disconnect(receive)
        elif isinstance(behaviour, Say):
            await self._or_disconnect(say(send, behaviour, body), receive)
        elif isinstance(behaviour, Raw):
            await self._or_disconnect(raw(send, behaviour), receive)
        elif isinstance(behaviour, EchoHeaders):
            said = ", ".join(f"{name}: {value}" for name, value in headers.items())
            await respond(send, Status(behaviour.code, error_object(behaviour.code, f"refused: {said}")))
        else:
            await asyncio.sleep(behaviour.latency_s)
            await respond(send, behaviour)

    async def _wait_for_disconnect(self, receive: Receive) -> None:
        while (await receive())["type"] != "http.disconnect":
            continue
        self.disconnects += 1

    async def _or_disconnect(self, work: Any, receive: Receive) -> None:
        """Do `work`, and stop at once when the caller goes away, as an engine aborts."""
        working, gone = asyncio.ensure_future(work), asyncio.ensure_future(receive())
        try:
            await asyncio.wait([working, gone], return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                self.disconnects += 1
                return
            working.result()
        finally:
            working.cancel()
            gone.cancel()


async def read_body(receive: Receive) -> bytes:
    """The whole request body."""
    body, more = b"", True
    while more:
        message = await receive()
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body


async def respond(send: Send, status: Status) -> None:
    """A complete response with a Content-Length."""
    is_text = isinstance(status.body, str)
    body = status.body.encode() if isinstance(status.body, str) else json.dumps(status.body).encode()
    kind = "text/plain" if is_text else "application/json"
    await start(send, status.code, kind, status.headers, len(body))
    await send({"type": "http.response.body", "body": body})


async def start(send: Send, code: int, kind: str, headers: Headers, length: int | None) -> None:
    """Status line and headers."""
    pairs = [("content-type", kind), *headers]
    if length is not None:
        pairs.append(("content-length", str(length)))
    raw_headers = [(name.lower().encode(), value.encode("latin-1")) for name, value in pairs]
    await send({"type": "http.response.start", "status": code, "headers": raw_headers})


async def raw(send: Send, behaviour: Raw) -> None:
    """The scripted bytes, pauses and end."""
    await start(send, behaviour.status, behaviour.content_type, behaviour.headers, behaviour.length)
    for piece in behaviour.pieces:
        if isinstance(piece, float):
            await asyncio.sleep(piece)
        else:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    if behaviour.end == "cut":
        await asyncio.sleep(0.02)  # lets the pieces reach the caller before the connection goes
        raise ConnectionCut("cut on purpose")
    if behaviour.end == "hang":
        await asyncio.Event().wait()
    await send({"type": "http.response.body", "body": b""})


async def say(send: Send, behaviour: Say, body: Json) -> None:
    """The chat completion, in the form that `body` asks for."""
    await asyncio.sleep(behaviour.latency_s)
    if not body.get("stream"):
        payload = json.dumps(completion(behaviour)).encode()
        await start(send, 200, "application/json", behaviour.headers, len(payload))
        await send({"type": "http.response.body", "body": payload})
        return
    await start(send, 200, "text/event-stream; charset=utf-8", behaviour.headers, None)
    for number, chunk in enumerate(chunks(behaviour)):
        if number and behaviour.itl_s:
            await asyncio.sleep(behaviour.itl_s)
        await send({"type": "http.response.body", "body": event(chunk), "more_body": True})
    await send({"type": "http.response.body", "body": b"data: [DONE]\n\n", "more_body": True})
    await send({"type": "http.response.body", "body": b""})


@dataclass(frozen=True)
class Tls:
    """Files of a private certificate authority and of a server certificate it signed."""

    ca_file: str
    cert_file: str
    key_file: str


def private_tls(folder: Path, *names: str) -> Tls:
    """A new private authority and a certificate for `names` (default: localhost and the loopback)."""
    authority = trustme.CA()
    server = authority.issue_cert(*(names or ("localhost", "127.0.0.1", "::1")))
    found = Tls(*(str(folder / name) for name in ("ca.pem", "cert.pem", "key.pem")))
    authority.cert_pem.write_to_path(found.ca_file)
    server.private_key_pem.write_to_path(found.key_file)
    for number, blob in enumerate(server.cert_chain_pems):
        blob.write_to_path(found.cert_file, append=number > 0)
    return found


@contextlib.contextmanager
def serve(app: Any, tls: Tls | None = None, host: str = "127.0.0.1", **settings: Any) -> Iterator[str]:
    """Run `app` under uvicorn in a thread on a free port of `host`; yields its root URL without a path.

    `settings` are uvicorn's own (`timeout_keep_alive`, `limit_concurrency` …).
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family) as listener:
        listener.bind((host, 0))
        port = listener.getsockname()[1]
        if tls is not None:
            settings |= {"ssl_certfile": tls.cert_file, "ssl_keyfile": tls.key_file}
        config = uvicorn.Config(
            app, log_level="critical", lifespan="off", timeout_graceful_shutdown=1, **settings
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
        thread.start()
        while not server.started and thread.is_alive():
            time.sleep(0.005)
        shown = f"[{host}]" if ":" in host else host
        try:
            yield f"{'https' if tls else 'http'}://{shown}:{port}"
        finally:
            server.should_exit = True
            thread.join(5)
