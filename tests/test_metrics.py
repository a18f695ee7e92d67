"""The reader of /metrics: over sockets and in process, in real and in virtual time."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qs

import pytest
from fake_server import private_tls, serve

from nlqlib.analysis.decomposition import REPLICA, ROUTER, client_means, decompose
from nlqlib.analysis.window import foreign_traffic_rules, levels, window
from nlqlib.load.closed_loop import closed_loop
from nlqlib.load.sampling import Sampler
from nlqlib.metric_names import SAMPLED_NAMES
from nlqlib.records import ChatRequest
from nlqlib.serving.endpoint import Endpoint, EndpointError
from nlqlib.serving.metrics import MetricsReader, is_filtered, metrics_reader, scan
from nlqlib.serving.target import Connection, open_target
from nlqlib.twin.clock import run_virtual

KEY = "sk-metrics-0123456789"
PAGE = """\
# HELP vllm:num_requests_running Number of requests in model execution batches.
# TYPE vllm:num_requests_running gauge
vllm:num_requests_running{engine="0",model_name="a } b"} 3.0
vllm:num_requests_running{engine="1",model_name="a } b"} 5.0
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting{engine="0",model_name="a } b"} 4.0
vllm:num_requests_waiting{engine="1",model_name="a } b"} 1.0
# TYPE vllm:num_requests_waiting_by_reason gauge
vllm:num_requests_waiting_by_reason{engine="0",model_name="a } b",reason="capacity"} 4.0
vllm:num_requests_waiting_by_reason{engine="1",model_name="a } b",reason="deferred"} 1.0
# TYPE vllm:generation_tokens_total counter
vllm:generation_tokens_total{engine="0",model_name="a } b"} 100.0
vllm:generation_tokens_total{engine="1",model_name="a } b"} 10.0
process_start_time_seconds 1.75e+09
"""
Use = Callable[[MetricsReader], Coroutine[Any, Any, Any]]
Filters = Literal["yes", "no", "slash", "empty"]


@dataclass
class Engine:
    """An ASGI application that is nothing but a metrics page."""

    filters: Filters = "yes"
    """Whether `name[]` is honoured, only at `/metrics/`, or answered with nothing."""
    text: str = PAGE
    status: int = 200
    kind: str = "text/plain; version=0.0.4"
    delay_s: float = 0.0
    key: str | None = None
    asked: list[tuple[str, list[str]]] = field(default_factory=list)
    """Path and names of every request."""
    headers: list[dict[str, str]] = field(default_factory=list)
    failing: Iterator[int] = field(default_factory=lambda: iter(()))
    """Status of the next requests, before the page comes."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        names = parse_qs(scope["query_string"].decode()).get("name[]", [])
        self.asked.append((scope["path"], names))
        self.headers.append({k.decode(): v.decode() for k, v in scope["headers"]})
        await asyncio.sleep(self.delay_s)
        body = self._page(scope["path"], names).encode()
        closed = self.key and self.headers[-1].get("authorization") != f"Bearer {self.key}"
        status = next(self.failing, 401 if closed else self.status)
        head = [(b"content-type", self.kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": head})
        await send({"type": "http.response.body", "body": body})

    def _page(self, path: str, names: list[str]) -> str:
        if not names or self.filters == "no" or (self.filters == "slash" and not path.endswith("/")):
            return self.text
        if self.filters == "empty":
            return ""
        return "".join(f"{line}\n" for line in self.text.splitlines() if line.partition("{")[0] in names)


def virtual(engine: Engine, use: Use, **settings: Any) -> Any:
    """The result of `use`, in virtual time, of a reader whose only engine is `engine`."""

    async def main() -> Any:
        reader = MetricsReader(("http://app/metrics",), app=engine, **settings)
        try:
            return await use(reader)
        finally:
            await reader.aclose()

    return run_virtual(main())


def real(urls: tuple[str, ...], use: Use, **settings: Any) -> Any:
    """The same over sockets, in real time."""

    async def main() -> Any:
        reader = MetricsReader(urls, **settings)
        try:
            return await use(reader)
        finally:
            await reader.aclose()

    return asyncio.run(main())


async def once(reader: MetricsReader) -> Any:
    return await reader.sample()


async def thrice(reader: MetricsReader) -> Any:
    return [await reader.sample() for _ in range(3)]


async def whole(reader: MetricsReader) -> Any:
    return await reader.scrape()


def test_a_sample_adds_up_the_engines_of_a_page() -> None:
    told = virtual(Engine(), once)
    assert (told.running, told.waiting, told.problem) == (8.0, 5.0, None)


def test_a_sample_carries_the_time_of_its_loop() -> None:
    async def later(reader: MetricsReader) -> Any:
        await asyncio.sleep(90)
        return await reader.sample()

    assert virtual(Engine(), later).at_s == 90.0


def test_a_sample_asks_for_its_own_names_only() -> None:
    engine = Engine()
    virtual(engine, thrice)
    assert engine.asked == [("/metrics", list(SAMPLED_NAMES))] * 3


def test_a_server_that_filters_only_behind_a_slash_is_asked_there() -> None:
    """vLLM 0.32: an instrumentator answers `/metrics` whole, prometheus_client answers `/metrics/`."""
    engine = Engine("slash")
    assert [s.running for s in virtual(engine, thrice)] == [8.0, 8.0, 8.0]
    assert [path for path, _ in engine.asked] == ["/metrics", "/metrics/", "/metrics/"]


def test_a_server_that_ignores_the_filter_is_read_whole() -> None:
    engine = Engine("no")
    assert [s.waiting for s in virtual(engine, thrice)] == [5.0, 5.0, 5.0]
    assert engine.asked[-1] == ("/metrics", [])


def test_a_server_whose_filter_knows_no_name_is_read_whole() -> None:
    """A multi-process registry cannot say which names it will have."""
    engine = Engine("empty")
    assert [s.running for s in virtual(engine, thrice)] == [8.0, 8.0, 8.0]
    assert [names for _, names in engine.asked][-2:] == [[], []]


def test_a_passing_failure_does_not_give_the_filter_up() -> None:
    engine = Engine(failing=iter([503]))
    first, second, _ = virtual(engine, thrice)
    assert (first.running, first.waiting, first.problem) == (None, None, "the metrics page answers HTTP 503")
    assert second.running == 8.0
    assert engine.asked[-1][1] == list(SAMPLED_NAMES)


def test_a_sample_holds_the_kv_usage_where_it_is_told() -> None:
    usage = "".join(
        f'vllm:kv_cache_usage_perc{{engine="{n}"}} {share}\n' for n, share in ((0, 0.25), (1, 0.75))
    )
    assert virtual(Engine(text=PAGE + usage), once).kv_usage == 0.5
    assert virtual(Engine(), once).kv_usage is None


def test_several_urls_add_up_over_sockets() -> None:
    one, other = Engine(), Engine("slash")
    with serve(one) as first, serve(other) as second:
        found = real((f"{first}/metrics", f"{second}/metrics"), thrice)
    assert [(s.running, s.waiting) for s in found] == [(16.0, 10.0)] * 3


def test_one_engine_that_does_not_answer_makes_the_sum_missing() -> None:
    with serve(Engine()) as first, serve(Engine(status=500)) as second:
        found = real((f"{first}/metrics", f"{second}/metrics"), once)
    assert (found.running, found.waiting) == (None, None)
    assert found.problem == "the metrics page answers HTTP 500"


def test_a_gauge_that_is_not_there_is_missing_and_the_other_one_stays() -> None:
    text = "vllm:num_requests_running 2\n"
    told = virtual(Engine(text=text), once)
    assert (told.running, told.waiting) == (2.0, None)
    assert told.problem == "the page does not say how many requests are waiting"


def test_waiting_is_read_by_reason_where_there_is_no_total() -> None:
    lines = (line for line in PAGE.splitlines() if "num_requests_waiting{" not in line)
    assert virtual(Engine(text="\n".join(lines) + "\n"), once).waiting == 5.0


@pytest.mark.parametrize("value", ["NaN", "+Inf", "many", ""])
def test_a_gauge_that_is_no_number_is_missing(value: str) -> None:
    text = f"vllm:num_requests_running {value}\nvllm:num_requests_waiting 0\n"
    told = virtual(Engine(text=text), once)
    assert (told.running, told.waiting) == (None, 0.0)


def test_a_scrape_keeps_the_whole_text_of_every_url() -> None:
    with serve(Engine()) as first, serve(Engine(text="up 1\n")) as second:
        found = real((f"{first}/metrics", f"{second}/metrics"), whole)
    assert found.texts == (PAGE, "up 1\n")
    assert found.raw("before") == {"before-0": PAGE.encode(), "before-1": b"up 1\n"}


def test_two_scrapes_in_virtual_time_are_a_window() -> None:
    engine = Engine()

    async def run(reader: MetricsReader) -> Any:
        before = await reader.scrape()
        await asyncio.sleep(60)
        engine.text = PAGE.replace("100.0", "160.0")
        return window(before, await reader.scrape())

    found = virtual(engine, run)
    assert (found.elapsed_s, found.generation_tokens, found.valid) == (60.0, 60.0, True)


@pytest.mark.parametrize(
    ("engine", "reason"),
    [
        (Engine(status=404), "there is no metrics page here (HTTP 404): set METRICS_URL"),
        (Engine(key=KEY), "the metrics page is closed (HTTP 401): no key was sent"),
        (Engine(status=307), "the metrics page is elsewhere (HTTP 307)"),
        (Engine(text="<!doctype html><html></html>", kind="text/html"), "an HTML page came instead"),
        (Engine(text="\n<html></html>"), "an HTML page came instead"),
        (Engine(delay_s=11), "the metrics page did not come within 10 s"),
        (Engine(status=500), "the metrics page answers HTTP 500"),
    ],
)
def test_a_page_that_cannot_be_read_says_why(engine: Engine, reason: str) -> None:
    scrape, sample = virtual(engine, whole), virtual(engine, once)
    assert reason in scrape.reasons[0]
    assert reason in sample.problem
    assert (scrape.texts, sample.running) == ((None,), None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ('{"detail": "Not Found"}', "this is JSON, not a metrics page"),
        ("up 1\n", "the page holds no metric of vLLM"),
        ('vllm:num_requests_running{engine="0', "or only a part of one"),
    ],
)
def test_a_page_that_is_read_and_is_no_vllm_page_says_so(text: str, reason: str) -> None:
    assert reason in virtual(Engine(text=text), whole).reasons[0]


def test_nobody_there_is_a_reason_without_the_host() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    scrape = real((f"http://127.0.0.1:{port}/metrics",), whole)
    assert scrape.reasons == ("the metrics page cannot be reached (ConnectError)",)


def test_an_application_that_raises_is_a_reason() -> None:
    async def broken(scope: Any, receive: Any, send: Any) -> None:
        raise RuntimeError("boom")

    assert virtual(broken, once).problem == "the metrics page answers HTTP 500"  # type: ignore[arg-type]


def test_without_a_url_everything_is_missing() -> None:
    assert real((), once).problem == "no metrics URL is known: set METRICS_URL"
    assert real((), whole).reasons == ("no metrics URL is known: set METRICS_URL",)


@pytest.mark.parametrize("url", ["metrics", "ftp://host/metrics", "http://me:key@host/metrics", "http://"])
def test_a_url_that_is_none_is_refused_at_once(url: str) -> None:
    with pytest.raises(EndpointError, match="METRICS_URL cannot be used"):
        MetricsReader((url,))


def test_a_query_of_the_url_is_kept() -> None:
    engine = Engine()

    async def main() -> Any:
        reader = MetricsReader((" http://app/metrics?name[]=x ",), app=engine)
        return await reader.sample()

    assert run_virtual(main()).running == 8.0
    assert engine.asked == [("/metrics", ["x", *SAMPLED_NAMES])]


def test_the_key_opens_a_page_of_the_same_origin(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with serve(Engine(key=KEY)) as base:
        endpoint = Endpoint(f"{base}/v1", "m", api_key_env="MY_KEY")
        found = real((f"{base}/metrics",), once, endpoint=endpoint)
    assert found.running == 8.0


def test_the_key_goes_nowhere_else_in_clear_text(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    elsewhere = Engine(key=KEY)
    with serve(elsewhere) as base:
        endpoint = Endpoint("https://api.example/v1", "m", "MY_KEY", headers={"x-api-key": KEY})
        found = real((f"{base}/metrics",), whole, endpoint=endpoint)
    assert all(KEY not in value for headers in elsewhere.headers for value in headers.values())
    assert "set API_KEY_ENV, and use https" in found.reasons[0]


def test_the_key_goes_to_another_host_over_tls(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    tls = private_tls(tmp_path, "127.0.0.1")
    with serve(Engine(key=KEY), tls) as base:
        endpoint = Endpoint("https://api.example/v1", "m", "MY_KEY", ca_file=str(tls.ca_file))
        assert real((f"{base}/metrics",), once, endpoint=endpoint).running == 8.0


def test_a_refused_key_is_not_in_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    with serve(Engine(key="another")) as base:
        endpoint = Endpoint(f"{base}/v1", "m", api_key_env="MY_KEY")
        found = real((f"{base}/metrics",), whole, endpoint=endpoint)
    assert found.reasons == ("the metrics page is closed (HTTP 401): the key is refused",)


def test_a_connection_of_a_target_is_read_with_its_own_application() -> None:
    there = Connection(Endpoint("http://app/v1", "m"), Engine(), ("http://app/metrics",))

    async def main() -> Any:
        reader = metrics_reader(there)
        try:
            return await reader.sample()
        finally:
            await reader.aclose()

    assert run_virtual(main()).running == 8.0


def test_the_twin_under_load_is_one_window_that_closes() -> None:
    target = open_target("twin").engine(words="synthetic")
    asked = (ChatRequest(f"r{n}", ({"role": "user", "content": f"{n} hello" * 50},)) for n in range(48))

    async def main() -> Any:
        reader, client = metrics_reader(target.connection), target.client()
        before = await reader.scrape()
        run = await closed_loop(client, asked, 8, 48, sampler=Sampler(reader.sample))
        found = window(before, await reader.scrape())
        await reader.aclose()
        await client.aclose()
        return run, found

    run, found = run_virtual(main())
    assert found.valid and found.requests_finished == 48
    assert found.generation_tokens == sum(c.output_tokens for c in run.completions)
    assert levels(run.samples).running_max == 8
    assert all(rule.ok for rule in foreign_traffic_rules(found, 48, 8, run.samples))
    parts = decompose(client_means(run.completions), found, without=(ROUTER, REPLICA))
    assert parts.closes and parts.missing == ()


def test_scan_takes_exact_names_only() -> None:
    text = 'a_total 1\na{x="a 7"} 2 1700000000\n# a 3\nab 4\na_created 1.7e9\na{x="}"} 5\n'
    assert scan(text, ["a"]) == {"a": [2.0, 5.0]}


def test_a_page_is_filtered_when_nothing_else_is_on_it() -> None:
    assert is_filtered("# HELP vllm:num_requests_running x\nvllm:num_requests_running 1\n\n")
    assert not is_filtered(PAGE)
