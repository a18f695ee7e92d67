"""A closed loop from workers on a Ray cluster: load beyond one machine, with the optional extra `ray`.

Each worker is a Ray task with its own process, event loop and connections, on whatever machine Ray finds a
place for it. Machines share no monotonic clock, so every worker also says what its wall clock showed, and
times are put together by that: they are as exact as the machines' clocks agree (`clock_spread_s` is the most
by which the workers' releases lay apart). The machines need this package, and the endpoint's key in their
environment.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from nlqlib.load.errors import LoadError
from nlqlib.load.jobs import Job, job_of
from nlqlib.load.load_run import LoadRun
from nlqlib.load.processes import check_processes, merged, shares
from nlqlib.records import ChatRequest, Json, Rule
from nlqlib.serving.client import ClientKind
from nlqlib.serving.endpoint import Endpoint, EndpointError
from nlqlib.wall_clock import wall_s

RELEASE_S = 3.0
"""From the moment all workers are up to their release: news travels, and a clock may be off by a little."""
START_LIMIT_S = 120.0
LOOK_S = 1.0
"""Between two looks at how the workers are doing."""
MAX_SPREAD = 0.05
"""Of the mean latency: if the releases lie further apart, the merged times say too little."""


@dataclass(frozen=True)
class RayRun:
    """The merged run, and how far the workers' clocks can be trusted."""

    run: LoadRun
    workers: tuple[str, ...]
    """Node and process of each worker."""
    clock_spread_s: float
    """Between the first and the last worker to wake for the one instant of release."""

    def rules(self) -> tuple[Rule, ...]:
        """Those of the run, and whether the workers began together."""
        mean_s = self.run.health.latency_s
        share = None if not mean_s else self.clock_spread_s / mean_s
        ok = None if share is None else share <= MAX_SPREAD
        return (*self.run.rules(), Rule("release spread / mean latency", share, MAX_SPREAD, ok))


def closed_loop_on_ray(
    endpoint: Endpoint,
    requests: Sequence[ChatRequest],
    concurrency: int,
    n: int,
    workers: int,
    *,
    address: str | None = None,
    lead_in: int = 0,
    salt: str | None = None,
    kind: ClientKind = "wire",
) -> RayRun:
    """A closed loop of `concurrency` shared by `workers` Ray tasks, as `closed_loop_in_processes` shares it.

    `address`: of a running cluster, `None` for one on this machine that ends with the run. Raises `LoadError`
    when the extra is not installed, the cluster has no place for all workers at once, or a worker fails.
    """
    check_processes(requests, concurrency, n, workers)
    ray = _ray()
    jobs = [
        Job(endpoint, tuple(requests), kind, share)
        for share in shares(concurrency, n, lead_in, workers, salt)
    ]
    ours = not ray.is_initialized()
    if ours:
        ray.init(address=address, include_dashboard=False, log_to_driver=False, configure_logging=False)
    try:
        return _merge(_run(ray, jobs), concurrency)
    finally:
        if ours:
            ray.shutdown()


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise LoadError("Ray is not installed: pip install 'nlqlib[ray]', on every machine") from None
    return ray


def _run(ray: Any, jobs: Sequence[Job]) -> list[Json]:
    """Start a worker for each job, release them at one instant, and gather what they made, in order."""
    actor = ray.remote(num_cpus=1, max_concurrency=2)(RayWorker)  # one thread works, one says how it goes
    crew = [actor.remote(job.to_json()) for job in jobs]
    up, missing = ray.wait([w.ready.remote() for w in crew], num_returns=len(crew), timeout=START_LIMIT_S)
    if missing:
        raise LoadError(
            f"after {START_LIMIT_S:g} s only {len(up)} of {len(crew)} workers have a place on the cluster: "
            "start fewer, or add machines"
        )
    where = ray.get(up)
    at_s = wall_s() + RELEASE_S
    working = [w.work.remote(at_s) for w in crew]
    left = working
    while left:
        _, left = ray.wait(working, num_returns=len(working), timeout=LOOK_S)
        reasons = ray.get([w.hopeless.remote() for w in crew])
        if all(reasons):
            for worker in crew:
                ray.kill(worker)
            raise LoadError(f"worker 1 of {len(crew)} on {where[0]}: {reasons[0]}")
    found: list[Json] = ray.get(working)
    for number, result in enumerate(found):
        if "error" in result:
            raise LoadError(f"worker {number + 1} of {len(found)} on {result['where']}: {result['error']}")
    return found


class RayWorker:
    """One worker; lives in a process of its own that Ray starts."""

    def __init__(self, job: Json) -> None:
        self._job = job_of(job)
        self._where = ""
        self._hopeless: str | None = None

    def hopeless(self) -> str | None:
        """Why this part on its own would be given up, as far as it has come; `None`: it would not."""
        return self._hopeless

    def _give_up(self, why: str | None) -> None:
        self._hopeless = why

    def ready(self) -> str:
        """Node and process, once everything is imported that the work needs."""
        import os
        import socket

        import nlqlib.load.closed_loop  # noqa: F401 - a second of start-up, before the release

        self._where = f"{socket.gethostname()}/{os.getpid()}"
        return self._where

    def work(self, at_s: float) -> Json:
        """Wait until the wall clock shows `at_s`, do the job, and give the result in wall-clock time."""
        import uvloop

        from nlqlib.load.worker import share_of_loop

        async def do() -> Json:
            loop = asyncio.get_running_loop()
            await asyncio.sleep(at_s - wall_s())
            offset_s, woken_s = wall_s() - loop.time(), wall_s()
            result = await share_of_loop(self._job, self._give_up)
            return {**result, "offset_s": offset_s, "woken_s": woken_s}

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                return {"where": self._where, **runner.run(do())}
        except (LoadError, EndpointError) as failure:
            return {"where": self._where, "error": str(failure)}


def _merge(results: Sequence[Json], concurrency: int) -> RayRun:
    """The workers' runs as one: their origins moved from each machine's own clock to the wall clock."""
    first_s = min(r["origin_s"] + r["offset_s"] for r in results)
    moved = [r | {"origin_s": r["origin_s"] + r["offset_s"] - first_s} for r in results]
    woken = [r["woken_s"] for r in results]
    run = merged(moved, concurrency)
    return RayRun(replace(run, origin_s=0.0), tuple(r["where"] for r in results), max(woken) - min(woken))
