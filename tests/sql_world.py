"""What the tests of the SQL builder share: queries and results by what is changed in `revenue by region`."""

from typing import Any

from wire_intents import wire

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.intent import Intent
from nlqlib.nlq.sql import Query, Result, build, execute
from nlqlib.nlq.warehouse import Warehouse

TOP: dict[str, Any] = {"query_type": "top_n_by_metric"}
SERIES: dict[str, Any] = {"query_type": "time_series", "dimensions": []}


def by(name: str, direction: str) -> dict[str, str]:
    return {"by": name, "direction": direction}


def query(catalog: Catalog, **changes: Any) -> Query:
    """The query of `revenue by region` with `changes`, unchecked but for its type."""
    return build(Intent.model_validate(wire(**changes)), catalog)


def ask(catalog: Catalog, warehouse: Warehouse, **changes: Any) -> Result:
    return execute(query(catalog, **changes), warehouse)
