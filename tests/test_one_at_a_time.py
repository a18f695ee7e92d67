"""Two runs that want one point of an endpoint of their own: it is measured once, and both have it."""

import os
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from test_artifacts import KEY, MEASURED

from nlqlib import paths
from nlqlib.artifacts import Measured, Store
from nlqlib.locking import one_at_a_time


@pytest.fixture(autouse=True)
def own_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(paths, "BUILD", tmp_path / "build")
    for name in ("NLQLIB_MANIFEST", "NLQLIB_PARAMS_PASSED"):
        monkeypatch.delenv(name, raising=False)
    return tmp_path / "build" / "locks"


def test_a_point_that_two_runs_want_at_once_is_measured_once(tmp_path: Path) -> None:
    store, begun, measured = Store(tmp_path / "artifacts"), threading.Event(), list[int]()

    def slow() -> Measured:
        measured.append(1)
        begun.set()
        assert not second_is_done.wait(0.2), "the second run waits"
        return MEASURED

    second_is_done = threading.Event()
    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(store.measure, KEY, slow)
        assert begun.wait(10)
        second = pool.submit(store.measure, KEY, slow)
        second.add_done_callback(lambda _: second_is_done.set())
        records = [first.result(10), second.result(10)]
    assert [record.reused for record in records] == [False, True] and len(measured) == 1
    assert records[0].body == records[1].body


def test_other_points_do_not_wait(tmp_path: Path) -> None:
    store = Store(tmp_path / "artifacts")

    def within() -> Measured:
        assert not store.measure(replace(KEY, point="other"), lambda: MEASURED).reused
        return MEASURED

    assert store.measure(KEY, within).status == "success"


def test_who_waits_for_a_point_that_failed_measures_it(tmp_path: Path) -> None:
    store, begun = Store(tmp_path / "artifacts"), threading.Event()

    def failing() -> Measured:
        begun.set()
        raise ValueError("no answer")

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(store.measure, KEY, failing)
        assert begun.wait(10)
        second = pool.submit(store.measure, KEY, lambda: MEASURED)
        with pytest.raises(ValueError, match="no answer"):
            first.result(10)
        assert second.result(10).status == "success"


def test_a_lock_leaves_nothing_behind_and_names_nothing(own_locks: Path) -> None:
    with one_at_a_time("/home/somebody/point"):
        [path] = own_locks.iterdir()
        assert path.read_bytes() == b"" and "somebody" not in path.name
    assert list(own_locks.iterdir()) == []


def test_a_killed_holder_holds_nothing(own_locks: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path; from nlqlib.locking import one_at_a_time\n"
        "with one_at_a_time('p', Path(sys.argv[1])): os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(own_locks)], cwd=paths.ROOT).returncode == -9
    assert len(list(own_locks.iterdir())) == 1, "what it left"
    with one_at_a_time("p"):
        assert os.listdir(own_locks)
    assert list(own_locks.iterdir()) == []


def test_many_take_turns(own_locks: Path) -> None:
    inside, seen = list[int](), list[int]()

    def turn(_: int) -> None:
        with one_at_a_time("p"):
            inside.append(1)
            seen.append(len(inside))
            inside.pop()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(turn, range(200)))
    assert seen == [1] * 200
