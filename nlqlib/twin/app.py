"""The twin as an OpenAI-compatible ASGI application.

What is modelled: the engine (a vLLM v1 scheduler whose steps take the time of a fitted model) and the way in
and out. What is replayed or drawn: words and output lengths (`twin.words`). It keeps the time of the loop it
runs in, virtual or real, and both give the same token schedule.

The chat route is plain ASGI because every request of every load passes it; the small pages are Starlette's.
"""

import asyncio
import json
from collections.abc import Awaitable, Callable, Hashable, MutableMapping
from dataclasses import replace
from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nlqlib import tokens
from nlqlib.twin import asked as asking
from nlqlib.twin.answer import Answer, Refused
from nlqlib.twin.asked import Asked
from nlqlib.twin.blocks import Chain, HashTable
from nlqlib.twin.driver import Driver, Ticket
from nlqlib.twin.exposition import Exposition
from nlqlib.twin.limits import EngineError
from nlqlib.twin.model import TwinModel
from nlqlib.twin.replica import Replica
from nlqlib.twin.replies import Events, plain
from nlqlib.twin.sequence import Sequence
from nlqlib.twin.words import Words

VERSION = "0.2"
MAX_MODEL_LEN = 4096
"""The window of a model that states none."""
KEPT = 2048
"""Requests, prompts and answers whose digested form is kept: a workload cycles through far fewer."""

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

JSON_HEADERS = [(b"content-type", b"application/json")]
TEXT_HEADERS = [(b"content-type", b"text/plain; version=0.0.4; charset=utf-8")]
STREAM_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8")]


class TwinApp:
    """One modelled endpoint; its state is its engine's."""

    def __init__(self, words: Words, model: TwinModel) -> None:
        window = model.limits.max_model_len or min(model.limits.window, MAX_MODEL_LEN)
        limits = replace(model.limits, max_model_len=window)
        self.words, self.limits = words, limits
        self._table = HashTable(limits.block_size)
        replica = Replica(limits, model.step_time, self._table, model.frontend_s)
        way = model.network_s / 2
        self.driver = Driver(replica, way + model.frontend_s, way, model.apart_s)
        self._exposition = Exposition(replica, self.driver.finished, words.model)
        self._clamps = not model.engine_version.startswith("0.12")  # 0.12 refuses, 0.32 shortens
        self._kept: dict[Hashable, Any] = {}
        self._count = 0
        self._pages = _pages(self)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        path = scope["path"] if scope["type"] == "http" else ""
        if path == "/v1/chat/completions" and scope["method"] == "POST":
            await self._chat(receive, send)
        elif path == "/metrics":
            wanted = _wanted(scope["query_string"])
            self.driver.settle()
            await _respond(send, 200, TEXT_HEADERS, self._exposition.text(wanted).encode())
        else:
            await self._pages(scope, receive, send)

    async def _chat(self, receive: Receive, send: Send) -> None:
        try:
            asked, answer, ticket = self._accept(await _body(receive))
        except Refused as refused:
            await _respond(send, refused.status, JSON_HEADERS, json.dumps(refused.body()).encode())
            return
        caller = asyncio.ensure_future(_gone(receive, self.driver, ticket))
        try:
            if asked.streams:
                await self._stream(send, asked, answer, ticket)
            else:
                while not ticket.finished:
                    await ticket.news()
                body = self._keep(
                    ("plain", asked, *_form(answer)), lambda: plain(answer, asked, self.words.model)
                )
                await _respond(send, 200, JSON_HEADERS, body)
        finally:
            caller.cancel()
            self.driver.leave(ticket)

    def _accept(self, raw: bytes) -> tuple[Asked, Answer, Ticket]:
        """The request on its way into the engine. Raises `Refused`."""
        window = self.limits.window
        asked: Asked = self._keep(
            ("asked", raw), lambda: asking.read(raw, self.words.model, window, self._clamps)
        )
        answer = self.words.answer(asked)
        known = None if answer.token_ids is None else answer.output_tokens
        chain = self._keep(("chain", asked, known), lambda: self._chain(asked, answer))
        self._count += 1
        sequence = Sequence(
            str(self._count), asked.prompt_tokens, answer.output_tokens, chain, watched=asked.streams
        )
        ticket = Ticket(sequence, answer.finish_reason)
        try:
            self.driver.enter(ticket)
        except EngineError as error:
            raise Refused(400, str(error), asking.BAD) from error
        return asked, answer, ticket

    def _chain(self, asked: Asked, answer: Answer) -> Chain:
        """Hashes of the prompt and, where its tokens are known, the answer."""
        known = [*asked.prompt_ids.tolist(), *(answer.token_ids or ())]
        return self._table.chain(known, asked.salt)

    async def _stream(self, send: Send, asked: Asked, answer: Answer, ticket: Ticket) -> None:
        events: Events = self._keep(
            ("events", asked, *_form(answer)), lambda: Events(answer, asked, self.words.model)
        )
        sent = 0
        while not ticket.finished or sent < ticket.tokens:
            if sent == ticket.tokens:
                await ticket.news()
            if not sent:  # as an engine does, the role comes with the first token
                await send({"type": "http.response.start", "status": 200, "headers": STREAM_HEADERS})
                await send({"type": "http.response.body", "body": events.first, "more_body": True})
            piece = b"".join(events.tokens[sent : ticket.tokens])
            sent = ticket.tokens
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": events.tail, "more_body": False})

    def _keep(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What `make` gives, made once for each `key`."""
        found = self._kept.get(key)
        if found is None:
            if len(self._kept) >= KEPT:
                self._kept.clear()
            found = self._kept[key] = make()
        return found


def create_app(words: Words, model: TwinModel) -> TwinApp:
    """A fresh endpoint: an engine with an empty cache and no history."""
    return TwinApp(words, model)


@lru_cache(maxsize=64)
def _wanted(query: bytes) -> tuple[str, ...]:
    """The series that a filtered scrape names."""
    return tuple(parse_qs(query.decode("latin-1")).get("name[]", ()))


def _form(answer: Answer) -> tuple[int, str]:
    """What may differ between two answers to one and the same request."""
    return answer.output_tokens, answer.finish_reason


async def _body(receive: Receive) -> bytes:
    message = await receive()
    body: bytes = message.get("body", b"")
    while message.get("more_body", False):
        message = await receive()
        body += message.get("body", b"")
    return body


async def _gone(receive: Receive, driver: Driver, ticket: Ticket) -> None:
    """Tell the engine when the caller hangs up."""
    while (await receive())["type"] != "http.disconnect":
        pass
    driver.leave(ticket)


async def _respond(send: Send, status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> None:
    length = (b"content-length", str(len(body)).encode())
    await send({"type": "http.response.start", "status": status, "headers": [*headers, length]})
    await send({"type": "http.response.body", "body": body, "more_body": False})


def _pages(app: TwinApp) -> Starlette:
    """The small pages: models, tokenize, health, version, reset of the prefix cache."""

    async def tokenize(request: Request) -> Response:
        body = json.loads(await request.body())
        text = tokens.chat_text(body["messages"]) if "messages" in body else str(body["prompt"])
        ids = tokens.encode(text)
        return JSONResponse({"count": len(ids), "max_model_len": app.limits.window, "tokens": ids})

    async def models(_: Request) -> Response:
        card = {"id": app.words.model, "object": "model", "max_model_len": app.limits.window}
        return JSONResponse({"object": "list", "data": [card]})

    async def health(_: Request) -> Response:
        return Response(status_code=200)

    async def version(_: Request) -> Response:
        return JSONResponse({"version": f"twin-{VERSION}"})

    async def reset(_: Request) -> Response:
        app.driver.settle()
        return Response(status_code=200 if app.driver.replica.scheduler.pool.reset() else 409)

    return Starlette(
        routes=[
            Route("/v1/models", models),
            Route("/tokenize", tokenize, methods=["POST"]),
            Route("/health", health),
            Route("/version", version),
            Route("/reset_prefix_cache", reset, methods=["POST"]),
        ]
    )
