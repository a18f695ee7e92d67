"""The warehouse: a DuckDB star schema made by a deterministic generator, opened read-only.

The generator draws from a counter-based generator in integer arithmetic (SplitMix64: Steele, Lea and Flood,
2014), so the same seed and scale give the same rows on every machine. What is planted in it, and why, is in
`generate.py`.
"""

import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import duckdb

from nlqlib import paths
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.generate import GENERATOR_VERSION, tables

SCHEMA = """
CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL, segment VARCHAR NOT NULL);
CREATE TABLE products (product_id INTEGER PRIMARY KEY, name VARCHAR NOT NULL UNIQUE, category VARCHAR);
CREATE TABLE orders (order_id INTEGER PRIMARY KEY, customer_id INTEGER NOT NULL,
    ordered_at TIMESTAMP NOT NULL, region VARCHAR, channel VARCHAR NOT NULL, status VARCHAR NOT NULL);
CREATE TABLE order_lines (line_id INTEGER PRIMARY KEY, order_id INTEGER NOT NULL, product_id INTEGER NOT NULL,
    quantity INTEGER NOT NULL, net_amount DECIMAL(12, 2) NOT NULL, cost DECIMAL(12, 2) NOT NULL);
CREATE TABLE returns (return_id INTEGER PRIMARY KEY, line_id INTEGER NOT NULL, returned_at TIMESTAMP NOT NULL,
    quantity INTEGER NOT NULL, refund_amount DECIMAL(12, 2) NOT NULL, reason VARCHAR NOT NULL);
"""
SAFE: dict[str, Any] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "enable_external_access": False,
    "memory_limit": "4GB",
    "threads": 2,
}
"""A query reads this one file and nothing else: no other file, no network, no extension."""
TIMEOUT_S = 30.0
ROW_LIMIT = 10_000


@dataclass
class Warehouse:
    """A read-only warehouse. Statements run one at a time, within `timeout_s` seconds and `row_limit`."""

    connection: duckdb.DuckDBPyConnection
    timeout_s: float = TIMEOUT_S
    row_limit: int = ROW_LIMIT
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def fetch(self, sql: str, params: Sequence[Any] = ()) -> tuple[list[str], list[tuple[Any, ...]]]:
        """Column names and rows of one SELECT with bound `params`.

        Raises `QuestionError` for anything but one SELECT, past the time limit, or beyond the row limit.
        """
        with self._lock:
            self._check(sql)
            with self._deadline():
                try:
                    cursor = self.connection.execute(sql, list(params))
                    rows = cursor.fetchmany(self.row_limit + 1)
                except duckdb.InterruptException as error:
                    raise QuestionError(
                        f"the query took longer than {self.timeout_s:g} s: ask for a shorter period"
                    ) from error
            if len(rows) > self.row_limit:
                raise QuestionError(
                    f"the answer has more than {self.row_limit:,} rows: add a limit or a filter"
                )
            return [d[0] for d in cursor.description or []], rows

    def _check(self, sql: str) -> None:
        statements = self.connection.extract_statements(sql)
        if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
            raise QuestionError("only one SELECT statement is allowed")

    @contextmanager
    def _deadline(self) -> Iterator[None]:
        timer = threading.Timer(self.timeout_s, self.connection.interrupt)
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def lookups(self, catalog: Catalog) -> Catalog:
        """`catalog` knowing the ids and names of the dimensions whose values live here."""
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
    seed: int = 1, scale: float = 1.0, folder: Path = paths.BUILD / "warehouse", timeout_s: float = TIMEOUT_S
) -> Warehouse:
    """The warehouse of `seed` and `scale` (1: about 200,000 order lines), made on first use.

    The file's name carries seed, scale and the generator's version, so that a stale one is never opened.
    """
    path = folder / f"warehouse-v{GENERATOR_VERSION}-seed{seed}-scale{scale:g}.duckdb"
    if not path.exists():
        _make(path, seed, scale)
    return Warehouse(duckdb.connect(str(path), read_only=True, config=dict(SAFE)), timeout_s)


def _make(path: Path, seed: int, scale: float) -> None:
    """Write the file under a temporary name and rename it, so that no half-made one is ever opened."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{threading.get_native_id()}.part")
    temporary.unlink(missing_ok=True)
    with duckdb.connect(str(temporary)) as connection:
        connection.execute(SCHEMA)
        fill(connection, tables(seed, scale))
    temporary.replace(path)


def fill(connection: duckdb.DuckDBPyConnection, rows: dict[str, Any]) -> None:
    """Insert data frames, by table name, into the star schema."""
    for name, frame in rows.items():
        connection.register("incoming", frame)
        connection.execute(f"INSERT INTO {name} SELECT {', '.join(frame.columns)} FROM incoming")
        connection.unregister("incoming")


def warehouse_of(rows: dict[str, Any], timeout_s: float = TIMEOUT_S) -> Warehouse:
    """A warehouse in memory that holds the given data frames: small ones worked out by hand."""
    connection = duckdb.connect(
        ":memory:", config={k: v for k, v in SAFE.items() if k != "enable_external_access"}
    )
    connection.execute(SCHEMA)
    fill(connection, rows)
    connection.execute("SET enable_external_access = false")
    return Warehouse(connection, timeout_s)
