"""The choice of a form: tokens count only once an interval excludes that much meaning is lost."""

from pathlib import Path
from typing import Any

import pytest

from nlqlib.analysis.compact_choice import MARGIN, Candidate, choose, weigh
from nlqlib.analysis.compactness import Pair, shifts
from nlqlib.analysis.evaluation import Judged
from nlqlib.artifacts import Store
from nlqlib.experiments.compact_choice_page import choice_sentence, rule_sentence
from nlqlib.experiments.study import Study
from nlqlib.serving.target import open_target


def judged(i: int, right: bool, outcome: str = "ok") -> Judged:
    told: dict[str, Any] = {"compliant": True, "strict": right, "kind": right, "execution": right}
    return Judged(f"q{i}", outcome, gold_kind="breakdown", raw_kind="breakdown", executed=True, **told)


def answers(right: range, n: int) -> list[Judged]:
    return [judged(i, i in right) for i in range(n)]


def candidate(
    name: str, rows: list[Judged], each: int, pretty: list[Judged] | None = None, effect: Any = "honoured"
) -> Candidate:
    told = shifts(pretty, {name: rows})[name] if pretty else []
    found = [Pair(row.question_id, effect if i == 0 else "honoured", 1, None) for i, row in enumerate(rows)]
    right = sum(row.strict for row in rows)
    return Candidate(name, found if pretty else [], told, right, len(rows), each * len(rows))


MANY, FEW = answers(range(300), 400), answers(range(10), 20)


def plain(rows: list[Judged]) -> Candidate:
    return candidate("pretty", rows, 120)


def test_a_form_that_is_shown_to_lose_little_is_chosen_with_what_it_saves() -> None:
    chosen = choose(plain(MANY), [candidate("regex", MANY, 72, MANY)])
    assert (chosen.verdict, chosen.chosen) == ("use", "regex")
    assert chosen.saved == pytest.approx(0.4)
    risk = chosen.weighed["regex"].risk
    assert risk is not None and 0 < risk <= MARGIN


def test_of_those_the_fewest_tokens_for_each_right_answer_win() -> None:
    forms = [candidate("regex", MANY, 72, MANY), candidate("shown", answers(range(299), 400), 60, MANY)]
    assert choose(plain(MANY), forms).chosen == "shown"


def test_on_few_questions_no_form_can_show_that_it_loses_little() -> None:
    choice = choose(plain(FEW), [candidate("regex", FEW, 60, FEW)])
    assert (choice.verdict, choice.chosen, choice.hopeful) == ("not proven", "pretty", "regex")
    assert choice.weighed["regex"].against == ("a loss of 9% is not excluded",)


def test_tokens_for_each_right_answer_do_not_buy_meaning() -> None:
    pretty, worse = answers(range(32), 80), answers(range(12, 33), 80)
    choice = choose(plain(pretty), [candidate("regex", worse, 40, pretty)])
    weighed = choice.weighed["regex"]
    assert weighed.candidate.tokens_per_right < plain(pretty).tokens_per_right  # type: ignore[operator]
    assert weighed.lost and "strict accuracy falls by 11 of 80" in weighed.against[0]
    assert (choice.verdict, choice.chosen, choice.hopeful) == ("keep", "pretty", None)


def test_a_harm_speaks_against_a_form_however_many_forms_are_weighed() -> None:
    pretty, worse = answers(range(32), 80), answers(range(12, 33), 80)
    others = [candidate(f"form{i}", pretty, 120, pretty) for i in range(9)]
    choice = choose(plain(pretty), [*others, candidate("regex", worse, 40, pretty)])
    assert choice.weighed["regex"].lost


@pytest.mark.parametrize("broken", ["ignored", "partly", "cut", "failed"])
def test_a_form_that_is_not_always_compact_is_not_chosen(broken: Any) -> None:
    form = candidate("prompt_compact", MANY, 60, MANY, broken)
    assert weigh(form).against == (f"1 of 400 {broken}",)
    assert choose(plain(MANY), [form]).verdict == "keep"


def test_a_form_that_saves_nothing_is_not_chosen() -> None:
    assert choose(plain(MANY), [candidate("regex", MANY, 120, MANY)]).verdict == "keep"


def test_where_no_pretty_answer_is_right_nobody_can_tell() -> None:
    wrong = answers(range(0), 20)
    choice = choose(plain(wrong), [candidate("regex", FEW, 60, wrong)])
    assert (choice.verdict, choice.chosen, choice.saved) == ("cannot tell", "pretty", None)


def test_a_form_without_a_right_answer_has_no_price_and_is_never_chosen() -> None:
    wrong = candidate("regex", answers(range(0), 400), 10, MANY)
    assert wrong.tokens_per_right is None and "no answer is strictly right" in weigh(wrong).against
    assert choose(plain(MANY), [wrong]).chosen == "pretty"


def test_tokens_that_nobody_counted_are_no_saving() -> None:
    free = Candidate("regex", [], [], 20, 20, None)
    assert free.tokens_each is None and free.tokens_per_right is None
    assert choose(plain(FEW), [free]).chosen == "pretty"
    assert choose(free, [candidate("shown", FEW, 60, FEW)]).verdict == "cannot tell"


def test_a_wider_margin_lets_a_form_in() -> None:
    form = candidate("regex", FEW, 60, FEW)
    assert weigh(form, margin=0.2).against == ()
    assert choose(plain(FEW), [form], margin=0.2).chosen == "regex"


# --- in words ---


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return Study("09_compact_json", open_target("twin"), "full", "wire", Store(tmp_path))


def test_a_recommendation_states_saving_and_price(study: Study) -> None:
    said = choice_sentence(choose(plain(MANY), [candidate("regex", MANY, 72, MANY)]), study)
    assert said.startswith("**Use regex**") and "40% fewer output tokens" in said
    assert "on target twin" in said and "within the margin of 5%" in said


def test_without_a_recommendation_the_forms_that_lose_are_named(study: Study) -> None:
    pretty, worse = answers(range(32), 80), answers(range(12, 33), 80)
    said = choice_sentence(choose(plain(pretty), [candidate("regex", worse, 40, pretty)]), study)
    assert said.startswith("**Keep the pretty form**: no compact form that can be relied on")
    assert said.endswith("Shown to lose strict accuracy: regex.")


def test_nothing_right_and_nothing_counted_are_told_apart(study: Study) -> None:
    wrong = answers(range(0), 20)
    assert "no answer in the pretty form is strictly right" in choice_sentence(
        choose(plain(wrong), []), study
    )
    free = Candidate("pretty", [], [], 20, 20, None)
    assert "does not say how many tokens" in choice_sentence(choose(free, []), study)


def test_the_rule_states_its_margin() -> None:
    assert "of more than 5% of the questions" in rule_sentence()
