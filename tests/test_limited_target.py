"""Targets behind the gateway: limits hold, waits are told, and nothing stays behind."""

import asyncio
import subprocess
import sys

import pytest

from nlqlib.load.closed_loop import LoadRun, closed_loop, cycled
from nlqlib.records import ChatRequest
from nlqlib.serving.metrics import metrics_reader
from nlqlib.serving.target import Target, TargetError, open_target

REQUESTS = [ChatRequest(str(i), ({"role": "user", "content": f"question {i}"},)) for i in range(8)]


def twin() -> Target:
    return open_target("twin").engine(words="synthetic", output_tokens=20, output_sd=0)


def offer(target: Target, concurrency: int, n: int) -> LoadRun:
    async def go() -> LoadRun:
        client = target.client()
        try:
            return await closed_loop(client, cycled(REQUESTS), concurrency, n)
        finally:
            await client.aclose()

    return target.run(go())


def test_behind_a_router_of_one_throughput_stays_and_waits_are_told() -> None:
    one, sixteen = (offer(twin().limited(router=1), n, 48) for n in (1, 16))
    rates = [48 / max(c.end_s or 0 for c in run.completions) for run in (one, sixteen)]
    assert rates[1] == pytest.approx(rates[0], rel=0.01)
    waits = [c.router_queue_s or 0 for c in sixteen.completions[16:]]
    assert min(waits) > 14 * (one.completions[1].e2e_s or 0)


def test_each_replica_has_its_limit_and_its_metrics_page() -> None:
    target = twin().limited(replica=2, replicas=2)
    run = offer(target, 8, 40)
    assert {c.replica for c in run.completions} == {"replica-0", "replica-1"}
    assert len(target.connection.metrics_urls) == 2

    async def scrape() -> list[str]:
        reader = metrics_reader(target.connection)
        try:
            pages = (await reader.scrape()).pages
            return [page.text or "" for page in pages]
        finally:
            await reader.aclose()

    texts = target.run(scrape())
    assert all('finished_reason="stop"} 20.0' in text for text in texts)


def test_without_headers_nothing_is_told() -> None:
    run = offer(twin().limited(router=1, headers=False), 4, 12)
    assert all(c.router_queue_s is None and c.replica is None for c in run.completions)


def test_limits_are_part_of_what_a_target_declares_and_of_its_variants() -> None:
    target = twin().limited(router=4)
    assert target.declared["admission"] == {"router": 4}
    assert target.engine(max_num_seqs=2).declared["admission"] == {"router": 4}
    assert target.engine(max_num_seqs=2).declared["limits"] == {"max_num_seqs": 2}


def test_limits_that_admit_nothing_are_refused() -> None:
    with pytest.raises(TargetError, match="would admit nothing"):
        twin().limited(router=0)
    with pytest.raises(TargetError, match="only the twin"):
        open_target("http://h/v1").limited(replica=1, replicas=2)


def test_a_real_endpoint_gets_a_gateway_of_its_own_that_ends_with_the_target(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    command = [
        sys.executable,
        "-m",
        "nlqlib",
        "serve",
        "twin",
        "--words",
        "synthetic",
        "--output-tokens",
        "3",
    ]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    server.stdout.readline()
    root = server.stdout.readline().split()[1].removesuffix(";").removesuffix("/v1")
    monkeypatch.delenv("MODEL", raising=False)
    target = open_target(f"{root}/v1").limited(router=1)
    try:
        run = offer(target, 4, 8)
        assert all(c.ok for c in run.completions)
        assert max(c.router_queue_s or 0 for c in run.completions) > 0.1
    finally:
        target.close()
        server.terminate()
        server.wait()

    async def gone() -> bool:
        there = target.connection.endpoint.address
        try:
            _, writer = await asyncio.open_connection(there.host, there.port)
        except OSError:
            return True
        writer.close()
        return False

    assert asyncio.run(gone())
