"""The article's derived numbers recomputed from its others, and where its rows contradict one another."""

import pytest

from nlqlib.article_arithmetic import arithmetic, evaluate, half_unit, recompute
from nlqlib.article_data import claim, claims

CLAIMS = claims()


@pytest.mark.parametrize(
    ("claim_id", "value"),
    [
        ("after.derived.gain", 22.161),
        ("after.derived.output_rate", 790.05),
        ("after.derived.presented_rate", 22671.0),
        ("linear.16", 4.96),
        ("dense.efficiency.16", 0.8488),
        ("cost.8", 0.12513),
        ("output.saving.tokens", 39.0),
        ("output.saving.expected", 1.0608),
        ("output.saving.measured", 1.045),
        ("decomposition.token_rate", 36.76),
        ("holdout.majority", 0.5),
        ("holdout.final.contrastive_guardrail", 0.6997),
    ],
)
def test_a_derived_number_follows_from_its_inputs(claim_id, value):
    result = recompute(claim(claim_id))
    assert result.value == pytest.approx(value, rel=1e-3)
    assert result.closes == "closes"


def test_four_derived_numbers_need_unrounded_inputs_and_none_contradicts_them():
    results = {r.claim.id: r.closes for r in arithmetic()}
    assert [i for i, closes in results.items() if closes == "within rounding"] == [
        "dense.efficiency.8",
        "dense.efficiency.24",
        "cost.1",
        "output.saving.share",
    ]
    assert "does not close" not in results.values()
    assert all(claim(i).note for i, closes in results.items() if closes != "closes")


def test_one_unrounded_baseline_explains_every_efficiency_and_the_cost_at_1():
    x1 = 0.3109
    assert round(1 / (3.6 * x1), 3) == claim("cost.1").value
    for c in (c for c in CLAIMS if c.stat == "X(N) / (N X(1))" and c.value < 1):
        x, linear = claim(c.inputs["x"]), c.condition["concurrency"] * x1
        low, high = (round((x.value + d) / linear, 2) for d in (-half_unit(x), half_unit(x)))
        assert low <= c.value <= high


def test_rows_whose_mean_latency_exceeds_their_own_p95():
    """N / X is the mean latency of a steady closed loop; above the p95 it shows ramp and drain in X."""
    pairs = [(claim(c.id.replace("throughput", "p95")), c) for c in CLAIMS if is_measured_throughput(c)]
    longest = {p: x.condition["concurrency"] / (x.value + half_unit(x)) for p, x in pairs if not_serial(x)}
    broken = [p for p, mean_s in longest.items() if mean_s > p.value + half_unit(p)]
    names = ["after.p95.32", "dense.p95.18", "repeated.p95.16", "repeated.p95.20", "repeated.p95.24"]
    assert [p.id for p in broken] == names
    assert all("exceeds this p95" in p.note for p in broken)


def not_serial(c):
    """The serial rows are printed with two digits, too few to tell N / X from the p95."""
    return c.condition["admission"] == "after"


def is_measured_throughput(c):
    return c.kind == "measured" and ".throughput." in c.id


def test_the_policies_follow_from_the_sweeps_but_not_from_the_saturation_run():
    p95 = {
        n: [c.high for c in CLAIMS if c.id.endswith(f"ed.p95.{n}") or c.id == f"dense.p95.{n}"]
        for n in (16, 20, 24)
    }
    assert max(p95[16]) < 4.0 <= min(p95[20])
    assert max(p95[20] + p95[24]) < 4.5
    assert claim("after.p95.32").value < 5.0 < claim("saturation.p95.32").value
    assert "5.16" in claim("operating.cheapest_below_5").note


def test_shares_of_sixty_are_whole_questions():
    for c in CLAIMS:
        if c.id.startswith(("holdout.raw", "holdout.final.c", "holdout.final.b")):
            assert round(round(c.value * 60) / 60, 3) == pytest.approx(c.value)


def test_one_question_more_is_17_points_and_not_16():
    raw = claim("holdout.raw.contrastive"), claim("holdout.raw.baseline")
    assert round(raw[0].value * 60) - round(raw[1].value * 60) == 1
    assert claim("holdout.contrast_gain").value == 0.016 < 1 / 60


def test_decode_is_one_gap_less_than_the_output_length():
    decode, itl = claim("decomposition.decode").value, claim("decomposition.itl").value
    assert decode / itl + 1 == pytest.approx(claim("decomposition.output_tokens").value, abs=0.5)


def test_the_backfire_cost_the_same_time_a_token():
    b = {
        k: claim(f"output.backfire.{k}").value
        for k in ("tokens.before", "tokens.after", "latency.before", "latency.after")
    }
    per_token = (b["latency.after"] - b["latency.before"]) / (b["tokens.after"] - b["tokens.before"])
    assert per_token == pytest.approx(claim("decomposition.itl").value, rel=0.01)


def test_counts_add_up():
    assert sum(claim(f"output.instruction.{k}").value for k in ("honoured", "ignored", "backfired")) == 12
    parts = {
        k: claim(f"holdout.set.{k}").value
        for k in ("contrast_pair", "naturalistic", "breakdown", "top_n", "time_series")
    }
    assert parts["contrast_pair"] + parts["naturalistic"] == 60
    assert parts["breakdown"] + parts["top_n"] + parts["time_series"] == 60


def test_a_formula_holds_only_arithmetic():
    assert evaluate("(a - b) / a * 100", {"a": 4.0, "b": 3.0}) == 25.0
    with pytest.raises(ValueError, match="only"):
        evaluate("__import__('os')", {})


def test_half_a_unit_of_the_last_digit():
    assert half_unit(claim("dense.throughput.16")) == pytest.approx(0.005)
    assert half_unit(claim("output.saving.expected")) == pytest.approx(0.005)
    assert half_unit(claim("dense.efficiency.8")) == pytest.approx(0.005)
    assert half_unit(claim("after.derived.presented_rate")) == pytest.approx(50)
    assert half_unit(claim("workload.questions")) == 0.0


def test_what_has_no_formula_cannot_be_recomputed():
    with pytest.raises(ValueError, match="has no formula"):
        recompute(claim("dense.throughput.16"))
