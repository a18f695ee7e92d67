"""Limits of an answer: cut answers are failures with a price, and what nobody recorded is not known."""

from pathlib import Path

import pytest
from context_world import answer, local_study, point, twin_study

from nlqlib.artifacts import Record
from nlqlib.experiments import context_caps as caps
from nlqlib.experiments import context_page as page
from nlqlib.experiments.context_caps import outcomes
from nlqlib.records import Completion


@pytest.fixture(scope="module")
def measured(tmp_path_factory: pytest.TempPathFactory) -> list[Record]:
    study = twin_study(tmp_path_factory.mktemp("store"))
    return caps.measure(study, caps.caps(study))


def test_on_the_twin_every_limit_cuts_what_was_recorded_longer(measured: list[Record]) -> None:
    found = {o.max_tokens: o for o in outcomes(measured)}
    assert {limit: (o.ok, o.cut, o.unknown) for limit, o in found.items()} == {
        64: (0, 20, 0),
        128: (7, 13, 0),
        256: (18, 2, 0),
        512: (18, 0, 2),
    }
    assert all(o.bad == 0 and o.sent for o in found.values())


def test_a_cut_answer_has_no_latency_and_its_time_is_kept_apart(measured: list[Record]) -> None:
    by_cap = {int(r.params["max_tokens"]): r for r in measured}
    assert by_cap[64].value("e2e_latency", "p50") is None
    assert by_cap[64].requests["ok"] == 0
    found = {o.max_tokens: o for o in outcomes(measured)}
    assert found[64].wasted_tokens == 20 * 64
    assert found[64].s_per_valid is None
    assert found[64].wasted_s == pytest.approx(20 * 1.8, rel=0.1)
    assert found[128].s_per_valid is not None and found[256].s_per_valid is not None
    assert found[128].s_per_valid > found[256].s_per_valid


def test_what_the_recordings_do_not_hold_is_no_failure_of_the_endpoint(measured: list[Record]) -> None:
    last = page.caps_table(measured).loc[512]
    assert (last["n"], last["not known"], last["valid"], last["other failures"]) == (20, 2, 18, 0)


def test_a_limit_of_which_not_all_is_known_cuts_from_the_least_to_the_most(measured: list[Record]) -> None:
    table = page.caps_table(measured)
    assert list(table["cut"]) == ["20", "13", "2", "0 to 2"]
    assert list(table["share cut"]) == ["100%", "65%", "10%", "0% to 10%"]
    low, high = table.loc[512, "95 % interval"].split(" to ")
    assert low == "0%" and high == table.loc[256, "95 % interval"].split(" to ")[1]


def test_no_limit_is_called_the_smallest_while_an_answer_is_not_known(measured: list[Record]) -> None:
    text = page.caps_sentence(measured)
    assert "smallest" not in text
    assert "No limit is known to cut none: at 512 nobody knows of 2 of 20 answers" in text


def test_the_smallest_limit_is_named_of_many_answers_and_with_what_stays_open() -> None:
    some, many = ([point([answer(f"{i}") for i in range(n)], max_tokens=256)] for n in (19, 20))
    few = "19 answers are too few to name the smallest limit that cuts none."
    assert page.caps_sentence(some).endswith(few)
    enough = "The smallest that cuts none of its 20 answers is 128, which leaves up to 16%"
    assert enough in page.caps_sentence(many)


def test_on_the_twin_nothing_is_called_measured(measured: list[Record], tmp_path: Path) -> None:
    study = twin_study(tmp_path)
    assert set(page.caps_table(measured)["how"]) == {"sent"}
    assert page.answers_kind(study) == ["replayed answers", "modelled times"]
    assert "s (modelled)" in page.cheap_looking(measured, study)


def test_limits_derived_from_the_longest_agree_with_those_measured(measured: list[Record]) -> None:
    longest = next(r for r in measured if r.params["max_tokens"] == 256)
    known = {o.max_tokens: o for o in outcomes(measured)}
    for o in outcomes([longest]):
        twin = known[o.max_tokens]
        assert (o.ok, o.cut, o.unknown, o.wasted_tokens) == (
            twin.ok,
            twin.cut,
            twin.unknown,
            twin.wasted_tokens,
        )
        assert o.sent is (o.max_tokens == 256)
        assert o.sent or (o.p50_s is None and o.wasted_s is None and o.s_per_valid is None)


def test_a_bad_answer_that_ended_is_no_cut_one() -> None:
    rows = [answer("a"), answer("b", "bad_json"), answer("c", "length", 256), answer("d", "timeout", None)]
    found = {o.max_tokens: o for o in outcomes([point(rows, max_tokens=256)])}
    assert (found[256].ok, found[256].cut, found[256].bad) == (1, 1, 2)
    assert (found[64].ok, found[64].cut, found[64].bad) == (0, 3, 1)
    assert (found[512].ok, found[512].cut, found[512].bad, found[512].unknown) == (1, 0, 2, 1)


def test_the_sentences_name_the_loss(tmp_path: Path) -> None:
    local = local_study(tmp_path)
    rows = [answer("a", "ok", 40, took_s=1.0), answer("b", "length", 64, took_s=2.0, max_tokens=64)]
    made = [point(rows, max_tokens=64)]
    assert "cuts 1 of 2 answers: 64 tokens" in page.caps_sentence(made)
    assert "a cut answer took 2.00 s (measured)" in page.cheap_looking(made, local)
    assert "each valid answer pays 3.00 s" in page.cheap_looking(made, local)
    assert "No limit that was sent cut" in page.cheap_looking([point([answer()], max_tokens=256)], local)
    assert page.caps_sentence([]) == "No limit was measured."
    assert page.caps_table([]).empty


def test_only_the_twins_own_refusal_is_unknown() -> None:
    why = "the recorded answer was itself cut at 256 tokens"
    silent = Completion("a", "http_4xx", http_status=422, error=why)
    other = Completion("a", "http_4xx", http_status=422, error="max_tokens is wrong")
    assert caps.unknown(silent) and not caps.unknown(other)


def test_a_silently_clamped_answer_is_marked() -> None:
    done = Completion("a", "length", finish_reason="length", prompt_tokens=4090, output_tokens=6)
    assert caps.sample(done, 64, 4096)["clamped"] is True
    assert caps.sample(done, 64, None)["clamped"] is None
    assert caps.sample(done, 6, 4096)["clamped"] is False


def test_a_quick_run_measures_two_limits_of_a_few_questions(tmp_path: Path) -> None:
    study = local_study(tmp_path)
    found = caps.caps(study)
    assert [(c.max_tokens, c.questions, c.at_once) for c in found] == [(64, 3, 3), (256, 3, 3)]
    assert sum(caps.spec(study, c).about_s or 0 for c in found) < 70
