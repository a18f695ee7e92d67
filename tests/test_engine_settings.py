"""The exact commands and environments of the CPU and GPU builds, and what identifies an engine."""

import json
import sys
from pathlib import Path

import pytest

from nlqlib.serving import engine_settings
from nlqlib.serving.engine_settings import (
    EngineError,
    arguments,
    core_ranges,
    serve_command,
    serve_environment,
    settings,
)

CPU = {"ENGINE_BUILD": "cpu"}
GPU = {"ENGINE_BUILD": "gpu"}
PYTHON = Path("/cache of {me}/bin/python")


def test_the_cpu_command_is_the_verified_one() -> None:
    command = serve_command(settings(CPU), PYTHON, "/cache of {me}/models/x", 8001)
    assert command == (
        "/cache of {me}/bin/python",
        "-m",
        "vllm.entrypoints.openai.api_server",
        "--model",
        "/cache of {me}/models/x",
        "--served-model-name",
        "Qwen/Qwen2.5-Coder-1.5B-Instruct",
        "--dtype",
        "bfloat16",
        "--max-model-len",
        "4096",
        "--max-num-seqs",
        "32",
        "--enforce-eager",
        "--enable-prompt-tokens-details",
        "--disable-uvicorn-access-log",
        "--host",
        "127.0.0.1",
        "--port",
        "8001",
    )


def test_the_gpu_command_is_the_articles() -> None:
    command = serve_command(settings(GPU), PYTHON, "Qwen/Qwen2.5-3B-Instruct", 8001)
    assert " ".join(command) == (
        "/cache of {me}/bin/vllm serve Qwen/Qwen2.5-3B-Instruct --gpu-memory-utilization 0.90 "
        "--max-model-len 4096 --max-num-seqs 32 --enable-prefix-caching --enable-chunked-prefill "
        "--host 127.0.0.1 --port 8001"
    )


def test_the_cpu_environment_binds_all_cores_and_stays_offline() -> None:
    env = serve_environment(settings(CPU), {}, {0, 1})
    assert env == {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "VLLM_SERVER_DEV_MODE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "4",
        "VLLM_CPU_OMP_THREADS_BIND": "0-1",
    }


def test_the_gpu_environment_may_use_the_hub() -> None:
    env = serve_environment(settings(GPU), {}, {0, 1})
    assert "HF_HUB_OFFLINE" not in env
    assert not any("CPU" in name for name in env)


def test_variables_that_would_change_the_engine_or_hold_a_key_stay_outside() -> None:
    keys = {"VLLM_API_KEY": "secret", "API_KEY_ENV": "MY_KEY", "MY_KEY": "secret"}
    base = {"PYTHONPATH": "x", "HOME": "/h"} | keys
    env = serve_environment(settings(CPU), base, {0})
    assert "secret" not in env.values()
    assert "PYTHONPATH" not in env
    assert env["HOME"] == "/h"


def test_the_users_own_binding_and_cache_size_win() -> None:
    base = {"VLLM_CPU_OMP_THREADS_BIND": "3", "VLLM_CPU_KVCACHE_SPACE": "8"}
    env = serve_environment(settings(CPU | base), base, {0, 1})
    assert (env["VLLM_CPU_OMP_THREADS_BIND"], env["VLLM_CPU_KVCACHE_SPACE"]) == ("3", "8")


@pytest.mark.parametrize(
    ("cores", "words"),
    [({0, 1}, "0-1"), ({3}, "3"), ({0, 1, 2, 5}, "0-2,5"), ({7, 4, 6, 1}, "1,4,6-7"), (set(), "")],
)
def test_core_numbers_are_written_as_ranges(cores: set[int], words: str) -> None:
    assert core_ranges(cores) == words


def test_flags_become_words() -> None:
    flags = {"a_b": 1, "on": True, "off": False, "none": None, "x": 0.5, "json": {"a": "b"}}
    assert arguments(flags) == ("--a-b", "1", "--on", "--no-off", "--x", "0.5", "--json", '{"a": "b"}')


def test_flags_are_laid_over_the_defaults_and_none_takes_one_away() -> None:
    flags = settings(CPU, max_num_seqs=16, enforce_eager=None, **{"max-model-len": 8192}).flags
    assert flags["max_num_seqs"] == 16
    assert flags["max_model_len"] == 8192
    assert "enforce_eager" not in flags
    assert flags["dtype"] == "bfloat16"


@pytest.mark.parametrize("name", ["port", "host", "model", "served-model-name"])
def test_flags_that_are_ours_are_refused(name: str) -> None:
    with pytest.raises(EngineError, match="set MODEL or the port instead"):
        settings(CPU, **{name: "x"})


def test_an_unknown_build_is_refused() -> None:
    with pytest.raises(EngineError, match="ENGINE_BUILD=tpu is unknown: use cpu or gpu"):
        settings({"ENGINE_BUILD": "tpu"})


@pytest.mark.parametrize("text", ["", "NVIDIA L4\nNVIDIA L4\n"])
def test_the_gpu_build_is_chosen_where_the_driver_lists_a_card(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!{sys.executable}\nprint({text!r}, end='')\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    engine_settings.gpu_names.cache_clear()
    try:
        assert settings({}).build == ("gpu" if text else "cpu")
        assert len(engine_settings.gpu_names()) == text.count("L4")
    finally:
        engine_settings.gpu_names.cache_clear()


def test_a_driver_that_fails_means_no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool = tmp_path / "nvidia-smi"
    tool.write_text(f"#!{sys.executable}\nprint('NVIDIA-SMI has failed'); raise SystemExit(9)\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    engine_settings.gpu_names.cache_clear()
    try:
        assert settings({}).build == "cpu"
    finally:
        engine_settings.gpu_names.cache_clear()


def test_versions_and_models_are_settings() -> None:
    assert settings(CPU).version == "0.32.0"
    assert settings(GPU).version == "0.12.0"
    assert settings(GPU | {"VLLM_VERSION": "0.32.0"}).version == "0.32.0"
    assert settings(CPU | {"MODEL": "Qwen/Qwen2.5-0.5B-Instruct"}).source == "Qwen/Qwen2.5-0.5B-Instruct"
    assert settings(CPU | {"MODEL": ""}).source is None


def test_a_model_directory_is_served_under_its_own_name_and_declared_without_its_path(tmp_path: Path) -> None:
    folder = tmp_path / "a b {c}" / "tiny"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    wanted = settings(CPU | {"MODEL": str(folder)})
    assert (wanted.model, wanted.source) == ("tiny", str(folder))
    told = json.dumps(wanted.declared())
    assert str(tmp_path) not in told
    (folder / "weights").write_text("1")
    assert json.dumps(settings(CPU | {"MODEL": str(folder)}).declared()) != told


def test_a_model_directory_that_is_not_there_is_refused() -> None:
    with pytest.raises(EngineError, match="MODEL=/no/such/dir is no directory"):
        settings(CPU | {"MODEL": "/no/such/dir"})


def test_a_directory_without_a_config_is_no_model(tmp_path: Path) -> None:
    with pytest.raises(EngineError, match=r"has no config\.json"):
        settings(CPU | {"MODEL": str(tmp_path)})


def test_what_is_declared_survives_json_and_is_plain() -> None:
    declared = settings(CPU, structured_outputs_config={"backend": "xgrammar"}).declared()
    assert json.loads(json.dumps(declared)) == declared
    assert declared["engine"] == "vllm-cpu"
    assert declared["kv_space_gib"] == "4"
