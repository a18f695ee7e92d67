"""What each load generator makes of a server whose answers take 50 ms, and what that costs.

A tool's load is judged by the *server's* clock and count, so that no tool is believed about itself: ideal is
the time that waves of N answers of 50 ms take. Processor time is the difference between a long and a short
run, so that a tool's start-up is not held against it: of the whole process, but of ours from the load's begin
to its end, since the imports of two runs differ by more than a few thousand requests cost.
"""

import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from nlqlib import paths
from nlqlib.load.health import CLIENT

LATENCY_S, TOKENS = 0.050, 8
WAVES, SHORT_WAVES = 100, 10
"""A long run lasts 5 s, a short one half a second."""
START_S, TOOL_S = 20.0, 300.0
READY = re.compile(r"(http://\S+)/v1")
SUSPECT = 0.95
"""Below this share of the ideal, a client of ours must name itself as the limit."""


class BenchError(RuntimeError):
    """A server or a tool did not do its part; the text is what it said last."""


@dataclass(frozen=True)
class Tool:
    """A load generator: the command that offers `requests` with `concurrency` in flight to a root address."""

    name: str
    command: Callable[[str, int, int, bool], Sequence[str]]
    ours: bool = False


@dataclass(frozen=True)
class Cost:
    """One tool at one concurrency."""

    tool: str
    concurrency: int
    stream: bool
    requests: int
    achieved: float
    """Share of the ideal throughput, ramp and drain included."""
    cpu_s_per_1000: float
    """Processor seconds of the tool for each 1,000 requests, start-up excluded."""
    server_in_flight: float
    """Mean in flight by the server's count: less than N by what the tool spends between two requests."""
    server_peak: int
    server_cpu_s_per_1000: float
    told_peak: int | None = None
    """Most in flight at once by the tool's own count; `None`: not asked."""
    first_request_s: float | None = None
    """From the start of the load to the first request at the server (ours only)."""
    client_limits: tuple[str, ...] = ()
    """Rules by which the tool says that it was itself the limit (ours only)."""


@contextmanager
def fixed_server(latency_s: float = LATENCY_S, tokens: int = TOKENS) -> Iterator[str]:
    """The root address of the server in a process of its own, until the block ends."""
    command = [sys.executable, "-m", "benchmarks.fixed_server"]
    command += ["--latency", str(latency_s), "--tokens", str(tokens)]
    with tempfile.TemporaryFile() as log:
        server = subprocess.Popen(command, cwd=paths.ROOT, stdout=subprocess.PIPE, stderr=log, text=True)
        assert server.stdout is not None
        try:
            found = READY.search(server.stdout.readline())
            if found is None:
                log.seek(0)
                raise BenchError(f"the server did not come up: {log.read().decode(errors='replace')[-500:]}")
            yield found[1]
        finally:
            server.terminate()
            server.wait(START_S)


def asked(url: str, post: bool = False) -> Any:
    """The JSON at `url`."""
    request = urllib.request.Request(url, data=b"" if post else None, method="POST" if post else "GET")
    with urllib.request.urlopen(request, timeout=START_S) as response:
        return json.load(response)


@dataclass(frozen=True)
class Ran:
    """One run of a tool: its processor seconds, what it printed, and what the server counted."""

    cpu_s: float
    said: str
    server: dict[str, Any]
    server_cpu_s: float


def ran(tool: Tool, root: str, concurrency: int, requests: int, stream: bool) -> Ran:
    """Run the tool to its end. Raises `BenchError` if it fails or does not send what it was told to."""
    before = asked(f"{root}/reset", post=True)
    command = list(tool.command(root, concurrency, requests, stream))
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "said", "w+b") as out:
        where = paths.ROOT if tool.ours else folder  # others leave their reports where they run
        process = subprocess.Popen(command, cwd=where, stdout=out, stderr=subprocess.STDOUT)
        status, used = _waited(process, TOOL_S)
        out.seek(0)
        said = out.read().decode(errors="replace")
    seen = asked(f"{root}/stats")
    wrong = seen["requests"] != requests if tool.ours else seen["requests"] < requests
    if status or wrong:
        raise BenchError(
            f"{tool.name} ended with status {status} after {seen['requests']} of {requests} requests: "
            f"{said[-500:]}"
        )
    return Ran(used.ru_utime + used.ru_stime, said, seen, seen["cpu_s"] - before["cpu_s"])


def _waited(process: "subprocess.Popen[bytes]", limit_s: float) -> tuple[int, Any]:
    """Exit status and resources of `process` with all it waited for; it is ended after `limit_s`."""
    until = time.monotonic() + limit_s
    while True:
        pid, status, used = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            return process.returncode, used
        if time.monotonic() > until:
            process.kill()
        time.sleep(0.02)


def cost(
    tool: Tool,
    root: str,
    concurrency: int,
    stream: bool = False,
    waves: int = WAVES,
    latency_s: float = LATENCY_S,
    short: int = SHORT_WAVES,
) -> Cost:
    """Measure one tool at one concurrency, `waves` long and `short` waves, on answers of `latency_s`."""
    short, n = short * concurrency, waves * concurrency
    little = ran(tool, root, concurrency, short, stream)
    long = ran(tool, root, concurrency, n, stream)
    short, n = little.server["requests"], long.server["requests"]
    told, before = (json.loads(r.said.splitlines()[-1]) if tool.ours else {} for r in (long, little))
    used = told["cpu_s"] - before["cpu_s"] if tool.ours else long.cpu_s - little.cpu_s
    achieved = math.ceil(n / concurrency) * latency_s / long.server["span_s"]
    named = client_is_limit(achieved, long.server["mean_in_flight"] / concurrency) if tool.ours else ()
    return Cost(
        tool=tool.name,
        concurrency=concurrency,
        stream=stream,
        requests=n,
        achieved=achieved,
        cpu_s_per_1000=1000 * used / (n - short),
        server_in_flight=long.server["mean_in_flight"],
        server_peak=long.server["peak_in_flight"],
        server_cpu_s_per_1000=1000 * long.server_cpu_s / n,
        told_peak=told.get("peak_in_flight"),
        first_request_s=long.server["first_s"] - told["started_s"] if told else None,
        client_limits=(*told.get("client_limits", ()), *named),
    )


def client_is_limit(achieved: float, in_flight_share: float) -> tuple[str, ...]:
    """The rule that names the client where the server's latency is known; none: it kept up, or none of this.

    What a client spends inside a request looks to itself like the server's latency: neither a late loop nor a
    full core need show. But the server holds every request for the same time, so a client that falls behind
    leaves it with fewer than N (`in_flight_share` of them). Where that is the smaller part of what is
    missing, the server or the machine was late, and not the client.
    """
    short = 1 - achieved
    if achieved >= SUSPECT or 1 - in_flight_share < short / 2:
        return ()
    return (f"{CLIENT}in flight at the server / N",)


def ours(kind: str) -> Tool:
    """One of our two clients."""

    def command(root: str, concurrency: int, requests: int, stream: bool) -> list[str]:
        base = [sys.executable, "-m", "benchmarks.client_run", "--url", f"{root}/v1", "--client", kind]
        more = ["--concurrency", str(concurrency), "--requests", str(requests)]
        return base + more + (["--stream"] if stream else [])

    return Tool(f"nlqlib {kind}", command, ours=True)
