"""`make bench`: speeds measured anew, printed and kept as a point of kind bench."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks import __main__ as bench
from benchmarks import speeds
from nlqlib.artifact_record import load_records
from nlqlib.experiments import twin_validation_socket as socket
from nlqlib.experiments.twin_validation_speed import Effort, Speed
from nlqlib.serving.target import TargetError, open_target
from nlqlib.twin import model

TINY = speeds.Sizes(Effort(engine_requests=100, sweep_requests=4, levels=(1, 2), repeats=1), 300)
FAST = Speed("engine", 30_000.0, 4000.0, 20_000)
SLOW = Speed("sweep", 500.0, 900.0, 1000, "× real time")


@pytest.fixture()
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speeds, "FULL", TINY)


def test_the_table_has_a_line_for_each_case_with_its_bound() -> None:
    lines = speeds.table([FAST, SLOW, Speed("socket", 5000.0, None, 4700)]).splitlines()
    assert lines[1].split() == ["engine", "30,000", "4,000", "≥", "20,000", "req/s,", "met"]
    assert lines[2].endswith("≥ 1,000 × real time, MISSED")
    assert lines[3].split() == ["socket", "5,000", "≥", "4,700", "req/s,", "met"]


def test_speeds_are_kept_as_a_bench_and_read_back(
    tiny: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench.main(["--json", "--no-socket"], root=tmp_path)
    rows = json.loads(capsys.readouterr().out)
    (record,) = load_records(tmp_path)
    assert (record.body["kind"], record.body["target"], record.body["status"]) == ("bench", "twin", "success")
    assert [s.name for s in speeds.of_record(record)] == [row["name"] for row in rows]
    assert {m["unit"] for m in record.body["metrics"]} == {"req/s", "× real time"}
    assert record.body["params"]["effort"]["engine_requests"] == 100


def test_a_second_run_measures_again_instead_of_reusing(tmp_path: Path) -> None:
    first, second = (speeds.keep(TINY, False, tmp_path) for _ in range(2))
    assert first.path == second.path and not second.reused
    assert second.comparison is not None


def test_a_missed_bound_is_exit_status_1(
    tiny: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for found, status in (([FAST], 0), ([FAST, SLOW], 1)):
        monkeypatch.setattr(speeds.speed, "speeds", lambda effort, tell, found=found: list(found))
        assert bench.main(["--no-socket"], root=tmp_path) == status
    assert "MISSED" in capsys.readouterr().out


# --- the socket -------------------------------------------------------------------------------------------


def test_the_twin_on_the_socket_answers_in_50_ms_alone_and_takes_256_at_once(tmp_path: Path) -> None:
    path = tmp_path / "socket.json"
    path.write_text(socket.document(), "utf-8")
    twin = model.load(path)
    steps = 1 + socket.TOKENS - 1
    assert twin.outside_s + steps * twin.step_time.features_s(1, 1, 1, 1) == pytest.approx(0.050)
    assert twin.limits.max_num_seqs >= socket.IN_FLIGHT
    alone = open_target("twin").engine(twin=str(path), words="synthetic", output_tokens=10, output_sd=0)

    async def one() -> float | None:
        client = alone.client("wire")
        try:
            return (await client.complete(socket.PROMPT)).e2e_s
        finally:
            await client.aclose()

    assert alone.run(one()) == pytest.approx(0.050, abs=0.0015)


def test_requests_over_a_socket_are_counted_in_wall_time() -> None:
    found = socket.speed(requests=240, repeats=1, in_flight=8)
    assert 8 / 0.5 < found.requests_per_s <= 8 / 0.050 * 1.02
    assert found.times_real is None and found.bound == 4700


def test_a_server_that_does_not_come_up_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(socket, "document", lambda: "{")
    with pytest.raises(socket.ServerError, match="not JSON"), socket.served():
        pytest.fail("nothing is served")


def test_a_bench_names_the_settings_it_ran_with() -> None:
    key = speeds._key(TINY, True)
    assert key.params["socket"] is True and key.identity["name"] == "twin"
    assert replace(key, params={}) != key
    with pytest.raises(TargetError):
        open_target("twin").engine(twin="none")
