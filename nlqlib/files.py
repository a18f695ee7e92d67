"""Files that are whole or absent: canonical JSON and atomic writes.

This module knows nothing of what it writes.
"""

import contextlib
import dataclasses
import errno
import json
import math
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Any

TEMPORARY = re.compile(r"\..+\.(\d+)\.[0-9a-f]{8}\.tmp")
"""Name of a file being written: the final name, the writer's pid, a random part."""
SLUG_LIMIT = 80
"""Characters of a name kept in a file name: file systems allow 255 bytes, suffixes included."""


class WriteError(RuntimeError):
    """A file could not be written; nothing of it is left, and the message says what to do."""


def canonical_json(value: Any) -> str:
    """`value` on one line: keys sorted, no spaces. Raises `ValueError` for NaN and infinities."""
    ready = plain(value)
    return json.dumps(ready, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def pretty_json(value: Any) -> str:
    """`value` for people and diffs: keys sorted, indented by two, a newline at the end."""
    return json.dumps(plain(value), sort_keys=True, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def plain(value: Any, where: str = "") -> Any:
    """`value` in JSON's own types: dataclasses become objects, tuples lists, numpy scalars numbers.

    Raises `ValueError` naming the place of a NaN or an infinity, and `TypeError` that of a foreign type.
    """
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{where or 'the value'} is {value}: write None for what is missing")
        return float(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: plain(getattr(value, f.name), f"{where}.{f.name}") for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {_key(k, where): plain(v, f"{where}.{k}") for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain(v, f"{where}[{i}]") for i, v in enumerate(value)]
    if callable(getattr(value, "item", None)) and getattr(value, "ndim", None) == 0:
        return plain(value.item(), where)
    raise TypeError(f"{where or 'the value'} is a {type(value).__name__}, which JSON cannot hold")


def _key(key: Any, where: str) -> str:
    if not isinstance(key, str):
        raise TypeError(f"{where or 'an object'} has the key {key!r}: JSON keys are text")
    return key


def slug(name: str) -> str:
    """`name` as a portable file name: letters, digits, `._=+-`; everything else becomes a hyphen."""
    return re.sub(r"[^A-Za-z0-9._=+-]+", "-", name).strip("-.")[:SLUG_LIMIT] or "unnamed"


def write_atomic(path: Path, data: bytes) -> None:
    """Write `data` to `path`, whole or not at all: temporary name in the same folder, fsync, rename.

    Raises `WriteError` when the disk is full or the place cannot be written.
    """
    temporary = path.parent / f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_synced(temporary, data)
        os.replace(temporary, path)
        _sync_folder(path.parent)
    except OSError as error:
        raise WriteError(_explain(error, path)) from error
    finally:
        with contextlib.suppress(OSError):  # where its folder could not be made, it cannot be looked for
            temporary.unlink()


def write_if_changed(path: Path, data: bytes) -> bool:
    """`write_atomic`, unless `path` holds `data` already; whether it was written."""
    if path.is_file() and path.read_bytes() == data:
        return False
    write_atomic(path, data)
    return True


def check_writable(path: Path) -> None:
    """Can a file be written at `path`? For what is asked before a long measurement, not after it.

    Makes the folder. Raises `WriteError`.
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.parent / f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}.tmp"
        temporary.touch()
        temporary.unlink()
    except OSError as error:
        raise WriteError(_explain(error, path)) from error
    if path.is_dir():
        raise WriteError(f"{path} is a folder: name a file")


def append_line(path: Path, line: str) -> None:
    """Append one line in a single write, so that several processes may append to the same file.

    Raises `WriteError`; a line that does not fit is taken back, so that the next one begins on its own.
    """
    data = (line + "\n").encode("utf-8", "backslashreplace")
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
        try:
            written = os.write(descriptor, data)
            if written < len(data):
                _take_back(descriptor, written)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise WriteError(_explain(error, path)) from error


def _take_back(descriptor: int, written: int) -> None:
    """Cut the last `written` bytes, unless another process has appended behind them."""
    end = os.lseek(descriptor, 0, os.SEEK_CUR)
    if os.fstat(descriptor).st_size == end:
        os.ftruncate(descriptor, end - written)


def text_lines(text: str) -> list[str]:
    """The lines of a file of JSON lines, the last one whole or cut.

    They end at line feeds alone: a JSON string may hold what Unicode calls a line end, as U+2028.
    """
    return text.removesuffix("\n").split("\n") if text else []


def sweep(folder: Path) -> None:
    """Remove temporary files in `folder` whose writer was killed."""
    for path in folder.glob(".*.tmp"):
        match = TEMPORARY.fullmatch(path.name)
        if match and not alive(int(match.group(1))):
            path.unlink(missing_ok=True)


def alive(pid: int) -> bool:
    """Whether a process of this number runs on this machine."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "xb") as handle:
        handle.write(data)
        handle.flush()
        os.fsync(handle.fileno())


def _sync_folder(folder: Path) -> None:
    """Make the rename itself durable."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _explain(error: OSError, path: Path) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return (
            f"no space left while writing {path}: nothing of it was kept and finished points stay; "
            "free some space, then run the same command again"
        )
    return f"cannot write {path}: {error.strerror or error}; make the folder writable, then run again"
