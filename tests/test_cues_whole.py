"""The whole correction (a refusal or an intent) hangs on what is said, not on its form, and is final."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from refusal_questions import ALLOWED, NO_NUMBERS, NUMBERS_AFTER_ALL, REFUSED
from test_cues_form import GOLDS, QUESTIONS

from nlqlib.nlq.catalog import load_catalog
from nlqlib.nlq.correction import Heard, correct
from nlqlib.nlq.equality import canonical
from nlqlib.nlq.intent import Intent

CATALOG = load_catalog()
HARD = [q for q in (*REFUSED, *ALLOWED, *NO_NUMBERS, *NUMBERS_AFTER_ALL) if 0 < len(q) < 500]
EVERY = [*HARD, *QUESTIONS]
PLAIN = [q for q in EVERY if not set("'\"<>{}*;’”“") & set(q) and "ystem" not in q and "gnore" not in q]
"""Without quotes, markup and orders to a model, where signs have a meaning of their own."""
POLITE = (
    "",
    "Please: ",
    "Could you please tell me: ",
    "Hi there, ",
    "Good morning! I would like to know: ",
    "Kindly show me ",
)
AFTER = ("", ", please", ", thanks", " if you don't mind. Thank you!")
every = st.one_of(st.sampled_from(HARD), st.sampled_from(QUESTIONS))
plain = st.one_of(st.sampled_from([q for q in HARD if q in PLAIN]), st.sampled_from(PLAIN))
thorough = settings(max_examples=200, deadline=None)
CASES = (str.upper, str.lower, str.title, str.swapcase)
Outcome = Intent | str | None


def outcome(question: str, raw: Intent | None = None) -> Outcome:
    """`refused`, or the canonical intent that is answered."""
    found = correct("cues", question, Heard(raw), CATALOG)
    if found.refused is not None:
        return "refused"
    return canonical(found.final, CATALOG) if found.final else None


@pytest.mark.parametrize("question", HARD)
def test_a_refusal_is_the_same_in_every_case(question: str) -> None:
    said = [case(question) for case in CASES if case is not str.title or not set("'’") & set(question)]
    assert {repr(outcome(other)) for other in said} == {repr(outcome(question))}


@thorough
@given(every, st.sampled_from(CASES))
def test_case_does_not_matter(question: str, change):
    if change is str.title and set("'’") & set(question):
        return  # Chef'S is no way to write
    assert outcome(change(question)) == outcome(question)


@thorough
@given(plain, st.sampled_from(["", "?", "!", ".", " ?!", "…", "\n"]))
def test_the_last_sign_does_not_matter(question: str, sign: str):
    assert outcome(question.rstrip("?!. ") + sign) == outcome(question)


@thorough
@given(plain)
def test_commas_and_spaces_do_not_matter(question: str):
    if re.search(r"(North|South), (East|West)", question):
        return  # North East is one region
    bare = "".join(c for i, c in enumerate(question) if c != "," or question[i + 1 : i + 2].isdigit())
    assert outcome(bare) == outcome(question)
    assert outcome("  ".join(question.split(" "))) == outcome(question)


@thorough
@given(every)
def test_curly_quotes_do_not_matter(question: str):
    assert outcome(question.replace("'", "’")) == outcome(question)


@thorough
@given(
    plain,
    st.sampled_from(POLITE),
    st.sampled_from(AFTER),
)
def test_politeness_does_not_matter(question: str, before: str, after: str):
    assert outcome(before + question.rstrip("?!. ") + after) == outcome(question)


@thorough
@given(every, st.sampled_from([None, *GOLDS]))
def test_correcting_twice_is_correcting_once(question: str, raw: Intent | None):
    once = correct("cues", question, Heard(raw), CATALOG)
    twice = correct("cues", question, Heard(once.final), CATALOG)
    assert (twice.final, twice.refused) == (once.final, once.refused)


@pytest.mark.parametrize("before", POLITE)
@pytest.mark.parametrize("question", [q for q in (*REFUSED, *NO_NUMBERS) if q in set(PLAIN)])
def test_no_politeness_gets_an_answer_where_none_is_due(question: str, before: str):
    assert {outcome(before + question.rstrip("?!. ") + after) for after in AFTER} == {"refused"}
