"""The two controls: parallel and serial by construction, in a process that ends with its owner."""

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable

import httpx2
import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.experiments.sweep import IGNORE_EOS
from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Endpoint, make_client
from nlqlib.serving.control_server import MODEL, ControlServer, Order, control, endpoint
from nlqlib.serving.inprocess import AsgiTransport
from nlqlib.serving.running import run
from nlqlib.serving.served import on_socket, serving
from nlqlib.serving.target import TargetError, open_target
from nlqlib.twin.clock import run_virtual

SERVICE_S = 0.3
ASKED = ChatRequest("r", ({"role": "user", "content": "hello"},), 12)


async def together(app: ControlServer, k: int, request: ChatRequest = ASKED) -> list[Completion]:
    client = make_client("wire", Endpoint("http://control/v1", MODEL), app=app)
    try:
        return await asyncio.gather(*(client.complete(request) for _ in range(k)))
    finally:
        await client.aclose()


def ends(order: Order, k: int, service_s: float = SERVICE_S) -> tuple[ControlServer, list[float]]:
    app = ControlServer(order, service_s)
    done = run_virtual(together(app, k))
    first = min(c.start_s or 0.0 for c in done)
    assert all(c.ok for c in done)
    return app, sorted((c.end_s or 0.0) - first for c in done)


# ---- by construction -------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 12), st.floats(0.05, 5.0))
def test_the_parallel_control_serves_all_at_once(k: int, service_s: float) -> None:
    app, found = ends("parallel", k, service_s)
    assert found == pytest.approx([service_s] * k)
    assert app.peak == k


@settings(deadline=None, max_examples=20)
@given(st.integers(1, 12), st.floats(0.05, 5.0))
def test_the_serial_control_serves_one_after_another(k: int, service_s: float) -> None:
    app, found = ends("serial", k, service_s)
    assert found == pytest.approx([service_s * (i + 1) for i in range(k)])
    assert app.peak == 1


@pytest.mark.parametrize("service_s", [0.0, -1.0])
def test_a_service_time_that_is_none_is_refused(service_s: float) -> None:
    with pytest.raises(ValueError, match="give one above 0"):
        ControlServer("serial", service_s)


def test_an_answer_is_as_long_as_it_may_be_and_whole() -> None:
    app = ControlServer("parallel", SERVICE_S)
    for request in (ASKED, ChatRequest("r", ASKED.messages, 12, extra=IGNORE_EOS)):
        (done,) = run_virtual(together(app, 1, request))
        assert (done.outcome, done.output_tokens) == ("ok", 12)


async def page(app: ControlServer, path: str) -> httpx2.Response:
    async with httpx2.AsyncClient(transport=AsgiTransport(app), base_url="http://control") as client:
        return await client.get(path)


def test_it_names_its_model_and_serves_nothing_else() -> None:
    app = ControlServer("parallel", SERVICE_S)
    assert run_virtual(page(app, "/v1/models")).json()["data"][0]["id"] == MODEL
    missing = run_virtual(page(app, "/v1/embeddings"))
    assert missing.status_code == 404
    assert "/v1/embeddings" in missing.json()["error"]["message"]


# ---- as a process ----------------------------------------------------------------------------------------


async def once(there: Endpoint) -> Completion:
    client = make_client("wire", there)
    try:
        return await client.complete(ASKED)
    finally:
        await client.aclose()


def soon(happened: Callable[[], bool], seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.05)


def test_its_process_answers_in_its_time_and_ends_with_the_block() -> None:
    with control("serial", SERVICE_S) as server:
        done = run(once(endpoint(server)))
        assert done.ok and done.e2e_s is not None
        assert SERVICE_S - 0.005 <= done.e2e_s < SERVICE_S + 1.0
        assert psutil.pid_exists(server.process.pid)
    assert not psutil.pid_exists(server.process.pid)


OWNER = """
import time
from nlqlib.serving.control_server import control
with control("parallel", 0.3) as server:
    print(server.process.pid, server.root, flush=True)
    time.sleep(60)
"""


def test_nothing_stays_when_its_owner_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline().split()[0])
        owner.kill()
        owner.wait(30)
    soon(lambda: not psutil.pid_exists(pid))


def test_a_server_that_does_not_start_says_why() -> None:
    with (
        serving("bad control", ["nlqlib.serving.control_server", "serial", "--service-s", "0"]) as server,
        pytest.raises(TargetError, match=r"(?s)the bad control did not start.*give one above 0"),
    ):
        _ = server.root


# ---- the twin on a socket --------------------------------------------------------------------------------


def test_the_twin_is_served_in_real_time_and_ends_when_it_is_closed() -> None:
    twin = on_socket(open_target("twin").engine(words="synthetic", output_tokens=6.0, output_sd=0))
    assert (twin.clock, twin.declared["clock"], twin.connected) == ("real", "real", False)
    try:
        done = run(once(twin.connection.endpoint))
        assert (done.outcome, done.output_tokens) == ("ok", 6)
        assert done.e2e_s is not None and done.e2e_s > 0.07 + 5 * 0.027
        assert twin.connection.metrics_urls[0].endswith("/metrics")
    finally:
        twin.close()
    assert run(once(twin.connection.endpoint)).outcome == "disconnected"


def test_what_is_on_a_socket_stays_as_it_is() -> None:
    target = open_target("http://127.0.0.1:9/v1")
    assert on_socket(target) is target
