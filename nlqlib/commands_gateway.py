"""`python -m nlqlib gateway`: router and replica limits in front of real servers, on a socket."""

import argparse
import asyncio
import signal
import socket
import sys
from collections.abc import Callable
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from nlqlib.serving.gateway import Gateway

ABOUT = """Stand in front of one or several OpenAI-compatible servers and admit requests to them.

Requests to generate (POST …/completions) pass the router's limit, then the limit of the replica with the
fewest requests, each first come, first served; they hold both slots until the last byte of the answer.
Everything else passes freely. Answers carry x-router-queue-ms, x-replica-queue-ms and x-replica; queue depths
and waits are at /gateway/metrics, and one replica of several at /gateway/replicas/NAME/metrics."""
EXAMPLE = """example: everything behind a router that sends one request at a time
  python -m nlqlib gateway --upstream http://127.0.0.1:8000 --router-limit 1 --replica-limit 4 --port 8080
prints
  gateway at http://127.0.0.1:8080/v1: router limit 1, replica limit 4, queues without bound
  replica-0 is http://127.0.0.1:8000
  metrics at http://127.0.0.1:8080/gateway/metrics; Ctrl-C ends it
and an answer then says how long it queued
  curl -si http://127.0.0.1:8080/v1/chat/completions -H 'content-type: application/json' -d @request.json
  HTTP/1.1 200 OK
  x-router-queue-ms: 2140.512
  x-replica-queue-ms: 0.000
  x-replica: replica-0"""
DRAIN_S = 5
"""How long requests in flight may go on after Ctrl-C before they are cut; queued ones are turned away."""
KEEP_ALIVE_S = 75
"""How long an idle connection of a caller is kept: longer than clients keep theirs, so they close first."""
BACKLOG = 4096
"""Connections the kernel holds until they are taken: a burst of callers must queue here, not fail."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the command and its arguments."""
    command = commands.add_parser(
        "gateway",
        help="router and replica limits in front of real servers",
        description=ABOUT,
        epilog=EXAMPLE,
        formatter_class=argparse.RawTextHelpFormatter,
    )
    add = command.add_argument
    add("--upstream", action="append", required=True, metavar="URL", help="a server's root; may be repeated")
    add("--router-limit", type=int, metavar="N", help="most requests in flight in all (default: no limit)")
    add("--replica-limit", type=int, metavar="N", help="most in flight at each upstream (default: no limit)")
    add("--max-queue", type=int, metavar="N", help="most that wait at each limit; beyond: 429, replica 503")
    add("--queue-timeout", type=float, metavar="S", help="longest wait at each limit, seconds; beyond: 503")
    add("--no-headers", action="store_true", help="say nothing of queues and replicas in the answers")
    add("--ca-file", metavar="PEM", help="certificate authority of https upstreams (default: the system's)")
    add("--port", type=int, default=0, help="port on the loopback (default: a free one)")
    command.set_defaults(command=gateway)


def gateway(args: argparse.Namespace) -> int:
    """Serve until Ctrl-C or SIGTERM; 0 then. Raises `EndpointError` for settings that cannot work."""
    app = _app(args)
    with _listen(args.port) as listener:
        _serve(app, listener, lambda: _say(app, args, f"http://127.0.0.1:{listener.getsockname()[1]}"))
    print("gateway: ended", file=sys.stderr)
    return 0


def _app(args: argparse.Namespace) -> "Gateway":
    from nlqlib.serving.endpoint import EndpointError
    from nlqlib.serving.proxy import reverse_proxy

    try:
        return reverse_proxy(
            args.upstream,
            router=args.router_limit,
            replica=args.replica_limit,
            max_queue=args.max_queue,
            queue_timeout_s=args.queue_timeout,
            headers=not args.no_headers,
            ca_file=args.ca_file,
        )
    except EndpointError:
        raise
    except ValueError as problem:
        raise EndpointError(str(problem)) from problem


def _listen(port: int) -> socket.socket:
    from nlqlib.serving.endpoint import EndpointError

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(("127.0.0.1", port))
        listener.listen(BACKLOG)
    except (OSError, OverflowError) as problem:
        listener.close()
        reason = getattr(problem, "strerror", None) or "it must be 0 to 65535"
        raise EndpointError(f"port {port} cannot be used ({reason}): name another") from problem
    return listener


def _say(app: "Gateway", args: argparse.Namespace, root: str) -> None:
    limits = [
        f"{layer} limit {'none' if limit is None else limit}"
        for layer, limit in (("router", args.router_limit), ("replica", args.replica_limit))
    ]
    bound = "without bound" if args.max_queue is None else f"of {args.max_queue}"
    patience = "" if args.queue_timeout is None else f", waits up to {args.queue_timeout:g} s"
    print(f"gateway at {root}/v1: {', '.join(limits)}, queues {bound}{patience}")
    for replica, url in zip(app.replicas, args.upstream, strict=True):
        print(f"{replica.name} is {url}")
    print(f"metrics at {root}/gateway/metrics; Ctrl-C ends it", flush=True)


def _serve(app: "Gateway", listener: socket.socket, announce: Callable[[], None]) -> None:
    import uvicorn
    import uvloop

    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        lifespan="off",
        ws="none",
        server_header=False,
        date_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_S,
        timeout_graceful_shutdown=2 * DRAIN_S,
    )
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_until_signalled(uvicorn.Server(config), app, listener, announce))


async def _until_signalled(
    server: Any, app: "Gateway", listener: socket.socket, announce: Callable[[], None]
) -> None:
    """Serve until a signal, which lets requests in flight end; a second one, or `DRAIN_S`, cuts them."""
    loop = asyncio.get_running_loop()
    cut = asyncio.Event()

    def end() -> None:
        if server.should_exit:
            cut.set()
        server.should_exit = True
        app.close()
        loop.call_later(DRAIN_S, cut.set)

    async def cutting() -> None:
        await cut.wait()
        for replica in app.replicas:
            await replica.app.aclose()  # type: ignore[attr-defined]

    server.capture_signals = nullcontext  # uvicorn's own would raise them again when everything has ended
    for kind in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(kind, end)
    task = asyncio.create_task(cutting())
    announce()  # whoever reads it may connect at once, and end us at once
    await server.serve([listener])
    cut.set()
    await task
