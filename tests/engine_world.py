"""What the tests of starting and ending engines share: fake launches, owners to kill, who still lives."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path

from nlqlib.serving import supervisor
from nlqlib.serving.engine import Launch
from nlqlib.serving.engine_settings import EngineSettings

FAKE = Path(__file__).with_name("fake_engine.py")
HERE = Path(__file__).parent


def wanted(**flags: object) -> EngineSettings:
    """Settings of a CPU engine that no test installs."""
    return EngineSettings("cpu", "0.0", "some/model", flags=flags)


def fake(*more: str) -> Callable[..., Callable[[int], Launch]]:
    """A `prepare` for `start_engine` that runs the fake engine with `more` words on its command line."""

    def prepare(settings: EngineSettings, progress: object) -> Callable[[int], Launch]:
        start = (sys.executable, str(FAKE), "--model", settings.model)
        return lambda port: Launch((*start, "--port", str(port), *more), dict(os.environ))

    return prepare


def owner(code: str, **environment: str) -> "subprocess.Popen[str]":
    """Another process that runs `code` with this module's names; its first output line is awaited."""
    head = "import sys, os, time, signal\nfrom engine_world import *\nfrom nlqlib.serving.engine import *\n"
    process = subprocess.Popen(
        [sys.executable, "-c", head + textwrap.dedent(code)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(HERE), **environment},
        start_new_session=True,
    )
    return process


def await_gone(session: int, within_s: float = 8.0) -> list[int]:
    """Members of `session` that still live after at most `within_s`; empty is what a test wants."""
    deadline = time.monotonic() + within_s
    while (left := supervisor.session_members(session)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def await_true(found: Callable[[], bool], within_s: float = 8.0) -> None:
    """Wait until `found()` holds, or fail."""
    deadline = time.monotonic() + within_s
    while not found():
        assert time.monotonic() < deadline, "it did not come true"
        time.sleep(0.02)


def kill(pid: int) -> None:
    """The end that nothing can catch."""
    os.kill(pid, signal.SIGKILL)
