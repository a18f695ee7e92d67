"""A real vLLM server on this machine: started once, shared, and gone when its owner is gone.

`start_engine` installs what is missing, attaches to an equal engine that already runs, refuses a different
one, or starts one under `supervisor` and waits until it answers, noting how long each phase took.
"""

import contextlib
import dataclasses
import os
import signal
import socket
import time
import types
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from nlqlib import paths
from nlqlib.records import Json
from nlqlib.serving import engine_state, supervisor
from nlqlib.serving.cache_entry import Progress
from nlqlib.serving.engine_health import POLL_S, Watch, answers, await_ready, serves
from nlqlib.serving.engine_install import ensure_engine, progress_line
from nlqlib.serving.engine_settings import (
    EngineError,
    EngineSettings,
    Flag,
    gpu_names,
    merge_flags,
    serve_command,
    serve_environment,
    settings,
)
from nlqlib.serving.owned import OwnedProcess, last_words, start_owned

__all__ = ["Engine", "EngineError", "EngineSettings", "serve_forever", "settings", "start_engine"]

DEADLINE_S = 900.0
"""A cold disk, a slow machine and a GPU build that compiles together stay below this."""
GRACE_S = 10.0
"""What vLLM gets to end in order; it needs about 2 s."""
ENDING_S = 60.0
NOTED_S = 5.0
"""After its first answer, within which whoever started an engine notes how long that took."""
KEEP_LOGS = 10


@dataclass(frozen=True)
class Launch:
    """What is to be executed."""

    command: tuple[str, ...]
    environment: Mapping[str, str]


Prepare = Callable[[EngineSettings, Progress], Callable[[int], Launch]]


@dataclass
class Engine:
    """A server that answers. As a context manager it is stopped at the end if it is ours."""

    settings: EngineSettings
    port: int
    pid: int
    log: Path
    startup_s: Json | None
    """Seconds of each start-up phase in order, with `ready` and `total`; `None` when not known."""
    process: OwnedProcess | None = field(default=None, repr=False)

    @property
    def owned(self) -> bool:
        """Whether it ends with this process; `False` for one that somebody else started."""
        return self.process is not None

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def model(self) -> str:
        """The name under which the model is served."""
        return self.settings.model

    def describe(self) -> Json:
        """What is known of it, for artifacts: no path, no port, no process id."""
        wanted = self.settings.declared()
        return {
            "engine": wanted.pop("engine"),
            "version": wanted.pop("engine_version"),
            "args": wanted.pop("flags"),
            **wanted,
            "startup_s": self.startup_s,
            "owned": self.owned,
            "accelerator": ", ".join(gpu_names()) or None if self.settings.build == "gpu" else None,
        }

    def stop(self) -> None:
        """End it and everything it started, if it is ours; returns once nothing is left."""
        if self.process:
            self.process.stop()

    def __enter__(self) -> "Engine":
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


def start_engine(
    wanted: EngineSettings | None = None,
    *,
    port: int | None = None,
    progress: Progress = progress_line,
    deadline_s: float = DEADLINE_S,
    prepare: Prepare | None = None,
    **flags: Flag,
) -> Engine:
    """A server with the `wanted` settings (by default the environment's) and `flags` that answers.

    `prepare` says what to execute once the port is known; by default vLLM, installed if need be. Raises
    `EngineError`: a different engine runs, the port is taken, it died (last lines follow), or it is too late.
    """
    wanted = wanted or settings()
    wanted = dataclasses.replace(wanted, flags=merge_flags(wanted.flags, flags))
    launch = None
    while True:
        if found := _settled(progress):
            engine_state.refuse_unless_same(found, wanted, port)
            return _attach(wanted, found, progress, deadline_s)
        launch = launch or (prepare or _installed)(wanted, progress)
        with supervisor.locked(engine_state.lock_file()):
            if engine_state.running() is None:  # else another start was quicker
                begin = time.monotonic()
                process, chosen = _spawn(wanted, launch, port)
                break
    engine = Engine(wanted, chosen, process.pid, process.log, None, process)
    with contextlib.ExitStack() as starting:
        starting.callback(engine.stop)
        engine.startup_s = await_ready(process, chosen, begin=begin, deadline_s=deadline_s, progress=progress)
        _check_serves(engine)
        engine_state.record_startup(engine.pid, engine.startup_s)
        starting.pop_all()  # it serves: from here on its owner ends it
    progress(f"engine: {wanted.package} {wanted.version} ready after {engine.startup_s['total']:.0f} s")
    return engine


def serve_forever(
    wanted: EngineSettings | None = None,
    *,
    port: int | None = None,
    progress: Progress = progress_line,
    prepare: Prepare | None = None,
) -> int:
    """Serve in the foreground until Ctrl-C or SIGTERM; the exit status. Raises `EngineError`."""
    with _terminable():
        try:
            with start_engine(wanted, port=port, progress=progress, prepare=prepare) as engine:
                progress(f"{engine.model} at {engine.base_url}")
                if not engine.process:
                    progress(f"engine: it ran already (process {engine.pid}) and goes on without us")
                    return 0
                progress("engine: Ctrl-C ends it")
                while engine.process.poll() is None:
                    time.sleep(POLL_S)
                raise EngineError(f"the engine ended; {last_words(engine.log)}")
        except KeyboardInterrupt:
            progress("engine: ended")
            return 130


def free_port() -> int:
    """A port of the loopback that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _installed(wanted: EngineSettings, progress: Progress) -> Callable[[int], Launch]:
    ready = ensure_engine(wanted, progress)
    environment = serve_environment(wanted, os.environ, os.sched_getaffinity(0))
    return lambda port: Launch(serve_command(wanted, ready.python, ready.model, port), environment)


def _settled(progress: Progress) -> engine_state.RunningEngine | None:
    """The running engine, if any; waits for one that is just ending."""
    begin = time.monotonic()
    told = False
    while (found := _running()) and found.ending:
        if not told:
            progress("engine: waiting for the previous one to end")
        told = True
        if time.monotonic() - begin > ENDING_S:
            raise EngineError(f"the previous engine (process {found.pid}) does not end; end it and try again")
        time.sleep(POLL_S)
    return found


def _running() -> engine_state.RunningEngine | None:
    with supervisor.locked(engine_state.lock_file()):
        return engine_state.running()


def _spawn(
    wanted: EngineSettings, launch: Callable[[int], Launch], port: int | None
) -> tuple[OwnedProcess, int]:
    chosen = port or free_port()
    _check_free(chosen)
    plan = launch(chosen)
    run = paths.cache_dir() / "run"
    run.mkdir(parents=True, exist_ok=True)
    process = start_owned(
        plan.command,
        _fresh_log(),
        environment=plan.environment,
        cwd=run,
        grace_s=GRACE_S,
        state=engine_state.state_file(),
        facts={"port": chosen, "declared": wanted.declared()},
    )
    return process, chosen


def _attach(
    wanted: EngineSettings, found: engine_state.RunningEngine, progress: Progress, deadline_s: float
) -> Engine:
    progress(f"engine: attaching to the one on port {found.port} (process {found.pid})")
    watch = Watch(found.log, progress, time.monotonic())
    while not answers(found.port):
        if _again(found) is None:
            raise EngineError(f"the engine we attached to ended; {last_words(found.log)}")
        if watch.step() > deadline_s:
            raise EngineError(f"the engine on port {found.port} does not answer; {last_words(found.log)}")
        time.sleep(POLL_S)
    engine = Engine(wanted, found.port, found.pid, found.log, _startup_of(found))
    _check_serves(engine)
    return engine


def _again(found: engine_state.RunningEngine) -> engine_state.RunningEngine | None:
    """What the state says of `found` by now; `None` when it has ended."""
    now = _running()
    return now if now and now.pid == found.pid else None


def _startup_of(found: engine_state.RunningEngine) -> Json | None:
    """Its start-up phases, which whoever started it notes a moment after its first answer."""
    deadline = time.monotonic() + NOTED_S
    now: engine_state.RunningEngine | None = found
    while now and now.startup_s is None and time.monotonic() < deadline:
        time.sleep(POLL_S)
        now = _again(found)
    return now.startup_s if now else None


def _check_serves(engine: Engine) -> None:
    if not serves(engine.port, engine.model):
        raise EngineError(f"the server on port {engine.port} does not serve {engine.model}; see {engine.log}")


def _check_free(port: int) -> None:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError as error:
            raise EngineError(f"port {port} cannot be used ({error.strerror}); choose another") from error


def _fresh_log() -> Path:
    """A new log in the cache; the oldest ones go."""
    folder = paths.cache_dir() / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    for old in sorted(folder.glob("engine-*.log"))[: -KEEP_LOGS + 1]:
        old.unlink(missing_ok=True)
    log = folder / f"engine-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}.log"
    log.touch()
    return log


@contextlib.contextmanager
def _terminable() -> Iterator[None]:
    """SIGTERM ends the block as Ctrl-C does."""

    def interrupt(_number: int, _frame: types.FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
