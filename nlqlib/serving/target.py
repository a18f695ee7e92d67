"""Where requests go: `twin`, `local` or the user's endpoint, each opened by one call.

A `Target` is cheap: nothing is started or contacted before the first request, so that points already
retained are reused without touching the network. Everything that differs between targets is in here;
nothing else knows which one it talks to.
"""

import math
import os
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from types import MappingProxyType
from typing import Any, Literal, TypeVar

import uvloop

from nlqlib.records import Clock, Json
from nlqlib.serving.client import Client, Endpoint, make_client
from nlqlib.serving.endpoint import parse_address
from nlqlib.serving.running import NewLoop, run

T = TypeVar("T")
Kind = Literal["twin", "local", "url"]
TIMEOUT_S = 600.0
MEASUREMENT_VERSION = "1"
"""Bumped by hand when a change voids what was measured on a real endpoint; ordinary edits must not."""


class TargetError(RuntimeError):
    """The target cannot be used as it was named; says what to set."""


@dataclass(frozen=True)
class Target:
    """One endpoint to be studied."""

    name: str
    """Names its artifacts: `twin`, `local` or `TARGET_NAME`; never a host."""
    kind: Kind
    clock: Clock
    can: frozenset[str]
    """Which of `restart`, `set_limits`, `reset_cache`, `metrics` are possible."""
    declared: Json
    """Name, model and settings as declared before any contact: part of every fingerprint."""
    speaker: str | None
    """The model whose words are heard: the served one, or the recorded one on the twin."""
    connect: Callable[[], "Connection"] = field(repr=False, compare=False)
    models: str | None = None
    """The endpoint that is modelled, where it is not a real one."""
    new_loop: NewLoop = field(default=uvloop.new_event_loop, repr=False, compare=False)
    """Makes the event loop in which this target is measured."""
    variant: Callable[[Mapping[str, Any]], "Target"] | None = field(default=None, repr=False, compare=False)
    place: str | None = field(default=None, repr=False, compare=False)
    """Scheme, host, port and path of an endpoint by URL, in one spelling; stays in memory."""
    learnt: dict[str, str] = field(default_factory=dict, repr=False, compare=False)
    """What it was found to take while this process measured it, such as `contract`."""

    @cached_property
    def connection(self) -> "Connection":
        """The live endpoint; the first use starts or reaches it."""
        return self.connect()

    @property
    def connected(self) -> bool:
        return "connection" in self.__dict__

    @property
    def tag(self) -> Literal["replayed", "measured"]:
        """How answers of this target must be named wherever they are shown."""
        return "replayed" if self.kind == "twin" else "measured"

    @property
    def time_tag(self) -> Literal["modelled", "measured"]:
        """How times, and all that follows from them, must be named."""
        return "modelled" if self.kind == "twin" else "measured"

    @property
    def profile(self) -> Literal["full", "quick"]:
        """The default profile: `quick` where every request costs seconds."""
        return "quick" if self.kind == "local" else "full"

    @property
    def instance(self) -> str:
        """Names the endpoint in its artifacts, without host or key."""
        return f"{self.kind}-{self.name}"

    @property
    def lock_id(self) -> str:
        """What only one run at a time may measure: the URL, however it is named; else this user's engine.

        Only a hash of it is ever written (`locking.EndpointLock`), in the cache folder the engine lives in.
        """
        return self.place or self.instance

    def client(self, kind: Literal["wire", "openai"] = "wire") -> Client:
        """A client of this endpoint; it belongs to the loop that is running."""
        there = self.connection
        return make_client(kind, there.endpoint, app=there.app)

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """The result of `coroutine` on a loop of this target's clock."""
        return run(coroutine, self.new_loop)

    def engine(self, **flags: Any) -> "Target":
        """A variant of this target with other settings and a fresh engine; raises `TargetError`."""
        if self.variant is None:
            raise TargetError(
                f"the engine of target {self.name} is not ours to restart: deploy it with these settings and "
                "run the notebook once for each deployment"
            )
        return self.variant(flags)

    def limited(self, router: int | None = None, replica: int | None = None, **more: Any) -> "Target":
        """This target behind a gateway with these limits; see `limited_target.Admission` for `more`."""
        from nlqlib.serving.limited_target import Admission, limited  # it makes targets of targets

        return limited(self, Admission(router, replica, **more))

    def close(self) -> None:
        """Let go of the endpoint; an engine that this target started ends here."""
        if self.connected:
            self.connection.close()


@dataclass(frozen=True)
class Connection:
    """A reachable endpoint."""

    endpoint: Endpoint
    app: Any = None
    """The ASGI application, when the endpoint is in this process."""
    metrics_urls: tuple[str, ...] = ()
    engine: Json = field(default_factory=dict)
    """What is known of an engine we started: version, arguments, start-up phases, accelerator."""
    close: Callable[[], None] = lambda: None


def open_target(spec: str | None = None, progress: Callable[[str], None] = print) -> Target:
    """The target named by `spec`: `twin`, `local`, an http(s) URL, or `TARGET_NAME` of the environment.

    Without `spec` the environment's `TARGET` decides, else `twin`. Raises `TargetError`.
    """
    spec = spec or os.environ.get("TARGET") or "twin"
    if spec == "twin":
        from nlqlib.serving.twin_target import open_twin  # builds targets, which are defined here

        return open_twin()
    if spec == "local":
        return _local(progress)
    url = _url_named(spec)
    if not url:
        raise TargetError(
            f"unknown target {spec!r}: use twin, local, or the URL of an OpenAI-compatible endpoint "
            "such as https://host/v1"
        )
    return _url(url)


def _local(progress: Callable[[str], None], flags: Mapping[str, Any] = MappingProxyType({})) -> Target:
    from nlqlib.serving.engine import start_engine  # only this target needs what installs and starts engines
    from nlqlib.serving.engine_settings import settings as wanted_engine

    settings = wanted_engine(**flags)

    def connect() -> Connection:
        started = start_engine(settings, progress=progress)
        endpoint = Endpoint(started.base_url, settings.model, timeout_s=TIMEOUT_S)
        root = started.base_url.removesuffix("/v1")
        return Connection(endpoint, None, (f"{root}/metrics",), started.describe(), started.stop)

    return Target(
        name="local",
        kind="local",
        clock="real",
        can=frozenset({"restart", "set_limits", "reset_cache", "metrics"}),
        declared={"name": "local", "model": settings.model, "settings": settings.declared()},
        speaker=settings.model,
        connect=connect,
        variant=lambda more: _local(progress, {**flags, **more}),
    )


def _url_named(spec: str) -> str:
    """`spec` if it is a URL; the URL in the environment whose name it is; else nothing."""
    env = os.environ
    if "://" in spec or spec != (env.get("TARGET_NAME") or "endpoint"):
        return spec if "://" in spec else ""
    return next((url for name in ("TARGET_URL", "TARGET") if "://" in (url := env.get(name, ""))), "")


def _url(url: str) -> Target:
    env = os.environ
    name, model = env.get("TARGET_NAME") or "endpoint", env.get("MODEL") or None
    endpoint = Endpoint(
        url.rstrip("/"),
        model,
        api_key_env=env.get("API_KEY_ENV") or None,
        ca_file=env.get("CA_FILE") or None,
        timeout_s=_timeout_s(env.get("TIMEOUT_S") or str(TIMEOUT_S)),
    )
    told = env.get("METRICS_URLS") or env.get("METRICS_URL") or ""
    metrics = tuple(u for u in told.split(",") if u)
    return Target(
        name=name,
        kind="url",
        clock="real",
        can=frozenset({"metrics"} if metrics else ()),
        declared={"name": name, "model": model},
        speaker=model,
        connect=lambda: _with_model(Connection(endpoint, None, metrics)),
        place=one_spelling(endpoint.base_url),
    )


def _timeout_s(told: str) -> float:
    try:
        seconds = float(told)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < math.inf:
        raise TargetError(f"TIMEOUT_S={told} is no number of seconds: write 600 for ten minutes")
    return seconds


LOOPBACK = ("localhost", "127.0.0.1", "::1")


def one_spelling(url: str) -> str:
    """Scheme, host, port and path of `url`, equal for all spellings of one place.

    Raises `EndpointError` for a URL that is no base URL, or carries a key.
    """
    at = parse_address(url)
    host = LOOPBACK[0] if at.host in LOOPBACK else at.host.rstrip(".")
    return f"{at.scheme}://{host}:{at.port}{at.prefix}"


def _with_model(there: Connection) -> Connection:
    """`there` with a model: the declared one, or the only one that is served. Raises `TargetError`."""
    if there.endpoint.model is not None:
        return there
    from nlqlib.serving.identity import sole_model  # identity reads connections, which are defined here

    return replace(there, endpoint=replace(there.endpoint, model=run(sole_model(there))))
