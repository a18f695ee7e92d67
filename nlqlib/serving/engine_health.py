"""Whether an engine on the loopback answers, and the wait for its first answer along its log."""

import http.client
import itertools
import json
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from nlqlib.records import Json
from nlqlib.serving import startup
from nlqlib.serving.cache_entry import Progress
from nlqlib.serving.engine_settings import EngineError
from nlqlib.serving.owned import OwnedProcess

POLL_S = 0.25
SAY_EVERY_S = 10.0
ANSWER_S = 5.0
"""A busy engine still answers /health at once: its event loop does little else."""
LOOPBACK = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Proxy variables are for the outside."""


def answers(port: int) -> bool:
    """Whether GET /health on `port` says 200."""
    return _get(port, "/health") is not None


def serves(port: int, model: str) -> bool:
    """Whether `model` is among the served models."""
    try:
        listed = json.loads(_get(port, "/v1/models") or b"{}")
    except ValueError:
        return False
    return any(entry.get("id") == model for entry in listed.get("data", []))


def await_ready(
    process: OwnedProcess, port: int, *, begin: float, deadline_s: float, progress: Progress
) -> Json:
    """Wait until the server answers; seconds of each start-up phase since `begin` (monotonic).

    Raises `EngineError` with the last log lines when it dies or `deadline_s` passes.
    """
    watch = Watch(process.log, progress, begin)
    while not answers(port):
        now_s = watch.step()
        if (status := process.poll()) is not None:
            raise EngineError(f"the engine died while starting (status {status}); {process.last_words()}")
        if now_s > deadline_s:
            raise EngineError(f"the engine is not ready after {deadline_s:.0f} s; {process.last_words()}")
        time.sleep(POLL_S)
    return watch.phases()


def follow(log: Path) -> Iterator[list[str]]:
    """The lines finished since the last step, at each step; never half a line. Without a log, none."""
    rest = ""
    if not log.exists():
        yield from itertools.repeat([])
    with log.open(encoding="utf-8", errors="replace") as handle:
        while True:
            *whole, rest = (rest + handle.read()).split("\n")
            yield whole


@dataclass
class Teller:
    """Says what goes on: at a change at most once a second, otherwise every ten seconds."""

    progress: Progress
    _said: str = field(default="", init=False)
    _at_s: float = field(default=-1.0, init=False)

    def tell(self, doing: str, now_s: float) -> None:
        """Say `doing`, unless that was said a moment ago."""
        since = now_s - self._at_s
        if (doing != self._said and since >= 1) or since >= SAY_EVERY_S:
            self._said, self._at_s = doing, now_s
            self.progress(f"engine: {doing} … {now_s:.0f} s")


@dataclass
class Watch:
    """Follows the log of an engine that is starting, and says what goes on."""

    log: Path
    progress: Progress
    begin: float
    """Monotonic time from which its seconds count."""
    _ends_s: dict[str, float] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self._lines, self._teller = follow(self.log), Teller(self.progress)

    def step(self) -> float:
        """Read on, say what goes on now; seconds since `begin`."""
        now_s = self._read()
        self._teller.tell(startup.DOING[startup.current_phase(self._ends_s)], now_s)
        return now_s

    def phases(self) -> Json:
        """Seconds of each phase of a start that ends now, with what the log said since the last step."""
        ready_s = self._read()
        return startup.durations(self._ends_s, ready_s)

    def _read(self) -> float:
        now_s = time.monotonic() - self.begin
        for line in next(self._lines):
            if phase := startup.phase_ended_by(line):
                self._ends_s.setdefault(phase, now_s)
        return now_s


def _get(port: int, path: str) -> bytes | None:
    """The body of a 200 answer, else `None`."""
    try:
        with LOOPBACK.open(f"http://127.0.0.1:{port}{path}", timeout=ANSWER_S) as answer:
            return bytes(answer.read())
    except (urllib.error.URLError, OSError, http.client.HTTPException):
        return None
