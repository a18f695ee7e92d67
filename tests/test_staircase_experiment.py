"""The staircase as an experiment: what is started, what is retained, what is said, and what must not stay."""

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.artifacts import Record, Store
from nlqlib.experiments import one_process, one_process_page, staircase
from nlqlib.experiments import staircase_page as page
from nlqlib.experiments.plans import PLANS
from nlqlib.experiments.staircase_figure import stairs_alt, stairs_figure
from nlqlib.experiments.staircase_result import (
    AS_IT_IS,
    ONE_AT_A_TIME,
    PARALLEL,
    SERIAL,
    Run,
    judge,
    measured,
    staircases,
)
from nlqlib.experiments.study import Study
from nlqlib.load.health import ClientHealth
from nlqlib.load.load_run import LoadRun
from nlqlib.load.processes import Release
from nlqlib.plan import Asked
from nlqlib.plots import png
from nlqlib.records import Completion
from nlqlib.remeasured import Comparison, compare
from nlqlib.serving.control_server import control
from nlqlib.serving.target import TargetError, open_target

NOTEBOOK = "02_serialization_staircase"
URL = "http://127.0.0.1:9/v1"


def study_of(tmp_path: Path, target: str = "twin", profile: str = "full") -> Study:
    return Study(NOTEBOOK, open_target(target), profile, "wire", Store(tmp_path))  # type: ignore[arg-type]


# ---- made runs: every time is known ----------------------------------------------------------------------


def a_run(
    name: str, ends_s: Sequence[float], service_s: float, skew_s: float = 0.0, outcome: str = "ok"
) -> Run:
    k = len(ends_s)
    starts = [0.01 + skew_s * i / (k - 1) for i in range(k)]
    done = tuple(
        Completion(f"p{i}", outcome if i == 0 else "ok", start_s=s, end_s=0.01 + e, output_tokens=20)  # type: ignore[arg-type]
        for i, (s, e) in enumerate(zip(starts, ends_s, strict=True))
    )
    alone = tuple(Completion("alone", "ok", start_s=1.0, end_s=1.0 + t * service_s) for t in (0.9, 1.0, 1.3))
    return Run(name, alone, Release(done, (0.005,) * k, tuple(range(100, 100 + k))))


def together(name: str, service_s: float, k: int = 8) -> Run:
    return a_run(name, [service_s * (1 + 0.01 * i) for i in range(k)], service_s)


def stairs(name: str, service_s: float, k: int = 8, at_once: int = 1, skew_s: float = 0.0) -> Run:
    return a_run(name, [service_s * (1 + i // at_once) for i in range(k)], service_s, skew_s)


def runs(**changed: Run) -> list[Run]:
    usual = {
        "parallel": together(PARALLEL, 0.3),
        "bare": together(AS_IT_IS, 0.6),
        "limited": stairs(ONE_AT_A_TIME, 0.6),
        "serial": stairs(SERIAL, 0.3),
    }
    return list({**usual, **changed}.values())


def record_of(tmp_path: Path, found: Sequence[Run], target: str = "twin", cell: str = "") -> Record:
    study = study_of(tmp_path, target)
    wanted = staircase.Trial(8, 20, cell)
    return study.point(staircase.spec(study, wanted), lambda: measured(found, study.target.time_tag))


def test_the_service_time_is_the_median_of_requests_sent_alone() -> None:
    assert together(AS_IT_IS, 0.6).service_s == pytest.approx(0.6)
    assert replace(together(AS_IT_IS, 0.6), alone=()).service_s is None


def test_the_usual_test_finds_stairs_behind_the_limit_alone(tmp_path: Path) -> None:
    record = record_of(tmp_path, runs())
    assert record.results["judged"] == {AS_IT_IS: "parallel", ONE_AT_A_TIME: "serial"}
    assert record.value("router-limit-1_slope", "least squares") == pytest.approx(0.6)
    assert record.value("router-limit-1_slope_share", "least squares") == pytest.approx(1.0)
    assert record.value("router-limit-1_r2", "least squares") == pytest.approx(1.0)
    assert record.value("as-it-is_slope_share", "least squares") == pytest.approx(0.01)
    assert all(rule.ok for rule in record.validity)
    assert record.results["clock"] == "real"


@settings(deadline=None, max_examples=25)
@given(st.integers(4, 12), st.floats(0.2, 5.0))
def test_rows_give_back_the_staircase_of_every_run(k: int, service_s: float) -> None:
    found = [together(PARALLEL, 0.3), stairs(AS_IT_IS, service_s, k), stairs(SERIAL, 0.3)]
    with tempfile.TemporaryDirectory() as folder:
        record = record_of(Path(folder), found, URL)
        assert staircases(record) == {run.name: run.staircase for run in found}
        assert judge(staircases(record))[AS_IT_IS].verdict == "serial"


@pytest.mark.parametrize("at_once", [2, 4])
def test_a_limit_of_k_makes_steps_of_k(tmp_path: Path, at_once: int) -> None:
    record = record_of(tmp_path, runs(bare=stairs(AS_IT_IS, 0.6, at_once=at_once)))
    assert record.results["judged"][AS_IT_IS] == "limited"
    assert staircases(record)[AS_IT_IS].admitted == at_once


@pytest.mark.parametrize(
    "wrong",
    [{"parallel": stairs(PARALLEL, 0.3)}, {"serial": together(SERIAL, 0.3)}],
    ids=["parallel", "serial"],
)
def test_a_misjudged_control_voids_every_verdict(tmp_path: Path, wrong: dict[str, Run]) -> None:
    record = record_of(tmp_path, runs(**wrong))
    assert set(record.results["judged"].values()) == {"refused"}
    assert [r.ok for r in record.validity if "is called" in r.rule].count(False) == 1
    assert "void" in page.controls_sentence(record)
    assert "void" in page.verdict_sentence(record, study_of(tmp_path))
    table = page.against_article(record, study_of(tmp_path, URL))
    assert set(table["verdict"]) == {"not measured"}


def test_a_release_spread_over_the_service_time_gets_no_verdict(tmp_path: Path) -> None:
    spread = a_run(AS_IT_IS, [0.6 + 0.05 * i for i in range(8)], 0.6, skew_s=0.35)
    record = record_of(tmp_path, runs(bare=spread))
    assert record.results["judged"][AS_IT_IS] == "refused"
    assert [r.rule for r in record.validity if r.ok is False] == [f"{AS_IT_IS}: release skew / service time"]
    assert "it draws steps of its own" in page.release_sentence(record)


def test_a_failed_request_leaves_a_gap_and_no_verdict(tmp_path: Path) -> None:
    failed = a_run(AS_IT_IS, [0.6] * 8, 0.6, outcome="http_503")
    record = record_of(tmp_path, runs(bare=failed))
    assert record.requests == {"total": 16, "ok": 15, "http_503": 1}
    assert record.results["judged"][AS_IT_IS] == "refused"
    assert "1 of 8 requests failed" in record.results["reasons"][AS_IT_IS]


# ---- what is said ----------------------------------------------------------------------------------------


def test_the_figures_words_name_slope_and_verdict(tmp_path: Path) -> None:
    record, study = record_of(tmp_path, runs()), study_of(tmp_path)
    alt = stairs_alt(record, study)
    assert "as it is slope 0.01, parallel; router limit 1 slope 1.00, serial" in alt
    assert "8 independent processes" in alt
    figure = stairs_figure(record, study)
    assert png(figure) == png(stairs_figure(record, study))
    labels = {str(line.get_label()) for line in figure.axes[0].get_lines()}
    assert {AS_IT_IS, ONE_AT_A_TIME, PARALLEL, SERIAL} <= labels


def test_the_verdict_says_that_the_limit_makes_the_stairs(tmp_path: Path) -> None:
    said = page.verdict_sentence(record_of(tmp_path, runs()), study_of(tmp_path))
    assert "what makes the stairs is the limit in the path" in said


def test_a_serial_url_has_its_queue_beyond_the_client_and_no_limit_of_ours(tmp_path: Path) -> None:
    found = [together(PARALLEL, 0.3), stairs(AS_IT_IS, 3.2), stairs(SERIAL, 0.3)]
    study = study_of(tmp_path, URL)
    record = record_of(tmp_path, found, URL)
    said = page.verdict_sentence(record, study)
    assert "not observable here" in said and "the queue lies beyond the client" in said
    table = page.against_article(record, study)
    assert list(table["verdict"]) == ["reproduced"] * 3
    assert "missing" in page.engine_sentence(record)


def test_on_the_twin_the_steps_hold_by_construction(tmp_path: Path) -> None:
    table = page.against_article(record_of(tmp_path, runs()), study_of(tmp_path))
    assert set(table["tag"]) == {"by construction"}
    assert set(table["verdict"]) == {"not comparable"}
    assert table["value"].iloc[2].startswith("3 ")


def test_every_rule_has_its_row(tmp_path: Path) -> None:
    record = record_of(tmp_path, runs())
    assert list(page.rules_table(record).index) == [r.rule for r in record.validity]
    assert list(page.release_table(record)["processes"]) == [8] * 4


# ---- what is measured ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "profile", "processes", "tokens"),
    [("twin", "full", 8, 20), ("twin", "quick", 6, 20), (URL, "full", 8, None), (URL, "quick", 6, 16)],
)
def test_the_profile_decides_how_many_and_how_long(
    tmp_path: Path, target: str, profile: str, processes: int, tokens: int | None
) -> None:
    found = staircase.trial(study_of(tmp_path, target, profile))
    assert (found.processes, found.output_tokens) == (processes, tokens)


def test_every_process_asks_a_question_of_its_own(tmp_path: Path) -> None:
    study = study_of(tmp_path)
    asked = staircase.offered(study, staircase.trial(study))
    assert len({r.messages[-1]["content"] for r in asked}) == len({r.request_id for r in asked}) == 8
    assert all(r.max_tokens == 20 and r.extra["ignore_eos"] for r in asked)


def test_a_cell_is_refused_where_the_limits_are_ours(tmp_path: Path) -> None:
    with pytest.raises(TargetError, match="the limit is set by us"):
        staircase.trial(study_of(tmp_path), cell="before")


def test_the_plan_counts_the_endpoints_requests_and_the_real_seconds() -> None:
    params = {"processes": 0, "output_tokens": 0, "cell": ""}
    plan = PLANS[NOTEBOOK](Asked(NOTEBOOK, "twin", "full", None, params, remeasure=True))
    assert plan.requests == 2 * (8 + 1 + 3)
    assert plan.output_tokens == 20 * plan.requests
    assert 20 < plan.seconds < 50


def test_the_point_of_one_process_sends_nothing_to_the_endpoint() -> None:
    assert one_process.SPEC.requests == 0


# ---- measured again --------------------------------------------------------------------------------------


def again(tmp_path: Path, first: Sequence[Run], second: Sequence[Run]) -> Comparison:
    old, new = (record_of(tmp_path / n, found) for n, found in (("old", first), ("new", second)))
    return compare(new, old)


def test_a_slower_machine_still_reproduces_the_same_verdicts(tmp_path: Path) -> None:
    found = again(tmp_path, runs(), runs(limited=stairs(ONE_AT_A_TIME, 0.66)))
    assert found.verdict == "reproduced" and found.note == "within its tolerance"


def test_another_service_time_or_verdict_is_changed_and_says_what_moved(tmp_path: Path) -> None:
    slower = again(tmp_path / "a", runs(), runs(limited=stairs(ONE_AT_A_TIME, 0.9)))
    assert slower.verdict == "changed"
    assert any(text.startswith("router-limit-1_service median 0.6 → 0.9") for text in slower.moved)
    other = again(tmp_path / "b", runs(), runs(bare=stairs(AS_IT_IS, 0.6)))
    assert other.verdict == "changed"
    assert any(text.startswith("judged: ") for text in other.moved)


# ---- one process -----------------------------------------------------------------------------------------


def a_load(share: float, n: int = 32) -> LoadRun:
    each = one_process.SERVICE_S / share
    done = tuple(Completion(f"r{i}", "ok", start_s=0.0, end_s=each) for i in range(n))
    return LoadRun(done, n, 0.0, ClientHealth(n, n, 0, 0.001, 0.02, 0.001))


def test_what_a_client_does_not_reach_is_named_as_the_clients_own(tmp_path: Path) -> None:
    found = one_process.measured(
        [("wire", 32, a_load(0.98)), ("openai", 32, a_load(0.9)), ("openai", 256, a_load(0.2, 256))]
    )
    assert [m.value for m in found.metrics if m.stat == one_process.SHARE] == pytest.approx([0.98, 0.9, 0.2])
    study = study_of(tmp_path)
    record = study.point(one_process.SPEC, lambda: found)
    said = one_process_page.sentence(record)
    assert "at worst 80% (openai, 256 in flight)" in said
    assert "98% (wire) and 90% (openai)" in said
    assert list(one_process_page.table(record)["achieved / ideal"]) == ["98.0%", "90.0%", "20.0%"]


# ---- for real: processes, sockets, time ------------------------------------------------------------------


@pytest.fixture(scope="module")
def serial_url() -> Iterator[str]:
    with control("serial", 0.4) as server:
        yield f"{server.root}/v1"


def measured_for_real(study: Study, wanted: staircase.Trial) -> Record:
    """The test; on a machine too busy to release its processes together it gives no verdict: once more."""
    record = staircase.measure(study, wanted)
    for _ in range(2):
        if record.results["judged"][AS_IT_IS] == "refused":
            record.path.unlink()
            record = staircase.measure(study, wanted)
    return record


def test_a_serial_endpoint_is_called_serial_and_its_cells_are_merged(tmp_path: Path, serial_url: str) -> None:
    study = study_of(tmp_path, serial_url, "quick")
    before = measured_for_real(study, staircase.trial(study, 4, cell="before"))
    assert before.results["runs"] == [PARALLEL, AS_IT_IS, SERIAL]
    assert before.results["verdicts"] == {PARALLEL: "parallel", AS_IT_IS: "serial", SERIAL: "serial"}
    assert staircases(before)[AS_IT_IS].slope_share == pytest.approx(1.0, abs=0.25)
    after = staircase.trial(study, 4, cell="after")
    assert staircase.other_cells(study, after) == [before]
    table = page.endpoint_table(before, [])
    assert list(table.index) == ["as it is (before)"] and list(table["verdict"]) == ["serial"]


OWNER = """
import sys
from pathlib import Path
from nlqlib.artifacts import Store
from nlqlib.experiments import staircase
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target
store = Store(Path(sys.argv[2]))
study = Study("02_serialization_staircase", open_target(sys.argv[1]), "quick", "wire", store)
staircase.measure(study, staircase.trial(study, 4))
"""


def soon(happened: Callable[[], bool], seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    while not happened():
        assert time.monotonic() < until, "it did not happen in time"
        time.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_nothing_stays_when_the_test_is_interrupted_or_killed(
    tmp_path: Path, serial_url: str, how: signal.Signals
) -> None:
    command = [sys.executable, "-c", OWNER, serial_url, str(tmp_path)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as owner:
        family: list[psutil.Process] = []

        def released() -> bool:
            family[:] = psutil.Process(owner.pid).children(recursive=True)
            return sum("nlqlib.load.worker" in _command(p) for p in family) == 4

        soon(released)
        owner.send_signal(how)
        owner.wait(60)
    assert len(family) >= 4 + 2 * 2  # processes, and two controls with their supervisors
    soon(lambda: not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in family if _there(p)))


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _there(process: psutil.Process) -> bool:
    return psutil.pid_exists(process.pid)
