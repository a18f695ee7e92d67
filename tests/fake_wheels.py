"""Tiny wheels that pip really installs, in place of the gigabytes that `make engine` fetches."""

import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path


def write_wheel(
    folder: Path,
    name: str,
    version: str,
    files: Mapping[str, bytes],
    requires: Sequence[str] = (),
    scripts: Mapping[str, str] | None = None,
) -> Path:
    """Write `name`-`version` with `files` (path → contents) into `folder`; its path."""
    module = name.replace("-", "_")
    info = f"{module}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {requirement}\n" for requirement in requires)
    entries = "".join(f"{command} = {target}\n" for command, target in (scripts or {}).items())
    contents = {
        **files,
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}".encode(),
        f"{info}/WHEEL": b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{entries}".encode(),
    }
    record = "".join(f"{path},,\n" for path in [*contents, f"{info}/RECORD"])
    path = folder / f"{module}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, data in {**contents, f"{info}/RECORD": record.encode()}.items():
            archive.writestr(member, data)
    return path


def write_parts(folder: Path, parts: Mapping[int, bytes], stem: str = "tiny-part") -> None:
    """Write one wheel per part of a model, each with `data/partNN.bin`."""
    for number, data in parts.items():
        member = f"{stem.replace('-', '_')}{number}/data/part{number:02}.bin"
        write_wheel(folder, f"{stem}{number}", "0.2.0", {member: data})
