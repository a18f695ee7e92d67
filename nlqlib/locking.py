"""One measurement at a time per endpoint: two that overlap contaminate each other."""

import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import IO

from nlqlib import paths


class LockedError(RuntimeError):
    """The endpoint is being measured by another run; says by whom and since when."""


def utc_now() -> str:
    """The present time, UTC with its offset, to the millisecond."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


@contextmanager
def one_at_a_time(name: str, folder: Path | None = None) -> Iterator[None]:
    """Holds what is called `name` while in the `with` block; whoever else wants it waits.

    Unlike an endpoint, which is refused to a second run: what one run makes, the other will find made.
    """
    path = (folder or paths.BUILD / "locks") / f"{_digits(name)}.lock"
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _held(path)
    try:
        yield
    finally:
        path.unlink(missing_ok=True)  # before it is let go: who waits for it sees that it is gone
        handle.close()


def _held(path: Path) -> IO[str]:
    """The file `path`, locked; opened again where its last holder removed it meanwhile."""
    while True:
        handle = open(path, "a", encoding="utf-8")  # noqa: SIM115 - it is held beyond this function
        fcntl.flock(handle, fcntl.LOCK_EX)
        if _names(path, handle):
            return handle
        handle.close()


def _names(path: Path, handle: IO[str]) -> bool:
    """Is `handle` the file that stands at `path` now?"""
    try:
        return os.path.samestat(path.stat(), os.fstat(handle.fileno()))
    except FileNotFoundError:
        return False


def _digits(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:16]


@dataclass
class EndpointLock:
    """Holds the endpoint `endpoint_id`, such as its URL in one spelling, while in a `with` block.

    The operating system releases it when the process ends, however it ends. The file's name is a hash, so
    neither host nor key is written. Raises `LockedError` at once when another run holds it.
    """

    endpoint_id: str
    folder: Path | None = None
    """Where lock files are; by default in the cache folder, which all checkouts of a user share."""
    _handle: IO[str] | None = field(default=None, init=False, repr=False)

    @property
    def path(self) -> Path:
        return (self.folder or paths.cache_dir() / "locks") / f"{_digits(self.endpoint_id)}.lock"

    def __enter__(self) -> "EndpointLock":
        self.path.parent.mkdir(parents=True, exist_ok=True)
        handle = open(self.path, "a+", encoding="utf-8")
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            with handle:
                raise LockedError(self._refusal(handle)) from None
        handle.truncate(0)
        json.dump({"pid": os.getpid(), "since": utc_now()}, handle)
        handle.flush()
        self._handle = handle
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle:
            self._handle.close()
            self._handle = None

    def _refusal(self, handle: IO[str]) -> str:
        handle.seek(0)
        try:
            holder = json.loads(handle.read())
            who = f"by process {holder['pid']} since {holder['since']}"
        except (ValueError, KeyError, TypeError):  # the holder has the lock but has not written its name yet
            who = "by another process that has just begun"
        return f"this endpoint is being measured {who}: wait for it to end, or stop it, then run again"
