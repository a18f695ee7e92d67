"""What only tells is left out of a question, and what a pronoun means is put in its place."""

import pytest

from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.cue_clauses import asking, clauses
from nlqlib.nlq.cue_text import tokens

CATALOG = load_catalog()


def asked(question: str) -> str:
    return " ".join(token.text for token in asking(tokens(question), CATALOG))


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        (
            "Our CEO believes the West is our best region. Show net revenue by region.",
            "net revenue by region",
        ),
        ("Since our largest truck broke down I need units by region", "need units by region"),
        ("Revenue by category, as my best analyst is on leave", "revenue by category"),
        ("Units by channel for Toys, which was our best category", "units by channel for toys"),
        ("Although the kiosks did worst, I want orders by channel", "want orders by channel"),
        ("I know the data are patchy, so please list refunds by reason", "so please list refunds by reason"),
        ("Is Web our best channel? Show orders by channel.", "show orders by channel"),
        ("Our top analyst needs refunds by channel", "needs refunds by channel"),
        ("revenue by region, if that is not too much trouble", "revenue by region"),
    ],
)
def test_a_clause_that_only_tells_is_left_out(question: str, kept: str) -> None:
    assert asked(question).endswith(kept)
    assert "best" not in asked(question) and "largest" not in asked(question)


@pytest.mark.parametrize(
    "question",
    [
        "revenue by region",
        "Revenue has been falling in the West. Why?",
        "refunds because of Damaged",
        "orders since March 2024",
        "net revenue by channel, if orders exceed 4000",
        "Only Web, please. Orders by region. Sorted by orders.",
        "revenue by region, I mean by channel",
        "Toys should be excluded. Revenue by category.",
        "which region, North or South, had more orders?",
        "",
    ],
)
def test_conditions_corrections_and_instructions_stay(question: str) -> None:
    assert asked(question) == " ".join(token.text for token in tokens(question))


@pytest.mark.parametrize(
    ("question", "kept"),
    [
        (
            "They say the Plush Bear is often sent back. What is its return rate?",
            "what is plush bear return rate",
        ),
        (
            "Although the North sells the most, show orders by region without it",
            "orders by region without north",
        ),
    ],
)
def test_a_pronoun_stands_for_the_value_that_was_told(question: str, kept: str) -> None:
    assert asked(question).endswith(kept)


def test_clauses_hold_all_words_in_order() -> None:
    question = "Well, as you know, the West is strong; show orders (by channel) vs. units, because we asked."
    words = [token for clause in clauses(tokens(question)) for token in clause.tokens]
    assert words == list(tokens(question))
