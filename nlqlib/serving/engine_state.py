"""The one engine that runs on this machine, as its state file in the cache tells it.

A state counts only while both the engine and its supervisor live, each named by process id *and* start time,
since ids are reused. Anything else is stale: the file is removed, and what is left of that engine ended if it
ran since the system was last started.
"""

import contextlib
from dataclasses import dataclass
from pathlib import Path

from nlqlib import paths
from nlqlib.records import Json
from nlqlib.serving import supervisor
from nlqlib.serving.engine_settings import EngineError, EngineSettings


@dataclass(frozen=True)
class RunningEngine:
    """What the state file says of a live engine."""

    pid: int
    owner: int
    """Process that started it, and whose end ends it."""
    port: int
    log: Path
    declared: Json
    """`EngineSettings.declared()` of the engine that runs."""
    startup_s: Json | None
    """Seconds of each phase; `None` while it is starting."""
    ending: bool = False
    """Its owner let go of it or is dead: it will be gone in seconds."""


def state_file() -> Path:
    """Where the state is kept; the lock that guards it lies beside it."""
    return paths.cache_dir() / "run" / "engine.json"


def lock_file() -> Path:
    """Held while the state is judged and an engine is spawned, not while it starts up."""
    return state_file().with_suffix(".lock")


def running() -> RunningEngine | None:
    """The live engine, if there is one; a stale state is cleaned. Call with the lock held."""
    state = supervisor.read_state(state_file())
    if state is None:
        return None
    elsewhere = state.get("boot") not in (None, supervisor.boot())
    if elsewhere or not (_lives(state, "pid") and _lives(state, "supervisor")):
        _clean(state)
        return None
    return RunningEngine(
        pid=state["pid"],
        owner=state["owner"],
        port=state["port"],
        log=Path(state["log"]),
        declared=state["declared"],
        startup_s=state.get("startup_s"),
        ending=bool(state.get("ending")) or not _lives(state, "owner"),
    )


def record_startup(pid: int, startup_s: Json) -> None:
    """Add the phase times to the state of engine `pid`, for those who attach to it, if the disk allows."""
    with contextlib.suppress(OSError), supervisor.locked(lock_file()):
        state = supervisor.read_state(state_file())
        if state and state.get("pid") == pid:
            supervisor.write_state(state_file(), state | {"startup_s": startup_s})


def refuse_unless_same(found: RunningEngine, wanted: EngineSettings, port: int | None) -> None:
    """Raise `EngineError`, naming what differs, unless the running engine is the wanted one."""
    differing = _differences(found.declared, wanted.declared())
    if port not in (None, found.port):
        differing.append(f"port {found.port}, not {port}")
    if differing:
        raise EngineError(
            f"another engine is running on port {found.port} with {'; '.join(differing)}. Stop it first: "
            f"Ctrl-C where it was started, or `kill {found.owner}` (the process that owns it)"
        )


def _differences(has: Json, wanted: Json) -> list[str]:
    """Phrases `name has, not wanted` for every setting and flag that differs."""
    pairs = [("flags", has.get("flags", {}), wanted.get("flags", {})), ("", has, wanted)]
    return [
        f"{name} {_said(old, name)}, not {_said(new, name)}"
        for group, old, new in pairs
        for name in sorted(old.keys() | new.keys())
        if (group or name != "flags") and old.get(name) != new.get(name)
    ]


def _said(group: Json, name: str) -> str:
    return str(group[name]) if name in group else "unset"


def _lives(state: Json, role: str) -> bool:
    pid, start = state.get(role), state.get(f"{role}_start")
    return isinstance(pid, int) and start is not None and supervisor.process_start(pid) == start


def _clean(state: Json) -> None:
    """Remove the state, and end what is left of its engine where its ids are known to be this system's run's.

    After a restart of the system, or in another container, the same id may be that of anybody's daemon.
    """
    pid = state.get("pid")
    if isinstance(pid, int) and state.get("boot") is not None and state["boot"] == supervisor.boot():
        supervisor.end_remains(pid, state.get("pid_start"), 0)
    state_file().unlink(missing_ok=True)
