"""A folder of the cache is whole or is not there."""

import os
import shutil
import threading
from pathlib import Path

import pytest

from nlqlib.serving.cache_entry import SEAL, Entry, hashed_inventory, listed_inventory
from nlqlib.serving.engine_settings import EngineError

INCOMPLETE = '{"schema_version": 1, "facts": {"version": 1}, "files": {"config": {}}}'


@pytest.fixture(params=[hashed_inventory, listed_inventory], ids=["hashed", "listed"])
def entry(request: pytest.FixtureRequest, tmp_path: Path) -> Entry:
    """An empty place whose path holds spaces and braces."""
    return Entry(tmp_path / "a b {c}" / "thing", {"version": 1}, request.param, needs_gib=0.0)


def build(folder: Path) -> dict[str, str]:
    (folder / "sub").mkdir()
    (folder / "sub" / "weights").write_bytes(b"12345678")
    (folder / "config").write_text("{}")
    return {"origin": "test"}


def never(_folder: Path) -> dict[str, str]:
    raise AssertionError("it must not be built again")


def test_it_is_built_once_and_verified_after(entry: Entry) -> None:
    said: list[str] = []
    assert entry.ensure("thing", build, said.append)["notes"] == {"origin": "test"}
    entry.ensure("thing", never, said.append)
    assert [line.split(" in ")[0] for line in said] == ["engine: thing ready", "engine: thing verified"]


def test_a_folder_without_a_seal_is_built_again(entry: Entry) -> None:
    entry.folder.mkdir(parents=True)
    (entry.folder / "left over").touch()
    said: list[str] = []
    entry.ensure("thing", build, said.append)
    assert "half made" in said[0]
    assert not (entry.folder / "left over").exists()


@pytest.mark.parametrize(
    "damage",
    [
        lambda f: (f / "config").unlink(),
        lambda f: (f / "sub" / "weights").write_bytes(b"1234"),
        lambda f: (f / "extra").touch(),
        lambda f: (f / SEAL).write_text("{"),
        lambda f: (f / SEAL).write_text("[]"),
        lambda f: (f / SEAL).write_text(INCOMPLETE),
    ],
)
def test_whatever_differs_from_the_seal_is_built_again(entry: Entry, damage) -> None:
    entry.ensure("thing", build, str)
    damage(entry.folder)
    assert not entry.intact()
    entry.ensure("thing", build, str)
    assert entry.intact()


def test_a_changed_byte_of_equal_size_is_noticed_by_its_hash(tmp_path: Path) -> None:
    entry = Entry(tmp_path / "x", {}, hashed_inventory, 0.0)
    entry.ensure("thing", build, str)
    (entry.folder / "sub" / "weights").write_bytes(b"12345679")
    assert not entry.intact()


def test_a_file_that_was_only_touched_is_still_the_same(entry: Entry) -> None:
    entry.ensure("thing", build, str)
    os.utime(entry.folder / "config", (1, 1))
    assert entry.intact()


def test_compiled_python_does_not_matter(entry: Entry) -> None:
    entry.ensure("thing", build, str)
    (entry.folder / "sub" / "__pycache__").mkdir()
    (entry.folder / "sub" / "__pycache__" / "x.pyc").touch()
    assert entry.intact()


def test_other_facts_mean_another_build(entry: Entry) -> None:
    entry.ensure("thing", build, str)
    assert not Entry(entry.folder, {"version": 2}, entry.inventory, 0.0).intact()


def test_a_build_that_fails_is_not_sealed_and_the_next_one_starts_over(entry: Entry) -> None:
    def fails(folder: Path) -> dict[str, str]:
        build(folder)
        raise OSError(28, "No space left on device")

    with pytest.raises(EngineError, match=r"cannot build thing in .*No space left on device"):
        entry.ensure("thing", fails, str)
    assert not entry.intact()
    entry.ensure("thing", build, str)
    assert entry.intact()


def test_too_little_disk_is_said_before_anything_is_written(tmp_path: Path) -> None:
    entry = Entry(tmp_path / "x", {}, listed_inventory, needs_gib=1e9)
    with pytest.raises(EngineError, match=r"needs 1000000000.0 GiB(?s:.)*NLQLIB_CACHE"):
        entry.ensure("thing", never, str)
    assert not entry.folder.exists()


def test_two_at_once_build_once(entry: Entry) -> None:
    inside, go = threading.Event(), threading.Event()
    said: list[str] = []

    def slow(folder: Path) -> dict[str, str]:
        inside.set()
        go.wait(5)
        return build(folder)

    def hear(line: str) -> None:
        said.append(line)
        go.set()

    first = threading.Thread(target=entry.ensure, args=("thing", slow, str))
    first.start()
    inside.wait(5)
    entry.ensure("thing", never, hear)
    first.join()
    assert said[0] == "engine: waiting for another process that prepares thing"
    assert "verified" in said[1]


def test_a_second_copy_of_the_cache_is_as_good(entry: Entry) -> None:
    entry.ensure("thing", build, str)
    other = entry.folder.with_name("moved")
    shutil.copytree(entry.folder, other)
    assert Entry(other, entry.facts, entry.inventory, 0.0).intact()
