"""One measurement at a time per endpoint: two that overlap contaminate each other."""

import fcntl
import hashlib
import json
import os
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
        name = hashlib.sha256(self.endpoint_id.encode()).hexdigest()[:16]
        return (self.folder or paths.cache_dir() / "locks") / f"{name}.lock"

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
