"""The pinned lock: made anew, mirrored in environment.yml, and tried beside vLLM's own pins.

python tests/lock.py --write          resolve requirements.lock from pyproject.toml, beside vLLM's pins
python tests/lock.py --beside-vllm    resolve the lock together with vLLM (nothing is installed)
"""

import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
ENVIRONMENT = ROOT / "environment.yml"
RAY_LOCK = ROOT / "requirements-ray.lock"
VLLM = "vllm==0.32.0"
HEADER = (
    "# Every package of the suite's environment, pinned. Made by `make lock`. vLLM has its own environment.\n"
)
NAMED = ["jupyterlab", "papermill", "openai", "pandas", "numpy", "seaborn", "matplotlib", "scipy", "duckdb"]


def pins(text: str) -> dict[str, str]:
    """`name==version` lines of `text`, as a mapping."""
    lines = (line.strip() for line in text.splitlines())
    return dict(line.split("==") for line in lines if "==" in line and not line.startswith("#"))


def compile_pins(requirements: list[str], constraints: str = "") -> str:
    """The resolution of `requirements` for Python 3.11, as pinned lines."""
    with tempfile.TemporaryDirectory() as folder:
        wanted, limits = Path(folder, "wanted.in"), Path(folder, "limits.txt")
        wanted.write_text("\n".join(requirements))
        limits.write_text(constraints)
        command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--native-tls"]
        command += ["--python-version", "3.11", "--no-header", "--no-annotate", str(wanted)]
        done = subprocess.run([*command, "--constraint", str(limits)], capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"cannot be resolved:\n{done.stderr}")
    return done.stdout


RAY_HEADER = "# What the optional extra `ray` adds to requirements.lock, pinned. Made by `make lock`.\n"


def project() -> dict[str, Any]:
    """The project's table of pyproject.toml."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def wanted() -> list[str]:
    """What pyproject.toml asks for, the development extra included."""
    return [*project()["dependencies"], *project()["optional-dependencies"]["dev"]]


def ray_pins() -> dict[str, str]:
    """What the extra `ray` needs beyond the lock, with the lock's own pins as limits."""
    locked = LOCK.read_text()
    extra = pins(compile_pins(project()["optional-dependencies"]["ray"], constraints=locked))
    return {name: version for name, version in extra.items() if name not in pins(locked)}


def environment(lock: dict[str, str]) -> str:
    """environment.yml: the conda route to the same pinned list, with vLLM added."""
    named = [f"{name}=={lock[name]}" for name in NAMED] + [VLLM]
    head = "# The conda route to the pinned list of requirements.lock, with vLLM (needs a GPU) added.\n"
    head += "name: nlqlib\nchannels:\n  - conda-forge\ndependencies:\n  - python=3.11\n  - pip\n  - pip:\n"
    return head + "".join(f"      - {line}\n" for line in ["-r requirements.lock", *named])


def write() -> None:
    beside = compile_pins([*wanted(), VLLM])
    resolved = compile_pins(wanted(), constraints=beside)
    LOCK.write_text(HEADER + resolved)
    ENVIRONMENT.write_text(environment(pins(resolved)))
    extra = ray_pins()
    RAY_LOCK.write_text(RAY_HEADER + "".join(f"{name}=={version}\n" for name, version in extra.items()))
    print(f"{len(pins(resolved))} packages pinned, {len(extra)} more with the extra ray")


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        write()
    elif sys.argv[1:] == ["--beside-vllm"]:
        together = pins(compile_pins([*LOCK.read_text().splitlines(), VLLM]))
        print(
            f"the lock resolves beside {VLLM}: numpy {together['numpy']}, {len(together)} packages together"
        )
    else:
        sys.exit(__doc__)
