"""The twin on a socket, in real time, as a process of its own."""

import re
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.app_server import listen
from nlqlib.serving.client import Endpoint, make_client
from nlqlib.serving.running import run
from nlqlib.serving.target import TargetError
from nlqlib.serving.twin_target import recordings

COMMAND = [sys.executable, "-m", "nlqlib", "serve", "twin", "--words", "synthetic", "--output-tokens", "6"]


@pytest.fixture(scope="module")
def server() -> Iterator[tuple[subprocess.Popen[str], str, str]]:
    process = subprocess.Popen([*COMMAND, "--output-sd", "0"], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    said = process.stdout.readline() + process.stdout.readline()
    root = re.search(r"http://127\.0\.0\.1:\d+", said)
    assert root is not None, said
    yield process, root.group(), said
    process.kill()
    process.wait()


def ask(root: str, stream: bool) -> Completion:
    async def go() -> Completion:
        client = make_client("wire", Endpoint(f"{root}/v1", recordings().model))
        try:
            return await client.complete(
                ChatRequest("r", ({"role": "user", "content": "hi"},), stream=stream)
            )
        finally:
            await client.aclose()

    return run(go())


def test_it_says_what_is_modelled_and_what_is_not(server: tuple[object, str, str]) -> None:
    said = server[2]
    assert "times modelled (Qwen2.5-3B-Instruct on one NVIDIA L4" in said
    assert "lengths drawn (6 ± 0 tokens)" in said


@pytest.mark.parametrize("stream", [False, True])
def test_it_takes_the_time_of_the_modelled_engine(server: tuple[object, str, str], stream: bool) -> None:
    done = ask(server[1], stream)
    assert (done.outcome, done.output_tokens) == ("ok", 6)
    assert done.e2e_s is not None and done.e2e_s > 0.07 + 5 * 0.027


def test_ctrl_c_ends_it(server: tuple["subprocess.Popen[str]", str, str]) -> None:
    server[0].send_signal(signal.SIGINT)
    assert server[0].wait(timeout=10) == 130


def test_a_port_that_is_taken_is_said_so() -> None:
    with listen(None) as first:
        port = first.getsockname()[1]
        with pytest.raises(TargetError, match="another one with --port"):
            listen(port)
