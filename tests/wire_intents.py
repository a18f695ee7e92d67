"""Wire intents for tests: one by hand with named changes, and random valid ones for properties."""

import json
from typing import Any

from hypothesis import strategies as st

from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.intent import Intent, intent_of

CATALOG = load_catalog()
PERIODS = ("all", "2024", "2024-Q2", "2024-02", "2024-02-29", "2023-11..2024-02", "this_month", "last_week")
PERIODS = (*PERIODS, "last_year", "last_30_days", "last_2_weeks", "last_6_months")


def wire(**changes: Any) -> dict[str, Any]:
    """`revenue by region` with `changes`."""
    plain = {
        "evidence": "by region",
        "query_type": "breakdown",
        "metrics": ["revenue"],
        "dimensions": ["region"],
        "filters": [],
        "period": "all",
        "grain": None,
        "sort": None,
        "limit": None,
    }
    return {**plain, **changes}


def intent(**changes: Any) -> Intent:
    """The same as a checked `Intent`."""
    return intent_of(wire(**changes), CATALOG)


def top(**changes: Any) -> Intent:
    """`top regions by revenue` with `changes`."""
    return intent(**{"query_type": "top_n_by_metric", **changes})


def series(**changes: Any) -> Intent:
    """`monthly revenue` with `changes`."""
    return intent(**{"query_type": "time_series", "grain": "month", "dimensions": [], **changes})


def where(field: str, op: str, *values: Any) -> dict[str, Any]:
    """A filter in wire form."""
    return {"field": field, "op": op, "values": list(values)}


def text(**changes: Any) -> str:
    """The same as `wire`, as a model writes it."""
    return json.dumps(wire(**changes), indent=2)


@st.composite
def random_intents(draw: st.DrawFn, catalog: Catalog = CATALOG) -> Intent:
    """Valid intents of every kind, without customers (their ids live in a warehouse)."""
    named = {k: d for k, d in catalog.dimensions.items() if d.values}
    metrics = draw(st.lists(st.sampled_from(list(catalog.metrics)), min_size=1, max_size=3, unique=True))
    reached = [d for d in named if all(catalog.reaches(m, d) for m in metrics)]
    kind = draw(st.sampled_from(["breakdown", "top_n_by_metric", "time_series"]))
    fewest, most = {"breakdown": (0, 2), "top_n_by_metric": (1, 2), "time_series": (0, 1)}[kind]
    dimensions = draw(st.lists(st.sampled_from(reached), min_size=fewest, max_size=most, unique=True))
    conditions = st.one_of(_listed(named, reached), _null(reached), _threshold(metrics))
    order = st.fixed_dictionaries(
        {"by": st.sampled_from([*metrics, *dimensions]), "direction": st.sampled_from(["asc", "desc"])}
    )
    grain = st.sampled_from(["day", "week", "month", "quarter", "year"])
    return intent_of(
        {
            "evidence": draw(st.text(alphabet="abc é", max_size=80)),
            "query_type": kind,
            "metrics": metrics,
            "dimensions": dimensions,
            "filters": draw(st.lists(conditions, max_size=4)),
            "period": draw(st.sampled_from(PERIODS)),
            "grain": draw(grain) if kind == "time_series" else None,
            "sort": draw(st.none() | order),
            "limit": draw(st.none() | st.integers(1, 1000)),
        },
        catalog,
    )


def _listed(named: dict[str, Any], reached: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    def values(field: str) -> st.SearchStrategy[dict[str, Any]]:
        some = st.lists(st.sampled_from(named[field].values), min_size=1, max_size=3)
        return st.builds(lambda op, v: where(field, op, *v), st.sampled_from(["in", "not_in"]), some)

    return st.sampled_from(reached).flatmap(values)


def _null(reached: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(where, st.sampled_from(reached), st.sampled_from(["is_null", "not_null"]))


def _threshold(metrics: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    number = st.integers(-5, 5000) | st.floats(-1, 1, allow_nan=False)
    return st.builds(where, st.sampled_from(metrics), st.sampled_from(["gt", "gte", "lt", "lte"]), number)
