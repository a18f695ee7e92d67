"""Verdicts on values of ours, looking claims up, and the table 'Against the article'."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.article import claim, claims, comparison_table, verdict, verdicts_of
from nlqlib.records import Metric

CLAIMS = claims()


@pytest.mark.parametrize(
    ("value", "word", "difference"),
    [
        (4.10, "reproduced", 0.0),
        (4.21 * 1.049, "reproduced", 0.049),
        (4.21 * 1.051, "differs", 0.051),
        (4.06 * 0.949, "differs", -0.051),
    ],
)
def test_difference_is_taken_from_the_nearest_end_of_the_interval(value, word, difference):
    v = verdict("dense.throughput.16", value, target="twin")
    assert v.verdict == word
    assert v.relative_difference == pytest.approx(difference)


def test_a_missing_value_is_not_measured_and_never_0():
    v = verdict("dense.throughput.16", None, target="twin")
    assert (v.verdict, v.value, v.relative_difference) == ("not measured", None, None)
    assert verdict("dense.throughput.16", 0.0, target="twin").verdict == "differs"


@pytest.mark.parametrize("value", [math.nan, math.inf])
def test_what_is_no_number_is_refused(value):
    with pytest.raises(ValueError, match="None for one that is missing"):
        verdict("dense.throughput.16", value)


@pytest.mark.parametrize("target", ["local", "my-endpoint"])
def test_an_absolute_speed_is_not_comparable_on_another_machine(target):
    v = verdict("dense.throughput.16", 0.4, target=target)
    assert v.verdict == "not comparable"
    assert "another model" in v.reason
    assert v.value == 0.4


@pytest.mark.parametrize("target", ["twin", "local", "l4", "my-endpoint"])
def test_a_property_of_the_path_is_comparable_everywhere(target):
    assert verdict("staircase.3", 3.05, target=target).verdict == "reproduced"


def test_what_holds_by_construction_confirms_nothing():
    assert (
        verdict("dense.throughput.16", 4.2, tag="by construction", target="twin").verdict == "not comparable"
    )
    assert verdict("load.identical", 1.0, target="twin").verdict == "not comparable"
    assert verdict("load.identical", 1.0, target="local").verdict == "reproduced"


def test_a_row_used_to_fit_says_so():
    assert "fitted on" in verdict("dense.throughput.16", 4.2, tag="fitted", target="twin").reason


def test_shares_over_unpublished_questions_stand_without_a_verdict():
    v = verdict("holdout.final.contrastive_guardrail", 0.93, target="local")
    assert (v.verdict, v.value) == ("not comparable", 0.93)


@pytest.mark.parametrize("c", [c for c in CLAIMS if not c.is_result], ids=lambda c: c.id)
def test_settings_are_not_compared(c):
    assert verdict(c, c.value, target="l4").verdict == "not comparable"


def test_bounds_are_kept_or_not():
    assert verdict("after.cv", 0.004, target="twin").verdict == "reproduced"
    assert verdict("after.cv", 0.004, target="twin").relative_difference == 0.0
    assert verdict("after.cv", 0.013, target="twin").verdict == "differs"
    assert verdict("saturation.tail", 9.9, target="twin").verdict == "reproduced"
    assert verdict("saturation.tail", 8.4, target="twin").verdict == "differs"


def test_a_claim_of_0_has_an_absolute_tolerance_and_no_relative_difference():
    v = verdict("scrape.waiting", 7.0, target="local")
    assert (v.verdict, v.relative_difference) == ("differs", None)
    assert verdict("scrape.waiting", 0.0, target="local").relative_difference == 0.0
    assert verdict("decomposition.queue", 0.0001, target="local").verdict == "reproduced"


def test_an_interval_that_reaches_into_the_tolerance_is_named_but_does_not_decide():
    v = verdict("dense.throughput.8", 2.5, (2.3, 2.7), target="twin")
    assert v.verdict == "differs"
    assert "more repeats could decide" in v.reason
    assert "repeats" not in verdict("dense.throughput.8", 2.5, (2.4, 2.6), target="twin").reason


@given(st.sampled_from([c for c in CLAIMS if c.scope.targets]), st.floats(-3, 3))
def test_reproduced_exactly_where_the_value_lies_in_the_tolerance(c, offset):
    end = c.high if offset > 0 else c.low
    width = c.tolerance.width(end)
    value = end + offset * (width or 1.0)
    word = verdict(c, value, target=c.scope.targets[0]).verdict
    if c.qualifier not in ("<", ">", "≥") and abs(abs(offset) - 1) > 1e-6 and abs(offset) > 1e-6:
        assert word == ("reproduced" if width and abs(offset) < 1 else "differs")


@pytest.mark.parametrize(
    "c", [c for c in CLAIMS if c.value is not None and c.scope.targets], ids=lambda c: c.id
)
def test_the_articles_own_value_reproduces_it(c):
    step = {"<": -1e-6, ">": 1e-6}.get(c.qualifier, 0.0)
    assert verdict(c, c.value + step, target=c.scope.targets[0]).verdict == "reproduced"


def test_an_unknown_claim_suggests_close_ones():
    with pytest.raises(LookupError, match=r"dense\.throughput\.16"):
        claim("dense.thruput.16")
    with pytest.raises(LookupError, match="Output Tokens"):
        claims("Output tokens as a budget")


def test_claims_of_one_section():
    rows = claims("Ruling Out KV Pressure")
    assert [c.id for c in rows] == ["kv.gpu_utilization", "kv.usage", "kv.gpu_memory", "kv.hit_rate"]


def test_the_table_keeps_its_order_and_writes_not_measured():
    metric = Metric("throughput", "req/s", "mean", 4.5, None, "predicted")
    rows = [
        ("dense.throughput.16", metric, (4.4, 4.6)),
        (claim("dense.p95.16"), None),
        verdict("kv.usage", 0.016, target="twin", tag="predicted"),
        ("load.identical", 1.0, None, "replayed"),
    ]
    table = comparison_table(rows, target="twin", tag="predicted")
    assert list(table["claim"]) == ["dense.throughput.16", "dense.p95.16", "kv.usage", "load.identical"]
    assert list(table["verdict"]) == ["differs", "not measured", "reproduced", "not comparable"]
    assert list(table["value"]) == ["4.5 req/s", "not measured", "0.016 share", "1 share"]
    assert list(table["tag"]) == ["predicted", "", "predicted", "replayed"]
    assert table.loc[0, "difference"] == "+6.9%"
    assert table.loc[0, "interval"] == "4.4 to 4.6"


def test_the_table_keeps_its_verdicts_unrounded_also_when_a_column_is_added():
    table = comparison_table([("dense.throughput.16", 4.123456), ("kv.usage", None)], target="twin")
    table.insert(1, "of", ["a", "b"])
    assert [v.value for v in verdicts_of(table)] == [4.123456, None]
    assert verdicts_of(table)[0] == verdict("dense.throughput.16", 4.123456, target="twin")


def test_an_empty_table_has_its_columns():
    assert list(comparison_table([]).columns)[:3] == ["claim", "section", "article"]
