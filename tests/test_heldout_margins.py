"""Other margins of the clarifier, read from recorded answers: what is asked, mended, and decided by it."""

import math
from typing import Any

import pytest
from test_heldout import DEV, found, ranked, study

from nlqlib.analysis.evaluation import share
from nlqlib.experiments import heldout_margins as margins
from nlqlib.experiments.heldout import Found
from nlqlib.experiments.heldout_margins import Margin
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.clarifier import MARGIN_NATS

__all__ = ["found", "study"]
CATALOG = load_catalog()


def row(nats: float, forced: bool) -> dict[str, Any]:
    """The first development question, a breakdown, taken for a ranking `nats` surer than for a breakdown."""
    gold = DEV[0].golds[0].wire()
    scores = {"breakdown": -1.0 - nats, "top_n_by_metric": -1.0, "time_series": -9.0}
    belief = {"kind": "top_n_by_metric", "logprobs": scores, "said": "top_n_by_metric"}
    return {
        **{"question": DEV[0].question, "raw": ranked(gold), "gold": gold, "accept": []},
        **{"belief": belief, "refused": None, "forced_strict": forced},
    }


@pytest.mark.parametrize(("nats", "asked"), [(0.4, 0), (0.5, 1), (math.inf, 2)])
def test_a_question_is_asked_from_the_margin_on_that_it_is_apart(nats: float, asked: int) -> None:
    told = margins._with([row(0.5, True), row(3.0, True)], nats, CATALOG)
    assert (told.asked, told.mended, told.right.k) == (asked, 0, 2)


def test_asking_mends_what_is_forced_wrong_and_never_harms() -> None:
    told = margins._with([row(0.5, False), row(0.5, True)], 1.0, CATALOG)
    assert (told.asked, told.mended, told.right.k, told.right.n) == (2, 1, 2, 2)


def test_what_is_refused_is_not_asked_about() -> None:
    refused = row(0.5, False) | {"refused": "no such thing"}
    assert margins._with([refused], math.inf, CATALOG).asked == 0


def test_the_margin_in_use_tells_what_the_page_tells_of_the_clarifier(found: Found) -> None:
    told = margins.margins(found, CATALOG)["dev"]
    [used] = [one for one in told if one.nats == MARGIN_NATS]
    rows = found["dev"]["clarifier"].samples()
    assert used.asked == sum(r["clarification"] is not None for r in rows)
    assert used.right.k == sum(r["strict"] for r in rows)
    assert [one.asked for one in told] == sorted(one.asked for one in told), "a wider margin asks no less"


def test_only_sets_to_tune_on_are_looked_at(found: Found) -> None:
    assert margins.margins({"holdout": found["dev"]}, CATALOG) == {}
    assert "not asked" in margins.margins_sentence({})


def margin(nats: float, asked: int, right: int) -> Margin:
    return Margin(nats, asked, 0, share("right", right, 20))


def test_the_sentence_says_whether_the_questions_choose_a_margin() -> None:
    alike = [margin(0.0, 0, 20), margin(MARGIN_NATS, 2, 20), margin(math.inf, 9, 20)]
    assert "cannot choose one: 1 nats is set by hand" in margins.margins_sentence({"dev": alike})
    chosen = [margin(0.0, 0, 18), margin(MARGIN_NATS, 2, 20), margin(math.inf, 9, 20)]
    told = margins.margins_sentence({"dev": chosen})
    assert "(2 questions) of those that leave most right (20 of 20), and is in use" in told
    other = [margin(0.0, 0, 18), margin(MARGIN_NATS, 2, 19), margin(4.0, 5, 20)]
    assert "a margin of 4 nats" in margins.margins_sentence({"dev": other})
    assert "while 1 nats, set by hand, is in use" in margins.margins_sentence({"dev": other})


def test_the_table_marks_the_margin_in_use() -> None:
    each = [margin(0.5, 1, 20), margin(MARGIN_NATS, 2, 20), margin(math.inf, 9, 20)]
    table = margins.margins_table({"dev": each})
    assert table.index.tolist() == [("dev", "0.5"), ("dev", "1 (in use)"), ("dev", "any")]
    assert table["asked"].tolist() == [1, 2, 9]
