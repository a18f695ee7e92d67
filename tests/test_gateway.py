"""Router and replica limits before ASGI applications, in virtual time; queues with known right values."""

import asyncio
import heapq
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from fake_behaviours import MODEL, Say
from fake_server import FakeServer
from hypothesis import given, settings
from hypothesis import strategies as st
from prometheus_client.parser import text_string_to_metric_families

from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Endpoint, make_client
from nlqlib.serving.gateway import Gateway
from nlqlib.serving.inprocess import App, Message, Receive, Send
from nlqlib.twin.clock import run_virtual

CHAT = "/v1/chat/completions"
QUESTION = ({"role": "user", "content": "?"},)


@dataclass
class Got:
    """One response as the caller saw it."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""
    end_s: float | None = None

    def ms(self, layer: str) -> float:
        return float(self.headers[f"x-{layer}-queue-ms"])


async def ask(
    app: App, path: str = CHAT, method: str = "POST", *, leaves_at_s: float | None = None, **scope: Any
) -> Got:
    """One exchange with `app`; the caller may hang up at `leaves_at_s`."""
    loop, got = asyncio.get_running_loop(), Got()
    body = [{"type": "http.request", "body": b"{}", "more_body": False}]

    async def receive() -> Message:
        if body:
            return body.pop()
        await (asyncio.Event().wait() if leaves_at_s is None else asyncio.sleep(leaves_at_s - loop.time()))
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.start":
            got.status = message["status"]
            got.headers = {name.decode(): value.decode() for name, value in message["headers"]}
        else:
            got.body += message.get("body", b"")
            got.end_s = None if message.get("more_body") else loop.time()

    kind = {"type": "http", "method": method, "path": path, "query_string": b"", "headers": []}
    await app({**kind, **scope}, receive, send)
    return got


@dataclass
class Worker:
    """Works `work_s` for each request and keeps what it saw."""

    work_s: float = 1.0
    headers: tuple[tuple[bytes, bytes], ...] = ()
    pieces: int = 1
    in_flight: int = 0
    peak: int = 0
    starts: list[int] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        self.paths.append(scope["path"])
        self.starts.append(scope.get("n", -1))
        self.in_flight += 1
        self.peak = max(self.peak, self.in_flight)
        try:
            await send({"type": "http.response.start", "status": 200, "headers": list(self.headers)})
            for _ in range(self.pieces):
                await asyncio.sleep(scope.get("work_s", self.work_s) / self.pieces)
                await send({"type": "http.response.body", "body": b"x", "more_body": True})
        finally:
            self.in_flight -= 1
        await send({"type": "http.response.body", "body": b""})


async def many(app: App, arrivals_s: Sequence[float], works_s: Sequence[float]) -> list[Got]:
    """Requests to `app` that arrive at `arrivals_s` and need `works_s` seconds."""
    loop, tasks = asyncio.get_running_loop(), []
    for n, (at_s, work_s) in enumerate(zip(arrivals_s, works_s, strict=True)):
        if at_s > loop.time():
            await asyncio.sleep(at_s - loop.time())
        tasks.append(loop.create_task(ask(app, n=n, work_s=work_s)))
    return list(await asyncio.gather(*tasks))


def samples(gateway: Gateway) -> dict[tuple[str, str, str], float]:
    """Its metrics: (name without prefix, layer, what else is labelled) → value."""
    found = {}
    for family in text_string_to_metric_families(gateway.metrics()):
        for s in family.samples:
            rest = "".join(s.labels.get(key, "") for key in ("replica", "outcome", "le"))
            found[s.name.removeprefix("nlqlib_gateway_"), s.labels["layer"], rest] = s.value
    return found


# Queues whose right values are known


def waits_by_recursion(arrivals: Sequence[float], works: Sequence[float], servers: int) -> "np.ndarray":
    """Kiefer and Wolfowitz: each customer of a FIFO queue takes the server that is free first."""
    free, waits = [0.0] * servers, np.empty(len(arrivals))
    for n, (at, work) in enumerate(zip(arrivals, works, strict=True)):
        start = max(at, heapq.heappop(free))
        waits[n] = start - at
        heapq.heappush(free, start + work)
    return waits


@dataclass(frozen=True)
class Queue:
    """A queue at 80 % load with mean work of 1 s, and its mean wait in theory."""

    servers: int
    exponential: bool
    wait_s: float

    def draw(self, n: int, seed: int) -> tuple[list[float], list[float]]:
        random = np.random.default_rng(seed)
        arrivals = np.cumsum(random.exponential(1 / (0.8 * self.servers), n))
        works = random.exponential(1.0, n) if self.exponential else np.ones(n)
        return arrivals.tolist(), works.tolist()


QUEUES = {
    "M/M/1": Queue(1, True, 4.0),
    "M/M/4": Queue(4, True, 0.74554),
    "M/D/1": Queue(1, False, 2.0),
}


@pytest.mark.parametrize("name", QUEUES)
def test_the_recursion_that_judges_the_gateway_has_the_waits_of_theory(name: str) -> None:
    queue = QUEUES[name]
    mean = np.mean(
        [waits_by_recursion(*queue.draw(100_000, seed), queue.servers).mean() for seed in range(10)]
    )
    assert mean == pytest.approx(queue.wait_s, rel=0.03)  # a million customers: 2 standard errors


@pytest.mark.parametrize("name", QUEUES)
def test_every_wait_at_a_replica_limit_is_that_of_the_queue(name: str) -> None:
    queue = QUEUES[name]
    arrivals, works = queue.draw(15_000, seed=1)
    gateway = Gateway(Worker(), replica=queue.servers)
    got = run_virtual(many(gateway, arrivals, works))
    waits = np.array([g.ms("replica") / 1000 for g in got])
    assert waits == pytest.approx(waits_by_recursion(arrivals, works, queue.servers), abs=1e-6)
    assert waits.mean() == pytest.approx(queue.wait_s, rel=0.2)  # 15,000 customers: 3 standard errors
    found = samples(gateway)
    assert found["queue_wait_seconds_sum", "replica", "replica-0"] == pytest.approx(waits.sum(), abs=0.01)
    assert found["queue_wait_seconds_count", "replica", "replica-0"] == 15_000
    assert {g.ms("router") for g in got} == {0.0}


def test_half_of_the_requests_to_four_slots_wait_as_erlang_says() -> None:
    queue = QUEUES["M/M/4"]
    waited = [waits_by_recursion(*queue.draw(100_000, seed), 4) > 0 for seed in range(5)]
    assert np.mean(waited) == pytest.approx(0.59643, rel=0.02)
    arrivals, works = queue.draw(15_000, seed=2)
    got = run_virtual(many(Gateway(Worker(), router=4), arrivals, works))
    assert np.mean([g.ms("router") > 0 for g in got]) == pytest.approx(0.59643, rel=0.1)


def test_littles_law_holds_between_the_gauges_and_the_waits() -> None:
    arrivals, works = QUEUES["M/M/1"].draw(10_000, seed=3)
    gateway, levels = Gateway(Worker(), replica=1), []

    async def watch() -> None:
        while True:
            levels.append(gateway.replicas[0].limit.load)
            await asyncio.sleep(0.5)

    async def main() -> tuple[list[Got], float]:
        watching = asyncio.create_task(watch())
        got = await many(gateway, arrivals, works)
        watching.cancel()
        return got, asyncio.get_running_loop().time()

    got, over_s = run_virtual(main())
    stays = sum(g.ms("replica") / 1000 + work for g, work in zip(got, works, strict=True))
    assert np.mean(levels) == pytest.approx(stays / over_s, rel=0.02)
    assert np.mean(levels) == pytest.approx(4, rel=0.2)


# Two layers


@pytest.mark.parametrize(
    "router, replica, peak, router_ms, replica_ms",
    [
        (1, 1, 1, [0, 1000, 2000, 3000], [0, 0, 0, 0]),
        (1, 4, 1, [0, 1000, 2000, 3000], [0, 0, 0, 0]),
        (4, 1, 1, [0, 0, 0, 0], [0, 1000, 2000, 3000]),
        (4, 4, 4, [0, 0, 0, 0], [0, 0, 0, 0]),
        (3, 1, 1, [0, 0, 0, 1000], [0, 1000, 2000, 2000]),
        (None, None, 4, [0, 0, 0, 0], [0, 0, 0, 0]),
    ],
)
def test_the_factorial_of_low_and_high_limits(
    router: int | None, replica: int | None, peak: int, router_ms: list[float], replica_ms: list[float]
) -> None:
    worker = Worker()
    got = run_virtual(many(Gateway(worker, router=router, replica=replica), [0.0] * 4, [1.0] * 4))
    assert [g.ms("router") for g in got] == router_ms
    assert [g.ms("replica") for g in got] == replica_ms
    assert (worker.peak, worker.starts) == (peak, [0, 1, 2, 3])


@settings(max_examples=60, deadline=None)
@given(
    requests=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 8)), min_size=1, max_size=25),
    router=st.one_of(st.none(), st.integers(1, 6)),
    replica=st.one_of(st.none(), st.integers(1, 3)),
    replicas=st.integers(1, 3),
)
def test_every_request_is_answered_once_in_order_and_within_every_limit(
    requests: list[tuple[int, int]], router: int | None, replica: int | None, replicas: int
) -> None:
    workers = {f"r{i}": Worker() for i in range(replicas)}
    gateway = Gateway(workers, router=router, replica=replica)
    arrivals, works = zip(*sorted(requests), strict=True)
    got = run_virtual(many(gateway, [a / 4 for a in arrivals], [w / 4 for w in works]))
    assert all(g.status == 200 and g.end_s is not None for g in got)
    seen = [n for worker in workers.values() for n in worker.starts]
    assert sorted(seen) == list(range(len(requests)))
    assert all(worker.starts == sorted(worker.starts) for worker in workers.values())
    assert replica is None or max(worker.peak for worker in workers.values()) <= replica
    assert router is None or gateway.router.peak_in_flight <= router
    assert [limit.load for limit in (gateway.router, *(r.limit for r in gateway.replicas))] == [0] * (
        replicas + 1
    )


def test_the_slot_is_held_until_the_last_byte_of_a_stream() -> None:
    async def main() -> list[Got]:
        return list(await asyncio.gather(ask(gateway, work_s=3.0), ask(gateway, work_s=3.0)))

    gateway = Gateway(Worker(pieces=3), router=1)
    first, second = run_virtual(main())
    assert (first.end_s, second.ms("router"), second.end_s) == (3.0, 3000.0, 6.0)
    assert second.body == b"xxx"


def test_what_an_application_does_after_the_last_byte_holds_no_slot() -> None:
    async def lingering(scope: Message, receive: Receive, send: Send) -> None:
        await Worker(1.0)(scope, receive, send)
        await asyncio.sleep(5.0)

    gateway = Gateway(lingering, router=1, replica=1)
    got = run_virtual(many(gateway, [0.0] * 3, [1.0] * 3))
    assert [g.end_s for g in got] == [1.0, 2.0, 3.0]


def test_an_application_that_fails_gives_its_slots_back() -> None:
    async def failing(scope: Message, receive: Receive, send: Send) -> None:
        raise RuntimeError("broken")

    async def main() -> None:
        for _ in range(3):
            with pytest.raises(RuntimeError, match="broken"):
                await ask(gateway)

    gateway = Gateway(failing, router=1, replica=1)
    run_virtual(main())
    assert (gateway.router.in_flight, gateway.replicas[0].limit.in_flight) == (0, 0)


# Bounds


def refusal(got: Got) -> tuple[int, str]:
    error = json.loads(got.body)["error"]
    assert error["code"] == got.status
    return got.status, error["type"]


def test_a_full_router_queue_is_429_with_retry_after_and_a_full_replica_queue_503() -> None:
    at_router = run_virtual(many(Gateway(Worker(), router=1, max_queue=2), [0.0] * 4, [1.0] * 4))
    assert [g.status for g in at_router] == [200, 200, 200, 429]
    assert refusal(at_router[3]) == (429, "admission_queue_full")
    assert (at_router[3].headers["retry-after"], at_router[3].end_s) == ("1", 0.0)
    at_replica = run_virtual(many(Gateway(Worker(), router=9, replica=1, max_queue=2), [0.0] * 4, [1.0] * 4))
    assert [g.status for g in at_replica] == [200, 200, 200, 503]
    assert refusal(at_replica[3]) == (503, "admission_queue_full")
    assert "replica" in json.loads(at_replica[3].body)["error"]["message"]


@pytest.mark.parametrize("layer", ["router", "replica"])
def test_a_wait_beyond_the_timeout_is_503_and_says_how_long_it_was(layer: str) -> None:
    gateway = Gateway(Worker(), queue_timeout_s=1.5, **{layer: 1})  # type: ignore[arg-type]
    got = run_virtual(many(gateway, [0.0] * 3, [1.0] * 3))
    assert [g.status for g in got] == [200, 200, 503]
    assert refusal(got[2]) == (503, "admission_queue_timeout")
    assert (got[2].ms(layer), got[2].end_s) == (1500.0, 1.5)
    assert samples(gateway)["requests_total", layer, f"{'replica-0' * (layer == 'replica')}timed_out"] == 1


def test_a_refusal_at_the_replica_frees_the_slot_of_the_router() -> None:
    gateway = Gateway(Worker(), router=2, replica=1, max_queue=0)
    got = run_virtual(many(gateway, [0.0, 0.0, 0.5], [1.0] * 3))
    assert [g.status for g in got] == [200, 503, 503]
    assert (gateway.router.in_flight, gateway.router.counts.rejected) == (0, 0)


# Callers who go


@pytest.mark.parametrize("layer", ["router", "replica"])
def test_a_caller_who_goes_while_queued_leaves_and_takes_no_slot(layer: str) -> None:
    worker = Worker()
    gateway = Gateway(worker, **{layer: 1})  # type: ignore[arg-type]

    async def main() -> list[Got]:
        visits = [ask(gateway, n=0), ask(gateway, n=1, leaves_at_s=0.5), ask(gateway, n=2)]
        return list(await asyncio.gather(*visits))

    first, left, last = run_virtual(main())
    assert worker.starts == [0, 2]
    assert (first.status, left.status, last.status) == (200, 0, 200)
    assert last.ms(layer) == 1000.0
    assert samples(gateway)["requests_total", layer, f"{'replica-0' * (layer == 'replica')}left"] == 1


def test_a_caller_who_goes_before_its_request_is_complete_is_never_queued() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    gateway = Gateway(Worker(), router=1)
    run_virtual(gateway({"type": "http", "method": "POST", "path": CHAT}, receive, send))
    assert gateway.router.counts.arrived == 0


def test_the_application_sees_the_body_whole_and_then_the_caller_go() -> None:
    seen: list[Message] = []

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        while not seen or seen[-1]["type"] != "http.disconnect":
            seen.append(await receive())

    async def main() -> float:
        await ask(Gateway(app, router=1), leaves_at_s=2.0)
        return asyncio.get_running_loop().time()

    assert run_virtual(main()) == 2.0
    assert seen == [{"type": "http.request", "body": b"{}", "more_body": False}, {"type": "http.disconnect"}]


# Several replicas


def test_the_replica_with_the_fewest_requests_is_chosen_and_equals_take_turns() -> None:
    workers = {"a": Worker(), "b": Worker(), "c": Worker()}
    gateway = Gateway(workers)
    got = run_virtual(many(gateway, [0.0] * 5 + [1.5], [1.0, 3.0, 1.0, 3.0, 1.0, 1.0]))
    assert [g.headers["x-replica"] for g in got] == ["a", "b", "c", "a", "b", "c"]


def test_what_is_not_limited_takes_nobodys_turn() -> None:
    gateway = Gateway({"a": Worker(0.0), "b": Worker(0.0)})

    async def main() -> list[str]:
        first = await ask(gateway)
        await ask(gateway, "/health", "GET")
        return [first.headers["x-replica"], (await ask(gateway)).headers["x-replica"]]

    assert run_virtual(main()) == ["a", "b"]


def test_each_replica_has_a_limit_and_a_queue_of_its_own() -> None:
    gateway = Gateway({"a": Worker(), "b": Worker()}, replica=1)
    got = run_virtual(many(gateway, [0.0] * 6, [1.0] * 6))
    assert [g.ms("replica") for g in got] == [0, 0, 1000, 1000, 2000, 2000]
    found = samples(gateway)
    assert [found["peak_queue_depth", "replica", name] for name in "ab"] == [2, 2]


def test_one_replica_of_several_is_reached_by_name_but_not_past_its_limit() -> None:
    workers = {"a": Worker(0.0), "b": Worker(0.0)}
    gateway = Gateway(workers, replica=1)

    async def main() -> list[int]:
        own = "/gateway/replicas/"
        paths = ["/metrics", f"{own}b/metrics", f"{own}b{CHAT}", f"{own}x/metrics"]
        return [(await ask(gateway, path, "POST" if CHAT in path else "GET")).status for path in paths]

    assert run_virtual(main()) == [404, 200, 404, 404]
    assert (workers["a"].paths, workers["b"].paths) == ([], ["/metrics"])


# What is not limited, and what is told


def test_only_requests_to_generate_are_limited() -> None:
    gateway = Gateway(Worker(), router=1, replica=1)

    async def main() -> list[float | None]:
        asks = [ask(gateway), ask(gateway), ask(gateway, "/metrics", "GET"), ask(gateway, "/tokenize")]
        return [got.end_s for got in await asyncio.gather(*asks)]

    assert run_virtual(main()) == [1.0, 2.0, 1.0, 1.0]


def test_the_metrics_show_both_queues_while_they_are_full() -> None:
    gateway = Gateway(Worker(), router=3, replica=1)

    async def main() -> dict[tuple[str, str, str], float]:
        asks = [asyncio.create_task(ask(gateway)) for _ in range(5)]
        await asyncio.sleep(0.5)
        got = await ask(gateway, "/gateway/metrics", "GET")
        assert got.headers["content-type"].startswith("text/plain")
        assert got.body.decode() == gateway.metrics()
        found = samples(gateway)
        await asyncio.gather(*asks)
        return found

    found = run_virtual(main())
    names = ("limit", "in_flight", "queue_depth", "arrived_total")
    assert [found[name, "router", ""] for name in names] == [3, 3, 2, 5]
    assert [found[name, "replica", "replica-0"] for name in names] == [1, 1, 2, 3]
    assert found["queue_wait_seconds_bucket", "router", "+Inf"] == 3


def test_without_a_limit_the_metrics_name_none() -> None:
    assert ("limit", "router", "") not in samples(Gateway(Worker()))


def test_headers_can_be_kept_back() -> None:
    worker = Worker(headers=((b"X-Replica", b"deep"), (b"content-type", b"text/plain")))
    got = run_virtual(ask(Gateway(worker, router=1, replica=1, headers=False)))
    assert got.headers == {"content-type": "text/plain"}


def test_what_a_gateway_further_in_says_stands_where_this_one_does_not_limit() -> None:
    inner = Gateway({"a": Worker(), "b": Worker()}, replica=1)
    got = run_virtual(many(Gateway(inner, router=3), [0.0] * 4, [1.0] * 4))
    assert [(g.ms("router"), g.ms("replica")) for g in got] == [(0, 0), (0, 0), (0, 1000), (1000, 0)]
    assert [g.headers["x-replica"] for g in got] == ["a", "b", "a", "b"]


@pytest.mark.parametrize("bad", [{"router": 0}, {"replica": -1}, {"max_queue": -1}, {"queue_timeout_s": 0}])
def test_limits_that_cannot_be_meant_are_refused(bad: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="use"):
        Gateway(Worker(), **bad)  # type: ignore[arg-type]


def test_a_gateway_without_an_upstream_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one"):
        Gateway({})


# Through the clients


def through_client(app: App, kind: str, n: int, stream: bool = False) -> list[Completion]:
    """`n` requests at once."""

    async def main() -> list[Completion]:
        client = make_client(kind, Endpoint("http://app/v1", MODEL), app=app)  # type: ignore[arg-type]
        asked = [ChatRequest(f"r{i}", QUESTION, stream=stream) for i in range(n)]
        try:
            return list(await asyncio.gather(*map(client.complete, asked)))
        finally:
            await client.aclose()

    return run_virtual(main())


@pytest.mark.parametrize("kind", ["wire", "openai"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_carries_both_waits_and_they_add_up(kind: str, stream: bool) -> None:
    got = through_client(Gateway(FakeServer(Say(latency_s=1.0)), router=2, replica=1), kind, 4, stream)
    assert [c.outcome for c in got] == ["ok"] * 4
    assert [(c.router_queue_s, c.replica_queue_s) for c in got] == [(0, 0), (0, 1), (1, 1), (2, 1)]
    for c in got:
        assert c.end_s is not None and c.start_s is not None
        assert c.end_s - c.start_s == pytest.approx(1 + (c.router_queue_s or 0) + (c.replica_queue_s or 0))
    assert {c.replica for c in got} == {"replica-0"}


def test_a_serial_gateway_is_the_articles_staircase() -> None:
    got = through_client(Gateway(FakeServer(Say(latency_s=3.2)), router=1), "wire", 32)
    assert [c.end_s for c in got] == pytest.approx([3.2 * (i + 1) for i in range(32)])
