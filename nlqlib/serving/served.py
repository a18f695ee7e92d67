"""Servers of ours on the loopback, each in a process of its own that ends with this one."""

import os
import re
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import uvloop

from nlqlib import paths
from nlqlib.serving.owned import OwnedProcess, start_owned
from nlqlib.serving.target import Connection, Target, TargetError
from nlqlib.twin.model import DEFAULT

READY = re.compile(r"(http://127\.0\.0\.1:\d+)/v1")
START_S, LOOK_S, GRACE_S = 180.0, 0.05, 3.0
"""How long a server may take to come up (2 s, unless others hold the cores), how often
is looked, how long it may take to end."""


@dataclass(frozen=True)
class Served:
    """A server that was started, and may not be up yet."""

    name: str
    process: OwnedProcess
    log: Path

    @cached_property
    def root(self) -> str:
        """Its root address, once it says so. Raises `TargetError` when it does not come up."""
        until_s = time.monotonic() + START_S
        while time.monotonic() < until_s:
            if said := READY.search(self.log.read_text("utf-8", "replace") if self.log.exists() else ""):
                return said.group(1)
            if self.process.poll() is not None:
                raise TargetError(f"the {self.name} did not start; {self.process.last_words()}")
            time.sleep(LOOK_S)
        self.process.stop()
        raise TargetError(
            f"the {self.name} is not up after {START_S:g} s: free this machine's cores, or see {self.log}"
        )


def start_served(name: str, arguments: Sequence[str]) -> Served:
    """Start `python -m …` with `arguments`, a server that prints its address; it logs into `build/`."""
    log = paths.BUILD / "logs" / f"{name.replace(' ', '-')}-{os.getpid()}-{time.time_ns()}.log"
    command = [sys.executable, "-m", *arguments]
    process = start_owned(command, log, environment=dict(os.environ), cwd=paths.ROOT, grace_s=GRACE_S)
    return Served(name, process, log)


@contextmanager
def serving(name: str, arguments: Sequence[str]) -> Iterator[Served]:
    """`start_served`, ended with the block."""
    server = start_served(name, arguments)
    try:
        yield server
    finally:
        server.process.stop()


def on_socket(target: Target) -> Target:
    """The twin as `serve twin` serves it, in real time and from a process of its own.

    Any other target is on a socket already and comes back as it is. The process starts with the first use of
    `connection` and ends with `close`.
    """
    if target.kind != "twin":
        return target

    def connect() -> Connection:
        told = target.connection
        server = start_served("twin", ["nlqlib", "serve", "twin", *_options(target)])
        endpoint = replace(told.endpoint, base_url=f"{server.root}/v1")
        pages = (f"{server.root}/metrics",)
        return Connection(endpoint, None, pages, told.engine, lambda: _end(server))

    return replace(
        target,
        kind="url",
        clock="real",
        declared={**target.declared, "clock": "real"},
        connect=connect,
        new_loop=uvloop.new_event_loop,
        variant=None,
    )


def _end(server: Served) -> None:
    server.process.stop()


def _options(target: Target) -> list[str]:
    """What the target declares, as options of the command line."""
    said = target.declared
    given = {
        "--twin": os.environ.get("TWIN") or said.get("twin") or DEFAULT,
        "--words": said["words"],
        "--output-tokens": said.get("output_tokens"),
        "--output-sd": said.get("output_sd"),
        "--seed": said.get("seed"),
    }
    return [word for name, value in given.items() if value is not None for word in (name, str(value))]
