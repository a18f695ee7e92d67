"""A chat-completions server whose every answer takes the same time: `python -m benchmarks.fixed_server`.

What a load generator makes of it shows the load generator, since N in flight give N / latency requests a
second. It does the least a server can do, so that one core of it holds 30,000 requests a second, and it
counts what it has in flight itself: `GET /stats` says so, from the first request since `POST /reset`.
"""

import argparse
import asyncio
import json
import resource
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

import uvloop

HEAD_END = b"\r\n\r\n"
LENGTH = b"content-length:"
STREAMED = (b'"stream":true', b'"stream": true')
MODEL = "fixed"


def _body(text: str, finish: str | None, **more: Any) -> dict[str, Any]:
    choice = {"index": 0, "finish_reason": finish, **more} if more else {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": finish,
    }  # fmt: skip
    return {"id": "fixed", "object": "chat.completion", "created": 0, "model": MODEL, "choices": [choice]}


def _response(content: bytes, kind: str = "application/json") -> bytes:
    head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {len(content)}\r\n\r\n"
    return head.encode() + content


def plain_answer(tokens: int) -> bytes:
    """The whole response to a plain request."""
    usage = {"prompt_tokens": 32, "completion_tokens": tokens, "total_tokens": 32 + tokens}
    return _response(json.dumps(_body("word " * tokens, "stop") | {"usage": usage}).encode())


def _chunk(payload: bytes) -> bytes:
    return f"{len(payload):x}\r\n".encode() + payload + b"\r\n"


def _event(delta: dict[str, str], finish: str | None = None, usage: dict[str, int] | None = None) -> bytes:
    told = _body("", finish, delta=delta) | {"object": "chat.completion.chunk"}
    if usage:
        told |= {"choices": [], "usage": usage}
    return _chunk(b"data: " + json.dumps(told).encode() + b"\n\n")


def streamed_answer(tokens: int) -> list[bytes]:
    """What is written at the start, at each token, and with the last one the end."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    usage = {"prompt_tokens": 32, "completion_tokens": tokens, "total_tokens": 32 + tokens}
    words = [_event({"content": "word "}) for _ in range(tokens)]
    end = _event({}, "stop") + _event({}, usage=usage) + _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
    return [head + _event({"role": "assistant", "content": ""}), *words[:-1], words[-1] + end]


TICK_S = 0.0005
"""uvloop's clock has whole milliseconds: a call due within half of one is made now, so the mean is right."""


class Later:
    """Calls in order of their time, all the same delay ahead, on one timer."""

    def __init__(self, loop: asyncio.AbstractEventLoop, delay_s: float) -> None:
        self._loop, self._delay_s = loop, delay_s
        self._due: deque[tuple[float, Callable[[], None]]] = deque()
        self._armed = False

    def add(self, now_s: float, call: Callable[[], None]) -> None:
        self._due.append((now_s + self._delay_s, call))
        if not self._armed:
            self._armed = True
            self._loop.call_at(self._due[0][0], self._fire)

    def _fire(self) -> None:
        now_s = self._loop.time()
        while self._due and self._due[0][0] <= now_s + TICK_S:
            self._due.popleft()[1]()
        self._armed = bool(self._due)
        if self._armed:
            self._loop.call_at(self._due[0][0], self._fire)


PAUSE_S, PROBES = 0.3, 2
"""A tool that asks once or twice whether anybody is there, and then begins: its load follows the pause."""


class Count:
    """Requests in flight, as the server sees them: integrated over time, from the first one on."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.now = now
        self.reset()

    def reset(self) -> None:
        self.requests = self.peak = self._inside = 0
        self._first_s = self._last_s = 0.0
        self._area = 0.0

    def come(self) -> float:
        """One more request is here; the time of it, in seconds."""
        now_s = self.now()
        paused = self.requests <= PROBES and now_s - self._last_s > PAUSE_S
        if not self._inside and (paused or not self.requests):
            self.reset()
            self._first_s = now_s
        self._area -= now_s  # each request counts for the time from its coming to its going
        self._last_s = now_s
        self.requests += 1
        self._inside = inside = self._inside + 1
        if inside > self.peak:
            self.peak = inside
        return now_s

    def go(self) -> None:
        """The answer to one is complete."""
        self._last_s = now_s = self.now()
        self._area += now_s
        self._inside -= 1

    def told(self) -> dict[str, float | int | None]:
        """Requests, the most and the mean in flight from first to last event, and that span in seconds."""
        span_s = self._last_s - self._first_s
        mean = (self._area + self._inside * self._last_s) / span_s if span_s > 0 else None
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "requests": self.requests,
            "peak_in_flight": self.peak,
            "mean_in_flight": mean,
            "span_s": span_s,
            "first_s": self._first_s,
            "cpu_s": used.ru_utime + used.ru_stime,
        }


class Served:
    """What all connections share."""

    def __init__(self, latency_s: float, tokens: int) -> None:
        loop = asyncio.get_running_loop()
        self.now = loop.time
        self.count = Count(loop.time)
        self.plain = plain_answer(tokens)
        self.stream = streamed_answer(tokens)
        self.whole = Later(loop, latency_s)
        self.token = Later(loop, latency_s / tokens)


class Connected(asyncio.Protocol):
    """One connection: reads as little of HTTP/1.1 as these requests need."""

    def __init__(self, served: Served) -> None:
        self._served = served
        self._buffer = b""
        self._last: bytes | None = None
        """The last plain request, whole: a load repeats itself, and the same bytes mean the same again."""
        self._transport: Any = None
        self._add, self._come, self._go = served.whole.add, served.count.come, served.count.go
        self._plain = served.plain

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        if data == self._last and not self._buffer:
            self._add(self._come(), self._finish)
            return
        self._buffer = self._buffer + data if self._buffer else data
        while (end := self._buffer.find(HEAD_END)) >= 0:
            head = self._buffer[:end].lower()
            at = head.find(LENGTH)
            length = int(head[at + len(LENGTH) :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            whole = end + len(HEAD_END) + length
            if len(self._buffer) < whole:
                return
            request, self._buffer = self._buffer[:whole], self._buffer[whole:]
            self._answer(head, request)

    def _answer(self, head: bytes, request: bytes) -> None:
        served = self._served
        if not head.startswith(b"post") or b"/reset" in head[:20]:
            self._about(head)
            return
        now_s = served.count.come()
        if STREAMED[0] in request or STREAMED[1] in request:
            self._say(0)
        else:
            self._last = request
            served.whole.add(now_s, self._finish)

    def _finish(self) -> None:
        self._go()
        self._transport.write(self._plain)

    def _say(self, i: int) -> None:
        """Piece `i` of a stream, and the next one a token's time later."""
        served = self._served
        last = i + 1 == len(served.stream)
        if last:
            served.count.go()
        self._transport.write(served.stream[i])
        if not last:
            served.token.add(served.now(), lambda: self._say(i + 1))

    def _about(self, head: bytes) -> None:
        if head.startswith(b"post"):
            self._served.count.reset()
        told: Any = self._served.count.told()
        if b"/v1/models" in head:
            told = {"object": "list", "data": [{"id": MODEL, "object": "model"}]}
        self._transport.write(_response(json.dumps(told).encode()))


async def serve(latency_s: float, tokens: int, port: int) -> None:
    """Serve until cancelled; the address is printed."""
    served = Served(latency_s, tokens)
    server = await asyncio.get_running_loop().create_server(
        lambda: Connected(served), "127.0.0.1", port, backlog=4096
    )
    print(f"serving http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", flush=True)
    await server.serve_forever()


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.fixed_server", description=__doc__)
    parser.add_argument("--latency", type=float, default=0.050, help="seconds of each answer (0.05)")
    parser.add_argument("--tokens", type=int, default=8, help="tokens of each answer (8)")
    parser.add_argument("--port", type=int, default=0, help="0: any free one")
    args = parser.parse_args()
    uvloop.run(serve(args.latency, args.tokens, args.port))
    return 0


if __name__ == "__main__":
    sys.exit(main())
