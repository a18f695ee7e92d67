"""Metrics named by their formula are the difference or the ratio of what the catalog knows."""

from pathlib import Path

import pytest
from library_catalog import LIBRARY

from nlqlib.nlq import cues
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.cue_formulas import difference_of, quotient_of, ratio_over, share_of

SHOP = load_catalog()


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Catalog:
    path: Path = tmp_path_factory.mktemp("library") / "catalog.toml"
    path.write_text(LIBRARY, "utf-8")
    return load_catalog(path)


@pytest.mark.parametrize(
    ("words", "metric"),
    [
        ("sales less money back", "net_revenue"),
        ("turnover after refunds", "net_revenue"),
        ("revenue net of returns", "net_revenue"),
        ("what customers spend per purchase", "average_order_value"),
        ("revenue divided by orders", "average_order_value"),
        ("profit relative to revenue", "gross_margin_rate"),
        ("margin in percent", "gross_margin_rate"),
        ("what share of units came back", "return_rate"),
        ("items returned as a share of items sold", "return_rate"),
    ],
)
def test_a_formula_in_words_is_its_metric(words: str, metric: str) -> None:
    found = cues.read(f"{words} by channel", SHOP).intent
    assert found is not None and found.metrics == (metric,) and found.dimensions == ("channel",)


@pytest.mark.parametrize(
    "words", ["orders without Web", "revenue by orders divided by region", "units per channel"]
)
def test_what_is_no_formula_of_the_catalog_is_none(words: str) -> None:
    found = cues.read(words, SHOP).intent
    assert found is None or not set(found.metrics) & {"net_revenue", "average_order_value", "return_rate"}


def test_differences_and_ratios_come_from_the_catalog(library: Catalog) -> None:
    assert difference_of(SHOP, "revenue", "return_rate") == "net_revenue"
    assert difference_of(SHOP, "orders", "refunds") is None
    assert quotient_of(SHOP, "orders", "revenue") == "average_order_value"
    assert ratio_over(SHOP, "revenue", "gross_margin") == "gross_margin_rate"
    assert share_of(SHOP, "gross_margin") == "gross_margin_rate"
    assert share_of(library, "loans") is None and ratio_over(library, "loans") == "late_rate"
