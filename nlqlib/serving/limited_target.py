"""A target behind the gateway: admission limits of a router and of replicas in front of a known endpoint."""

from dataclasses import dataclass, replace

from nlqlib.records import Json
from nlqlib.serving.gateway import Gateway
from nlqlib.serving.served import start_served
from nlqlib.serving.target import Connection, Target, TargetError


@dataclass(frozen=True)
class Admission:
    """Limits on requests in flight; `None`: no limit."""

    router: int | None = None
    replica: int | None = None
    replicas: int = 1
    """Engines behind the router (the twin only: a real endpoint has those it has)."""
    max_queue: int | None = None
    queue_timeout_s: float | None = None
    headers: bool = True
    """Whether answers tell how long they queued, and where."""

    def declared(self) -> Json:
        """What is not the default, for identities and fingerprints."""
        default = Admission()
        return {k: v for k, v in vars(self).items() if v != getattr(default, k)}

    def options(self) -> list[str]:
        """The same as options of the gateway's command line."""
        limits = {
            "--router-limit": self.router,
            "--replica-limit": self.replica,
            "--max-queue": self.max_queue,
            "--queue-timeout": self.queue_timeout_s,
        }
        given = [word for name, value in limits.items() if value is not None for word in (name, str(value))]
        return given if self.headers else [*given, "--no-headers"]


def limited(target: Target, admission: Admission) -> Target:
    """`target` behind a gateway: in this process for the twin, as a process of its own for a real endpoint.

    Raises `TargetError` for limits that cannot be.
    """
    for name in ("router", "replica", "replicas"):
        value = getattr(admission, name)
        if value is not None and value < 1:
            raise TargetError(f"a {name} limit of {value} would admit nothing: use 1 or more, or none")
    if target.kind != "twin" and admission.replicas != 1:
        raise TargetError("only the twin can be given more replicas; a real endpoint has those it has")
    connect = _in_process if target.kind == "twin" else _beside
    return replace(
        target,
        declared={**target.declared, "admission": admission.declared()},
        connect=lambda: connect(target, admission),
        variant=None if target.variant is None else lambda flags: limited(target.engine(**flags), admission),
    )


def _in_process(target: Target, admission: Admission) -> Connection:
    """Fresh replicas behind a gateway, each with its metrics page."""
    names = [f"replica-{i}" for i in range(admission.replicas)]
    there = [target.connect() for _ in names]
    gateway = Gateway(
        {name: c.app for name, c in zip(names, there, strict=True)},
        router=admission.router,
        replica=admission.replica,
        max_queue=admission.max_queue,
        queue_timeout_s=admission.queue_timeout_s,
        headers=admission.headers,
    )
    pages = tuple(f"http://twin/gateway/replicas/{name}/metrics" for name in names)
    return replace(there[0], app=gateway, metrics_urls=pages)


def _beside(target: Target, admission: Admission) -> Connection:
    """A gateway process in front of the endpoint, which stays as it is. Raises `TargetError`."""
    there = target.connection
    root = there.endpoint.base_url.rstrip("/").removesuffix("/v1")
    server = start_served("gateway", ["nlqlib", "gateway", "--upstream", root, *admission.options()])
    endpoint = replace(there.endpoint, base_url=f"{server.root}/v1")

    def close() -> None:
        server.process.stop()

    return replace(there, endpoint=endpoint, close=close)
