"""The exchange with an application in this process."""

import asyncio
from typing import Any

import httpx2
import pytest
from scripted_bytes import Collect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from nlqlib.serving.endpoint import parse_address
from nlqlib.serving.inprocess import AsgiTransport, InProcessTransport
from nlqlib.serving.outcome import Broken

HERE = parse_address("http://app/v1")


async def start(send: Any, status: int = 200) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"X-A", b"b")]})


async def piece(send: Any, body: bytes, more: bool) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": more})


async def post(app: Any, body: bytes = b"{}") -> Collect:
    transport = InProcessTransport(app, HERE, "/v1/chat/completions", {"X-Team": "t"})
    sink = Collect()
    try:
        await asyncio.wait_for(transport.post(body, "Bearer k", sink), 5)
    finally:
        await transport.aclose()
    return sink


def test_the_application_sees_one_request_as_behind_a_server() -> None:
    seen: list[Any] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append((scope, await receive()))
        await start(send)
        await piece(send, b"ok", False)

    sink = asyncio.run(post(app, b"body"))
    scope, message = seen[0]
    assert message == {"type": "http.request", "body": b"body", "more_body": False}
    assert (scope["method"], scope["path"], scope["scheme"]) == ("POST", "/v1/chat/completions", "http")
    assert dict(scope["headers"]) == {
        b"host": b"app",
        b"x-team": b"t",
        b"content-length": b"4",
        b"authorization": b"Bearer k",
    }
    assert (sink.status, sink.headers, sink.body, sink.ended) == (200, {"x-a": "b"}, b"ok", 1)


def test_pieces_arrive_while_the_application_still_works() -> None:
    async def main() -> list[bytes]:
        sink, step = Collect(), asyncio.Event()

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await start(send)
            await piece(send, b"one", True)
            await step.wait()
            await piece(send, b"two", False)

        transport = InProcessTransport(app, HERE, "/", {})
        task = asyncio.create_task(transport.post(b"", None, sink))
        await asyncio.sleep(0.01)
        early = list(sink.pieces)
        step.set()
        await task
        return early

    assert asyncio.run(main()) == [b"one"]


def test_receive_waits_after_the_body_until_the_caller_has_gone() -> None:
    async def main() -> list[str]:
        events: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            events.append((await receive())["type"])
            events.append((await receive())["type"])

        transport = InProcessTransport(app, HERE, "/", {})
        task = asyncio.create_task(transport.post(b"", None, Collect()))
        await asyncio.sleep(0.01)
        assert events == ["http.request"]
        task.cancel()
        await asyncio.sleep(0.01)
        assert transport.open == 0
        return events

    assert asyncio.run(main()) == ["http.request", "http.disconnect"]


def test_an_application_that_raises_before_it_answers_is_an_http_500() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise ZeroDivisionError

    sink = asyncio.run(post(app))
    assert (sink.status, sink.body) == (500, b"Internal Server Error")


def test_an_application_that_returns_without_an_answer_is_an_http_500() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        return

    assert asyncio.run(post(app)).status == 500


def test_an_application_that_raises_in_the_middle_is_a_cut_connection() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await start(send)
        await piece(send, b"half", True)
        raise ZeroDivisionError

    with pytest.raises(Broken):
        asyncio.run(post(app))


def test_the_answer_is_there_before_the_applications_afterthoughts_end() -> None:
    async def main() -> list[str]:
        done: list[str] = []

        async def app(scope: Any, receive: Any, send: Any) -> None:
            await start(send)
            await piece(send, b"ok", False)
            await asyncio.sleep(0.02)
            done.append("afterthought")

        transport = InProcessTransport(app, HERE, "/", {})
        await transport.post(b"", None, Collect())
        early = list(done)
        await transport.aclose()
        assert done == ["afterthought"]
        return early

    assert asyncio.run(main()) == []


def test_closing_ends_an_application_that_ignores_its_caller_going() -> None:
    async def main() -> bool:
        async def app(scope: Any, receive: Any, send: Any) -> None:
            await asyncio.sleep(60)

        transport = InProcessTransport(app, HERE, "/", {})
        task = asyncio.create_task(transport.post(b"", None, Collect()))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        await asyncio.wait_for(transport.aclose(), 2)
        return len(asyncio.all_tasks()) == 1

    assert asyncio.run(main())


async def events() -> Any:
    for number in range(3):
        yield f"data: {number}\n\n"


async def streaming(request: Request) -> StreamingResponse:
    await request.body()
    return StreamingResponse(events(), media_type="text/event-stream")


async def echo(request: Request) -> JSONResponse:
    return JSONResponse(
        {"query": request.url.query, "path": request.url.path, "body": (await request.body()).decode()}
    )


STARLETTE = Starlette(
    routes=[Route("/s", streaming, methods=["POST"]), Route("/é", echo, methods=["GET", "POST"])]
)


def test_a_starlette_stream_runs_to_its_end_without_spinning() -> None:
    async def main() -> bytes:
        sink = Collect()
        transport = InProcessTransport(STARLETTE, HERE, "/s", {})
        await asyncio.wait_for(transport.post(b"{}", None, sink), 5)
        await transport.aclose()
        return sink.body

    assert asyncio.run(main()) == b"data: 0\n\ndata: 1\n\ndata: 2\n\n"


def test_an_ordinary_http_client_reads_pages_with_path_and_query() -> None:
    async def main() -> Any:
        async with httpx2.AsyncClient(transport=AsgiTransport(STARLETTE), base_url="http://app") as client:
            return (await client.get("/é", params={"name[]": "a"})).json()

    got = asyncio.run(main())
    assert (got["path"], got["body"]) == ("/é", "")
    assert got["query"] in ("name%5B%5D=a", "name[]=a")
