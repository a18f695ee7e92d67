"""The twin's first form answers like the endpoint it replays, and invents nothing."""

import json
from typing import Any

import pytest
from starlette.testclient import TestClient

from nlqlib import tokens
from nlqlib.records import ChatRequest
from nlqlib.twin.app import create_app
from nlqlib.twin.recordings import Recording, Recordings, request_key

MODEL = "Qwen/Qwen2.5-Coder-1.5B-Instruct"
TEXT = '{\n  "region": "Zürich – 東"\n}'
IDS = (*tokens.encode(TEXT), 151645)
MESSAGES = ({"role": "user", "content": "revenue by region"},)


def body(**changes: Any) -> dict[str, Any]:
    return ChatRequest("r", MESSAGES).body(MODEL) | changes


@pytest.fixture
def client() -> TestClient:
    logprobs = tuple({"token": str(i), "logprob": -0.1} for i in IDS)
    known = Recording(request_key(body(), MODEL), TEXT, "stop", tokens.count_chat(MESSAGES), IDS, logprobs)
    return TestClient(create_app(Recordings(MODEL, {known.key: known})))


def events(text: str) -> list[Any]:
    payloads = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    assert payloads.pop() == "[DONE]"
    return [json.loads(payload) for payload in payloads]


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


def test_another_model_is_404(client: TestClient) -> None:
    assert client.post("/v1/chat/completions", json=body(model="gpt")).status_code == 404


@pytest.mark.parametrize("raw", [b"", b"{", b"[]", b'{"messages": 3}'])
def test_a_malformed_body_is_400(client: TestClient, raw: bytes) -> None:
    assert client.post("/v1/chat/completions", content=raw).status_code == 400


def test_token_ids_and_logprobs_come_when_asked_for(client: TestClient) -> None:
    asked = body(return_token_ids=True, logprobs=True, top_logprobs=1)
    choice = client.post("/v1/chat/completions", json=asked).json()["choices"][0]
    assert choice["token_ids"] == list(IDS)
    assert len(choice["logprobs"]["content"]) == len(IDS)


def test_tokenize_counts_as_the_packaged_tokenizer(client: TestClient) -> None:
    counted = client.post("/tokenize", json={"messages": list(MESSAGES)}).json()
    assert counted["count"] == tokens.count_chat(MESSAGES)


def test_metrics_count_what_was_served_and_nothing_about_time(client: TestClient) -> None:
    client.post("/v1/chat/completions", json=body())
    text = client.get("/metrics").text
    assert "vllm:generation_tokens_total" in text and f"}} {len(IDS)}\n" in text
    assert "seconds" not in text
