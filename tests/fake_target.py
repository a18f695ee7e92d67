"""A server of the tests as a target by URL: nothing of it is ours to set, and it lives in this process."""

from typing import Any

from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.inprocess import App
from nlqlib.serving.target import Connection, Target
from nlqlib.twin.clock import VirtualLoop


def url_target(name: str, model: str, app: App, declared: dict[str, Any], timeout_s: float = 60.0) -> Target:
    """`app` at `http://NAME/v1` in virtual time; `declared`: what is known of it beside name and model."""
    endpoint = Endpoint(f"http://{name}/v1", model, timeout_s=timeout_s)
    return Target(
        name=name,
        kind="url",
        clock="virtual",
        can=frozenset(),
        declared={"name": name, "model": model, **declared},
        speaker=model,
        connect=lambda: Connection(endpoint, app),
        new_loop=VirtualLoop,
    )
