"""Load from independent processes: released together, on one clock, merged, and never left behind."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from fake_behaviours import MODEL, Faults, Hang, Say, Status, error_object
from fake_server import FakeServer, serve
from hypothesis import given
from hypothesis import strategies as st
from load_world import QUESTIONS

from nlqlib.analysis.latency import mean_in_flight, outcome_counts, spans, steady_window, throughput_window
from nlqlib.analysis.staircase import staircase
from nlqlib.load.health import ClientHealth
from nlqlib.load.jobs import Job, Share, completion_of, job_of, split
from nlqlib.load.processes import (
    LoadError,
    WorkerError,
    closed_loop_in_processes,
    merged,
    release_together,
)
from nlqlib.load.worker import ABANDONED
from nlqlib.progress import PROGRESS, Progress
from nlqlib.records import ChatRequest, Completion, Json, OutputContract
from nlqlib.serving.endpoint import Endpoint, EndpointError

K = 5
SERVICE_S = 0.4


@contextlib.contextmanager
def endpoint(server: FakeServer, **settings: object) -> Iterator[Endpoint]:
    with serve(server) as root:
        yield Endpoint(**{"base_url": f"{root}/v1", "model": MODEL, **settings})  # type: ignore[arg-type]


def workers() -> list[psutil.Process]:
    return [p for p in psutil.Process().children(recursive=True) if "nlqlib.load.worker" in p.cmdline()]


def soon(happened: Callable[[], bool], seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


# released together


def test_a_serial_endpoint_makes_a_staircase_of_independent_processes() -> None:
    server = FakeServer(Say(latency_s=SERVICE_S), slots=1)
    with endpoint(server) as there:
        found = release_together(there, QUESTIONS[:K])
    assert [c.request_id for c in found.completions] == [f"q{i}" for i in range(K)]
    ends = sorted(c.end_s for c in found.completions if c.end_s is not None)
    assert ends == pytest.approx([SERVICE_S * i for i in range(1, K + 1)], abs=0.25)
    assert staircase(found.times, SERVICE_S).verdict == "serial"
    assert server.peak_in_flight == K and workers() == []


def test_a_parallel_endpoint_answers_them_together() -> None:
    with endpoint(FakeServer(Say(latency_s=SERVICE_S))) as there:
        found = release_together(there, QUESTIONS[:K])
    assert staircase(found.times, SERVICE_S).verdict == "parallel"
    assert len(set(found.pids)) == K and os.getpid() not in found.pids


def test_they_start_within_a_moment_and_the_skew_is_recorded() -> None:
    with endpoint(FakeServer(Say(latency_s=0.1))) as there:
        found = release_together(there, QUESTIONS[:K])
    starts = [c.start_s for c in found.completions if c.start_s is not None]
    assert found.skew_s == max(starts) - min(starts) < 0.2
    assert all(0 <= woken <= start for woken, start in zip(found.woken_s, starts, strict=True))
    assert {c.planned_s for c in found.completions} == {0.0}


def test_their_clock_is_the_one_of_this_process() -> None:
    """The server notes arrivals on its own loop, in this process: the workers' starts come before them."""
    arrived: list[float] = []

    class Noting(FakeServer):
        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            arrived.append(time.monotonic())
            await super().__call__(scope, receive, send)

    before = time.monotonic()
    with endpoint(Noting(Say(latency_s=0.2))) as there:
        found = closed_loop_in_processes(there, QUESTIONS, 1, 2, 1)
    assert before < found.origin_s <= arrived[0] + 0.001 <= found.origin_s + 0.2


def test_the_other_client_does_it_too() -> None:
    with endpoint(FakeServer(Say(latency_s=0.1))) as there:
        found = release_together(there, QUESTIONS[:2], "openai")
    assert [c.outcome for c in found.completions] == ["ok", "ok"]


def test_failures_are_outcomes_with_their_body_and_have_no_end() -> None:
    behaviours = [Status(503, error_object(503, "no room")), Say(latency_s=0.2)]
    with endpoint(FakeServer(behaviours)) as there:
        found = release_together(there, QUESTIONS[:3])
    assert outcome_counts(found.completions) == {"ok": 2, "http_503": 1}
    assert [t.end_s is None for t in found.times] == [not c.ok for c in found.completions]
    assert any("no room" in (c.error or "") for c in found.completions)


def test_a_process_that_dies_is_named_and_the_others_are_ended() -> None:
    server = FakeServer(Hang())

    def kill_one() -> None:
        soon(lambda: server.in_flight == 3)
        workers()[0].kill()

    with endpoint(server) as there:
        killer = threading.Thread(target=kill_one)
        killer.start()
        with pytest.raises(WorkerError, match=r"process \d of 3 ended by signal 9 before its work was done"):
            release_together(there, QUESTIONS[:3])
        killer.join()
    assert workers() == []


def test_a_process_that_cannot_start_shows_what_it_said(monkeypatch: pytest.MonkeyPatch) -> None:
    command = (sys.executable, "-c", "raise SystemExit('no such thing as Bearer abc')")
    monkeypatch.setattr("nlqlib.load.workers.COMMAND", command)
    with pytest.raises(
        WorkerError, match=r"process \d of 2 ended with exit status 1.*no such thing as Bearer \*\*\*"
    ):
        release_together(Endpoint("http://127.0.0.1:9/v1", MODEL), QUESTIONS[:2])


def test_processes_that_are_never_ready_are_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("nlqlib.load.workers.COMMAND", (sys.executable, "-c", "import sys; sys.stdin.read()"))
    monkeypatch.setattr("nlqlib.load.workers.START_LIMIT_S", 0.5)
    with pytest.raises(WorkerError, match="only 0 of 2 processes are ready"):
        release_together(Endpoint("http://127.0.0.1:9/v1", MODEL), QUESTIONS[:2])


INTERRUPTED = """
import sys
from nlqlib.load.processes import release_together
from nlqlib.records import ChatRequest
from nlqlib.serving.endpoint import Endpoint
requests = [ChatRequest(str(i), ({"role": "user", "content": "hm"},)) for i in range(3)]
release_together(Endpoint(sys.argv[1], "fake"), requests)
"""


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_none_outlives_its_parent(how: signal.Signals) -> None:
    server = FakeServer(Hang())
    with endpoint(server) as there:
        parent = subprocess.Popen([sys.executable, "-c", INTERRUPTED, there.base_url], stderr=subprocess.PIPE)
        soon(lambda: server.in_flight == 3)
        left = workers()
        assert len(left) == 3
        parent.send_signal(how)
        _, said = parent.communicate(timeout=15)
        soon(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in left))
        soon(lambda: server.in_flight == 0)
    assert (b"KeyboardInterrupt" in said) == (how == signal.SIGINT)


def test_the_key_travels_in_the_environment_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_KEY", "sk-secret")
    server = FakeServer(Say(latency_s=0.5), api_key="sk-secret")
    arguments: list[list[str]] = []

    def look() -> None:
        soon(lambda: server.in_flight == 2)
        arguments.extend(p.cmdline() for p in workers())

    with endpoint(server, api_key_env="SOME_KEY") as there:
        looking = threading.Thread(target=look)
        looking.start()
        found = release_together(there, QUESTIONS[:2])
        looking.join()
    assert outcome_counts(found.completions) == {"ok": 2}
    assert len(arguments) == 2 and "sk-secret" not in str(arguments)
    assert "sk-secret" not in json.dumps(Job(there, tuple(QUESTIONS)).to_json())


def test_a_key_that_is_not_set_is_said_before_anything_starts() -> None:
    there = Endpoint("http://127.0.0.1:9/v1", MODEL, api_key_env="A_KEY_THAT_IS_NOT_SET")
    with pytest.raises(EndpointError, match="A_KEY_THAT_IS_NOT_SET is not set"):
        release_together(there, QUESTIONS[:2])


def test_no_request_is_no_release() -> None:
    with pytest.raises(ValueError, match="no request to release"):
        release_together(Endpoint("http://127.0.0.1:9/v1", MODEL), [])


# closed loops beyond one core


def test_a_closed_loop_of_several_processes_is_one_run(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(PROGRESS, str(tmp_path / "lines"))
    server = FakeServer(Say(latency_s=0.2), faults=Faults(share_503=0.1, seed=1))
    with endpoint(server) as there, Progress(92, "concurrency 8") as bar:
        found = closed_loop_in_processes(there, QUESTIONS, 8, 92, 2, lead_in=8, salt="cell", report=bar)
    everything = found.lead_in + found.completions
    rejected = sum(server.faults.of(i) is not None for i in range(100))
    assert (len(found.completions), len(found.lead_in), bar.done) == (92, 8, 92)
    assert len({c.request_id for c in everything}) == len(server.seen) == 100
    assert outcome_counts(everything) == {"ok": 100 - rejected, "http_503": rejected}
    asked = Counter(seen.body["messages"][0]["content"] for seen in server.seen)
    assert asked == {f"question {i}": 5 for i in range(20)}  # as often as from one process
    assert {seen.body["cache_salt"] for seen in server.seen} == {"cell"}
    assert abs(server.peak_in_flight - 8) <= 1 and abs(found.health.peak_in_flight - 8) <= 1
    rate = throughput_window(found.completions, found.window)
    assert rate is not None and 15 <= rate <= 42
    assert found.health.peak_connections == 8 and found.health.cpu_share is not None


def part(origin_s: float, spans_s: list[tuple[float, float]], **health: Any) -> Json:
    """The result of a worker whose requests were in flight at `spans_s`, counted from `origin_s`."""
    rows = [Completion(f"{origin_s}/{a}", "ok", start_s=a, end_s=b) for a, b in spans_s]
    window = steady_window(rows, 1)
    found = ClientHealth(1, 1, 0, **health)
    made = {"completions": [asdict(c) for c in rows], "lead_in": [], "origin_s": origin_s}
    return json.loads(json.dumps({**made, "window": window, "health": asdict(found)}))  # type: ignore[no-any-return]


def test_merged_times_count_from_the_first_start_and_the_window_is_where_all_are_steady() -> None:
    first = part(100.0, [(0.0, 1.0), (1.0, 2.0), (2.0, 3.0)])
    second = part(100.5, [(0.0, 2.0), (2.0, 4.0)])
    run = merged([second, first], 2)
    assert [(c.start_s, c.end_s) for c in run.completions] == [(0, 1), (0.5, 2.5), (1, 2), (2, 3), (2.5, 4.5)]
    assert run.window == (0.5, 2.0) and run.origin_s == 100.0
    assert mean_in_flight(spans(run.completions), run.window) == 2.0
    assert run.health.peak_in_flight == 2 and run.health.latency_s == pytest.approx(1.4)


def test_merged_health_is_that_of_the_worst_process_and_missing_where_one_is_missing() -> None:
    spans_s = [(0.0, 1.0), (1.0, 2.0)]
    one = part(0.0, spans_s, loop_lag_p99_s=0.1, cpu_share=0.2, dispatch_delay_p99_s=0.3, pool_ceiling=4)
    other = part(0.0, spans_s, loop_lag_p99_s=0.2, cpu_share=0.1)
    health = merged([one, other], 2).health
    assert (health.loop_lag_p99_s, health.cpu_share, health.dispatch_delay_p99_s) == (0.2, 0.2, None)
    assert (health.pool_ceiling, health.pool_waits, health.peak_connections) == (None, 0, 2)


def test_a_merged_run_has_no_window_when_one_process_had_none() -> None:
    assert merged([part(0.0, [(0.0, 1.0), (1.0, 2.0)]), part(0.0, [(0.0, 1.0)])], 2).window is None


def test_a_hopeless_run_is_stopped_with_the_process_named() -> None:
    with (
        endpoint(FakeServer(Status(503, error_object(503, "closed for the day")))) as there,
        pytest.raises(
            LoadError, match=r"process \d of 2: the first 20 requests all failed.*closed for the day"
        ),
    ):
        closed_loop_in_processes(there, QUESTIONS, 4, 10_000, 2)
    assert workers() == []


def test_a_process_whose_part_only_fails_ends_no_run_in_which_another_is_answered() -> None:
    refused = [replace(q, extra={"model": "another"}) if i % 2 else q for i, q in enumerate(QUESTIONS)]
    with endpoint(FakeServer(check_model=True)) as there:
        run = closed_loop_in_processes(there, refused, 4, 120, 2)
    assert outcome_counts(run.completions) == {"ok": 60, "wrong_model": 60}
    assert any(rule.rule == "failed requests / requests" and rule.ok is False for rule in run.rules())


@pytest.mark.parametrize(("concurrency", "n", "processes"), [(2, 10, 3), (4, 3, 2), (4, 10, 0)])
def test_impossible_shares_are_refused(concurrency: int, n: int, processes: int) -> None:
    with pytest.raises(ValueError, match="1 ≤ processes ≤ concurrency ≤ n"):
        closed_loop_in_processes(
            Endpoint("http://127.0.0.1:9/v1", MODEL), QUESTIONS, concurrency, n, processes
        )


# parts


@given(st.integers(0, 10_000), st.lists(st.integers(1, 50), min_size=1, max_size=20))
def test_shares_add_up_and_none_is_off_by_more_than_one(total: int, weights: list[int]) -> None:
    shares = split(total, weights)
    assert sum(shares) == total
    assert all(abs(s - total * w / sum(weights)) <= 1 for s, w in zip(shares, weights, strict=True))


def test_a_job_is_the_same_after_its_way_through_json() -> None:
    contract = OutputContract("structured_outputs", {"structured_outputs": {"json": {}}}, {"type": "object"})
    asked = ChatRequest(
        "q", ({"role": "user", "content": "é"},), 5, 0.5, True, contract, 2, True, {"seed": 1}
    )
    there = Endpoint("http://h/v1", "m", "KEY", {"x-team": "t"}, None, 9.0)
    for share in (None, Share(4, 100, 8, 1, 2, "s")):
        job = Job(there, (asked,), "openai", share)
        assert job_of(json.loads(json.dumps(job.to_json()))) == job


def test_a_completion_is_the_same_after_its_way_through_json() -> None:
    made = Completion("q", "ok", "é", token_times_s=(1.0, 2.0), token_ids=(1, 2), logprobs=({"token": "a"},))
    assert completion_of(json.loads(json.dumps(vars(made)))) == made


def test_a_worker_without_a_parent_ends_at_once() -> None:
    command = [sys.executable, "-m", "nlqlib.load.worker"]
    ended = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, timeout=20)
    assert (ended.returncode, ended.stdout, ended.stderr) == (ABANDONED, b"", b"")
