"""The warehouse: a DuckDB star schema, opened read-only and asked one SELECT at a time, within limits.

Ours is made by a deterministic generator (`generate.py`) on first use and kept in a file whose name says what
is in it. Another trade brings a file of its own: `open_file`.
"""

import contextlib
import hashlib
import math
import os
import re
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb
import pandas as pd

from nlqlib import paths
from nlqlib.files import alive
from nlqlib.nlq import generate, plant
from nlqlib.nlq.catalog import Catalog, QuestionError, load_catalog

SCHEMA = """
CREATE TABLE customers (customer_id INTEGER NOT NULL, name VARCHAR NOT NULL, segment VARCHAR NOT NULL);
CREATE TABLE products (product_id INTEGER NOT NULL, name VARCHAR NOT NULL, category VARCHAR);
CREATE TABLE orders (order_id INTEGER NOT NULL, customer_id INTEGER NOT NULL, ordered_at TIMESTAMP NOT NULL,
    region VARCHAR, channel VARCHAR NOT NULL, status VARCHAR NOT NULL);
CREATE TABLE order_lines (line_id INTEGER NOT NULL, order_id INTEGER NOT NULL, product_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL, net_amount DECIMAL(12, 2) NOT NULL, cost DECIMAL(12, 2) NOT NULL);
CREATE TABLE returns (return_id INTEGER NOT NULL, line_id INTEGER NOT NULL, returned_at TIMESTAMP NOT NULL,
    quantity INTEGER NOT NULL, refund_amount DECIMAL(12, 2) NOT NULL, reason VARCHAR NOT NULL);
"""
"""Times are UTC, status is completed or cancelled. Keys are unique by construction: an index would double the
file and the time of ten million lines."""
CENTS = {"net_cents": "net_amount", "cost_cents": "cost", "refund_cents": "refund_amount"}
TIMEOUT_S = 30.0
ROW_LIMIT = 10_000
SAFE: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "memory_limit": "4GB",
    "threads": 2,
    "max_temp_directory_size": "0GB",
}
SEALED = {**SAFE, "enable_external_access": False, "lock_configuration": True}
"""A query reads this one file and nothing else: no other file, no network, no extension, no spilling."""
PART = re.compile(r".+\.(\d+)-\d+\.part(\.wal)?")
"""Name of a file being made: the final name, the maker's pid and thread."""
BROKEN = (duckdb.IOException, duckdb.SerializationException, duckdb.InternalException, duckdb.FatalException)
"""What DuckDB raises for a file that it cannot read."""


class WarehouseError(OSError):
    """A warehouse's file that cannot be made, opened or read; says what to do."""


class TooSlow(QuestionError):
    """A statement that ran into the time limit."""


class TooLarge(QuestionError):
    """An answer with more rows, or a statement with more memory, than is allowed."""


@dataclass
class Warehouse:
    """A read-only warehouse. Statements run one at a time, within `timeout_s` and `row_limit`."""

    connection: duckdb.DuckDBPyConnection
    timeout_s: float = TIMEOUT_S
    row_limit: int = ROW_LIMIT
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def fetch(self, sql: str, params: Sequence[Any] = ()) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of one SELECT with bound `params`.

        Raises `QuestionError` for anything but one SELECT, `TooSlow` or `TooLarge` past the limits.
        """
        with self._lock:
            self._check(sql)
            with self._deadline():
                cursor = self.connection.execute(sql, list(params))
                rows = cursor.fetchmany(self.row_limit + 1)
                names = [column[0] for column in cursor.description or []]
        if len(rows) > self.row_limit:
            raise TooLarge(f"the answer has more than {self.row_limit:,} rows: add a limit or a filter")
        return names, rows

    def _check(self, sql: str) -> None:
        statements = self.connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QuestionError("only one SELECT statement is allowed")

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        timer = threading.Timer(self.timeout_s, self.connection.interrupt)
        timer.daemon = True
        timer.start()
        try:
            yield
        except duckdb.InterruptException as error:
            limit = f"{self.timeout_s:g} s"
            raise TooSlow(f"the query took longer than {limit}: ask for a shorter period") from error
        except duckdb.OutOfMemoryException as error:
            raise TooLarge("the query needs too much memory: ask for fewer groups") from error
        except BROKEN as error:
            raise WarehouseError(_damaged("the warehouse", error)) from error
        finally:
            timer.cancel()

    def lookups(self, catalog: Catalog) -> Catalog:
        """`catalog` knowing the ids and names of the dimensions whose values live here."""
        with self._deadline():
            found = {
                name: dict(self.connection.execute(dimension.lookup).fetchall())
                for name, dimension in catalog.dimensions.items()
                if dimension.lookup
            }
        return catalog.with_values(found)

    def close(self) -> None:
        """Let go of the file."""
        self.connection.close()

    def __enter__(self) -> "Warehouse":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def open_warehouse(
    seed: int = 1,
    scale: float = 1.0,
    folder: Path = paths.BUILD / "warehouse",
    timeout_s: float = TIMEOUT_S,
    row_limit: int = ROW_LIMIT,
) -> Warehouse:
    """The warehouse of `seed` and `scale` (1: about 200,000 order lines; 50: ten million), made on first use.

    Raises `ValueError` for a scale that is no positive number, and `WarehouseError`.
    """
    if not (math.isfinite(scale) and scale > 0):
        raise ValueError(f"scale {scale} must be a positive number; 1 is about 200,000 order lines")
    catalog = load_catalog()
    path = folder / f"seed{seed}-scale{float(scale)}-{_version(catalog)}.duckdb"
    if not path.exists():
        _make(path, generate.tables(seed, scale, catalog))
    return open_file(path, timeout_s, row_limit)


def open_file(path: Path, timeout_s: float = TIMEOUT_S, row_limit: int = ROW_LIMIT) -> Warehouse:
    """A warehouse in a DuckDB file, read-only, whatever its schema.

    Raises `FileNotFoundError`, and `WarehouseError` for what is no DuckDB file.
    """
    if not path.exists():
        raise FileNotFoundError(f"there is no warehouse at {path}")
    try:
        connection = duckdb.connect(str(path), read_only=True, config=dict(SEALED))
    except duckdb.Error as error:
        raise WarehouseError(_damaged(f"the warehouse {path}", error)) from error
    return Warehouse(connection, timeout_s, row_limit)


def _damaged(what: str, error: duckdb.Error) -> str:
    return (
        f"{what} cannot be read ({_first_line(error)}): restore it; one under {paths.BUILD.name}/ may be "
        "deleted and is then made again"
    )


def _first_line(error: duckdb.Error) -> str:
    return str(error).partition("\n")[0]


def warehouse_of(rows: Mapping[str, pd.DataFrame], timeout_s: float = TIMEOUT_S) -> Warehouse:
    """A warehouse in memory that holds the given data frames by table name: small ones worked out by hand."""
    connection = duckdb.connect(":memory:", config=dict(SAFE))
    _fill(connection, rows)
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")
    return Warehouse(connection, timeout_s)


def _version(catalog: Catalog) -> str:
    """Eight digits that change with the generator's code, the schema, and the catalog's values and days."""
    values = {name: dimension.values for name, dimension in catalog.dimensions.items()}
    code = [Path(module.__file__ or "").read_text("utf-8") for module in (generate, plant)]
    told = [SCHEMA, *code, values, catalog.first_day, catalog.today, catalog.time_zone]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:8]


def _make(path: Path, rows: Mapping[str, pd.DataFrame]) -> None:
    """Write the file under a temporary name and rename it, so that no half-made one is ever opened."""
    path.parent.mkdir(parents=True, exist_ok=True)
    _sweep(path.parent)
    temporary = path.with_name(f"{path.name}.{os.getpid()}-{threading.get_ident()}.part")
    try:
        with duckdb.connect(str(temporary), config=dict(SAFE)) as connection:
            _fill(connection, rows)
        temporary.replace(path)
    except duckdb.ProgrammingError:
        raise
    except duckdb.Error as error:
        raise WarehouseError(f"the warehouse {path} cannot be made ({_first_line(error)})") from error
    finally:
        for left in (temporary, Path(f"{temporary}.wal")):
            with contextlib.suppress(FileNotFoundError):
                left.unlink()


def _sweep(folder: Path) -> None:
    """Remove what makers left that were killed."""
    for left in folder.iterdir():
        made_by = PART.fullmatch(left.name)
        if made_by and not alive(int(made_by.group(1))):
            left.unlink(missing_ok=True)


def _fill(connection: duckdb.DuckDBPyConnection, rows: Mapping[str, pd.DataFrame]) -> None:
    """Create the star schema and insert the data frames; money comes in whole cents, and stays exact."""
    connection.execute(SCHEMA)
    for name, frame in rows.items():
        columns = [f"{c} * 0.01" if c in CENTS else c for c in frame.columns]
        named = ", ".join(CENTS.get(c, c) for c in frame.columns)
        connection.register("incoming", frame)
        connection.execute(f"INSERT INTO {name} ({named}) SELECT {', '.join(columns)} FROM incoming")
        connection.unregister("incoming")
