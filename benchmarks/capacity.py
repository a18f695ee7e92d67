"""What can be held: the most requests a second of the bench's server, the most in flight of our client.

The server is driven by as little as sockets allow, without any wait of its own, so its rate is that of its
core. The client is given answers of one second, so that very many are in flight before its own core is full.
"""

import json
import select
import socket
import time
from dataclasses import dataclass
from urllib.parse import urlsplit

from benchmarks.clients import BenchError, Cost, cost, fixed_server, ours

DRIVEN = 256
"""Connections that drive the server: enough that it never waits for the next request."""
DRIVE_S, WARM_S = 2.0, 0.5
LADDER = (1024, 2048, 4096, 8192)
"""Requests in flight that our client is asked to hold, until it does not."""
SLOW_S, SLOW_WAVES = 1.0, 15
HELD, IN_FLIGHT = 0.9, 0.98
"""Of the ideal throughput, and of N at once by the server's count: then N is held."""


@dataclass(frozen=True)
class Held:
    """One rung of the ladder."""

    concurrency: int
    achieved: float | None
    """Share of the ideal throughput; `None`: the run failed."""
    server_peak: int | None
    why: str = ""

    @property
    def ok(self) -> bool:
        """Was so much held?"""
        enough = self.server_peak is not None and self.server_peak >= IN_FLIGHT * self.concurrency
        return enough and self.achieved is not None and self.achieved >= HELD


def server_rate(connections: int = DRIVEN, seconds: float = DRIVE_S) -> float:
    """Requests per second that the fixed server answers when no answer is held back. Raises `OSError`."""
    with fixed_server(latency_s=0.0) as root:
        where = urlsplit(root)
        return _drive((where.hostname or "127.0.0.1", where.port or 80), connections, seconds)


def _drive(address: tuple[str, int], connections: int, seconds: float) -> float:
    """Answers per second on so many connections, each of which asks again as soon as it was answered."""
    request = _request(address)
    sockets = {}
    poll = select.epoll()
    try:
        for _ in range(connections):
            one = socket.create_connection(address)
            one.setblocking(False)
            sockets[one.fileno()] = one
            poll.register(one.fileno(), select.EPOLLIN)
            one.send(request)
        _rounds(poll, sockets, request, WARM_S)
        return _rounds(poll, sockets, request, seconds)
    finally:
        poll.close()
        for one in sockets.values():
            one.close()


def _rounds(poll: select.epoll, sockets: dict[int, socket.socket], request: bytes, seconds: float) -> float:
    answered, start_s = 0, time.perf_counter()
    while (spent_s := time.perf_counter() - start_s) < seconds:
        for number, _ in poll.poll(1.0):
            one = sockets[number]
            if not one.recv(65536):
                raise ConnectionError("the fixed server closed a connection under load")
            one.send(request)
            answered += 1
    return answered / spent_s


def _request(address: tuple[str, int]) -> bytes:
    body = json.dumps({"model": "fixed", "messages": [{"role": "user", "content": "?"}]}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {address[0]}\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


def ladder(rungs: tuple[int, ...] = LADDER) -> list[Held]:
    """How much our wire client holds in one process, rung after rung, up to the first that it does not."""
    found: list[Held] = []
    with fixed_server(latency_s=SLOW_S) as root:
        for concurrency in rungs:
            found.append(_rung(root, concurrency))
            if not found[-1].ok:
                break
    return found


def _rung(root: str, concurrency: int) -> Held:
    try:
        one: Cost = cost(ours("wire"), root, concurrency, waves=SLOW_WAVES, latency_s=SLOW_S, short=2)
    except BenchError as failure:
        return Held(concurrency, None, None, str(failure)[:200])
    return Held(concurrency, one.achieved, one.server_peak)


def largest_held(found: list[Held]) -> int | None:
    """The highest rung that was held; `None`: not even the first."""
    return max((one.concurrency for one in found if one.ok), default=None)
