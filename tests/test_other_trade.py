"""Another trade needs another catalog and another file, and no other code: bikes for rent in Berlin.

Weeks start on Sunday, names are words that SQL reserves, a station may be unknown, and repairs have an
own grain and an own time.
"""

from collections.abc import Iterator
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pytest

from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.intent import intent_of, wire_schema
from nlqlib.nlq.sql import Result, build, execute
from nlqlib.nlq.warehouse import Warehouse, open_file

BIKES = """
today = 2024-04-10
first_day = 2024-03-01
week_start = "Sunday"
time_zone = "Europe/Berlin"
currency = "EUR"

[facts.ride]
source = "rides AS r JOIN bikes AS b ON b.id = r.bike"
time = "r.began"
where = "r.state = 'paid' OR r.state = 'open'"
dimensions = { order = "r.station", group = "b.kind", bike = "b.id" }

[facts.repair]
source = "repairs AS x JOIN bikes AS b ON b.id = x.bike"
time = "x.done"
dimensions = { group = "b.kind", bike = "b.id" }

[measures]
fares = { fact = "ride", value = "sum(r.fare)" }
rides = { fact = "ride", value = "count(*)" }
costs = { fact = "repair", value = "sum(x.cost)" }

[metrics]
select = { measure = "rides", description = "all rides", unit = "count", good = "high", synonyms = ["trip"] }
margin = { difference = ["fares", "costs"], description = "what is left", unit = "money", good = "high" }
fare_per_ride = { ratio = ["fares", "rides"], description = "per ride", unit = "money", good = "high" }

[dimensions]
order = { description = "station of departure", nullable = true, values = ["Mitte", "Zoo \\"Nord\\""] }
group = { description = "kind of bike", values = ["City", "Cargo"], synonyms = ["type"] }
bike = { description = "one bike", lookup = "SELECT id, label FROM bikes" }
"""
ROWS = """
CREATE TABLE bikes (id INTEGER, kind VARCHAR, label VARCHAR);
INSERT INTO bikes VALUES (1, 'City', 'Red'), (2, 'City', 'Blue'), (3, 'Cargo', 'Blue');
CREATE TABLE rides (bike INTEGER, began TIMESTAMP, station VARCHAR, fare DECIMAL(6, 2), state VARCHAR);
INSERT INTO rides VALUES
    (1, '2024-03-02 22:59', 'Mitte', 3.00, 'paid'),        -- Saturday 23:59
    (1, '2024-03-02 23:00', 'Mitte', 4.00, 'open'),        -- Sunday 00:00
    (2, '2024-03-31 22:30', NULL, 5.50, 'paid'),           -- 1 April 00:30, summer time
    (3, '2024-04-05 10:00', 'Zoo "Nord"', 9.00, 'paid'),
    (3, '2024-04-05 11:00', 'Zoo "Nord"', 99.00, 'void');
CREATE TABLE repairs (bike INTEGER, done TIMESTAMP, cost DECIMAL(6, 2));
INSERT INTO repairs VALUES (1, '2024-03-03 10:00', 2.00);
INSERT INTO repairs VALUES (1, '2024-03-04 10:00', 1.00), (3, '2024-04-06 10:00', 10.00);
"""


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Warehouse, Catalog]]:
    folder: Path = tmp_path_factory.mktemp("bikes")
    (folder / "bikes.toml").write_text(BIKES, "utf-8")
    with duckdb.connect(str(folder / "bikes.duckdb")) as connection:
        connection.execute(ROWS)
    with open_file(folder / "bikes.duckdb") as warehouse:
        yield warehouse, warehouse.lookups(load_catalog(folder / "bikes.toml"))


def ask(shop: tuple[Warehouse, Catalog], metrics: str, by: str = "", **changes: Any) -> Result:
    warehouse, catalog = shop
    plain = {"evidence": "", "query_type": "breakdown", "filters": [], "period": "all"}
    plain |= {
        "metrics": metrics.split(),
        "dimensions": by.split(),
        "grain": None,
        "sort": None,
        "limit": None,
    }
    return execute(build(intent_of({**plain, **changes}, catalog), catalog), warehouse)


def test_the_wire_schema_speaks_of_the_other_trade(shop: tuple[Warehouse, Catalog]):
    assert '"fare_per_ride"' in str(wire_schema(shop[1])).replace("'", '"')


def test_totals_keep_both_halves_of_a_standing_condition(shop: tuple[Warehouse, Catalog]):
    # 3 + 4 + 5.50 + 9 = 21.50 of 4 rides, less 2 + 1 + 10
    assert ask(shop, "select margin fare_per_ride").rows == ((4, Decimal("8.50"), 5.375),)


def test_reserved_words_are_names_like_any_other(shop: tuple[Warehouse, Catalog]):
    assert ask(shop, "select", "order").rows == (("Mitte", 2), ('Zoo "Nord"', 1), (None, 1))


def test_facts_of_different_grain_meet_by_group(shop: tuple[Warehouse, Catalog]):
    # Cargo 9 - 10; City 3 + 4 + 5.50 - 3
    assert ask(shop, "margin", "group").rows == (("Cargo", Decimal("-1.00")), ("City", Decimal("9.50")))


def test_weeks_start_on_the_catalog_s_day(shop: tuple[Warehouse, Catalog]):
    weeks = ask(shop, "select", query_type="time_series", grain="week", period="2024-03-01..2024-03-10").rows
    assert weeks == ((date(2024, 2, 25), 1), (date(2024, 3, 3), 1), (date(2024, 3, 10), 0))
    assert ask(shop, "select", period="last_week").rows == ((2,),)  # 31 March to 6 April


def test_months_are_those_of_the_catalog_s_time_zone(shop: tuple[Warehouse, Catalog]):
    months = ask(shop, "select", query_type="time_series", grain="month").rows
    assert months == ((date(2024, 3, 1), 2), (date(2024, 4, 1), 2))


def test_looked_up_values_resolve_by_id_and_by_unique_name(shop: tuple[Warehouse, Catalog]):
    red = [{"field": "bike", "op": "in", "values": ["red", 3]}]
    assert ask(shop, "select", "bike", filters=red).rows == ((1, 2), (3, 1))
    with pytest.raises(ValueError, match=r"2 bikes are called 'blue': name one by id \(2, 3\)"):
        ask(shop, "select", filters=[{"field": "bike", "op": "in", "values": ["blue"]}])


def test_what_a_grain_does_not_know_is_out_of_reach(shop: tuple[Warehouse, Catalog]):
    with pytest.raises(ValueError, match="margin cannot be split or filtered by order; only "):
        ask(shop, "margin", "order")
