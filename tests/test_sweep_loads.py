"""`sweep` with the other loads: several processes, and arrivals by a rate or a file."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_behaviours import Say
from fake_server import FakeServer, serve
from test_diagnose_site import fast_twin

from nlqlib.__main__ import main
from nlqlib.artifacts import load_record
from nlqlib.experiments.saved_levels import sweep_records
from nlqlib.serving.twin_target import TwinSettings, twin_app

OPEN = ("sweep", "--target", "twin", "--requests", "12")


def told(capsys: pytest.CaptureFixture[str], *arguments: str, late: bool = False) -> Any:
    """What is printed; `late`: on a busy machine a client may have been late, which is told by the status."""
    capsys.readouterr()
    assert main([*arguments, "--json"]) in ((0, 1) if late else (0,)), capsys.readouterr().err
    return json.loads(capsys.readouterr().out)


def value(point: Any, name: str, stat: str) -> float:
    return next(m["value"] for m in point["metrics"] if (m["name"], m["stat"]) == (name, stat))


def starts(folder: Path) -> np.ndarray[Any, Any]:
    [record] = [load_record(p) for p in folder.rglob("sweep-*.json") if not p.name.endswith(".run.json")]
    return np.array([row["planned_s"] for row in record.samples()])


def test_requests_come_at_the_rate_that_was_asked_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    [point] = told(capsys, *OPEN, "--rate", "2", "--arrivals", "constant", "--out", str(tmp_path))
    assert starts(tmp_path) == pytest.approx(np.arange(12) / 2)
    assert value(point, "offered_rate", "mean") == pytest.approx(2.0)
    assert point["requests"]["ok"] == 12
    # nothing is late in virtual time, so both latencies are one
    assert value(point, "e2e_latency_planned", "p95") == pytest.approx(value(point, "e2e_latency", "p95"))


def test_poisson_arrivals_follow_from_the_seed_and_several_rates_make_several_points(
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = told(capsys, *OPEN, "--rate", "1,3")
    again = told(capsys, *OPEN, "--rate", "1,3")
    other = told(capsys, *OPEN, "--rate", "1,3", "--seed", "5")
    hashes = [[p["params"]["arrivals_sha256"] for p in points] for points in (first, again, other)]
    assert hashes[0] == hashes[1] and not set(hashes[0]) & set(hashes[2]) and len(set(hashes[0])) == 2
    assert [p["params"]["arrivals"] for p in first] == ["poisson", "poisson"]


def test_a_rate_beyond_capacity_is_said_to_pile_up_and_one_below_is_not(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The twin serves about 7 req/s: at 12 its latencies tell how long the load lasted, nothing else."""
    name = "growth in flight over the second half / its chance (sd)"
    found = {}
    for rate, status in (("4", 0), ("12", 1)):
        args = ["sweep", "--target", "twin", "--requests", "300", "--rate", rate, "--json"]
        assert main(args) == status
        shown = capsys.readouterr()
        [point] = json.loads(shown.out)
        found[rate] = next(r for r in point["validity"] if r["rule"] == name)
    assert f"broken: {name}" in shown.err
    assert found["4"]["ok"] is True and abs(found["4"]["value"]) < 1.5
    assert found["12"]["ok"] is False and found["12"]["value"] > 3


def test_gamma_arrivals_take_a_coefficient_of_variation(capsys: pytest.CaptureFixture[str]) -> None:
    [point] = told(capsys, *OPEN, "--rate", "2", "--arrivals", "gamma", "--cv", "3")
    assert (point["params"]["arrivals"], point["params"]["cv"]) == ("gamma", 3.0)


def test_a_trace_is_sent_at_its_own_times(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "times.csv"
    file.write_text("arrival_s\n0.5\n0.75\n4\n", "utf-8")
    arguments = ["sweep", "--target", "twin", "--trace", str(file), "--out", str(tmp_path / "out")]
    [point] = told(capsys, *arguments)
    assert starts(tmp_path / "out") == pytest.approx([0.5, 0.75, 4.0])
    assert point["params"]["rate"] is None and point["requests"]["total"] == 3


def test_an_open_loop_prints_both_latencies(capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    assert main([*OPEN, "--rate", "2"]) == 0
    shown = capsys.readouterr().out
    assert "open loop on a warm prefix" in shown
    heading = next(line for line in shown.splitlines() if "arrivals" in line)
    assert {"rate", "p95_s", "p95_planned_s", "in_flight", "validity"} <= set(heading.split())
    assert shown.splitlines()[-1].split()[0] == "poisson" and shown.splitlines()[-1].endswith("held")


def test_an_open_loop_is_no_level_of_a_closed_one(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    told(capsys, *OPEN, "--rate", "2", "--out", str(tmp_path))
    assert sweep_records(tmp_path) == []


def test_a_repeated_open_loop_is_reused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = [*OPEN, "--rate", "2", "--repeats", "2", "--out", str(tmp_path)]
    first = told(capsys, *arguments)
    assert [p["params"]["repeat"] for p in first] == [1, 2]
    kept = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json*")}
    told(capsys, *arguments)
    assert {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.json*")} == kept


def test_two_processes_share_a_level_over_a_socket(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    server = FakeServer(Say(latency_s=0.05))
    levels = ["--concurrency", "1,4", "--requests", "24", "--workers", "2", "--out", str(tmp_path)]
    with serve(server) as root:
        one, four = told(capsys, "sweep", "--target", f"{root}/v1", *levels, late=True)
    assert (one["params"]["workers"], four["params"]["workers"]) == (1, 2)
    assert value(four, "in_flight", "peak") == 4 == server.peak_in_flight
    assert value(four, "throughput_run", "mean") > 1.5 * value(one, "throughput_run", "mean")
    assert [r.params["concurrency"] for r in sweep_records(tmp_path)] == [1, 4]


def test_the_server_is_watched_while_the_processes_send(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = twin_app(TwinSettings(twin=fast_twin(tmp_path), words="synthetic", output_tokens=300))
    with serve(engine) as root:
        monkeypatch.setenv("METRICS_URL", f"{root}/metrics")
        options = ["--concurrency", "4", "--requests", "24", "--workers", "2"]
        [four] = told(capsys, "sweep", "--target", f"{root}/v1", *options, late=True)
    assert value(four, "running", "max") == 4.0 and value(four, "queue", "mean") is not None
    finished = next(rule for rule in four["validity"] if "finished" in rule["rule"])
    assert finished["value"] == 24 and finished["ok"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "2"], "workers need real time: run `serve twin`, and sweep its address with them"),
        (["--workers", "0"], "--workers take numbers from 1 on"),
        (["--concurrency", "1,4", "--workers", "8"], "8 workers share at most 4 requests in flight"),
        (["--rate", "2", "--concurrency", "4"], "an open loop has no --concurrency and no --workers"),
        (["--rate", "2", "--workers", "2"], "an open loop has no --concurrency and no --workers"),
        (["--rate", "fast"], "--rate takes requests per second such as 2 or 1,2,4, not 'fast'"),
        (["--rate", "0"], "different positive numbers"),
        (["--rate", "inf"], "different positive numbers"),
        (["--rate", "2,2"], "different positive numbers"),
        (["--arrivals", "gamma"], "--arrivals and --cv need a --rate"),
        (["--rate", "2", "--cv", "2"], "--cv belongs to --arrivals gamma"),
        (["--rate", "2", "--arrivals", "gamma", "--cv", "0"], "must be positive and finite, not 0"),
        (["--trace", "{}/none.jsonl"], "the trace none.jsonl cannot be read"),
        (["--trace", "{}/none.jsonl", "--rate", "2"], "does not go with --rate"),
    ],
)
def test_what_cannot_be_offered_is_refused_in_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, options: list[str], said: str
) -> None:
    capsys.readouterr()
    assert main(["sweep", "--target", "twin", *(o.format(tmp_path) for o in options)]) == 2
    shown = capsys.readouterr()
    assert said in shown.err and shown.err.count("\n") == 1 and shown.out == ""


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--workers", "2"], "workers need real time: run `serve twin`, and diagnose its address with them"),
        (["--workers", "0"], "--requests, --workers and --pool take numbers from 1 on"),
        (["--workers", "2", "--pool", "4"], "does not go with --workers"),
    ],
)
def test_processes_that_cannot_be_are_refused_by_diagnose_too(
    capsys: pytest.CaptureFixture[str], options: list[str], said: str
) -> None:
    capsys.readouterr()
    assert main(["diagnose", "--target", "twin", *options]) == 2
    assert said in capsys.readouterr().err
