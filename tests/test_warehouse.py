"""The warehouse: a file that is never stale or half made, and a connection that only reads, within limits."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from nlqlib.nlq import warehouse as module
from nlqlib.nlq.catalog import QuestionError, load_catalog
from nlqlib.nlq.warehouse import TooLarge, TooSlow, Warehouse, WarehouseError, open_file, open_warehouse

CATALOG = load_catalog()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("warehouse")


@pytest.fixture(scope="module")
def small(folder: Path) -> Iterator[Warehouse]:
    with open_warehouse(1, 0.05, folder=folder) as warehouse:
        yield warehouse


def one(warehouse: Warehouse, sql: str) -> int:
    return warehouse.fetch(sql)[1][0][0]


# --- the file


def test_a_file_is_made_once_and_no_half_made_one_is_left(tmp_path: Path):
    open_warehouse(scale=0.01, folder=tmp_path).close()
    (made,) = tmp_path.iterdir()
    written = made.stat().st_mtime_ns
    open_warehouse(scale=0.01, folder=tmp_path).close()
    assert [p.name for p in tmp_path.iterdir()] == [made.name] and made.stat().st_mtime_ns == written


def test_seed_scale_and_code_each_have_a_file_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for seed, scale in ((1, 0.01), (2, 0.01), (1, 0.010000001)):
        open_warehouse(seed, scale, folder=tmp_path).close()
    monkeypatch.setattr(module, "SCHEMA", module.SCHEMA + "-- another schema")
    open_warehouse(1, 0.01, folder=tmp_path).close()
    assert len(list(tmp_path.iterdir())) == 4


def test_a_failure_while_writing_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SCHEMA", module.SCHEMA + "CREATE TABLE broken (;")
    with pytest.raises(duckdb.ParserException):
        open_warehouse(scale=0.01, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_two_readers_share_a_file(folder: Path):
    with open_warehouse(1, 0.05, folder=folder) as first, open_warehouse(1, 0.05, folder=folder) as second:
        assert first.fetch("SELECT count(*) FROM orders") == second.fetch("SELECT count(*) FROM orders")


def test_a_missing_file_is_named(tmp_path: Path):
    with pytest.raises(FileNotFoundError, match=r"there is no warehouse at .*none\.duckdb"):
        open_file(tmp_path / "none.duckdb")


@pytest.mark.parametrize("content", [b"no database", b"", bytes(20_000)])
def test_a_file_that_is_no_warehouse_is_one_line(content: bytes, tmp_path: Path):
    (tmp_path / "mine.duckdb").write_bytes(content)
    with pytest.raises(WarehouseError, match=r"mine\.duckdb cannot be read \(.+\): restore it") as told:
        open_file(tmp_path / "mine.duckdb")
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("left", [0.1, 0.5, 0.9])
def test_a_warehouse_that_was_cut_is_one_line(left: float, tmp_path: Path):
    open_warehouse(scale=0.05, folder=tmp_path).close()
    (made,) = tmp_path.iterdir()
    whole = made.read_bytes()
    made.write_bytes(whole[: int(left * len(whole))])
    with (
        pytest.raises(WarehouseError, match=r"cannot be read \(.+\).* is then made again") as told,
        open_warehouse(scale=0.05, folder=tmp_path) as warehouse,
    ):
        for table in ("customers", "products", "orders", "order_lines", "returns"):
            warehouse.fetch(f"SELECT sum(hash(COLUMNS(*))) FROM {table}")
    assert "\n" not in str(told.value)


MAKE = """
import resource, sys
from pathlib import Path
from nlqlib.nlq.warehouse import WarehouseError, open_warehouse
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
try:
    open_warehouse(scale=0.05, folder=Path(sys.argv[1]))
except WarehouseError as error:
    print(error)
"""


def test_a_full_disk_is_one_line_and_leaves_nothing(tmp_path: Path):
    done = subprocess.run([sys.executable, "-c", MAKE, str(tmp_path)], capture_output=True, text=True)
    assert "cannot be made (" in done.stdout and done.stdout.count("\n") == 1 and done.stderr == ""
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_maker_left_is_removed_and_what_a_living_one_makes_is_not(tmp_path: Path):
    dead, living = "x.duckdb.4194304-1.part", f"x.duckdb.{os.getpid()}-1.part"
    for name in (dead, f"{dead}.wal", living, "mine.part"):
        (tmp_path / name).touch()
    open_warehouse(scale=0.01, folder=tmp_path).close()
    assert {p.name for p in tmp_path.iterdir() if p.suffix != ".duckdb"} == {living, "mine.part"}


# --- the limits


@pytest.mark.parametrize(
    "sql",
    [
        "DROP TABLE orders",
        "INSERT INTO products VALUES (99, 'x', NULL)",
        "SELECT 1; SELECT 2",
        "SELECT 1; DROP TABLE orders",
        "COPY orders TO 'orders.csv'",
        "ATTACH 'other.duckdb'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "SET memory_limit = '100GB'",
        "PRAGMA database_list",
        "EXPLAIN SELECT 1",
        "",
    ],
)
def test_anything_but_one_select_is_refused(small: Warehouse, sql: str):
    with pytest.raises(QuestionError, match="only one SELECT statement is allowed"):
        small.fetch(sql)


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/hostname')",
        "SELECT * FROM read_text('pyproject.toml')",
        "FROM 'x.parquet'",
    ],
)
def test_no_other_file_can_be_read(small: Warehouse, sql: str):
    with pytest.raises(duckdb.Error, match="disabled"):
        small.fetch(sql)


def test_the_connection_itself_is_read_only_and_its_settings_are_locked(small: Warehouse):
    with pytest.raises(duckdb.InvalidInputException, match="read-only"):
        small.connection.execute("CREATE TABLE x (i INTEGER)")
    with pytest.raises(duckdb.Error, match="locked"):
        small.connection.execute("SET enable_external_access = true")


def test_no_extension_is_installed_or_loaded_on_its_own(small: Warehouse):
    settings = small.fetch("SELECT value FROM duckdb_settings() WHERE name LIKE 'auto%known_extensions'")[1]
    assert settings == [("false",), ("false",)]


ENDLESS = "SELECT sum(a.range * b.range) FROM range(10000000) AS a, range(10000000) AS b"


def test_a_statement_past_its_time_ends_in_one_line(folder: Path):
    with open_warehouse(1, 0.05, folder=folder, timeout_s=0.2) as hurried:
        began = time.monotonic()
        with pytest.raises(TooSlow, match=r"^the query took longer than 0\.2 s: ask for a shorter period$"):
            hurried.fetch(ENDLESS)
        assert time.monotonic() - began < 5
        assert one(hurried, "SELECT 1") == 1  # and the connection still works


def test_more_rows_than_allowed_are_refused_not_cut(folder: Path):
    with open_warehouse(1, 0.05, folder=folder, row_limit=100) as narrow:
        assert len(narrow.fetch("SELECT * FROM orders LIMIT 100")[1]) == 100
        with pytest.raises(TooLarge, match="more than 100 rows: add a limit or a filter"):
            narrow.fetch("SELECT * FROM orders LIMIT 101")


def test_a_statement_past_its_memory_ends_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(module, "SEALED", {**module.SEALED, "memory_limit": "40MB"})
    told = r"^the query needs too much memory: ask for fewer groups$"
    with open_warehouse(scale=0.01, folder=tmp_path) as poor, pytest.raises(TooLarge, match=told):
        poor.fetch("SELECT count(DISTINCT range) FROM range(20000000)")


def test_threads_take_turns(small: Warehouse):
    found: list[int] = []
    asking = [
        threading.Thread(target=lambda: found.append(one(small, "SELECT count(*) FROM products")))
        for _ in range(8)
    ]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join()
    assert found == [60] * 8


def test_customers_are_looked_up_where_they_live(small: Warehouse):
    names = small.lookups(CATALOG).dimension("customer").names
    assert len(names) == one(small, "SELECT count(*) FROM customers")
    assert CATALOG.dimension("customer").names == {}
