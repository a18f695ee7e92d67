"""Layouts, effects, savings and what compactness does to meaning: right values by hand."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.analysis.compactness import (
    Pair,
    Said,
    effect,
    effects,
    judged_whole,
    layout,
    lengths,
    meaning,
    minified,
    paired_interval,
    pairs,
    pooled_itl,
    saving,
    shifts,
)
from nlqlib.analysis.evaluation import Judged

PRETTY = '{\n  "a": "x y",\n  "b": [\n    1,\n    2\n  ]\n}'
SPACED = '{"a": "x y", "b": [1, 2]}'
COMPACT = '{"a":"x y","b":[1,2]}'
documents = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def answer(i: int, tokens: int, text: str = PRETTY, outcome: str = "ok", e2e_s: float | None = None) -> Said:
    return Said(f"q{i}", outcome, text, tokens, e2e_s)


def judged(i: int, right: bool, outcome: str = "ok", **changes: Any) -> Judged:
    told: dict[str, Any] = {
        "compliant": True,
        "strict": right,
        "kind": right,
        "execution": right,
        "executed": True,
    }
    return Judged(f"q{i}", outcome, gold_kind="breakdown", raw_kind="breakdown", **told | changes)


# --- layout ---


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (PRETTY, "pretty"),
        (SPACED, "spaced"),
        (COMPACT, "compact"),
        ('{"a":1}\n', "pretty"),
        (' {"a":1}', "spaced"),
        ('{"a":"b \\" c"}', "compact"),
        ('{"a":"\\\\" }', "spaced"),
        ("{}", "compact"),
        ("42", "no JSON"),
        ("```json\n{}\n```", "no JSON"),
        ("", "no JSON"),
        (None, "no JSON"),
    ],
)
def test_a_layout_is_told_from_the_whitespace_outside_of_strings(text: str | None, expected: str):
    assert layout(text) == expected


@given(documents.filter(lambda d: isinstance(d, dict | list)))
def test_minifying_afterwards_changes_no_value_and_leaves_no_space(document: Any):
    shorter = minified(json.dumps(document, indent=3))
    assert shorter is not None and json.loads(shorter) == document
    assert shorter == json.dumps(document, separators=(",", ":"))


def test_what_is_no_json_cannot_be_minified():
    assert minified("a, b") is None


# --- effects ---


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        (answer(1, 77, COMPACT), "honoured"),
        (answer(1, 90, SPACED), "partly"),
        (answer(1, 115, PRETTY), "ignored"),
        (answer(1, 154, PRETTY), "backfired"),
        (answer(1, 154, COMPACT), "backfired"),
        (answer(1, 100, "```json\n{}\n```"), "ignored"),
        (answer(1, 20, COMPACT, "length"), "cut"),
        (answer(1, 20, "", "empty"), "failed"),
        (answer(1, 20, COMPACT, "timeout"), "failed"),
    ],
)
def test_an_effect_is_told_from_layout_and_length(other: Said, expected: str):
    assert effect(answer(1, 115), other) == expected


def test_without_a_whole_pretty_answer_there_is_no_pair():
    assert effect(answer(1, 256, PRETTY, "length"), answer(1, 77, COMPACT)) == "unpaired"


def test_the_articles_twelve_trials_are_counted_as_it_counts_them():
    pretty = [answer(i, 115) for i in range(12)]
    asked = [answer(i, 77, COMPACT) for i in range(7)]
    asked += [answer(i, 115) for i in range(7, 11)] + [answer(11, 154)]
    counts = effects(pairs(pretty, asked))
    assert (counts["honoured"], counts["ignored"], counts["backfired"]) == (7, 4, 1)
    assert sum(counts.values()) == 12


# --- savings ---


def test_the_articles_saving_is_39_tokens_of_27_2_ms():
    pretty = [answer(i, 116, e2e_s=3.214) for i in range(7)]
    asked = [answer(i, 77, COMPACT, e2e_s=2.169) for i in range(7)]
    found = saving(pairs(pretty, asked), 0.0272)
    assert found.tokens.value == 39 and found.predicted_s == pytest.approx(1.0608)
    assert found.measured.value == pytest.approx(1.045) and found.ratio == pytest.approx(0.985, abs=0.001)


@pytest.mark.parametrize("side", ["pretty", "compact"])
def test_a_cut_answer_saves_nothing_on_either_side(side: str):
    pretty = [answer(1, 116, e2e_s=3.0), answer(2, 256, PRETTY, "length" if side == "pretty" else "ok", 7.0)]
    compact = [
        answer(1, 76, COMPACT, e2e_s=2.0),
        answer(2, 8, COMPACT, "length" if side == "compact" else "ok", 0.2),
    ]
    found = saving(pairs(pretty, compact), 0.025)
    assert (found.n, found.tokens.value, found.measured.value) == (1, 40, 1.0)


def test_a_saving_is_foretold_from_the_pairs_that_were_timed():
    found = saving([Pair("a", "honoured", 40, 1.0), Pair("b", "honoured", 80, None)], 0.025)
    assert found.tokens.value == 60 and found.predicted_s == 1.0 and found.ratio == 1.0


def test_a_backfire_is_a_negative_saving():
    found = saving(pairs([answer(1, 115, e2e_s=3.199)], [answer(1, 154, e2e_s=4.261)]), 0.0272)
    assert found.tokens.value == -39 and found.ratio == pytest.approx(1.001, abs=0.001)


def test_without_pairs_nothing_is_saved_and_nothing_is_zero():
    found = saving([], 0.03)
    assert (found.n, found.tokens.value, found.predicted_s, found.measured.value, found.ratio) == (
        0,
        None,
        None,
        None,
        None,
    )


def test_the_gap_between_tokens_is_pooled_over_all_gaps():
    assert pooled_itl([(1.0, 11), (4.0, 21), (0.0, 1)]) == pytest.approx(5 / 30)
    assert pooled_itl([]) is None


# --- meaning ---


def test_a_cut_answer_is_wrong_even_where_its_text_reads_right():
    rows = [judged(1, True), judged(2, True, "length"), judged(3, False)]
    assert [(s.k, s.n) for s in meaning(rows).values()] == [(1, 3)] * 3
    assert judged_whole(rows)[1].raw_kind is None


def test_a_failed_request_is_no_answer_at_all():
    assert meaning([judged(1, True), judged(2, False, "timeout")])["strict accuracy"].n == 1


def test_shifts_count_the_questions_lost_and_won():
    pretty = [judged(i, i < 6) for i in range(10)]
    compact = [judged(i, 5 <= i < 8) for i in range(10)]
    strict, *_ = shifts(pretty, {"regex": compact})["regex"]
    assert (strict.n, strict.kept, strict.lost, strict.won) == (10, 1, 5, 2)
    assert strict.p == pytest.approx(2 * (1 + 7 + 21) / 2**7) and strict.change == pytest.approx(-0.3)


def test_only_questions_that_both_answered_are_compared():
    pretty, compact = (
        [judged(1, True), judged(2, True, "timeout")],
        [judged(1, True), judged(2, True), judged(3, True)],
    )
    assert shifts(pretty, {"regex": compact})["regex"][0].n == 1


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        ((36, 12, 2, 50), (0.0569, 0.3404)),  # Newcombe (1998), method 10
        ((20, 0, 0, 20), (-0.1611, 0.1611)),  # nothing differs: Wilson's own margin is left
    ],
)
def test_the_interval_of_a_paired_difference(cells: tuple[int, ...], expected: tuple[float, float]):
    low, high = paired_interval(*cells)
    assert (-high, -low) == pytest.approx(expected, abs=1e-4)


@given(st.integers(0, 20), st.integers(0, 20), st.integers(0, 20), st.integers(1, 20))
def test_a_paired_interval_holds_its_difference_and_turns_with_the_sides(
    kept: int, lost: int, won: int, rest: int
):
    n = kept + lost + won + rest
    low, high = paired_interval(kept, lost, won, n)
    assert low - 1e-9 <= (won - lost) / n <= high + 1e-9 and low >= -1 and high <= 1
    assert paired_interval(kept, won, lost, n) == pytest.approx((-high, -low))


def test_a_harm_is_as_visible_beside_seven_forms_as_beside_one():
    pretty = [judged(i, i < 36) for i in range(60)]
    worse = [judged(i, 12 <= i < 38) for i in range(60)]
    alone = shifts(pretty, {"regex": worse})["regex"][0]
    many = shifts(pretty, {f"form{i}": pretty for i in range(6)} | {"regex": worse})["regex"][0]
    assert (alone.lost, alone.won) == (12, 2) and alone == many
    assert alone.p == pytest.approx(0.0129, abs=1e-4)
    assert alone.shown and alone.risk == pytest.approx(0.28, abs=0.02)


def test_an_unchanged_accuracy_is_shown_to_change_nothing_and_still_has_a_risk():
    same = [judged(i, i < 10) for i in range(20)]
    [strict, *_] = shifts(same, {"regex": same})["regex"]
    assert not strict.shown and strict.risk is not None and strict.risk > 0


# --- lengths ---


def test_lengths_are_compared_over_the_questions_whole_in_both():
    pretty = [answer(i, 120) for i in range(7)] + [answer(7, 256, PRETTY, "length")]
    other = [answer(i, 72, COMPACT) for i in range(7)] + [answer(7, 152, COMPACT)]
    both = lengths(pretty, other)
    assert (both.n, both.pretty, both.other) == (7, 120, 72) and both.change == pytest.approx(-0.4)


def test_without_a_common_whole_answer_no_length_is_told():
    both = lengths([answer(1, 256, PRETTY, "length")], [answer(1, 80, COMPACT)])
    assert (both.n, both.pretty, both.other, both.change) == (0, None, None, None)
