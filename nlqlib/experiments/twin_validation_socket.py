"""How many requests a second the twin serves on a socket, in real time and from a process of its own.

256 requests in flight against answers of 50 ms: 5,120 requests a second are possible, and what is missing is
what the server (or the client, on the other core) cannot do.
"""

import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from nlqlib import paths
from nlqlib.analysis.latency import latency_summary, throughput_window
from nlqlib.experiments.twin_validation_check import Check
from nlqlib.experiments.twin_validation_speed import REPEATS, Speed, best
from nlqlib.load.closed_loop import LoadRun, closed_loop, cycled
from nlqlib.records import ChatRequest
from nlqlib.serving.client import Endpoint, make_client
from nlqlib.serving.running import run
from nlqlib.serving.target import open_target
from nlqlib.twin import model

IN_FLIGHT, SERVICE_S, BOUND = 256, 0.050, 4700
TOKENS, STEP_S = 10, 0.001
"""Answers of ten tokens in steps of 1 ms; the rest of the 50 ms is the way in and out."""
REQUESTS = 20_000
WARM_UP_WAVES = 4
START_S, LOOK_S = 60.0, 0.05
"""How long the server may take to come up, and how often is looked."""
TIMEOUT_S = 10.0
"""An answer of 50 ms that takes this long is a failure."""
READY = re.compile(r"(http://\S+)/v1")
PROMPT = ChatRequest("socket", ({"role": "user", "content": "How many orders were there in 2024?"},), TOKENS)


class ServerError(RuntimeError):
    """The served twin did not come up; the text is what it said."""


def document() -> str:
    """A twin whose engine takes 256 sequences at once and whose answers take 50 ms, alone or together."""
    stored = model.document()
    engine = stored["engine"] | {"max_num_seqs": 2 * IN_FLIGHT}
    outside = {"frontend_s": 0.0, "network_s": SERVICE_S - TOKENS * STEP_S}
    return json.dumps(
        stored
        | {"name": "socket", "engine": engine, "outside": outside, "step_time": {"fixed_s": STEP_S}}
        | {"observations": []}
    )


@contextmanager
def served() -> Iterator[str]:
    """The root address of that twin, served as `serve twin` serves it, until the block ends.

    Raises `ServerError` when it does not come up.
    """
    with tempfile.TemporaryDirectory() as folder:
        path, log = Path(folder) / "socket.json", Path(folder) / "server.log"
        path.write_text(document(), "utf-8")
        words = ("--words", "synthetic", "--output-tokens", str(TOKENS), "--output-sd", "0")
        command = [sys.executable, "-m", "nlqlib", "serve", "twin", "--twin", str(path), *words]
        with log.open("wb") as out:  # a pipe that nobody reads would stop the server once it is full
            server = subprocess.Popen(command, cwd=paths.ROOT, stdout=out, stderr=out)
        try:
            yield _address(server, log)
        finally:
            server.terminate()
            server.wait(10)


def _address(server: "subprocess.Popen[bytes]", log: Path) -> str:
    """What the server calls itself, once it says so."""
    for _ in range(round(START_S / LOOK_S)):
        ended = server.poll() is not None
        said = log.read_text("utf-8", "replace")
        if found := READY.search(said):
            return found[1]
        if ended:
            break
        time.sleep(LOOK_S)
    raise ServerError(f"`serve twin` does not serve: {' / '.join(said.splitlines()) or 'it said nothing'}")


def speed(requests: int = REQUESTS, repeats: int = REPEATS, in_flight: int = IN_FLIGHT) -> Speed:
    """The best of `repeats` runs; requests per second of wall time, ramp and drain outside."""
    with served() as root:
        return best([_once(root, requests, in_flight) for _ in range(repeats)])


def _once(root: str, requests: int, in_flight: int) -> Speed:
    done = run(_load(root, requests, in_flight))
    rate = throughput_window(done.completions, done.window) or 0.0
    mean = latency_summary(done.completions).mean_s or 0.0
    name = f"socket, {in_flight} in flight at 50 ms (mean {1e3 * mean:.1f} ms)"
    return Speed(name, rate, None, BOUND)


async def _load(root: str, requests: int, in_flight: int) -> LoadRun:
    client = make_client("wire", Endpoint(f"{root}/v1", open_target("twin").speaker, timeout_s=TIMEOUT_S))
    try:
        ahead = WARM_UP_WAVES * in_flight
        return await closed_loop(client, cycled([PROMPT]), in_flight, requests, lead_in=ahead)
    finally:
        await client.aclose()


def checks(requests: int = REQUESTS, repeats: int = REPEATS) -> list[Check]:
    """The row of `validate-twin`."""
    found = speed(requests, repeats)
    return [replace(found, name=f"socket, {IN_FLIGHT} in flight at 50 ms").check()]
