"""Lengths on file: exact prompt counts, recorded answers, and what one more piece of a prompt costs."""

from dataclasses import replace
from pathlib import Path

import pytest
from context_world import answer, endpoint_study, point, twin_study

from nlqlib.experiments import context_budget_page as page
from nlqlib.experiments import context_lengths as lengths
from nlqlib.experiments.context_lengths import Length
from nlqlib.nlq.catalog import load_catalog
from nlqlib.serving.twin_target import recordings


def made(osl: int, outcome: str = "ok") -> Length:
    return Length("dev", "baseline", "q", 3300, osl, outcome)  # type: ignore[arg-type]


def test_every_question_of_every_set_is_counted_under_both_prompts() -> None:
    assert [len(lengths.of(p, s)) for p in lengths.PROMPTS for s in lengths.SETS] == [20, 60, 45] * 2


def test_prompts_are_counted_as_the_server_counted_them_when_they_were_recorded() -> None:
    how = {"prompt": "baseline", "contract": "structured_outputs"}
    known = {r.about["question"]: r for r in recordings().by_key.values() if how.items() <= r.about.items()}
    found = [x for x in lengths.of("baseline") if x.question in known]
    assert len(found) == 125
    assert all(x.isl == known[x.question].prompt_tokens for x in found)
    assert all(x.osl == len(known[x.question].token_ids) for x in found)


def test_a_cut_answer_is_counted_and_its_length_is_not() -> None:
    found = [made(80), made(120), made(256, "length"), made(90, "bad_json")]
    assert lengths.whole(found) == [80, 120]
    assert lengths.cut(found) == 1
    tail = lengths.answers_tail(found)
    assert (tail.n, tail.cut, tail.longest) == (2, 1, 120)


def test_cut_answers_on_file_are_exactly_those_that_reached_their_limit() -> None:
    assert all((x.outcome == "length") == (x.osl == 256) for x in lengths.lengths() if x.osl is not None)


def test_a_question_without_a_recording_has_no_answer() -> None:
    assert not Length("dev", "baseline", "q", 3300, None, None).whole


def test_pieces_are_priced_by_leaving_each_out() -> None:
    catalog = load_catalog()
    found = {p.name: p for p in lengths.pieces()}
    assert found["metric"].count == len(catalog.metrics)
    assert found["dimension"].count == len(catalog.dimensions)
    assert found["worked example"].count > 0
    assert all(p.tokens_each > 5 for p in found.values())
    assert found["worked example"].tokens_each > found["metric"].tokens_each


def test_recorded_answers_are_this_targets_own_words_only_where_it_speaks_them(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    study = twin_study(tmp_path_factory.mktemp("store"))
    assert lengths.own_words(study)
    assert "replayed answers of Qwen/Qwen2.5-Coder-1.5B" in page.whose(study)


# ---- the page --------------------------------------------------------------------------------------------


def test_too_few_answers_for_p999_say_what_they_bound() -> None:
    found = lengths.of("baseline")
    table, text = page.tail_table(found)["value"], page.tail_sentence(found)
    assert "no upper end" in table["its 95 % interval by order statistics"]
    assert table["valid answers it needs for an upper end"] == "3,688"
    assert "too few for p99.9" in text
    assert "were cut" in text and "not known" in text


def test_enough_answers_give_p999_an_upper_end() -> None:
    found = [made(100 + i % 50) for i in range(4000)]
    assert "p99.9 of 4000 valid answers is at most 149 tokens" in page.tail_sentence(found)
    assert "max_tokens = 192" in page.tail_sentence(found)


def test_without_answers_nothing_is_recommended() -> None:
    nobody = [Length("dev", "baseline", "q", 3300, None, None)]
    assert "no limit can be recommended" in page.tail_sentence(nobody)
    assert "no recommendation" in " ".join(page.tail_table(nobody)["value"])
    assert set(page.limits_table(nobody)["share cut"]) == {"—"}


def test_each_limits_share_of_cut_answers_spans_what_nobody_knows() -> None:
    found = [made(60), made(100), made(200), made(256, "length")]
    table = page.limits_table(found)
    assert list(table["cut"]) == ["3", "2", "1", "0 to 1"]
    assert list(table["answers"]) == [4, 4, 4, 4]
    assert list(table["share cut"]) == ["75.0%", "50.0%", "25.0%", "0.0% to 25.0%"]
    assert table.loc[512, "95 % interval"] == "0.0% to 69.9%"  # Wilson's upper end of 1 in 4
    assert page.limits_sentence(found).startswith("Of 4 answers 1 were cut below 512")
    assert "known of every answer" in page.limits_sentence(found[:3])


def test_on_file_a_limit_of_512_is_not_shown_to_cut_nothing() -> None:
    row = page.limits_table(lengths.of("baseline")).loc[512]
    assert (row["answers"], row["cut"], row["share cut"]) == (125, "0 to 6", "0.0% to 4.8%")
    assert row["95 % interval"] == "0.0% to 10.1%"


def test_an_answer_that_ends_at_the_limit_by_itself_is_not_cut() -> None:
    assert page.limits_table([made(128)]).loc[128, "cut"] == "0"


def test_what_is_left_is_told_in_tokens_and_in_pieces() -> None:
    table = page.growth_table((4096, 8192), (256, 1024), 3327)
    assert list(table["left for the prompt"]) == ["513", "-255: DOES NOT FIT", "4,609", "3,841"]
    assert table.loc["4,096 − 3,327 − 1024", "more metrics"] == 0
    more = table["more metrics"]
    assert more["8,192 − 3,327 − 256"] > more["4,096 − 3,327 − 256"] > 0
    assert "leaves 513 tokens" in page.growth_sentence(4096, 256, 3327)
    assert "exceed a window of 4,096 by 255" in page.growth_sentence(4096, 1024, 3327)


def test_the_articles_128_is_tight_and_its_256_is_not() -> None:
    table = page.article_limits()
    margin, backfire = table.columns[1], table.columns[2]
    assert (table.loc[128, margin], table.loc[256, margin]) == ("NO", "yes")
    assert (table.loc[128, backfire], table.loc[256, backfire]) == ("NO", "yes")
    assert "540" in list(table.loc[256])


def test_the_sentence_on_lengths_says_that_only_questions_differ(tmp_path: Path) -> None:
    found = lengths.of("baseline")
    assert "only the question differs" in page.lengths_sentence(found)
    assert len(page.lengths_table(twin_study(tmp_path), found)) == 8
    assert "no valid answer" in page.lengths_sentence([made(256, "length")])


# ---- another model than the recorded one -----------------------------------------------------------------


def test_another_models_answers_decide_for_themselves(tmp_path: Path) -> None:
    other = endpoint_study(tmp_path, 4096)
    other = replace(other, target=replace(other.target, speaker="somebody/else"))
    rows = [
        answer("dev-01", "ok", 40, prompt_tokens=2000),
        answer("dev-02", "ok", 60, prompt_tokens=None),
        answer("dev-03", "length", 512),
        answer("dev-04", "timeout", None),
        answer("dev-05", "http_4xx", None, unknown=True),
    ]
    found = lengths.asked(other, [point([answer()], max_tokens=64), point(rows, max_tokens=512)])
    assert [(x.isl, x.osl, x.outcome) for x in found] == [
        (2000, 40, "ok"),
        (3311, 60, "ok"),
        (3300, 512, "length"),
        (3300, None, "timeout"),
    ]
    assert lengths.longest_prompt(found) == 3311
    assert "measured here" in page.whose(other)
    assert list(page.lengths_table(other, found).index) == ["baseline, dev, measured here"]
    assert page.limits_table(found).loc[512, "cut"] == "1"


def test_the_recorded_models_answers_are_those_on_file(tmp_path: Path) -> None:
    assert lengths.asked(twin_study(tmp_path), []) == lengths.of("baseline")
