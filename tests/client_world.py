"""Asking the fake server through either client, in process or over one shared socket."""

import asyncio
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest
from fake_behaviours import MODEL, Behaviour
from fake_server import FakeServer, serve

from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Client, Endpoint, make_client

KINDS = ("wire", "openai")
PLACES = ("in process", "socket")
QUESTION = ({"role": "user", "content": "Umsatz je Région?"},)
TIMES = ("planned_s", "start_s", "first_token_s", "first_content_s", "end_s")

both_clients = pytest.mark.parametrize("kind", KINDS)
everywhere = pytest.mark.parametrize("place", PLACES)


class Switch:
    """One socket for all tests of this file; behind it stands whichever server a test brings."""

    app: FakeServer
    root: str

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


SHARED = Switch()


@pytest.fixture(scope="module", autouse=True)
def shared_socket() -> Iterator[None]:
    with serve(SHARED) as SHARED.root:
        yield


def request(stream: bool = False, **fields: Any) -> ChatRequest:
    return ChatRequest("r1", QUESTION, stream=stream, **fields)


@contextmanager
def running(place: str, server: FakeServer) -> Iterator[tuple[str, FakeServer | None]]:
    """Root URL of `server`, and the server itself where it is in process."""
    if place == "in process":
        yield "http://fake", server
    else:
        SHARED.app = server
        yield SHARED.root, None


def ask(
    kind: str,
    place: str,
    behaviours: Behaviour | list[Behaviour] | FakeServer,
    *requests: ChatRequest,
    **settings: Any,
) -> list[Completion]:
    """The completions of `requests`, one after another."""
    server = behaviours if isinstance(behaviours, FakeServer) else FakeServer(behaviours)

    async def all_of(client: Client) -> list[Completion]:
        try:
            return [await client.complete(r) for r in requests]
        finally:
            await client.aclose()

    async def main(root: str, app: FakeServer | None) -> list[Completion]:
        clock = settings.pop("clock", True)
        endpoint = Endpoint(**{"base_url": root + server.prefix, "model": MODEL, **settings})
        return await all_of(make_client(kind, endpoint, app=app, clock=clock))  # type: ignore[arg-type]

    with running(place, server) as (root, app):
        return asyncio.run(main(root, app))


def timeless(completion: Completion) -> Completion:
    """`completion` without times and without the address of the server of this run."""
    error = completion.error and re.sub(r"(127\.0\.0\.1:\d+|fake:80)", "ADDRESS", completion.error)
    gone: dict[str, Any] = dict.fromkeys(TIMES)
    n_tokens = len(completion.token_times_s)
    return replace(completion, error=error, token_times_s=(0.0,) * n_tokens, **gone)


async def until(happened: Callable[[], bool]) -> None:
    """Wait for what another thread does; gives up after five seconds."""
    async with asyncio.timeout(5):
        while not happened():
            await asyncio.sleep(0.005)
