"""The batch driver on real notebooks and kernels: what it refuses, runs, reports, and leaves behind."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import psutil
import pytest

from nlqlib import paths, reproduce
from nlqlib.artifact_record import load_records
from nlqlib.artifacts import Measured, PointKey, Store
from nlqlib.notebook_child import literal
from nlqlib.notebook_failure import died, frames, heading_above
from nlqlib.notebook_params import ParameterError, defaults, pairs, passed, typed
from nlqlib.notebook_run import count_points
from nlqlib.plan import Asked, LimitError, Plan, check_limits, duration, plan_rows
from nlqlib.reproduce import Places
from nlqlib.run_settings import RunSettings, SettingError, parse, placed, resume_command, select
from nlqlib.scratch import scratch_folder

SETTINGS = (
    *("TARGET", "TARGET_URL", "TARGET_NAME", "PROFILE", "NOTEBOOKS", "CLIENT", "REMEASURE", "MODEL"),
    *("MAX_REQUESTS", "MAX_TOKENS", "API_KEY_ENV", "METRICS_URL", "METRICS_URLS", "CA_FILE", "TIMEOUT_S"),
    *("ENGINE_BUILD", "VLLM_VERSION", "VLLM_CPU_KVCACHE_SPACE", "NLQLIB_FIXTURES", "TWIN"),
    *("NLQLIB_CACHE", "NLQLIB_MANIFEST", "NLQLIB_PROGRESS"),
)
PARAMETERS = """
n = 2            # how many
name = 'größe'   # a text
ratio: float = 0.5
levels = [1, 8]
target = 'twin'
"""
STORE = """
import os, time
from dataclasses import replace
from pathlib import Path
from nlqlib.artifacts import Measured, PointKey, Store
from nlqlib.progress import progress
root = Path(os.environ["TEST_ARTIFACTS"])
store = replace(Store.from_environment(), root=root, remeasured_root=root.parent / "remeasured")
def point(name, fn=lambda: Measured(results={"text": "größer"})):
    return store.measure(PointKey("twin", "any", name, "point", {"n": n}, None, {}, "1"), fn)
"""
VARYING = """
point("a", lambda: Measured(results={"text": os.environ["TEST_TEXT"]}))
"""
DRIVER = """
import sys
from pathlib import Path
from nlqlib.reproduce import Places, main
sys.exit(main(sys.argv[2:], places=Places(Path(sys.argv[1]) / "notebooks", Path(sys.argv[1]) / "build")))
"""


@pytest.fixture(autouse=True)
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS:
        monkeypatch.delenv(name, raising=False)


def write_notebook(folder: Path, name: str, *cells: str, parameters: str = PARAMETERS) -> None:
    """A notebook of a parameters cell and `cells`; one that begins with `# ` is markdown."""
    v4 = nbformat.v4
    first = v4.new_code_cell(parameters, metadata={"tags": ["parameters"]})
    rest = [v4.new_markdown_cell(c[2:]) if c.startswith("# ") else v4.new_code_cell(c) for c in cells]
    folder.mkdir(parents=True, exist_ok=True)
    nbformat.write(v4.new_notebook(cells=[first, *rest]), folder / f"{name}.ipynb")


def environment(home: Path, **more: str) -> dict[str, str]:
    clean = {k: v for k, v in os.environ.items() if k not in SETTINGS}
    return {**clean, "TEST_ARTIFACTS": str(home / "artifacts"), **more}


def drive(home: Path, *argv: str, **more: str) -> subprocess.CompletedProcess[str]:
    """The driver as a user starts it, in a process of its own."""
    return subprocess.run(
        [sys.executable, "-c", DRIVER, str(home), "reproduce", *argv],
        env=environment(home, **more),
        capture_output=True,
        text=True,
        encoding="utf-8",
        timeout=300,
    )


def statuses(home: Path, root: str = "artifacts") -> dict[str, str]:
    return {r.body["point"]: r.status for r in load_records(home / root)}


def processes(home: Path) -> list[psutil.Process]:
    """Driver, children and kernels of a run in `home`: they carry its `TEST_ARTIFACTS`."""
    own = str(home / "artifacts")
    return [p for p in psutil.process_iter() if _environment(p).get("TEST_ARTIFACTS") == own]


def _environment(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ() if process.pid != os.getpid() else {}
    except (psutil.NoSuchProcess, psutil.AccessDenied, psutil.ZombieProcess):
        return {}


def table_row(out: str, name: str) -> list[str]:
    """The cells of `name` in the final table: status, measured, reused, failed."""
    (line,) = [x for x in out.splitlines() if x.startswith(name + " ") and x.endswith(" s")]
    return line.split()[1:-2]


def wait_until(what: Callable[[], Any], limit_s: float = 90.0) -> None:
    deadline = time.monotonic() + limit_s
    while not what():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


# One run of several notebooks: a path with spaces, braces and umlauts, and LC_ALL=C


@dataclass(frozen=True)
class Mixed:
    home: Path
    done: subprocess.CompletedProcess[str]

    def executed(self, name: str) -> str:
        return (self.home / "build" / "executed" / "twin" / f"{name}.ipynb").read_text("utf-8")


GOOD = """
point('a'); point('ü')
with progress(1, 'points') as bar: bar.advance('ü')
print(n, name, Path.cwd().name)
"""
FIGURE = "import matplotlib.pyplot as plt; plt.plot([1, 2]); plt.show()"
RAISING = """
def f():
    raise ValueError('refused ' + os.environ['SERVICE_KEY'])
point('b', f)
"""
CAUGHT = """
try:
    point('c', lambda: 1 / 0)
except ZeroDivisionError:
    pass
"""
FULL = """
import resource
resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, -1))
point('d', lambda: Measured(samples=[{'x': 'y' * 100_000}]))
"""
CELLS = {
    "01_good": ("# # Gut", STORE, GOOD, FIGURE),
    "02_bad": ("# # Title", "# ## Größe: the failing step", STORE, "os.environ['SERVICE_KEY']", RAISING),
    "03_dead": ("# # Early", "1", "# # Dies here", "import os; os._exit(3)", "# # Late", "2"),
    "04_caught": (STORE, CAUGHT),
    "05_full": (STORE, FULL),
    "99_summary": ("1",),
}


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> Mixed:
    home = tmp_path_factory.mktemp("mixed") / "a {b} {0} ü"
    shutil.copytree(paths.ROOT / "nlqlib", home / "nlqlib", ignore=shutil.ignore_patterns("__pycache__"))
    for name, cells in CELLS.items():
        write_notebook(home / "notebooks", name, *cells)
    argv = ["-p", "n=3", "-p", "name=Übung {n}"]
    return Mixed(home, drive(home, *argv, LC_ALL="C", PYTHONPATH=str(home), SERVICE_KEY="sk-hidden-1"))


def row(mixed: Mixed, name: str) -> list[str]:
    return table_row(mixed.done.stdout, name)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("01_good", ["ok", "2", "0", "0"]),
        ("02_bad", ["failed", "0", "0", "1"]),
        ("03_dead", ["failed", "0", "0", "0"]),
        ("04_caught", ["failed", "0", "0", "1"]),
        ("05_full", ["failed", "0", "0", "1"]),
        ("99_summary", ["ok", "0", "0", "0"]),
    ],
)
def test_the_table_says_for_each_notebook_what_became_of_its_points(
    mixed: Mixed, name: str, expected: list[str]
) -> None:
    assert row(mixed, name) == expected


def test_a_run_with_failures_exits_with_1_and_says_how_to_resume(mixed: Mixed) -> None:
    assert mixed.done.returncode == 1
    command = mixed.done.stderr.split("resume with:\n")[1].strip()
    assert command == (
        "make reproduce TARGET=twin NOTEBOOKS=02_bad,03_dead,04_caught,05_full "
        "'PARAMS=-p n=3 -p '\"'\"'name=Übung {n}'\"'\"''"
    )


def test_a_failure_is_reported_with_heading_error_and_our_frames(mixed: Mixed) -> None:
    lines = mixed.done.stderr.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("02_bad"))
    assert lines[start] == "02_bad, below “Größe: the failing step”: ValueError: refused ***"
    assert lines[start + 1] == "    cell, line 3: point('b', f)"
    assert any("nlqlib/artifacts.py" in x and "return self._write" in x for x in lines[start : start + 6])
    assert str(mixed.home) not in "".join(lines[start : start + 6])


def test_a_dead_kernel_is_found_in_the_cell_that_was_running(mixed: Mixed) -> None:
    assert "03_dead, below “Dies here”: the kernel died" in mixed.done.stderr


def test_a_point_that_failed_fails_its_notebook_though_every_cell_completed(mixed: Mixed) -> None:
    assert "04_caught: points failed: 1 of its points have no result" in mixed.done.stderr


def test_a_full_disk_ends_in_one_clear_line(mixed: Mixed) -> None:
    assert "WriteError: no space left while writing" in mixed.done.stderr
    assert statuses(mixed.home)["d"] == "started"


def test_no_key_reaches_a_notebook_or_a_report(mixed: Mixed) -> None:
    written = [p.read_bytes() for p in (mixed.home / "build").rglob("*") if p.is_file()]
    assert "***" in mixed.executed("02_bad") and not any(b"sk-hidden-1" in data for data in written)


def test_parameters_reach_the_notebook_whatever_their_characters(mixed: Mixed) -> None:
    text = "".join(str(c) for c in json.loads(mixed.executed("01_good"))["cells"])
    assert "3 Übung {n} notebooks" in text
    (record, _) = [r for r in load_records(mixed.home / "artifacts") if r.status == "success"]
    assert record.run["params_passed"] == {"n": 3, "name": "Übung {n}"}


def test_a_parameter_that_the_target_implies_is_not_injected_when_it_is_the_default(mixed: Mixed) -> None:
    cells = json.loads(mixed.executed("01_good"))["cells"]
    (injected,) = [c for c in cells if "injected-parameters" in c["metadata"].get("tags", [])]
    assert "target" not in "".join(injected["source"])


def test_figures_are_in_the_executed_notebook(mixed: Mixed) -> None:
    assert '"image/png"' in mixed.executed("01_good")


def test_an_executed_notebook_names_no_path_of_this_machine(mixed: Mixed) -> None:
    assert "input_path" not in mixed.executed("01_good") and str(mixed.home) not in mixed.executed("01_good")


def test_progress_is_shown_and_kept_out_of_the_notebook(mixed: Mixed) -> None:
    assert "01_good: [1/1] points ü … 0 s" in mixed.done.stdout
    assert "[1/1]" not in mixed.executed("01_good")


def test_what_only_reads_runs_when_all_others_have_ended(mixed: Mixed) -> None:
    lines = mixed.done.stdout.splitlines()
    assert lines.index("99_summary: started") > max(
        i for i, x in enumerate(lines) if x.endswith((": failed", ": ok")) and not x.startswith("99")
    )


def test_a_run_leaves_no_process_and_no_scratch_folder(mixed: Mixed) -> None:
    assert processes(mixed.home) == []
    assert list((mixed.home / "build" / "driver").iterdir()) == []


# Again, interrupted, killed


@pytest.fixture
def home(tmp_path: Path) -> Path:
    slow = "def slow():\n    time.sleep(float(os.environ.get('TEST_SLEEP', '60')))\n    return Measured()\n"
    write_notebook(
        tmp_path / "notebooks", "01_slow", STORE, "point('a')", slow + "point('b', slow)", "point('c')"
    )
    return tmp_path


@contextmanager
def driver(home: Path, *argv: str, root: str = "artifacts") -> Iterator[subprocess.Popen[str]]:
    """A driver whose notebook has finished its point a and is measuring b."""
    process = subprocess.Popen(
        [sys.executable, "-c", DRIVER, str(home), "reproduce", *argv],
        env=environment(home),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        encoding="utf-8",
    )
    try:
        wait_until(lambda: statuses(home, root) == {"a": "success", "b": "started"})
        assert len(processes(home)) == 3  # the driver, papermill's process and the kernel
        yield process
    finally:
        process.kill()
        process.communicate()


def test_ctrl_c_keeps_finished_points_ends_every_process_and_can_be_resumed(home: Path) -> None:
    with driver(home) as process:
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=90)
    assert process.returncode == 130
    assert statuses(home) == {"a": "success", "b": "cancelled"}
    assert processes(home) == []
    assert table_row(out, "01_slow") == ["interrupted", "1", "0", "1"]
    assert "make reproduce TARGET=twin NOTEBOOKS=01_slow" in err
    assert not (home / "build" / "executed" / "twin" / "01_slow.ipynb").exists()
    again = drive(home, "--json", TEST_SLEEP="0")
    assert again.returncode == 0
    (told,) = json.loads(again.stdout)
    assert told["points"] == {"measured": 2, "reused": 1, "failed": 0} and told["status"] == "ok"


def test_kill_9_of_the_driver_leaves_no_kernel_and_only_the_open_point_is_redone(home: Path) -> None:
    with driver(home) as process:
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=90)
        wait_until(lambda: processes(home) == [], limit_s=30)
    assert statuses(home) == {"a": "success", "b": "started"}
    before = {r.body["point"]: r.run["run_id"] for r in load_records(home / "artifacts")}
    again = drive(home, TEST_SLEEP="0")
    assert again.returncode == 0 and table_row(again.stdout, "01_slow") == ["ok", "2", "1", "0"]
    after = {r.body["point"]: r.run["run_id"] for r in load_records(home / "artifacts")}
    assert after["a"] == before["a"] and after["b"] != before["b"]
    assert list((home / "build" / "driver").iterdir()) == []


def test_a_run_that_measures_anew_is_resumed_where_it_was_interrupted(home: Path) -> None:
    with driver(home, "--remeasure", root="remeasured") as process:
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=90)
    assert statuses(home, "remeasured") == {"a": "success", "b": "cancelled"}
    [mark] = re.findall(r"make reproduce TARGET=twin NOTEBOOKS=01_slow REMEASURE=(\S+)", err)
    again = drive(home, TEST_SLEEP="0", REMEASURE=mark)
    assert again.returncode == 0 and table_row(again.stdout, "01_slow") == ["ok", "2", "1", "0"]
    assert again.stdout.count("any a: new") == 1 and statuses(home) == {}


# Pages that need not be run again


def test_a_page_is_kept_until_what_it_follows_from_changes(tmp_path: Path) -> None:
    home = tmp_path
    write_notebook(home / "notebooks", "01_any", STORE + "point('a')")
    assert table_row(drive(home).stdout, "01_any") == ["ok", "1", "0", "0"]
    again = drive(home)
    assert "01_any: unchanged since 20" in again.stdout and "`make clean` has all run again" in again.stdout
    assert again.returncode == 0 and "1 of 1 notebooks" in again.stdout
    told = json.loads(drive(home, "--json").stdout)
    assert [(row["status"], row["points"]["reused"]) for row in told] == [("unchanged", 1)]
    assert table_row(drive(home, "-p", "name=other").stdout, "01_any") == ["ok", "0", "1", "0"]


def test_a_page_that_failed_or_came_back_otherwise_is_run_again(tmp_path: Path) -> None:
    home = tmp_path
    write_notebook(home / "notebooks", "01_any", STORE + VARYING)
    assert table_row(drive(home, TEST_TEXT="a").stdout, "01_any") == ["ok", "1", "0", "0"]
    assert "changed" in drive(home, "--remeasure", TEST_TEXT="b").stdout
    assert table_row(drive(home).stdout, "01_any") == ["ok", "0", "1", "0"]
    write_notebook(home / "notebooks", "01_any", "1/0")
    assert [drive(home).returncode for _ in range(2)] == [1, 1]


def test_a_page_waits_for_the_one_whose_artifacts_it_reads(tmp_path: Path) -> None:
    for name in ("02_serialization_staircase", "03_admission", "04_propagation"):
        write_notebook(tmp_path / "notebooks", name, "import time\ntime.sleep(1)")
    said = drive(tmp_path).stdout.splitlines()
    order = [line for line in said if line.endswith((": started", ": ok"))]
    assert order.index("03_admission: started") > order.index("02_serialization_staircase: ok")


# TARGET=local and REMEASURE=1


@contextmanager
def engine(entered: list[str]) -> Iterator[Mapping[str, str]]:
    """Stands where the real engine is started: notes that it was, and hands an address to the kernels."""
    entered.append("started")
    yield {"ENGINE_URL": "http://127.0.0.1:1/v1"}
    entered.append("stopped")


def local_plan(requests: int) -> Mapping[str, Callable[[Asked], Plan]]:
    return {"01_local": lambda asked: Plan(requests, 10, 20, 3.0)}


def test_a_local_run_starts_its_engine_once_and_compares_points_measured_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checks = "assert (target, os.environ['TARGET']) == ('local', 'local') and os.environ['ENGINE_URL']"
    cells = (STORE, checks, "point('a'); point('b'); point('c')")
    write_notebook(tmp_path / "notebooks", "01_local", *cells)
    store = Store(tmp_path / "artifacts")
    for name, text in {"a": "größer", "b": "kleiner"}.items():
        key = PointKey("twin", "any", name, "point", {"n": 2}, None, {}, "1")
        store.measure(key, lambda text=text: Measured(results={"text": text}))  # type: ignore[misc]
    monkeypatch.setenv("TEST_ARTIFACTS", str(tmp_path / "artifacts"))
    entered: list[str] = []
    status = reproduce.main(
        ["reproduce", "--target", "local", "--remeasure"],
        plans=local_plan(1),
        engine=lambda: engine(entered),
        places=Places(tmp_path / "notebooks", tmp_path / "build"),
    )
    out = capsys.readouterr().out.splitlines()
    assert status == 0 and entered == ["started", "stopped"]
    assert [x for x in out if x.startswith("any ")] == [
        "any a: reproduced",
        "any b: changed: results differ",
        "any c: new",
    ]
    assert (tmp_path / "build" / "executed" / "local" / "01_local.ipynb").is_file()


def test_a_limit_refuses_before_an_engine_or_a_kernel_is_started(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_notebook(tmp_path / "notebooks", "01_local", "1")
    entered: list[str] = []
    status = reproduce.main(
        ["reproduce", "--target", "local", "--max-requests", "10"],
        plans=local_plan(11),
        engine=lambda: engine(entered),
        places=Places(tmp_path / "notebooks", tmp_path / "build"),
    )
    assert status == 2 and entered == [] and not (tmp_path / "build").exists()
    assert "may need 11 but MAX_REQUESTS allows 10" in capsys.readouterr().err


# What is refused before a kernel starts


@pytest.mark.parametrize(
    ("argv", "expected"),
    [
        (["-p", "nam=x"], "unknown parameter 'nam' of 01_any: did you mean name?"),
        (["-p", "zzz=x"], "unknown parameter 'zzz' of 01_any: there are levels, n, name, ratio, target"),
        (["-p", "n=two"], "the parameter n takes a whole number such as 2, not 'two'"),
        (["-p", "n=2.5"], "the parameter n takes a whole number such as 2, not '2.5'"),
        (["-p", "n=True"], "the parameter n takes a whole number such as 2, not 'True'"),
        (["-p", "ratio=half"], "the parameter ratio takes a number such as 0.5, not 'half'"),
        (["-p", "levels=a,b"], "the parameter levels takes a list such as [1, 8], not 'a,b'"),
        (["-p", "n"], "-p takes name=value, not 'n'"),
        (["-p", "n=1", "-p", "n=2"], "the parameter n is given twice"),
        (["--notebooks", "01_anny"], "no notebook is called '01_anny': did you mean 01_any?"),
        (["--profile", "ful"], "unknown PROFILE 'ful': did you mean full?"),
        (["--client", "curl"], "unknown CLIENT 'curl': there are openai, wire"),
        (["--target", "twinn"], "unknown TARGET 'twinn': use twin, local, or a URL such as https://host/v1"),
        (["--target", "ftp://host"], "unknown TARGET 'ftp://host'"),
        (["--target", "https://me:key@host/v1"], "TARGET must not carry a key"),
        (["--max-tokens", "many"], "MAX_TOKENS takes a whole number, not 'many'"),
        (["--max-tokens", "9"], "MAX_REQUESTS and MAX_TOKENS cannot be kept: 01_any has no plan"),
    ],
)
def test_bad_input_is_one_line_and_nothing_is_begun(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], argv: list[str], expected: str
) -> None:
    write_notebook(tmp_path / "notebooks", "01_any", "1")
    places = Places(tmp_path / "notebooks", tmp_path / "build")
    assert reproduce.main(["reproduce", *argv], places=places) == 2
    err = capsys.readouterr().err
    assert err.startswith(f"nlqlib: {expected}") and err.count("\n") == 1
    assert not (tmp_path / "build").exists()


def test_a_file_that_is_no_notebook_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "01_x.ipynb").write_text("{")
    assert reproduce.main(["plan"], places=Places(tmp_path, tmp_path / "build")) == 2
    assert "01_x.ipynb is no readable notebook" in capsys.readouterr().err


def test_a_folder_without_notebooks_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert reproduce.main(["plan"], places=Places(tmp_path, tmp_path / "build")) == 2
    assert "there is no notebook to run" in capsys.readouterr().err


# Parameters


@pytest.mark.parametrize(
    ("text", "default", "expected"),
    [
        ("5", 2, 5),
        ("5", 0.5, 5.0),
        ("1e-3", 0.5, 0.001),
        ("5", "a", "5"),
        ("'5'", "a", "5"),
        ("a=b", "a", "a=b"),
        ("", "a", ""),
        ("true", False, True),
        ("0", True, False),
        ("1,8,16", [1], [1, 8, 16]),
        ("[1, 8]", (1,), [1, 8]),
        ("4", [1], [4]),
        ("a, b", ["x"], ["a", "b"]),
        ("[1, 'a']", [], [1, "a"]),
        ("{'a': 1}", {}, {"a": 1}),
        ("anything", None, "anything"),
        ("7", None, 7),
    ],
)
def test_a_value_is_read_as_the_type_of_its_default(text: str, default: Any, expected: Any) -> None:
    value = typed("x", text, default)
    assert value == expected and type(value) is type(expected)


def test_defaults_are_read_without_running_the_cell() -> None:
    source = "import os\na = -1  # why\nb: list = [1, (2, 'ü')]\nc: int\nprint(a)"
    assert defaults(source, "x") == {"a": -1, "b": [1, (2, "ü")]}


@pytest.mark.parametrize("source", ["a = 1 +", "a = f()", "a = b"])
def test_a_default_that_is_no_literal_is_refused(source: str) -> None:
    with pytest.raises(ParameterError, match=r"^nb: "):
        defaults(source, "nb")


def test_each_notebook_gets_the_parameters_that_it_has() -> None:
    known = {"one": {"a": 1, "b": 2}, "two": {"b": 2.0}}
    assert passed(pairs(["a=3", "b=4"]), known) == {"one": {"a": 3, "b": 4}, "two": {"b": 4.0}}


# Settings


def test_options_come_before_the_environment_and_empty_ones_do_not_count() -> None:
    env = {"TARGET": "local", "PROFILE": "", "CLIENT": "wire", "MAX_REQUESTS": "1_000", "REMEASURE": "1"}
    settings = parse("reproduce", ["--client", "openai", "--notebooks", "01, 05"], env)
    assert (settings.target, settings.client, settings.profile) == ("local", "openai", None)
    assert (settings.max_requests, settings.remeasure, settings.notebooks) == (1000, True, ("01", "05"))
    assert settings.effective_profile == "quick" and settings.lanes == 1


def test_the_host_of_a_url_target_stays_out_of_names_and_parameters() -> None:
    env = {"TARGET": "https://llm.example.org/v1", "TARGET_NAME": "l4"}
    settings = parse("reproduce", [], env)
    assert settings.target_name == "l4" and settings.implied({"target": "twin"}) == {"target": "l4"}
    assert settings.environment()["TARGET"] == "l4"
    assert settings.environment()["TARGET_URL"] == "https://llm.example.org/v1"


@pytest.mark.parametrize("name", ["twin", "local"])
def test_a_url_target_cannot_take_the_name_of_another_target(name: str) -> None:
    with pytest.raises(SettingError, match="choose one of your own"):
        parse("reproduce", ["--target", "http://h/v1"], {"TARGET_NAME": name})


def test_settings_replace_only_parameters_that_contradict_them() -> None:
    settings = RunSettings("reproduce", profile="quick", client="openai")
    own = {"TARGET": "twin", "profile": "", "CLIENT": "wire", "n": 3}
    assert settings.implied(own) == {"CLIENT": "openai"}


def test_notebooks_are_chosen_by_name_beginning_or_path() -> None:
    names = ["05_knee", "01_pipeline", "01_pipeline_b", "00_environment"]
    assert select(names, ["01_pipeline", "notebooks/05_knee.ipynb"]) == ["01_pipeline", "05_knee"]
    assert select(names, ["01"]) == ["01_pipeline", "01_pipeline_b"]
    assert select(names, []) == sorted(names)


def test_a_resume_command_names_the_key_variable_and_never_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_KEY_ENV", "MY_KEY")
    monkeypatch.setenv("MY_KEY", "sk-123456")
    settings = RunSettings("reproduce", "https://h/v1", "l4", profile="quick", max_tokens=10)
    assert resume_command(settings, ["05_knee"]) == (
        "make reproduce TARGET=https://h/v1 PROFILE=quick NOTEBOOKS=05_knee MAX_TOKENS=10 API_KEY_ENV=MY_KEY"
    )


def test_a_resume_command_repeats_the_engine_and_only_what_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_BUILD", "cpu")
    monkeypatch.setenv("VLLM_CPU_KVCACHE_SPACE", "2")
    monkeypatch.setenv("VLLM_VERSION", "0.31.0")
    local = resume_command(RunSettings("reproduce", "local", "local"), ["05_knee"])
    assert local == (
        "make reproduce TARGET=local NOTEBOOKS=05_knee ENGINE_BUILD=cpu VLLM_VERSION=0.31.0 "
        "VLLM_CPU_KVCACHE_SPACE=2"
    )
    monkeypatch.setenv("TIMEOUT_S", "30")
    assert " TIMEOUT_S=30 " in resume_command(RunSettings("reproduce", "http://h/v1", "mine"), ["05_knee"])


def test_a_run_that_measures_anew_says_when_it_began_to_its_kernels_and_who_resumes_it() -> None:
    first = parse("reproduce", ["--remeasure"], {})
    mark = first.environment()["REMEASURE"]
    assert mark.endswith("+00:00") and f"REMEASURE={mark}" in resume_command(first, ["05_knee"])
    again = parse("reproduce", [], {"REMEASURE": mark})
    assert again.remeasure and again.environment()["REMEASURE"] == mark
    assert parse("reproduce", [], {"REMEASURE": "1"}).environment()["REMEASURE"] >= mark
    assert parse("reproduce", [], {"REMEASURE": "0"}).environment()["REMEASURE"] == ""


def test_a_time_that_is_none_is_refused_rather_than_taken_for_now() -> None:
    with pytest.raises(SettingError, match="the time at which a run began, not '2026-13-01T00:00:00'"):
        parse("reproduce", [], {"REMEASURE": "2026-13-01T00:00:00"})


def test_places_are_absolute_for_kernels_and_names_stay_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    given = {"NLQLIB_CACHE": "cache", "CA_FILE": "./ca.pem", "MODEL": "models/mine", "TWIN": "my.json"}
    at = {name: str(tmp_path / place) for name, place in (given | {"CA_FILE": "ca.pem"}).items()}
    assert placed(given, "local") == at
    assert placed(given, "https://h/v1")["MODEL"] == "models/mine"
    names = {"MODEL": "Qwen/Qwen2.5-3B-Instruct", "TWIN": "l4-qwen2.5-3b", "NLQLIB_CACHE": "", "OTHER": "a/b"}
    assert placed(names, "local") == names


def test_a_kernel_finds_the_folders_that_the_driver_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "models" / "mine").mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("NLQLIB_CACHE", "cache")
    monkeypatch.setenv("MODEL", "./models/mine")
    places = "os.environ['NLQLIB_CACHE'], os.environ['MODEL']"
    expected = (str(tmp_path / "cache"), str(tmp_path / "models" / "mine"))
    write_notebook(tmp_path / "notebooks", "01_any", f"import os\nassert ({places}) == {expected!r}")
    argv = ["reproduce", "--target", "local"]
    assert reproduce.main(argv, places=Places(tmp_path / "notebooks", tmp_path / "build")) == 0


# Plans


def test_a_plan_is_printed_per_notebook_and_in_total() -> None:
    plans = {"a": Plan(1000, 2_000_000, 5, 90.0), "b": None, "c": Plan(1, 2, 3, 4.0)}
    assert plan_rows(plans) == [
        ["a", "1,000", "2,000,000", "5", "90 s"],
        ["b", "unknown", "unknown", "unknown", "unknown"],
        ["c", "1", "2", "3", "4 s"],
        ["total", "1,001", "2,000,002", "8", "94 s"],
    ]


@pytest.mark.parametrize(("seconds", "text"), [(41, "41 s"), (600, "10 min"), (12_600, "3.5 h")])
def test_durations_are_said_in_a_unit_that_people_use(seconds: float, text: str) -> None:
    assert duration(seconds) == text


def test_tokens_of_prompt_and_output_count_together() -> None:
    plans: dict[str, Plan | None] = {"a": Plan(1, 60, 40)}
    check_limits(plans, 1, 100)
    with pytest.raises(LimitError, match="may need 100 but MAX_TOKENS allows 99"):
        check_limits(plans, None, 99)


def test_a_plan_function_is_asked_with_the_parameters_in_force(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_notebook(tmp_path, "01_any", "1")
    asked: list[Asked] = []

    def plan(question: Asked) -> Plan:
        asked.append(question)
        return Plan(1, 2, 3, 4)

    argv = ["plan", "--json", "-p", "n=7", "--profile", "quick"]
    assert reproduce.main(argv, plans={"01_any": plan}, places=Places(tmp_path, tmp_path / "build")) == 0
    assert asked[0].params["n"] == 7 and asked[0].params["name"] == "größe" and asked[0].profile == "quick"
    told = json.loads(capsys.readouterr().out)
    planned = {"requests": 1, "prompt_tokens": 2, "output_tokens": 3, "seconds": 4}
    assert told == {"01_any": {**planned, "beyond_tokens": 0, "most_tokens": 5}}


# Parts


def test_a_point_is_what_its_last_event_and_its_artifact_say(tmp_path: Path) -> None:
    def event(kind: str, path: str) -> dict[str, Any]:
        return {"event": kind, "path": str(tmp_path / path)}

    (tmp_path / "a.json").write_text('{"status": "success"}')
    (tmp_path / "b.json").write_text('{"status": "started"}')
    told = {"started": "a.json", "measured": "a.json", "reused": "b.json"}
    more = {"started": "c.json", "reused": "gone.json"}
    points = count_points([event(kind, path) for part in (told, more) for kind, path in part.items()])
    assert (points.measured, points.reused, points.failed, points.open) == (1, 0, 2, 1)


@pytest.mark.parametrize("path", ["a {b}/{0}.ipynb", "plain", "{{x}}"])
def test_a_path_survives_papermills_formatting(path: str) -> None:
    assert literal(path).format(b=1, x=2) == path


def test_foreign_frames_and_colours_are_left_out() -> None:
    own = paths.ROOT / "nlqlib" / "files.py"
    traceback = [
        "\x1b[31mValueError\x1b[39m   Traceback (most recent call last)",
        "\x1b[36mCell In[3], line 4\x1b[39m\n\x1b[32m----> 4\x1b[39m g()\n",
        "File /usr/lib/python3/json/x.py:9, in dump(x)\n----> 9 y\n",
        f"File {own}:29, in plain(value)\n---> 29     ready = x\n",
        "ValueError: no",
    ]
    assert frames(traceback) == ("cell, line 4: g()", "nlqlib/files.py:29 in plain: ready = x")


def test_the_heading_is_the_last_one_above_the_cell() -> None:
    v4 = nbformat.v4
    cells = [v4.new_markdown_cell("# A\ntext\n## B ##"), v4.new_markdown_cell("no heading")]
    assert heading_above(cells, 2) == "B" and heading_above(cells, 0) is None
    assert died(cells, "why").heading is None


def test_a_scratch_folder_of_a_dead_run_is_removed_and_that_of_a_living_one_stays(tmp_path: Path) -> None:
    (tmp_path / "run-4194304").mkdir()
    (tmp_path / "run-1").mkdir()
    with scratch_folder(tmp_path) as folder:
        assert {p.name for p in tmp_path.iterdir()} == {"run-1", folder.name}
    assert not folder.exists()
