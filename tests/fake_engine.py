"""A stand-in for vLLM in tests of starting and ending: slow to start, with children, and little else.

`python fake_engine.py [serve MODEL | --model MODEL] --port P [--served-model-name N] [--fake-…]`. Other flags
are accepted and shown in the log like vLLM's. Its children: one in its group, one in a group of its own;
with `--fake-stubborn` they ignore SIGTERM, and it ends slowly.
"""

import json
import os
import signal
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

SLEEPER = "import time; time.sleep(300)"
STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); " + SLEEPER
LINES = (
    "Using max model len 4096",
    "Initializing a V1 LLM engine (v0) with config: none",
    "Starting to load model somewhere...",
    "Loading weights took 0.05 seconds",
    "CPU KV cache size: 149,760 tokens, Maximum concurrency for 4,096 tokens per request: 36.56x",
    "init engine (profile, create kv cache, warmup model) took 0.05 s",
    "Starting vLLM server on http://127.0.0.1:0",
)


def option(name: str, otherwise: str = "") -> str:
    """The word after `--name` on the command line."""
    return sys.argv[sys.argv.index(f"--{name}") + 1] if f"--{name}" in sys.argv else otherwise


def model() -> str:
    """The served name, as vLLM finds it."""
    given = sys.argv[sys.argv.index("serve") + 1] if "serve" in sys.argv else option("model", "none")
    return option("served-model-name", given)


class Handler(BaseHTTPRequestHandler):
    """GET /health and /v1/models."""

    def do_GET(self) -> None:
        body = json.dumps({"data": [{"id": model()}]}).encode() if self.path == "/v1/models" else b"{}"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the log holds start-up lines only."""


def main() -> None:
    """Start slowly, leave children behind, serve; or die as told."""
    print("non-default args:", json.dumps(sys.argv[1:]), flush=True)
    child = STUBBORN if "--fake-stubborn" in sys.argv else SLEEPER
    subprocess.Popen([sys.executable, "-c", child])
    subprocess.Popen([sys.executable, "-c", child], process_group=0)
    for line in LINES:
        time.sleep(float(option("fake-start-s", "0.35")) / len(LINES))
        print(line, flush=True)
    if status := option("fake-die"):
        print("RuntimeError: not enough memory for the KV cache", flush=True)
        os._exit(int(status))
    linger_s = 1.5 if "--fake-stubborn" in sys.argv else 0.0
    signal.signal(signal.SIGTERM, lambda *_: (time.sleep(linger_s), os._exit(0)))
    ThreadingHTTPServer(("127.0.0.1", int(option("port"))), Handler).serve_forever()


if __name__ == "__main__":
    main()
