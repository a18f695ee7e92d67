"""Random intents, answered by the SQL builder and by the oracle: the same rows in the same order."""

from collections import Counter
from fractions import Fraction
from functools import lru_cache
from pathlib import Path
from typing import Any, get_args

import oracle
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as seeded
from hypothesis import strategies as st

from nlqlib.nlq.catalog import Catalog, QuestionError, load_catalog
from nlqlib.nlq.intent import Filter, Grain, Intent, Kind, Op, Sort, check
from nlqlib.nlq.schema import LIST_OPS
from nlqlib.nlq.sql import build, execute
from nlqlib.nlq.warehouse import Warehouse, open_warehouse

CATALOG = load_catalog()
SEEDS = (1, 2, 3)
SCALE = 0.01
EACH = 110
"""Intents for each seed: 330 in all."""
PERIODS = (
    *("all", "2023", "2024", "2024-Q1", "2023-Q3", "2025-Q2", "2023-02", "2023-07", "2024-12", "2025-06"),
    *("2024-01-01", "2023-12-31", "2024-03-10", "2024-11-03", "2025-06-15", "2024..2025", "2023-Q4..2024-Q1"),
    *("2024-11..2025-02", "2024-12-31..2025-01-01", "2023-12..2024-Q1", "2022-11..2023-02", "2025-05..2026"),
    *("this_month", "this_quarter", "this_year", "last_week", "last_month", "last_quarter", "last_year"),
    *("last_1_days", "last_30_days", "last_1_weeks", "last_5_weeks", "last_1_months", "last_18_months"),
)
METRICS = tuple(CATALOG.metrics)
FORMS: tuple[tuple[Kind, Grain | None], ...] = (
    *(("breakdown", None), ("top_n_by_metric", None), ("breakdown", None), ("top_n_by_metric", None)),
    *(("time_series", "month"), ("time_series", "quarter"), ("time_series", "week")),
    *(("time_series", "year"), ("time_series", "day")),
)
REACHED = tuple(d for d in CATALOG.dimensions if d != "return_reason")
THRESHOLDS: dict[str, tuple[float, ...]] = {
    "money": (0, 50, 312.5, 2000.01, 90000),
    "count": (0, 1, 3, 12, 250),
    "ratio": (0, 0.05, 0.1, 0.25, 0.3333, 0.5, 1),
}
compared: Counter[str] = Counter()
"""What has been compared so far, by seed, kind, operator and grain."""


@lru_cache
def world(seed: int, folder: Path) -> tuple[Warehouse, Catalog, oracle.Frames]:
    """The small warehouse of `seed`, the catalog that knows its customers, and the oracle's rows of it."""
    warehouse = open_warehouse(seed, SCALE, folder)
    return warehouse, warehouse.lookups(CATALOG), oracle.frames(warehouse)


def values(name: str) -> st.SearchStrategy[Any]:
    """Values of a dimension; customers by id."""
    return st.sampled_from(CATALOG.dimensions[name].values) if name != "customer" else st.integers(1001, 1040)


@st.composite
def conditions(draw: st.DrawFn, names: tuple[str, ...], metrics: tuple[str, ...]) -> Filter:
    """A filter on a dimension or a threshold on a metric."""
    op: Op = draw(st.sampled_from(get_args(Op)))
    if op in oracle.COMPARE:
        metric = draw(st.sampled_from(metrics))
        bounds = THRESHOLDS[CATALOG.metrics[metric].unit]
        return Filter(field=metric, op=op, values=(draw(st.sampled_from(bounds)),))
    name = draw(st.sampled_from(names))
    some = st.lists(values(name), min_size=1, max_size=6, unique=True)
    return Filter(field=name, op=op, values=tuple(draw(some)) if op in LIST_OPS else ())


@st.composite
def intents(draw: st.DrawFn) -> Intent:
    """Valid intents of every kind; one in six splits or filters by the reason of a return."""
    kind, grain = draw(st.sampled_from(FORMS))
    by_reason = draw(st.integers(0, 5)) == 0
    able = ("refunds",) if by_reason else METRICS
    metrics = draw(st.lists(st.sampled_from(able), min_size=1, max_size=3, unique=True))
    names = ("return_reason", *REACHED) if by_reason else REACHED
    most = 1 if kind == "time_series" else 2
    least = 1 if kind == "top_n_by_metric" else 0
    dimensions = draw(st.lists(st.sampled_from(names), min_size=least, max_size=most, unique=True))
    filters = draw(st.lists(conditions(names, tuple(able)), max_size=3))
    sortable = able if kind == "top_n_by_metric" else (*able, *dimensions)
    sort = draw(
        st.none() | st.builds(Sort, by=st.sampled_from(sortable), direction=st.sampled_from(("asc", "desc")))
    )
    return Intent(
        evidence="",
        query_type=kind,
        metrics=tuple(metrics),
        dimensions=tuple(dimensions),
        filters=tuple(filters),
        period=draw(st.sampled_from(PERIODS)),
        grain=grain,
        sort=sort,
        limit=draw(st.none() | st.integers(1, 20) | st.just(1000)),
    )


def same(found: Any, wanted: Any) -> bool:
    """Exact, but for floats: those to nine digits after the point."""
    if isinstance(found, float):
        return isinstance(wanted, Fraction | int) and abs(Fraction(found) - wanted) < Fraction(1, 10**8)
    if isinstance(wanted, Fraction):
        return found is not None and Fraction(found) == wanted
    return bool(found == wanted)


def agree(intent: Intent, seed: int, folder: Path) -> None:
    """Builder and oracle give the same columns, rows, order and verdict on a tie."""
    warehouse, catalog, rows = world(seed, folder)
    check(intent, catalog)
    wanted = oracle.answer(intent, rows)
    if len(wanted.rows) > warehouse.row_limit:
        with pytest.raises(QuestionError, match="more than 10,000 rows"):
            execute(build(intent, catalog), warehouse)
        return
    found = execute(build(intent, catalog), warehouse)
    assert tuple(c.name for c in found.columns) == wanted.columns
    assert len(found.rows) == len(wanted.rows), found.sql
    for mine, theirs in zip(found.rows, wanted.rows, strict=True):
        assert all(map(same, mine, theirs)), (mine, theirs, found.sql)
    assert found.tie_at_cut == wanted.tie_at_cut
    compared.update([str(seed), intent.query_type, *(f.op for f in intent.filters)])
    compared.update([intent.grain or "no grain", "rows" if found.rows else "no rows"])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the small warehouses are made."""
    return tmp_path_factory.mktemp("warehouses")


@pytest.mark.parametrize("number", SEEDS)
def test_the_builder_agrees_with_the_oracle(number: int, folder: Path) -> None:
    @seeded(number)
    @settings(
        max_examples=EACH,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )
    @given(intents())
    def property_of(intent: Intent) -> None:
        agree(intent, number, folder)

    property_of()


PLAIN = Intent(
    evidence="",
    query_type="breakdown",
    metrics=("revenue", "refunds", "customers"),
    dimensions=("region",),
    filters=(),
    period="all",
    grain=None,
    sort=None,
    limit=None,
)


def test_every_form_of_period_agrees(folder: Path) -> None:
    for period in PERIODS:
        agree(PLAIN.model_copy(update={"period": period}), SEEDS[0], folder)


@pytest.mark.parametrize("name", CATALOG.dimensions)
def test_every_operator_on_every_dimension_agrees(name: str, folder: Path) -> None:
    known = (1001, 1002, 1005) if name == "customer" else CATALOG.dimensions[name].values[:3]
    metrics = PLAIN.metrics if name in REACHED else ("refunds",)
    for op in ("in", "not_in", "is_null", "not_null"):
        wanted = Filter(field=name, op=op, values=known if op in LIST_OPS else ())
        agree(PLAIN.model_copy(update={"metrics": metrics, "filters": (wanted,)}), SEEDS[0], folder)


def test_at_least_300_intents_of_every_kind_were_compared() -> None:
    assert sum(compared[str(number)] for number in SEEDS) >= 300
    kinds = ("breakdown", "top_n_by_metric", "time_series")
    ops = ("in", "not_in", "is_null", "not_null", *oracle.COMPARE)
    for what in (*kinds, *ops, *oracle.FREQ):
        assert compared[what] >= 5, what
    assert compared["rows"] >= 150
