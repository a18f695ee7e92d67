"""One closed loop of one of our clients, in a process of its own, so that its cost is seen.

`python -m benchmarks.client_run --url http://…/v1 --client wire --concurrency 32 --requests 3200 [--stream]`
prints one JSON object: what the client says of its own run.
"""

import argparse
import json
import sys
import time
from typing import Any

from nlqlib.load.closed_loop import LoadRun, closed_loop, cycled
from nlqlib.load.health import client_limits
from nlqlib.records import ChatRequest
from nlqlib.serving.client import Endpoint, make_client
from nlqlib.serving.running import run

PROMPT = "How many orders were there in 2024, by region and by month, and which of them were cancelled?"
TIMEOUT_S = 60.0


async def load(url: str, kind: Any, concurrency: int, requests: int, stream: bool) -> LoadRun:
    """The run, with a client of its own."""
    asked = ChatRequest("bench", ({"role": "user", "content": PROMPT},), 64, stream=stream)
    client = make_client(kind, Endpoint(url, "fixed", timeout_s=TIMEOUT_S))
    try:
        return await closed_loop(client, cycled([asked]), concurrency, requests)
    finally:
        await client.aclose()


def told(found: LoadRun, started_s: float, cpu_s: float) -> dict[str, Any]:
    """What the run says of itself: in flight, failures, its processor time, and whether it was the limit."""
    return {
        "started_s": started_s,
        "cpu_s": cpu_s,
        "ok": sum(c.outcome == "ok" for c in found.completions),
        "peak_in_flight": found.health.peak_in_flight,
        "client_limits": [rule.rule for rule in client_limits(found.rules())],
        "cpu_share": found.health.cpu_share,
        "loop_lag_p99_s": found.health.loop_lag_p99_s,
    }


def main() -> int:
    parser = argparse.ArgumentParser("python -m benchmarks.client_run", description=__doc__)
    parser.add_argument("--url", required=True)
    parser.add_argument("--client", choices=("wire", "openai"), default="wire")
    parser.add_argument("--concurrency", type=int, required=True)
    parser.add_argument("--requests", type=int, required=True)
    parser.add_argument("--stream", action="store_true")
    args = parser.parse_args()
    started_s, before_s = time.monotonic(), time.process_time()
    found = run(load(args.url, args.client, args.concurrency, args.requests, args.stream))
    print(json.dumps(told(found, started_s, time.process_time() - before_s)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
