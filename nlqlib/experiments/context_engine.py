"""Lets an engine with other settings start on this machine, where one engine runs at a time.

The batch driver starts one engine for all its notebooks. A notebook that needs another one may end that one,
because it belongs to the same run; later notebooks start their own. An engine that somebody else serves is
never touched: starting another then fails, with the words that say what to do.
"""

import os
import signal
from collections.abc import Iterator
from pathlib import Path

from nlqlib.serving import engine_state, supervisor
from nlqlib.serving.target import Target


def make_room(target: Target) -> bool:
    """End the engine of `target` if it is ours, or our run's; whether one of the run was told to end."""
    target.close()
    return release()


def release() -> bool:
    """Tell the engine that a process above this one has started to end; `False` where there is none.

    Whoever starts an engine next waits until it is gone.
    """
    with supervisor.locked(engine_state.lock_file()):
        found = engine_state.running()
        state = supervisor.read_state(engine_state.state_file())
        if found is None or state is None or found.owner not in set(ancestors(os.getpid())):
            return False
        os.kill(state["supervisor"], signal.SIGTERM)
        supervisor.write_state(engine_state.state_file(), state | {"ending": True})
        return True


def ancestors(pid: int) -> Iterator[int]:
    """The processes above `pid`, its parent first."""
    while (pid := _parent(pid)) > 1:
        yield pid


def _parent(pid: int) -> int:
    """0 where the process is gone, or none is above it."""
    try:
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return 0
    return int(told.rpartition(")")[2].split()[1])
