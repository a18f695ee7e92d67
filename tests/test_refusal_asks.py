"""What asks for no numbers is refused with what to ask instead; beside a question for numbers it is not."""

import pytest
from refusal_questions import NO_NUMBERS, NUMBERS_AFTER_ALL

from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.refusal import refusal

CATALOG = load_catalog()


@pytest.mark.parametrize("question", NO_NUMBERS)
def test_a_reason_a_text_advice_or_another_thing_is_refused(question: str) -> None:
    found = refusal(question, CATALOG)
    assert found is not None and NO_NUMBERS[question] in found.reason and "\n" not in found.reason
    assert all(0 <= start < end <= len(question) for start, end in found.spans) and found.spans


@pytest.mark.parametrize("question", NUMBERS_AFTER_ALL)
def test_the_same_words_beside_a_question_for_numbers_are_no_reason(question: str) -> None:
    assert refusal(question, CATALOG) is None
