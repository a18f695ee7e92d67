"""Virtual time: an asyncio loop whose clock jumps to the next timer instead of waiting for it.

Nothing in it sleeps, so an hour of load takes as long as its events take to compute, and the same run gives
the same times. What would need the real world is refused or done at once: a socket is an error, a thread call
runs inline (a 2 ms call would let virtual minutes pass), and a loop with nothing left to do is a deadlock
that names who waits.
"""

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar, TypeVarTuple

T = TypeVar("T")
Args = TypeVarTuple("Args")

_SELF_PIPE = 1  # asyncio's own wake-up socket, always registered


class VirtualTimeError(RuntimeError):
    """The loop cannot go on in virtual time; the text says why and what to do."""


class DeadlockError(VirtualTimeError):
    """Tasks wait, and nothing is left that could wake them."""


class _Selector(selectors.DefaultSelector):
    """Polls, never waits; hands the waiting to `skip`, which moves the clock."""

    def __init__(self) -> None:
        super().__init__()
        self.skip: Callable[[float | None], None] = lambda timeout: None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout != 0:
            if len(self.get_map()) > _SELF_PIPE:
                raise VirtualTimeError(
                    "a socket is open in virtual time, where its answer would come hours late; "
                    "use the in-process transport, or a target that runs in real time"
                )
            self.skip(timeout)
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop that starts at 0.0 s and is never late."""

    virtual = True

    def __init__(self) -> None:
        selector = _Selector()
        super().__init__(selector)
        self._now = 0.0
        selector.skip = self._skip

    def time(self) -> float:
        """Virtual seconds since the loop was made."""
        return self._now

    def run_in_executor(self, executor: Any, func: Callable[[*Args], T], *args: *Args) -> asyncio.Future[T]:
        """`func(*args)` at once, in this thread; the future returned is done."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:  # as a pool does: whatever it is, it belongs to who awaits the future
            future.set_exception(error)
        return future

    def _skip(self, timeout: float | None) -> None:
        if timeout is None:
            raise DeadlockError(_who_waits(self))
        # The timer's own time: adding the timeout to the clock would miss it by a rounding error.
        timers = self._scheduled  # type: ignore[attr-defined]
        self._now = max(self._now, timers[0].when()) if timers else self._now + timeout


def is_virtual(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether `loop` keeps virtual time."""
    return isinstance(loop, VirtualLoop)


def run_virtual(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run `coroutine` in a virtual-time loop of its own; raises `DeadlockError` if it can never end."""
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        return runner.run(coroutine)


def _who_waits(loop: asyncio.AbstractEventLoop) -> str:
    tasks = sorted(asyncio.all_tasks(loop), key=lambda task: task.get_name())
    waiting = "; ".join(f"{task.get_name()} in {_where(task)}" for task in tasks if not task.done())
    return (
        "deadlock in virtual time: no timer and no callback is left, and these tasks wait for something "
        f"nobody will do: {waiting or 'none (the loop was asked to run with nothing to do)'}"
    )


def _where(task: asyncio.Task[Any]) -> str:
    """Function, file and line where `task` waits, the innermost of its coroutines."""
    inner: Any = task.get_coro()
    while getattr(inner, "cr_await", None) is not None and hasattr(inner.cr_await, "cr_frame"):
        inner = inner.cr_await
    frame = getattr(inner, "cr_frame", None)
    if frame is None:
        return repr(inner)
    return f"{inner.__qualname__} ({frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno})"
