"""The engine that was really started: its model, its processes, its start-up times."""

import json
import urllib.request

import psutil

from nlqlib.serving import supervisor
from nlqlib.serving.engine import Engine, start_engine
from nlqlib.serving.engine_health import serves
from nlqlib.serving.model_files import model_entry

OFFICIAL = "cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046"
CONVERTED = "d343342ac37f7e3a0e3977da4b33d4b64b6a9d428c0cf3137979440602814ba9"
"""SHA-256 of the weights as the gguf package and torch unpack and round them, computed independently."""


def post(engine: Engine, path: str, body: dict[str, object]) -> dict:
    request = urllib.request.Request(
        engine.base_url.removesuffix("/v1") + path,
        data=json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def test_it_serves_the_official_model_under_its_name(engine: Engine) -> None:
    assert serves(engine.port, "Qwen/Qwen2.5-Coder-1.5B-Instruct")
    seal = model_entry().seal()
    assert seal["facts"]["gguf_sha256"] == OFFICIAL
    assert seal["files"]["model.safetensors"]["sha256"] == CONVERTED


def test_it_answers_and_says_how_much_was_cached(engine: Engine) -> None:
    question = {"role": "user", "content": "Answer with one word: the capital of France? " * 3}
    body = {"model": engine.model, "messages": [question], "max_tokens": 8, "temperature": 0}
    assert post(engine, "/reset_prefix_cache", {}) is not None
    first, second = (post(engine, "/v1/chat/completions", body) for _ in range(2))
    assert "Paris" in first["choices"][0]["message"]["content"]
    assert first["choices"][0]["message"]["content"] == second["choices"][0]["message"]["content"]
    assert second["usage"]["prompt_tokens_details"]["cached_tokens"] is not None


def test_its_processes_share_one_session_and_are_more_than_one(engine: Engine) -> None:
    assert len(supervisor.session_members(engine.pid)) >= 3


def test_every_start_up_phase_was_seen(engine: Engine) -> None:
    assert all(seconds is not None for seconds in engine.startup_s.values())
    assert engine.startup_s["total"] > 5


def test_a_second_start_attaches(engine: Engine) -> None:
    with start_engine(progress=str) as second:
        assert (second.pid, second.owned) == (engine.pid, False)


def test_what_it_consists_of_is_noted_so_that_what_is_left_would_be_found(
    engine: Engine, started: set[psutil.Process]
) -> None:
    assert {process.pid for process in started} >= set(supervisor.session_members(engine.pid))
