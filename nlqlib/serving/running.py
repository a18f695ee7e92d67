"""Runs a coroutine for a target from ordinary code, also inside Jupyter, which already runs a loop."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")

NewLoop = Callable[[], asyncio.AbstractEventLoop]


def run(coroutine: Coroutine[Any, Any, T], new_loop: NewLoop = uvloop.new_event_loop) -> T:
    """The result of `coroutine`, run to its end on a loop of its own in a thread of its own.

    Ctrl-C cancels the coroutine, waits until it has let go of its sockets, and then is raised here.
    """
    done: Future[T] = Future()
    loop = new_loop()
    task = loop.create_task(coroutine)
    # an event, not `join`: an interrupted join takes the thread for ended, and the next one does not wait
    ended = threading.Event()
    thread = threading.Thread(target=_drive, args=(loop, task, done, ended), name="nlqlib-loop", daemon=True)
    thread.start()
    try:
        while not ended.wait(0.2):
            pass
    except KeyboardInterrupt:
        if not ended.is_set():
            loop.call_soon_threadsafe(task.cancel)
            ended.wait()
        raise
    return done.result()


def _drive(
    loop: asyncio.AbstractEventLoop, task: "asyncio.Task[T]", done: "Future[T]", ended: threading.Event
) -> None:
    asyncio.set_event_loop(loop)
    try:
        result = loop.run_until_complete(task)
    except asyncio.CancelledError:
        done.set_exception(KeyboardInterrupt())
    except BaseException as failure:
        done.set_exception(failure)
    else:
        done.set_result(result)
    finally:
        try:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()
        finally:
            ended.set()
