"""The server with a fixed latency, and what the bench says of a client of it."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import capacity, client_bench, clients
from benchmarks.capacity import Held
from benchmarks.client_bounds import OPENAI, WIRE, bounds, bounds_table, server_bounds, table
from benchmarks.clients import BenchError, Cost, Tool, client_is_limit, fixed_server
from benchmarks.fixed_server import Count, plain_answer, streamed_answer
from nlqlib.artifact_record import load_records

ABSENT = client_bench.NotRun("guidellm", "it is not here")
GOOD = Cost(WIRE, 32, False, 3200, 0.98, 0.06, 31.9, 32, 0.02, 32, 0.05)

RUNGS = [Held(1024, 0.99, 1024), Held(2048, 0.93, 2048), Held(4096, 0.71, 3900)]
FOUND = client_bench.Found([GOOD], [ABSENT], 31_000.0, RUNGS)


@pytest.fixture(scope="module")
def root() -> Iterator[str]:
    with fixed_server() as address:
        yield address


def test_in_flight_is_integrated_over_time() -> None:
    clock = [10.0]
    count = Count(lambda: clock[0])
    for at_s, change in ((10.0, 1), (11.0, 1), (12.0, -1), (14.0, -1)):
        clock[0] = at_s
        count.come() if change > 0 else count.go()
    told = count.told()
    assert (told["requests"], told["peak_in_flight"], told["span_s"]) == (2, 2, 4.0)
    assert told["mean_in_flight"] == pytest.approx((1 + 2 + 1 + 1) / 4)


def test_a_request_before_a_pause_does_not_count() -> None:
    clock = [0.0]
    count = Count(lambda: clock[0])
    for at_s, change in ((0.0, 1), (0.1, -1), (5.0, 1), (5.05, -1)):
        clock[0] = at_s
        count.come() if change > 0 else count.go()
    assert count.told()["requests"] == 1 and count.told()["span_s"] == pytest.approx(0.05)


def test_a_pause_within_a_load_counts() -> None:
    clock = [0.0]
    count = Count(lambda: clock[0])
    for at_s in (0.0, 0.0, 0.0, 1.0, 1.0, 1.0):
        clock[0] = at_s
        count.come()
        clock[0] = at_s + 0.1
        count.go()
    assert count.told()["requests"] == 6 and count.told()["span_s"] == pytest.approx(1.1)


def test_both_answers_are_whole_http_responses() -> None:
    head, body = plain_answer(8).split(b"\r\n\r\n", 1)
    assert f"content-length: {len(body)}".encode() in head
    assert json.loads(body)["usage"]["completion_tokens"] == 8
    pieces = streamed_answer(8)
    assert len(pieces) == 9 and pieces[-1].endswith(b"0\r\n\r\n")


@pytest.mark.parametrize("stream", [False, True])
def test_our_client_is_counted_by_the_server_as_it_counts_itself(root: str, stream: bool) -> None:
    found = clients.cost(clients.ours("wire"), root, 4, stream, waves=20)
    assert found.requests == 80 and found.client_limits == ()
    assert found.told_peak == found.server_peak == 4
    assert 0 < found.achieved <= 1.02


def test_the_openai_client_is_measured_the_same_way(root: str) -> None:
    found = clients.cost(clients.ours("openai"), root, 2, waves=12)
    assert found.tool == "nlqlib openai" and found.requests == 24


def test_a_tool_that_fails_is_an_error_with_its_last_words(root: str) -> None:
    broken = Tool("broken", lambda root, k, n, stream: ["sh", "-c", "echo no such model; exit 3"])
    with pytest.raises(BenchError, match=r"broken ended with status 3 after 0 of 4 requests: no such model"):
        clients.ran(broken, root, 2, 4, False)


def test_bounds_judge_only_the_wire_client() -> None:
    assert all(b.ok for b in bounds([GOOD, replace(GOOD, tool="other", achieved=0.1)]))
    assert len(bounds([replace(GOOD, tool="other")])) == 0


def test_a_client_below_95_percent_must_name_itself_as_the_limit() -> None:
    silent = replace(GOOD, achieved=0.9)
    named = [b for b in bounds([silent]) if "naming the client" in b.what]
    assert [b.ok for b in named] == [False]
    named = bounds([replace(silent, client_limits=("client: share of a core",))])
    assert [b.ok for b in named if "naming the client" in b.what] == [True]


@pytest.mark.parametrize("tool", [WIRE, OPENAI])
def test_each_client_of_ours_must_name_itself(tool: str) -> None:
    slow = replace(GOOD, tool=tool, achieved=0.83)
    assert [b.ok for b in bounds([slow]) if "naming the client" in b.what] == [False]


@pytest.mark.parametrize(
    ("achieved", "in_flight_share", "named"),
    [(0.83, 0.83, True), (0.949, 0.951, True), (0.585, 0.571, True), (0.96, 0.96, False), (0.8, 0.99, False)],
)
def test_the_client_is_named_where_the_server_saw_too_few(
    achieved: float, in_flight_share: float, named: bool
) -> None:
    assert bool(client_is_limit(achieved, in_flight_share)) is named


def test_missing_is_missed() -> None:
    judged = bounds([replace(GOOD, first_request_s=None)])
    assert [b.ok for b in judged if "first request" in b.what] == [False]
    assert "missing" in bounds_table(judged)


def test_the_bench_is_kept_with_units_and_with_what_did_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(client_bench, "measure", lambda cases, wanted, tell: FOUND)
    client_bench.main(["--peers", "", "--cases", "32"], root=tmp_path)
    out = capsys.readouterr().out
    assert "guidellm: not run, because it is not here" in out
    assert "held, answers of 1 s: 2,048" in out and "driven without a pause: 31,000 req/s" in out
    (record,) = load_records(tmp_path)
    assert record.body["kind"] == "bench" and record.body["status"] == "success"
    assert {m["unit"] for m in record.body["metrics"]} == {"share", "s per 1,000 requests"}
    assert client_bench.of_record(record) == FOUND
    assert table([GOOD]).splitlines()[1].split()[:3] == ["nlqlib", "wire", "32"]


def test_what_is_held_ends_at_the_first_rung_that_is_not() -> None:
    assert [one.ok for one in RUNGS] == [True, True, False]
    assert capacity.largest_held(RUNGS) == 2048
    assert capacity.largest_held([Held(1024, None, None, "it failed")]) is None


def test_a_climb_stops_where_nothing_is_held(monkeypatch: pytest.MonkeyPatch) -> None:
    def cost(tool: Tool, root: str, concurrency: int, **_: object) -> Cost:
        if concurrency > 1024:
            raise BenchError("too many open files")
        return replace(GOOD, concurrency=concurrency, server_peak=concurrency)

    monkeypatch.setattr(capacity, "cost", cost)
    found = capacity.ladder((1024, 2048, 4096))
    assert [(one.concurrency, one.ok, one.why) for one in found] == [
        (1024, True, ""),
        (2048, False, "too many open files"),
    ]


def test_the_server_is_driven_by_sockets_alone_and_judged_by_its_rate() -> None:
    assert capacity.server_rate(connections=8, seconds=0.2) > 100
    assert [b.ok for b in server_bounds(29_999.0)] == [False] and not list(server_bounds(None))
