"""Start-up phases are told from log lines, and progress stays readable."""

from pathlib import Path

import pytest

from nlqlib.serving.engine_health import Teller, follow
from nlqlib.serving.startup import MARKS, current_phase, durations, phase_ended_by

PHASES = list(MARKS)


@pytest.mark.parametrize(
    ("line", "phase"),
    [
        (
            "(APIServer pid=1) INFO 11-30 06:21:47 [api_utils.py:286] non-default args: {'host': 'x'}",
            "imports",
        ),
        ("(APIServer pid=1) INFO 12-01 [model.py:2152] Using max model len 4096", "configuration"),
        (
            "(EngineCore pid=2) INFO [core.py:133] Initializing a V1 LLM engine (v0.32.0) with",
            "engine_process",
        ),
        ("(Worker pid=3) INFO [cpu_model_runner.py:68] Starting to load model /m...", "worker_process"),
        (
            "(EngineCore_DP0 pid=2) INFO [gpu_model_runner.py:1] Starting to load model Q/Q...",
            "worker_process",
        ),
        ("INFO [default_loader.py:501] Loading weights took 8.22 seconds", "weights"),
        ("INFO [kv_cache_utils.py:2327] CPU KV cache size: 149,760 tokens, Maximum", "kv_cache"),
        ("INFO [kv_cache_utils.py:1229] GPU KV cache size: 300,000 tokens", "kv_cache"),
        ("INFO [core.py:402] init engine (profile, create kv cache, warmup model) took 8.3 s", "warm_up"),
        ("INFO [entry.py:140] Starting vLLM server on http://127.0.0.1:59465", "server"),
        ("INFO [api_server.py:1] Starting vLLM API server 0 on http://0.0.0.0:8000", "server"),
        ("INFO:     Waiting for application startup.", None),
    ],
)
def test_log_lines_of_vllm_end_their_phase(line: str, phase: str | None) -> None:
    assert phase_ended_by(line) == phase


def test_a_phase_without_a_mark_is_missing_and_its_time_is_in_the_next() -> None:
    told = durations({"imports": 6.0, "weights": 16.0}, 20.0)
    assert told["imports"] == 6.0
    assert told["configuration"] is None
    assert told["weights"] == 10.0
    assert told["ready"] == 4.0
    assert told["total"] == 20.0


def test_the_current_phase_follows_the_last_that_ended() -> None:
    assert current_phase([]) == "imports"
    assert current_phase(["imports", "engine_process"]) == "worker_process"
    assert current_phase(PHASES) == "ready"


def test_half_a_line_is_not_read_before_its_end(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("one\nLoading wei")
    lines = follow(log)
    assert next(lines) == ["one"]
    with log.open("a") as more:
        more.write("ghts took\n")
    assert next(lines) == ["Loading weights took"]


def test_progress_is_at_most_one_line_a_second() -> None:
    said: list[str] = []
    teller = Teller(said.append)
    for tenth in range(0, 250):
        teller.tell(f"phase {tenth // 3}" if tenth < 30 else "long", tenth / 10)
    assert said == [
        "engine: phase 0 … 0 s",
        "engine: phase 3 … 1 s",
        "engine: phase 6 … 2 s",
        "engine: long … 3 s",
        "engine: long … 13 s",
        "engine: long … 23 s",
    ]
