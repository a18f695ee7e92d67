"""The staircase's two controls: a server of fixed service time, parallel by construction or serial.

It answers every chat completion after `service_s` seconds. *Parallel*: each request has its own timer.
*Serial*: one lock is held through the timer, first come, first served. Neither has any other limit, so a test
that calls the first a staircase, or the second none, judges itself.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, nullcontext
from typing import Any, Literal

from nlqlib.records import Json
from nlqlib.serving.app_server import listen, serve_app
from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.served import Served, serving

Order = Literal["parallel", "serial"]
MODEL = "control"
TIMEOUT_S = 120.0
Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]


class ControlServer:
    """The ASGI application; counts what it served."""

    def __init__(self, order: Order, service_s: float) -> None:
        """Raises `ValueError` for a service time that is none."""
        if not service_s > 0:
            raise ValueError(f"a service time of {service_s} s: give one above 0")
        self._service_s = service_s
        self._turn: AbstractAsyncContextManager[Any] = asyncio.Lock() if order == "serial" else nullcontext()
        self.running = 0
        """Requests within their service time."""
        self.peak = 0
        """The most of them at once."""

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        asked = await _body(receive)
        if scope["path"].endswith("/chat/completions"):
            async with self._turn:
                await self._serve()
            await _answer(send, 200, completion(json.loads(asked)))
        elif scope["path"].endswith("/models"):
            await _answer(send, 200, {"object": "list", "data": [{"id": MODEL, "object": "model"}]})
        else:
            await _answer(send, 404, {"error": {"message": f"a control serves no {scope['path']}"}})

    async def _serve(self) -> None:
        self.running += 1
        self.peak = max(self.peak, self.running)
        try:
            await asyncio.sleep(self._service_s)
        finally:
            self.running -= 1


def completion(asked: Json) -> Json:
    """An answer of exactly as many tokens as `asked` allows."""
    n = int(asked.get("max_tokens") or 1)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": "word " * n},
        "finish_reason": "length" if asked.get("ignore_eos") else "stop",
    }
    return {
        "id": "control",
        "object": "chat.completion",
        "created": 0,
        "model": MODEL,
        "choices": [choice],
        "usage": {"prompt_tokens": 0, "completion_tokens": n, "total_tokens": n},
    }


async def _body(receive: Receive) -> bytes:
    pieces, more = [], True
    while more:
        message = await receive()
        pieces.append(message.get("body", b""))
        more = message.get("more_body", False)
    return b"".join(pieces)


async def _answer(send: Send, status: int, page: Json) -> None:
    body = json.dumps(page).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@contextmanager
def control(order: Order, service_s: float) -> Iterator[Served]:
    """The control in a process of its own, which ends with the block, or with this process."""
    arguments = ["nlqlib.serving.control_server", order, "--service-s", str(service_s)]
    with serving(f"{order} control", arguments) as server:
        yield server


def endpoint(server: Served) -> Endpoint:
    """Where a control is, once it is up. Raises `TargetError` when it does not come up."""
    return Endpoint(f"{server.root}/v1", MODEL, timeout_s=TIMEOUT_S)


def main(argv: list[str] | None = None) -> int:
    """Serve until Ctrl-C or SIGTERM; the exit status."""
    parser = argparse.ArgumentParser(description="A server of fixed service time, parallel or serial.")
    parser.add_argument("order", choices=["parallel", "serial"])
    parser.add_argument("--service-s", type=float, required=True, help="seconds of one request")
    args = parser.parse_args(argv)
    app = ControlServer(args.order, args.service_s)
    said = f"{args.order} control, {args.service_s:g} s a request"
    return serve_app(app, listen(None), lambda root: print(f"{said}: {root}/v1", flush=True))


if __name__ == "__main__":
    sys.exit(main())
