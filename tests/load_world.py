"""Offering load to the fake server: in process and virtual time, or over a socket on uvloop."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Any

import uvloop
from fake_behaviours import MODEL
from fake_server import FakeServer, serve

from nlqlib.load.closed_loop import LoadRun, closed_loop, cycled
from nlqlib.load.open_loop import open_loop
from nlqlib.records import ChatRequest
from nlqlib.serving.client import Client, ClientKind, Endpoint, make_client
from nlqlib.serving.inprocess import App
from nlqlib.twin.clock import run_virtual

QUESTIONS = [ChatRequest(f"q{i}", ({"role": "user", "content": f"question {i}"},)) for i in range(20)]
STREAMED = [ChatRequest(r.request_id, r.messages, stream=True) for r in QUESTIONS]
Load = Callable[[Client], Awaitable[LoadRun]]


async def with_client(load: Load, root: str, kind: ClientKind, app: App | None, **settings: Any) -> LoadRun:
    """The run of `load` with a client of its own, which is closed."""
    clock, ceiling = settings.pop("clock", True), settings.pop("ceiling", None)
    endpoint = Endpoint(f"{root}/v1", MODEL, **settings)
    client = make_client(kind, endpoint, app=app, clock=clock, ceiling=ceiling)
    try:
        return await load(client)
    finally:
        await client.aclose()


def in_virtual_time(load: Load, server: App, kind: ClientKind = "wire", **settings: Any) -> LoadRun:
    """`load` on `server` in this process."""
    return run_virtual(with_client(load, "http://fake", kind, server, **settings))


def in_real_time(load: Load, server: FakeServer, kind: ClientKind = "wire", **settings: Any) -> LoadRun:
    """`load` on `server` behind a socket."""
    with serve(server) as root, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(with_client(load, root, kind, None, **settings))


def closed(concurrency: int, n: int, requests: Iterable[ChatRequest] | None = None, **options: Any) -> Load:
    """A closed loop of the twenty questions, cycled."""

    async def load(client: Client) -> LoadRun:
        chosen = cycled(QUESTIONS) if requests is None else requests
        return await closed_loop(client, chosen, concurrency, n, **options)

    return load


def opened(arrivals_s: Any, **options: Any) -> Load:
    """An open loop of the twenty questions, cycled."""

    async def load(client: Client) -> LoadRun:
        return await open_loop(client, cycled(QUESTIONS), arrivals_s, **options)

    return load
