"""One process that offers a part of a load: `python -m nlqlib.load.worker`, started by `processes`.

It reads its job from standard input, says that it is ready, waits for the instant of release, does the job
and prints the result, each as one JSON line. Its input ends when its parent does, and then so does it.
Instants and times are those of CLOCK_MONOTONIC, which all processes of a machine share and which is the
time of a real event loop.
"""

import asyncio
import json
import os
import sys
from collections.abc import Awaitable, Callable
from dataclasses import asdict
from itertools import islice
from typing import TYPE_CHECKING, Any

from nlqlib.load.errors import LoadError
from nlqlib.load.jobs import Job, job_of
from nlqlib.records import ChatRequest, Json
from nlqlib.serving.endpoint import EndpointError
from nlqlib.serving.wire import WireClient

if TYPE_CHECKING:
    from nlqlib.load.load_run import LoadRun
    from nlqlib.serving.client import Client

SAY_EVERY_S = 0.5
STDIN = 0
ABANDONED = 3
"""Exit status when the parent is gone or has closed the input."""


Work = Callable[["Client"], Awaitable[Json]]


def say(**line: object) -> None:
    """One line to the parent."""
    sys.stdout.write(json.dumps(line, allow_nan=False) + "\n")
    sys.stdout.flush()


class Counter:
    """Tells the parent how many requests are done, twice a second."""

    def __init__(self) -> None:
        self._now: Callable[[], float] = asyncio.get_running_loop().time
        self._done, self._said_s = 0, self._now()

    def advance(self) -> None:
        """One more is done."""
        self._done += 1
        if self._now() - self._said_s >= SAY_EVERY_S:
            self._said_s = self._now()
            say(done=self._done)


async def work(job: Job) -> Json:
    """Wait for the release and do `job`; cancelled when the parent goes away."""
    loop, me = asyncio.get_running_loop(), asyncio.current_task()
    go: asyncio.Future[float] = loop.create_future()

    def heard() -> None:
        line = os.read(STDIN, 4096)
        if line and not go.done():
            go.set_result(json.loads(line)["at_s"])
        elif not line and me is not None:
            loop.remove_reader(STDIN)
            me.cancel()

    client, do = _client(job), _prepare(job, lambda why: say(hopeless=why), Counter)
    loop.add_reader(STDIN, heard)
    try:
        say(ready=os.getpid())
        released_s = await go
        await asyncio.sleep(released_s - loop.time())
        woken_s = loop.time()
        return {"woken_s": woken_s, **await do(client)}
    finally:
        loop.remove_reader(STDIN)
        await client.aclose()


def _client(job: Job) -> "Client":
    if job.kind == "wire":
        return WireClient(job.endpoint)
    from nlqlib.serving.client import make_client  # half a second that the wire client does not need

    return make_client(job.kind, job.endpoint)


def _prepare(
    job: Job, give_up: Callable[[str | None], None], report: Callable[[], "Counter | None"] = lambda: None
) -> Work:
    """What is to be done, with everything imported that it needs.

    `give_up` is told why when the first requests of this part all failed, and `None` when one is answered
    after all: what that means is seen from all parts.
    """
    share, requests = job.share, job.requests
    if share is None:
        return lambda client: _one(client, requests[0])
    from nlqlib.load.closed_loop import closed_loop, cycled  # with its statistics, a second of start-up

    async def closed(client: "Client") -> Json:
        mine = islice(cycled(requests, share.salt), share.first, None, share.step)
        how: Any = {"lead_in": share.lead_in, "report": report(), "give_up": give_up}
        return _result(await closed_loop(client, mine, share.concurrency, share.n, **how))

    return closed


async def share_of_loop(job: Job, give_up: Callable[[str | None], None]) -> Json:
    """Do `job` on the running loop, at once and with a client of its own; for `give_up` see `_prepare`."""
    client = _client(job)
    try:
        return await _prepare(job, give_up)(client)
    finally:
        await client.aclose()


async def _one(client: "Client", request: ChatRequest) -> Json:
    return {"completion": asdict(await client.complete(request))}


def _result(run: "LoadRun") -> Json:
    return {
        "completions": [asdict(completion) for completion in run.completions],
        "lead_in": [asdict(completion) for completion in run.lead_in],
        "origin_s": run.origin_s,
        "window": run.window,
        "health": asdict(run.health),
    }


def main() -> int:
    """Do the job on standard input; returns the exit status."""
    line = sys.stdin.readline()
    if not line:
        return ABANDONED
    job = job_of(json.loads(line))
    try:
        with asyncio.Runner(loop_factory=_new_loop(job)) as runner:
            result = runner.run(work(job))
    except (LoadError, EndpointError) as failure:
        say(error=str(failure))
        return 1
    except (asyncio.CancelledError, BrokenPipeError):
        return ABANDONED
    say(result=result)
    return 0


def _new_loop(job: Job) -> Callable[[], asyncio.AbstractEventLoop]:
    """uvloop for many requests; for a single one asyncio's own, whose time is finer than a millisecond."""
    if job.share is None:
        return asyncio.new_event_loop
    import uvloop

    return uvloop.new_event_loop


if __name__ == "__main__":
    sys.exit(main())
