"""The twin answers like the endpoint it models: words replayed or drawn, times of a modelled engine."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

import pytest
import uvloop
from prometheus_client.parser import text_string_to_metric_families
from starlette.testclient import TestClient

from nlqlib import tokens
from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Client, Endpoint, make_client
from nlqlib.serving.running import run
from nlqlib.twin import model as twins
from nlqlib.twin.app import TwinApp, create_app
from nlqlib.twin.clock import VirtualLoop
from nlqlib.twin.recordings import Recording, Recordings, request_key
from nlqlib.twin.step_time import StepTime
from nlqlib.twin.words import Drawn, Replayed

T = TypeVar("T")
MODEL = "Qwen/Qwen2.5-Coder-1.5B-Instruct"
TEXT = '{\n  "region": "Zürich – 東"\n}'
IDS = (*tokens.encode(TEXT), 151645)
MESSAGES = ({"role": "user", "content": "revenue by region"},)
L4 = twins.load()
ENDPOINT = Endpoint("http://twin/v1", MODEL, timeout_s=600)


def body(**changes: Any) -> dict[str, Any]:
    return ChatRequest("r", MESSAGES).body(MODEL) | changes


def recorded() -> Recordings:
    logprobs = tuple({"token": str(i), "logprob": -0.1} for i in IDS)
    known = Recording(request_key(body(), MODEL), TEXT, "stop", tokens.count_chat(MESSAGES), IDS, logprobs)
    return Recordings(MODEL, {known.key: known})


@pytest.fixture
def client() -> Iterator[TestClient]:
    with TestClient(create_app(Replayed(recorded()), L4)) as opened:
        yield opened


def events(text: str) -> list[Any]:
    payloads = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert payloads.pop() == "[DONE]"
    return [json.loads(payload) for payload in payloads]


def virtually(app: TwinApp, do: Callable[[Client], Awaitable[T]]) -> T:
    """What `do` gives with a wire client of `app`, in virtual time."""

    async def go() -> T:
        client = make_client("wire", ENDPOINT, app=app)
        try:
            return await do(client)
        finally:
            await client.aclose()

    return run(go(), VirtualLoop)


def drawn(mean: float = 100, sd: float = 0, seed: int = 0, **limits: Any) -> TwinApp:
    model = replace(L4, limits=replace(L4.limits, **limits))
    return create_app(Drawn(Recordings(MODEL, {}), mean, sd, seed), model)


def asked(i: int, prompt: str = "x", **changes: Any) -> ChatRequest:
    return ChatRequest(str(i), ({"role": "user", "content": prompt},), **changes)


def series(text: str) -> dict[str, float]:
    """Value by series name, of series without further labels."""
    return {
        s.name: s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
        if set(s.labels) <= {"engine", "model_name"}
    }


def test_a_recorded_prompt_is_answered_with_the_recorded_words(client: TestClient) -> None:
    answer = client.post("/v1/chat/completions", json=body()).json()
    assert answer["choices"][0]["message"]["content"] == TEXT
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"]["completion_tokens"] == len(IDS)
    assert answer["usage"]["prompt_tokens"] == tokens.count_chat(MESSAGES)


def test_streamed_pieces_join_to_the_same_words(client: TestClient) -> None:
    stream = client.post(
        "/v1/chat/completions", json=body(stream=True, stream_options={"include_usage": True})
    )
    got = events(stream.text)
    pieces = [e["choices"][0]["delta"]["content"] for e in got if e["choices"]]
    assert "".join(pieces) == TEXT
    assert got[-1]["usage"]["completion_tokens"] == len(IDS)
    assert [e["choices"][0]["finish_reason"] for e in got if e["choices"]][-1] == "stop"


def test_fewer_tokens_allowed_cut_the_answer_and_say_so(client: TestClient) -> None:
    answer = client.post("/v1/chat/completions", json=body(max_tokens=3)).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    assert answer["choices"][0]["message"]["content"] == tokens.decode(IDS[:3])
    assert answer["usage"]["completion_tokens"] == 3


def test_an_unrecorded_prompt_is_422_and_says_how_to_record(client: TestClient) -> None:
    unknown = body(messages=[{"role": "user", "content": "something else"}])
    refused = client.post("/v1/chat/completions", json=unknown)
    assert refused.status_code == 422
    assert "make record" in refused.json()["error"]["message"]


def test_a_prompt_beyond_the_window_is_the_engines_400(client: TestClient) -> None:
    refused = client.post("/v1/chat/completions", json=body(max_tokens=4096))
    assert refused.status_code == 400
    assert "maximum context length is 4096" in refused.json()["error"]["message"]


def test_a_newer_engine_shortens_max_tokens_silently_and_the_answer_is_cut() -> None:
    newer = replace(L4, engine_version="0.32.0", limits=replace(L4.limits, max_model_len=60))
    app = create_app(Drawn(Recordings(MODEL, {}), 100, 0), newer)
    done = virtually(app, lambda c: c.complete(asked(0, max_tokens=256)))
    assert (done.outcome, done.finish_reason) == ("length", "length")
    assert done.prompt_tokens is not None and done.output_tokens == 60 - done.prompt_tokens


def test_another_model_is_404(client: TestClient) -> None:
    assert client.post("/v1/chat/completions", json=body(model="gpt")).status_code == 404


@pytest.mark.parametrize(
    "raw", [b"", b"{", b"[]", b'{"messages": 3}', b'{"messages": []}', b'{"messages": [{"role": "user"}]}']
)
def test_a_malformed_body_is_400(client: TestClient, raw: bytes) -> None:
    assert client.post("/v1/chat/completions", content=raw).status_code == 400


@pytest.mark.parametrize("wanted", [0, -1, 1.5, "8", True])
def test_a_nonsensical_max_tokens_is_400(client: TestClient, wanted: Any) -> None:
    assert client.post("/v1/chat/completions", json=body(max_tokens=wanted)).status_code == 400


def test_token_ids_and_logprobs_come_when_asked_for(client: TestClient) -> None:
    asked_for = body(return_token_ids=True, logprobs=True, top_logprobs=1)
    choice = client.post("/v1/chat/completions", json=asked_for).json()["choices"][0]
    assert choice["token_ids"] == list(IDS)
    assert len(choice["logprobs"]["content"]) == len(IDS)


def test_tokenize_counts_as_the_packaged_tokenizer(client: TestClient) -> None:
    counted = client.post("/tokenize", json={"messages": list(MESSAGES)}).json()
    assert counted["count"] == tokens.count_chat(MESSAGES)


def test_drawn_lengths_have_the_mean_and_the_spread_asked_for() -> None:
    async def many(client: Client) -> list[Completion]:
        return list(await asyncio.gather(*(client.complete(asked(i)) for i in range(400))))

    lengths = [c.output_tokens or 0 for c in virtually(drawn(115, 3), many)]
    assert abs(sum(lengths) / 400 - 115) < 0.5
    assert 2.5 < (sum((n - 115) ** 2 for n in lengths) / 400) ** 0.5 < 3.5


def test_ignore_eos_gives_exactly_max_tokens() -> None:
    done = virtually(drawn(), lambda c: c.complete(asked(0, max_tokens=7, extra={"ignore_eos": True})))
    assert (done.outcome, done.output_tokens, done.finish_reason) == ("ok", 7, "length")


def test_one_request_takes_the_way_in_and_out_the_prompt_and_its_steps() -> None:
    done = virtually(drawn(101), lambda c: c.complete(asked(0)))
    n = done.prompt_tokens or 0
    prefill = L4.step_time.features_s(n, 1, n, n, n * (n + 1) / 2, mixed=True)
    decode = sum(L4.step_time.features_s(1, 1, n + k, n + k) for k in range(1, 101))
    assert done.e2e_s == pytest.approx(L4.outside_s + prefill + decode, rel=1e-9)


def test_a_stream_ends_when_the_plain_answer_does_and_tokens_come_one_step_apart() -> None:
    whole = virtually(drawn(50), lambda c: c.complete(asked(0)))
    stream = virtually(drawn(50), lambda c: c.complete(asked(0, stream=True)))
    assert stream.end_s == pytest.approx(whole.end_s)
    gaps = [b - a for a, b in zip(stream.token_times_s, stream.token_times_s[1:], strict=False)]
    assert len(gaps) == 49
    step = L4.step_time.features_s(1, 1, 60, 60)
    assert all(gap == pytest.approx(step, rel=1e-3) for gap in gaps)


def test_two_identical_runs_give_the_same_times_to_the_last_bit() -> None:
    async def some(client: Client) -> list[Completion]:
        return list(await asyncio.gather(*(client.complete(asked(i % 3, str(i % 3))) for i in range(50))))

    assert virtually(drawn(115, 3, 7), some) == virtually(drawn(115, 3, 7), some)


def test_no_more_than_max_num_seqs_run_and_the_rest_waits() -> None:
    app = drawn(100, max_num_seqs=4)

    async def ten(client: Client) -> dict[str, float]:
        sent = [asyncio.create_task(client.complete(asked(i))) for i in range(10)]
        await asyncio.sleep(0.5)
        found = series(await page(app, "/metrics"))
        await asyncio.gather(*sent)
        return found

    found = virtually(app, ten)
    assert (found["vllm:num_requests_running"], found["vllm:num_requests_waiting"]) == (4, 6)


async def page(app: TwinApp, path: str, query: str = "") -> str:
    """The page at `path` of an application in this process."""
    said: list[bytes] = []

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: Any) -> None:
        said.append(message.get("body", b""))

    scope = {"type": "http", "method": "GET", "path": path, "query_string": query.encode(), "headers": []}
    await app(scope, receive, send)
    return b"".join(said).decode()


def test_metrics_count_tokens_and_seconds_under_vllms_names() -> None:
    app = drawn(20)

    async def two(client: Client) -> dict[str, float]:
        for _ in range(2):
            await client.complete(asked(0, "the same words again and again " * 20))
        return series(await page(app, "/metrics"))

    found = virtually(app, two)
    n = tokens.count_chat([{"role": "user", "content": "the same words again and again " * 20}])
    assert found["vllm:prefix_cache_queries_total"] == 2 * n
    assert found["vllm:prefix_cache_hits_total"] == (n - 1) // 16 * 16
    assert found["vllm:generation_tokens_total"] == 40
    assert found["vllm:e2e_request_latency_seconds_count"] == 2
    assert found["vllm:time_to_first_token_seconds_count"] == 2
    assert found["vllm:inter_token_latency_seconds_count"] == 38
    parts = ("queue", "prefill", "decode")
    inside = sum(found[f"vllm:request_{part}_time_seconds_sum"] for part in parts)
    assert found["vllm:e2e_request_latency_seconds_sum"] == pytest.approx(inside + 2 * L4.frontend_s)


def test_a_filtered_scrape_holds_only_what_was_named() -> None:
    app = drawn()

    async def scrape(client: Client) -> str:
        return await page(
            app, "/metrics", "name[]=vllm:num_requests_running&name[]=vllm:num_requests_waiting"
        )

    found = series(virtually(app, scrape))
    assert set(found) == {"vllm:num_requests_running", "vllm:num_requests_waiting"}


def test_a_caller_who_hangs_up_leaves_the_engine_and_counts_as_aborted() -> None:
    app = drawn(100)

    async def impatient(client: Client) -> str:
        sent = asyncio.create_task(client.complete(asked(0)))
        await asyncio.sleep(1)
        sent.cancel()
        await asyncio.wait([sent])
        await asyncio.sleep(0.2)
        return await page(app, "/metrics")

    text = virtually(app, impatient)
    assert series(text)["vllm:num_requests_running"] == 0
    assert 'finished_reason="abort"} 1.0' in text


def test_the_engine_goes_on_where_it_was_in_another_loop() -> None:
    app = drawn(20)
    prompt = "words that fill several blocks of the cache " * 10
    cold = virtually(app, lambda c: c.complete(asked(0, prompt)))
    warm = virtually(app, lambda c: c.complete(asked(1, prompt)))
    assert warm.ok and (warm.e2e_s or 0) < (cold.e2e_s or 0)


def test_steps_shorter_than_the_loops_clock_are_all_taken() -> None:
    hasty = replace(L4, frontend_s=0.0, network_s=0.0, step_time=StepTime(fixed_s=1e-5))

    async def many() -> list[Completion]:
        client = make_client("wire", ENDPOINT, app=create_app(Drawn(Recordings(MODEL, {}), 5, 0), hasty))
        try:
            return list(await asyncio.gather(*(client.complete(asked(i, stream=True)) for i in range(40))))
        finally:
            await client.aclose()

    done = run(many(), uvloop.new_event_loop)
    assert [(c.outcome, c.output_tokens) for c in done] == [("ok", 5)] * 40


def test_real_time_gives_the_same_token_schedule_as_virtual_time() -> None:
    quick = replace(L4, frontend_s=0.0, network_s=0.0)

    def served(new_loop: Callable[[], asyncio.AbstractEventLoop]) -> tuple[Completion, dict[str, float]]:
        app = create_app(Drawn(Recordings(MODEL, {}), 12, 0), quick)

        async def go() -> Completion:
            client = make_client("wire", ENDPOINT, app=app)
            try:
                return await client.complete(asked(0, stream=True))
            finally:
                await client.aclose()

        done = run(go(), new_loop)
        return done, {name: seen.sum for name, seen in app.driver.replica.counters.phases.items()}

    (virtual, schedule), (real, same) = served(VirtualLoop), served(asyncio.new_event_loop)
    assert len(real.token_times_s) == len(virtual.token_times_s) == 12
    assert same == pytest.approx(schedule, abs=1e-9)
    assert (real.e2e_s or 0) >= (virtual.e2e_s or 1)
