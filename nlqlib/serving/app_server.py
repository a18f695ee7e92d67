"""Serves one of our ASGI applications on the loopback, in real time, until Ctrl-C or SIGTERM."""

import gc
import socket
from collections.abc import Callable
from typing import Any

import uvicorn

from nlqlib.serving.target import TargetError

HOST = "127.0.0.1"
BACKLOG = 4096


def listen(port: int | None, host: str = HOST) -> socket.socket:
    """A listening socket on `port` (`None`: a free one). Raises `TargetError` when it is taken."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port or 0))
    except (OSError, OverflowError) as error:
        listener.close()
        raise TargetError(f"port {port} cannot be used ({error}): name another one with --port") from error
    listener.listen(BACKLOG)
    return listener


def serve_app(app: Any, listener: socket.socket, ready: Callable[[str], None]) -> int:
    """Serve `app` on `listener`; `ready` is told the root address once. The exit status.

    No request is ever refused for its number: a limit here would be measured as the endpoint's.
    """
    config = uvicorn.Config(
        app, loop="uvloop", http="httptools", lifespan="off", access_log=False, log_level="warning",
        timeout_keep_alive=3600, timeout_graceful_shutdown=2, backlog=BACKLOG,
        proxy_headers=False, server_header=False, date_header=False,
    )  # fmt: skip
    host, port = listener.getsockname()
    gc.collect()
    gc.freeze()  # what is loaded stays: collections then look at requests only
    ready(f"http://{host}:{port}")
    try:
        uvicorn.Server(config).run(sockets=[listener])
    except KeyboardInterrupt:  # uvicorn raises the signal again once everything is closed
        return 130
    finally:
        listener.close()
    return 0
