"""The diagnosis end to end: the twin behind the gateway in virtual time, saved runs, and the command."""

import json
import random
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from blind_view import outside, twin

from nlqlib.__main__ import main
from nlqlib.analysis.diagnosis import Diagnosis, diagnose
from nlqlib.artifacts import PointKey, Record, Store
from nlqlib.experiments import chats, saved_levels
from nlqlib.experiments.diagnose import Plan, Swept, of_records, sweep, verdict
from nlqlib.experiments.saved_levels import levels_of, sweep_records
from nlqlib.experiments.staircase_result import AS_IT_IS, PARALLEL, Run, measured
from nlqlib.experiments.staircase_result import SERIAL as SERIAL_CONTROL
from nlqlib.experiments.study import Study
from nlqlib.load.closed_loop import LoadError
from nlqlib.load.health import ClientHealth
from nlqlib.load.processes import Release
from nlqlib.records import Completion
from nlqlib.serving.target import Target

GRID = (1, 4, 8, 16)


def study(folder: Path, target: Target) -> Study:
    return Study("diagnose", target, "full", "wire", Store(folder))


def seen(folder: Path, target: Target, grid: tuple[int, ...] = GRID, pool: int | None = None) -> Diagnosis:
    return verdict(sweep(study(folder, target), Plan(grid, pool=pool)))


@dataclass(frozen=True)
class Case:
    """A deployment, and what must be said of it with everything seen, and with nothing."""

    name: str
    inside: tuple[str, str | None]
    from_outside: str
    limits: dict[str, int] = field(default_factory=dict)
    engine: dict[str, int] = field(default_factory=dict)
    pool: int | None = None

    def swept(self, folder: Path, shown: bool) -> Swept:
        target = twin(shown, **self.limits)
        there = target.engine(**self.engine) if self.engine else target
        return sweep(study(folder, there), Plan(GRID, pool=self.pool))


SERIAL, FOUR = "serialised upstream", "limited at 4"
CASES = [
    Case("router 1", (SERIAL, "router"), SERIAL, {"router": 1}),
    Case("router 4", (FOUR, "router"), FOUR, {"router": 4}),
    Case("replica 1", (SERIAL, "replica"), SERIAL, {"replica": 1}),
    Case("replica 4", (FOUR, "replica"), FOUR, {"replica": 4}),
    Case("both 1", (SERIAL, "router"), SERIAL, {"router": 1, "replica": 1}),
    Case("4 then 1", (SERIAL, "replica"), SERIAL, {"router": 4, "replica": 1}),
    Case("pool 8", ("client-limited", "client"), "client-limited", pool=8),
    Case("seqs 4", ("scheduler-limited", "engine"), FOUR, engine={"max_num_seqs": 4}),
    Case("unlimited", ("batching works", None), "batching works"),
    Case("2 x 2", (FOUR, "replica"), FOUR, {"replicas": 2, "replica": 2}),
]
each_case = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


@each_case
def test_where_everything_is_seen_the_verdict_is_right_and_names_the_layer(
    tmp_path: Path, case: Case
) -> None:
    found = verdict(case.swept(tmp_path, shown=True))
    assert (found.verdict, found.layer) == case.inside
    upstream = found.kind in ("limited", "serialised upstream")
    assert ("so concurrency is lost before the engine's scheduler:" in found.sentence) == upstream


@each_case
def test_where_gateway_and_engine_really_hide_everything_the_verdict_stays_right(
    tmp_path: Path, case: Case
) -> None:
    swept = case.swept(tmp_path, shown=False)
    assert all(row == outside(row) for row in levels_of(swept.records))  # nothing was told
    found = verdict(swept)
    assert found.verdict == case.from_outside
    assert found.layer in (None, "client") and "so concurrency is lost" not in found.sentence
    if found.limit is not None and found.layer is None:
        assert "whether before the engine's scheduler or in it is not observable" in found.sentence


def test_a_gateway_that_hides_everything_leaves_the_verdict_and_hides_the_layer(tmp_path: Path) -> None:
    found = seen(tmp_path, twin(shown=False, router=4))
    assert (found.verdict, found.layer) == ("limited at 4", None)
    assert any("no /metrics" in gap for gap in found.not_observable)
    assert any(gap.startswith("waits at the router") for gap in found.not_observable)
    assert {row.state for row in found.layers[2:]} == {"not observable"}


def test_two_replicas_are_counted(tmp_path: Path) -> None:
    found = seen(tmp_path, twin(replicas=2), (1, 4, 8))
    assert found.verdict == "batching works" and "2 replicas answered" in found.sentence


def test_recorded_answers_of_differing_length_change_nothing(tmp_path: Path) -> None:
    swept = sweep(study(tmp_path, twin(router=4)), Plan((1, 4, 16), words="recordings"))
    found = verdict(swept)
    assert found.verdict == "limited at 4" and not found.marked
    assert {e.name: e.value for e in found.evidence}["answers served but of no use"].startswith("length")


def test_saved_levels_say_what_the_levels_said(tmp_path: Path) -> None:
    swept = sweep(study(tmp_path, twin(router=4)), Plan((1, 4, 8)))
    again = of_records(sweep_records(tmp_path))
    assert again == verdict(swept) and again.verdict == "limited at 4"


@pytest.fixture(scope="module")
def saved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Two sweeps by the command, before and after the limits were lifted."""
    root = tmp_path_factory.mktemp("saved")
    folders = {name: root / name for name in ("before", "after")}
    small = ["--target", "twin", "--concurrency", "1,4,8", "--json"]
    limits = ["--router-limit", "1", "--replica-limit", "1"]
    assert main(["diagnose", *small, *limits, "--out", str(folders["before"])]) == 0
    assert main(["diagnose", *small, "--out", str(folders["after"])]) == 0
    return folders


def told(capsys: pytest.CaptureFixture[str], *arguments: str, status: int = 0) -> Any:
    capsys.readouterr()
    assert main([*arguments]) == status
    return json.loads(capsys.readouterr().out)


def test_the_command_tells_a_folder_what_it_told_the_target(
    saved: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "diagnose", str(saved["before"]), "--json")
    assert found["verdict"] == "serialised upstream" and found["layer"] == "router" and found["limit"] == 1
    assert [row["name"] for row in found["layers"]] == [
        "Client", "Transport", "Router", "Replica admission", "Engine scheduler", "Autoscaler",
    ]  # fmt: skip


def test_the_command_prints_verdict_evidence_layers_and_remedy(
    saved: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["diagnose", str(saved["before"])]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("Serialised upstream, so concurrency is lost before the engine's scheduler: at 8")
    for heading in ("Evidence", "Layers, from the outside in", "Not observable", "Next experiment:"):
        assert heading in shown
    assert "`concurrency_target`" in shown and "independent processes" in shown


def test_compare_shows_the_gain_with_its_interval_and_what_was_changed(
    saved: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "compare", str(saved["before"]), str(saved["after"]), "--json")
    assert (found["before"]["verdict"], found["after"]["verdict"]) == (
        "serialised upstream",
        "batching works",
    )
    assert found["settings"]["identity.admission.router"] == [1, None]
    gain = next(c for c in found["changes"] if (c["concurrency"], c["quantity"]) == (8, "throughput"))
    assert gain["reading"] == "higher" and 6 < gain["ratio"] < 8
    assert gain["interval"][0] <= gain["difference"] <= gain["interval"][1]


def test_compare_warns_that_two_settings_changed_at_once(
    saved: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert main(["compare", str(saved["before"]), str(saved["after"])]) == 0
    assert "more than one setting differs" in capsys.readouterr().out


def test_compare_of_one_run_with_itself_reads_nothing_from_its_times(
    saved: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "compare", str(saved["after"]), str(saved["after"]), "--json")
    readings = {c["quantity"]: c["reading"] for c in found["changes"]}
    assert readings.pop("failed") == "no difference shown"
    assert set(readings.values()) == {"one run, cannot tell"} and not found["settings"]


def test_compare_reads_levels_that_were_repeated(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    sides = [str(tmp_path / name) for name in ("one", "other")]
    for seed, side in enumerate(sides):
        grid = ["--concurrency", "1,4", "--requests", "24", "--repeats", "2", "--seed", str(10 * seed)]
        assert main(["sweep", "--target", "twin", *grid, "--out", side, "--json"]) == 0
    found = told(capsys, "compare", *sides, "--json")
    assert {c["method"] for c in found["changes"]} == {"runs, Welch", "counts, Newcombe"}
    assert {c["reading"] for c in found["changes"]} <= {"no difference shown", "higher", "lower"}


def test_levels_of_the_sweep_command_are_diagnosed_as_well(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grid = ["--concurrency", "1,4,8", "--requests", "48"]
    assert main(["sweep", "--target", "twin", *grid, "--out", str(tmp_path), "--json"]) == 0
    assert told(capsys, "diagnose", str(tmp_path), "--json")["verdict"] == "batching works"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["diagnose", "{}/nowhere"], "is no folder"),
        (["diagnose", "{}"], "no measured levels"),
        (["diagnose", "--concurrency", "4"], "several numbers"),
        (["diagnose", "--concurrency", "a,b"], "numbers such as 1,2,4"),
        (["diagnose", "--workload", "{}/none.jsonl"], "cannot read"),
        (["diagnose", "--router-limit", "0"], "a router limit of 0"),
        (["diagnose", "--processes", "8"], "processes need real time"),
        (["diagnose", "--processes", "2"], "fewer show no staircase"),
        (["compare", "{}", "{}"], "no measured levels"),
    ],
)
def test_what_the_user_can_mend_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert main([a.format(tmp_path) for a in arguments]) == 2
    assert said in capsys.readouterr().err.splitlines()[-1]


def test_two_sweeps_in_one_folder_are_named_not_mixed(
    saved: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["diagnose", str(saved["before"].parent)]) == 2
    assert "holds 2 sweeps" in capsys.readouterr().err


def test_a_single_level_cannot_tell_and_the_status_says_so(
    saved: dict[str, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    found = told(capsys, "diagnose", str(saved["after"]), "--points", "*-n01", "--json", status=1)
    assert found["verdict"].startswith("cannot tell, because fewer than two levels")


def changed(record: Record, **body: Any) -> Record:
    return replace(record, body={**record.body, **body})


def released(name: str, at_once: int) -> Run:
    """Eight processes of 2 s each, served `at_once` at a time."""
    ends = [2.0 * (1 + i // at_once) for i in range(8)]
    done = tuple(Completion(f"p{i}", "ok", start_s=0.0, end_s=end) for i, end in enumerate(ends))
    alone = (Completion("alone", "ok", start_s=0.0, end_s=2.0),)
    return Run(name, alone, Release(done, (0.0,) * 8, tuple(range(8))))


def test_a_retained_staircase_counts_for_the_deployment_it_was_measured_on(
    saved: dict[str, Path], tmp_path: Path
) -> None:
    level = sweep_records(saved["before"])[0]
    runs = [released(PARALLEL, 8), released(AS_IT_IS, 1), released(SERIAL_CONTROL, 1)]
    key = PointKey("twin", "n", "staircase", "point", {}, None, level.body["identity"], "1")
    Store(tmp_path).measure(key, lambda: measured(runs, "measured"))
    found = saved_levels.saved_staircase(tmp_path, level)
    assert found is not None and found.controls_hold and found.verdict == "serial"
    assert saved_levels.saved_staircase(tmp_path, changed(level, identity={"name": "another"})) is None
    assert saved_levels.saved_staircase(saved["before"], level) is None


def test_a_model_that_changed_between_levels_leaves_a_level_out(saved: dict[str, Path]) -> None:
    records = sweep_records(saved["before"])
    other = changed(records[-1], server={**records[-1].body["server"], "model": "another/model"})
    found = of_records([*records[:-1], other])
    assert found.marked and "another model answered: another/model" in found.sentence


@pytest.mark.parametrize(("rule", "meaning"), saved_levels.VOIDS.items())
def test_a_broken_rule_of_the_server_voids_its_level(saved: dict[str, Path], rule: str, meaning: str) -> None:
    records = sweep_records(saved["before"])
    failed = {"rule": rule, "value": 1, "threshold": 0, "ok": False}
    assert levels_of([changed(records[-1], validity=[failed])])[0].invalid == meaning


def test_runs_that_overlapped_are_left_out_with_the_reason(saved: dict[str, Path]) -> None:
    runs = [
        replace(r, run={"instance": "local-x", "interval_s": [0, 9]}) for r in sweep_records(saved["before"])
    ]
    found = of_records(runs)
    assert found.verdict == "cannot tell, because another run used the same endpoint at the same time"


def test_the_rules_read_are_the_rules_written() -> None:
    names = {rule.rule for rule in ClientHealth(1, 1, 0).rules(1)}
    assert {saved_levels.POOL, saved_levels.POOL_WAITS} <= names


@pytest.mark.parametrize(("limit", "said"), [(1, SERIAL), (4, FOUR)])
@pytest.mark.parametrize("shown", [True, False], ids=["seen", "hidden"])
def test_a_gateway_that_refuses_instead_of_queueing_is_a_limit(
    tmp_path: Path, limit: int, said: str, shown: bool
) -> None:
    swept = sweep(study(tmp_path, twin(shown, router=limit, max_queue=0)), Plan(GRID))
    assert not swept.lost and [r.requests["ok"] for r in swept.records[2:]] == [limit, limit]
    found = verdict(swept)
    assert found.verdict == said and found.marked and not found.seen
    assert "refuses the rest with 429 or 503" in found.sentence and "http_429" in found.sentence
    assert "wait that refusals ask for (Retry-After), s" in {e.name for e in found.evidence}


def test_an_endpoint_at_which_nothing_is_answered_is_an_error_and_no_verdict(tmp_path: Path) -> None:
    class Dead:
        def __init__(self, app: Any) -> None:
            self.app = app

        async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"].endswith("/completions"):
                await send({"type": "http.response.start", "status": 500, "headers": []})
                await send({"type": "http.response.body", "body": b"{}"})
            else:
                await self.app(scope, receive, send)

    plain = twin().engine(words="synthetic")
    dead = replace(plain, connect=lambda: _wrapped(plain, Dead))
    dead = replace(dead, variant=lambda flags: dead)
    with pytest.raises(LoadError, match="http_5xx"):
        sweep(study(tmp_path, dead), Plan((1, 4)))


def _wrapped(plain: Target, wrap: Any) -> Any:
    there = plain.connect()
    return replace(there, app=wrap(there.app))


class Flaky:
    """Every fifth request to generate, in a fixed irregular order, ends at once in a 503."""

    def __init__(self, app: Any, seed: int = 0) -> None:
        self.app, self.random = app, random.Random(seed)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"].endswith("/completions") and self.random.random() < 0.2:
            await send({"type": "http.response.start", "status": 503, "headers": []})
            await send({"type": "http.response.body", "body": b'{"error": {"message": "busy"}}'})
        else:
            await self.app(scope, receive, send)


@pytest.mark.parametrize(("limit", "said"), [(4, "limited at 4"), (None, "batching works")])
def test_random_503s_mark_the_verdict_and_leave_it_right(
    tmp_path: Path, limit: int | None, said: str
) -> None:
    def behind(target: Target) -> Target:
        flaky = replace(target, connect=lambda: _wrapped(target, Flaky))
        return replace(flaky, variant=lambda flags: behind(target.engine(**flags)))

    swept = sweep(study(tmp_path, behind(twin(router=limit) if limit else twin())), Plan(GRID))
    for found in (verdict(swept), diagnose([outside(row) for row in levels_of(swept.records)])):
        assert found.verdict == said and found.marked and "http_503" in found.sentence


CHAT = {"messages": [{"role": "user", "content": "hello"}], "max_tokens": 20, "ignore_eos": True}


def test_chats_of_ones_own_are_the_workload(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.jsonl"
    file.write_text("\n".join(json.dumps({**CHAT, "max_tokens": 20 + i}) for i in range(3)), "utf-8")
    options = ["--workload", str(file), "--concurrency", "1,4,8", "--router-limit", "1", "--json"]
    found = told(capsys, "diagnose", *options, "--out", str(tmp_path / "out"))
    assert found["verdict"] == "serialised upstream"
    records = sweep_records(tmp_path / "out")
    assert {r.workload.name for r in records if r.workload} == {"mine"}
    assert {row["output_tokens"] for row in records[0].samples()} == {20, 21, 22}


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("", "holds no chat"),
        ("[1]", "no JSON object"),
        ("{", "is not JSON"),
        ('{"prompt": "x"}', "unknown fields prompt"),
        ('{"messages": []}', "at least one message"),
        ('{"messages": [{"role": "user"}]}', "a `content` that is text"),
        ('{"messages": [{"role": "user", "content": "x"}], "max_tokens": 0}', "from 1 on, not 0"),
        ('{"messages": [{"role": "user", "content": "x"}], "temperature": "hot"}', "from 0 on, not 'hot'"),
        ('{"messages": [{"role": "user", "content": "x"}], "extra": 1}', "`extra` should be an object"),
    ],
)
def test_a_bad_line_of_chats_says_which_and_why(tmp_path: Path, line: str, said: str) -> None:
    file = tmp_path / "chats.jsonl"
    file.write_text(line, "utf-8")
    with pytest.raises(chats.ChatsError, match=said.replace("[", r"\[")):
        chats.load_chats(file)
