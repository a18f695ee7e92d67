"""A coroutine runs to its end on a loop of its own; interrupting it lets it clean up."""

import asyncio
import signal
import subprocess
import sys

import pytest

from nlqlib.serving.running import run


async def double(x: int) -> int:
    await asyncio.sleep(0)
    return 2 * x


def test_returns_the_result() -> None:
    assert run(double(21)) == 42


def test_raises_what_the_coroutine_raises() -> None:
    async def fail() -> None:
        raise LookupError("no such row")

    with pytest.raises(LookupError, match="no such row"):
        run(fail())


def test_works_where_a_loop_already_runs() -> None:
    async def like_jupyter() -> int:
        return run(double(4))

    assert asyncio.run(like_jupyter()) == 8


def test_ctrl_c_cancels_and_lets_the_coroutine_clean_up() -> None:
    program = """
import asyncio
from nlqlib.serving.running import run
async def long():
    try:
        await asyncio.sleep(0.5)  # until the main thread waits: before that an interrupt ends it at once
        print("started", flush=True)
        await asyncio.sleep(600)
    finally:
        print("cleaned up", flush=True)
run(long())
"""
    child = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "started\n"
    child.send_signal(signal.SIGINT)
    out, err = child.communicate(timeout=30)
    assert out == "cleaned up\n", err
    assert "KeyboardInterrupt" in err
