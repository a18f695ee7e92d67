"""The article's guardrail: what it corrects, and where it is known to fail."""

import pytest

from nlqlib.nlq import guardrail
from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.intent import Intent

CATALOG = load_catalog()
RANKING = Intent.model_validate(
    {
        "evidence": "by region",
        "query_type": "top_n_by_metric",
        "metrics": ["revenue"],
        "dimensions": ["region"],
        "filters": [],
        "period": "all",
        "grain": None,
        "sort": {"by": "revenue", "direction": "desc"},
        "limit": 5,
    }
)


def test_a_ranking_without_a_cue_becomes_a_breakdown():
    final, decisions = guardrail.correct("revenue by region", RANKING, CATALOG)
    assert final is not None and (final.query_type, final.sort, final.limit) == ("breakdown", None, None)
    assert [d.action for d in decisions] == ["changed"]


@pytest.mark.parametrize("question", ["top regions by revenue", "Which region has the MOST revenue?"])
def test_a_ranking_with_a_cue_stays(question: str):
    final, decisions = guardrail.correct(question, RANKING, CATALOG)
    assert final == RANKING and [d.action for d in decisions] == ["kept"]
    assert decisions[0].words(question)[0].lower() in ("top", "most")


def test_it_works_one_way():
    breakdown = RANKING.model_copy(update={"query_type": "breakdown", "sort": None, "limit": None})
    assert guardrail.correct("top regions by revenue", breakdown, CATALOG) == (breakdown, ())
    assert guardrail.correct("top regions by revenue", None, CATALOG) == (None, ())


@pytest.mark.parametrize("question", ["top-line revenue by region", "revenue in the last 3 months by region"])
def test_it_reads_words_and_not_meanings(question: str):
    final, _ = guardrail.correct(question, RANKING, CATALOG)
    assert final is not None and (final == RANKING) == question.startswith("top-line")


def test_a_ranking_without_a_word_of_ranking_is_lost():
    final, _ = guardrail.correct("regions leading in revenue", RANKING, CATALOG)
    assert final is not None and final.query_type == "breakdown"  # as in the article


def test_it_is_idempotent():
    once, _ = guardrail.correct("revenue by region", RANKING, CATALOG)
    assert guardrail.correct("revenue by region", once, CATALOG)[0] == once
