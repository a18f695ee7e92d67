"""What is timed, and from when: exact in virtual time and by a scripted clock, bounded in real time."""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

import pytest
from client_world import ask, both_clients, everywhere, request, shared_socket
from fake_behaviours import MODEL, Say, delta, event, last, stream
from fake_server import FakeServer

from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Endpoint, make_client
from nlqlib.serving.deadlines import Deadlines, Limit
from nlqlib.serving.reply import Reply

__all__ = ["shared_socket"]  # the fixture must be found in this module

T = TypeVar("T")
Ts = TypeVarTuple("Ts")
USAGE = {"prompt_tokens": 5, "completion_tokens": 37, "total_tokens": 42}
CASE_8 = stream(
    0.005,
    delta(role="assistant", content=""),
    0.075,
    delta(reasoning="hm"),
    0.82,
    delta(content="yes"),
    delta(content="", finish_reason="stop"),
    last(USAGE),
    "[DONE]",
)


class Leaping(selectors.SelectSelector):
    """A selector that never waits: what it was to wait for has passed."""

    def __init__(self) -> None:
        super().__init__()
        self.now_s = 0.0

    def select(self, timeout: float | None = None) -> Any:
        assert timeout is not None, "nothing left to wait for"
        self.now_s += timeout
        return super().select(0)


class VirtualLoop(asyncio.SelectorEventLoop):
    """Time passes only where the loop would sleep; what is handed to a thread runs in place."""

    def __init__(self) -> None:
        self._leaping = Leaping()
        super().__init__(self._leaping)

    def time(self) -> float:
        return self._leaping.now_s

    def run_in_executor(self, executor: Any, func: Callable[[*Ts], T], *args: *Ts) -> asyncio.Future[T]:
        done: asyncio.Future[T] = self.create_future()
        done.set_result(func(*args))
        return done


def virtually(coroutine: Coroutine[Any, Any, T]) -> T:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


async def complete(kind: Any, server: FakeServer, asked: ChatRequest, **settings: Any) -> Completion:
    client = make_client(kind, Endpoint("http://fake/v1", MODEL, **settings), app=server)
    try:
        return await client.complete(asked, planned_s=-1.5)
    finally:
        await client.aclose()


@both_clients
def test_ttft_is_the_first_reasoning_delta_and_never_the_role_chunk(kind: str) -> None:
    got = virtually(complete(kind, FakeServer(CASE_8), request(True)))
    assert got.start_s is not None
    assert got.ttft_s == pytest.approx(0.080, abs=1e-6)
    assert got.first_content_s == pytest.approx(got.start_s + 0.900, abs=1e-6)
    assert got.e2e_s == pytest.approx(0.900, abs=1e-6)
    assert [t - got.start_s for t in got.token_times_s] == pytest.approx([0.080, 0.900], abs=1e-6)
    assert got.output_tokens == 37
    assert got.planned_s == -1.5


@both_clients
@everywhere
def test_the_same_in_real_time(kind: str, place: str) -> None:
    got = ask(kind, place, CASE_8, request(True))[0]
    assert got.start_s is not None
    assert got.first_content_s is not None
    assert got.ttft_s is not None
    assert 0.079 <= got.ttft_s < got.first_content_s - got.start_s
    assert got.first_content_s - got.start_s >= 0.899


@both_clients
def test_a_hanging_server_times_out_after_an_hour_of_virtual_time(kind: str) -> None:
    server = FakeServer(stream(delta(content="ye"), end="hang"))
    got = virtually(complete(kind, server, request(True), timeout_s=3600.0))
    assert (got.outcome, got.text) == ("timeout", "ye")
    assert got.start_s is not None
    assert got.end_s is not None
    assert got.end_s - got.start_s == pytest.approx(3600)
    assert got.e2e_s is None
    assert server.disconnects == 1


@both_clients
def test_a_serial_endpoint_of_3_2_s_makes_the_last_of_32_wait_102_4_s(kind: str) -> None:
    server = FakeServer(Say(latency_s=3.2), slots=1)

    async def main() -> list[float]:
        client = make_client(kind, Endpoint("http://fake/v1", MODEL), app=server)  # type: ignore[arg-type]
        got = await asyncio.gather(*(client.complete(request()) for _ in range(32)))
        await client.aclose()
        return [c.e2e_s or 0.0 for c in got]

    times = virtually(main())
    assert times == pytest.approx([3.2 * (n + 1) for n in range(32)], abs=1e-4)


@both_clients
def test_pieces_are_timed_as_they_are_sent_and_not_when_the_application_has_ended(kind: str) -> None:
    got = virtually(complete(kind, FakeServer(Say("a b c", itl_s=0.1)), request(True)))
    assert got.start_s is not None
    assert [t - got.start_s for t in got.token_times_s] == pytest.approx([0.1, 0.2, 0.3], abs=1e-6)


class ScriptedLoop:
    """A clock that a test sets."""

    now_s = 0.0

    def time(self) -> float:
        return self.now_s


def unlimited() -> Limit:
    loop = asyncio.get_running_loop()
    return Limit(Deadlines(loop, 1e6), Deadlines(loop, 1e6))


def test_a_piece_that_holds_two_tokens_gives_both_the_time_of_its_arrival() -> None:
    async def main() -> Reply:
        loop = ScriptedLoop()
        reply = Reply(True, loop, unlimited())  # type: ignore[arg-type]
        reply.on_head(200, {"content-type": "text/event-stream"})
        loop.now_s = 2.0
        reply.on_data(event(delta(content="a")) + event(delta(content="b"))[:-1])
        loop.now_s = 3.0
        reply.on_data(b"\n")
        return reply

    reply = asyncio.run(main())
    assert reply.answer.token_times_s == [2.0, 3.0]
    assert reply.answer.first_token_s == 2.0


def test_token_ids_without_text_are_tokens_but_no_first_token() -> None:
    async def main() -> Reply:
        loop = ScriptedLoop()
        reply = Reply(True, loop, unlimited())  # type: ignore[arg-type]
        reply.on_head(200, {"content-type": "text/event-stream"})
        for loop.now_s, chunk in (
            (1.0, delta(content="", token_ids=[1])),  # half a character
            (2.0, delta(content="é", token_ids=[2])),
        ):
            reply.on_data(event(chunk))
        return reply

    answer = asyncio.run(main()).answer
    assert (answer.token_times_s, answer.first_token_s) == ([1.0, 2.0], 2.0)
