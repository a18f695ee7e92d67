"""The transcription: consistent in itself, and no number of the article left over.

The article's text is not committed; a list of its numbers is, each with a hash of the words around it, and
every one of them must have a holder. Where `NLQLIB_ARTICLE` names the text, every quote is looked up, every
number walked over and the list compared; without it the same runs on a text made of our own quotes.
"""

import os
import re
import tomllib
from dataclasses import replace
from pathlib import Path

import article_numbers
import article_walk
import pytest

from nlqlib.article_data import ARTICLE, claim, claims, exclusions
from nlqlib.article_reads import Coverage, coverage

CLAIMS = claims()
IDS = [c.id for c in CLAIMS]


def article_text() -> str | None:
    """The article where it is given, else `None`."""
    path = os.environ.get("NLQLIB_ARTICLE")
    return Path(path).read_text("utf-8") if path else None


def text_of_quotes() -> str:
    """A stand-in for the article: every fragment once, under its section's heading."""
    parts = []
    for section in dict.fromkeys(c.section for c in CLAIMS):
        parts += [section, *dict.fromkeys(q for c in claims(section) for q in (c.quote, *c.also))]
    return "\n\n".join([*parts, *(q for e in exclusions() for q in e.quotes)])


@pytest.mark.parametrize("c", CLAIMS, ids=IDS)
def test_the_value_is_what_is_printed(c):
    found = [value for _, value in article_walk.numbers(c.printed)]
    if c.id == "load.identical":
        assert (c.printed, c.value) == ("bit-identical", 1.0)
    elif c.value is None:
        own = next(row for row in raw_rows() if row["id"] == c.id)
        assert found == pytest.approx([own["lo"], own["hi"]])
    else:
        assert found == pytest.approx([c.value])


@pytest.mark.parametrize("c", CLAIMS, ids=IDS)
def test_the_printed_number_stands_once_in_its_quote_and_every_mention_is_the_same_number(c):
    assert c.quote.count(c.printed) == 1
    own = [value for _, value in article_walk.numbers(c.printed)]
    for quote in c.also:
        assert [value for _, value in article_walk.numbers(quote)] == pytest.approx(own)


@pytest.mark.parametrize("c", CLAIMS, ids=IDS)
def test_quotes_are_short(c):
    assert all(len(q.split()) <= 8 for q in (c.quote, *c.also))


def raw_rows():
    """Rows of the files as they are written, with their group's id."""
    for path in sorted(ARTICLE.glob("[0-9]*.toml")):
        tables = tomllib.loads(path.read_text("utf-8"))
        yield from tables.get("claim", [])
        for group in tables.get("group", []):
            yield from ({**row, "id": f"{group['id']}.{row['id']}"} for row in group["claims"])


def test_a_tilde_is_read_as_approximately():
    assert all(c.qualifier == "≈" for c in CLAIMS if c.printed.startswith("~"))


def test_each_notebook_of_part_one_answers_some_claim_and_has_one_name():
    numbers = ["01", "02", "03", "04", "05", "06", "07", "08", "09", "10", "11", "12", "13", "14"]
    assert {c.notebook[:2] for c in CLAIMS} == set(numbers)
    assert len({c.notebook for c in CLAIMS}) == len(numbers)


def test_every_tolerance_scope_and_exclusion_has_a_reason():
    common = tomllib.loads((ARTICLE / "common.toml").read_text("utf-8"))
    entries = [*common["tolerance"].values(), *common["scope"].values()]
    assert all(len(e["reason"]) > 4 for e in entries)
    assert all(len(e.reason) > 10 for e in exclusions())
    assert {c.tolerance.name for c in CLAIMS} == set(common["tolerance"])
    assert {c.scope.name for c in CLAIMS} == set(common["scope"])


def test_what_is_no_result_is_never_judged_and_every_derived_number_says_from_what():
    for c in CLAIMS:
        assert c.is_result or c.scope.name == "setting"
        assert c.formula is None or c.kind == "derived" or c.id.startswith("holdout.final")


def test_a_row_measured_twice_counts_as_the_interval_between_the_two():
    for row, low, high in [("16", 4.06, 4.21), ("24", 5.26, 5.63)]:
        both = claim(f"dense.throughput.{row}"), claim(f"repeated.throughput.{row}")
        assert {(c.low, c.high) for c in both} == {(low, high)}
    twice = claim("after.throughput.32"), claim("saturation.throughput.32")
    assert {(c.low, c.high) for c in twice} == {(6.63, 6.87)}


def test_same_row_is_mutual_or_a_summary_of_its_rows():
    for c in CLAIMS:
        for other in c.same_row:
            assert c.id in claim(other).same_row or c.value is None or claim(other).value is None


def test_all_ten_rows_of_the_sweeps_are_there():
    sweeps = [c for c in CLAIMS if c.kind == "measured" and c.unit == "req/s" and "sweep" in c.condition]
    rows = {c.condition["concurrency"] for c in sweeps}
    assert rows == {1, 8, 12, 16, 18, 20, 24, 32, 40, 48}


def test_each_quote_occurs_once_and_in_its_section():
    text = article_text() or text_of_quotes()
    headings = sorted({c.section for c in CLAIMS}, key=text.index)
    for c in CLAIMS:
        for quote in (c.quote, *c.also):
            assert len(article_walk.places(text, quote)) == 1 or article_text() is None, quote
        at = text.index(c.quote)
        start = text.index(f"{c.section}\n")
        later = [text.index(f"{h}\n") for h in headings if text.index(f"{h}\n") > start]
        assert start < at < min(later, default=len(text)) or article_text() is None, c.id


def test_no_number_of_the_article_is_left_over_or_held_twice(capsys):
    found = article_numbers.compare(article_numbers.listed())
    with capsys.disabled():
        print(f"\n{found.total} numbers of the article: {found.claimed} in {len(CLAIMS)} claims, ", end="")
        print(f"{found.excluded} in {len(exclusions())} exclusions, {len(found.left_over)} left over")
    assert (found.left_over, found.held_twice, found.not_there) == ((), (), ())
    assert Coverage(found.total, found.claimed, found.excluded) == coverage()


def test_the_committed_list_is_that_of_the_text_and_tells_nothing_of_it_but_numbers():
    text, committed = article_text(), article_numbers.listed()
    assert text is None or (article_numbers.entries(text) == committed and walked(text) == ((), ()))
    for number, hashed in committed:
        assert article_walk.NUMBER.fullmatch(number)
        assert re.fullmatch(r"[0-9a-f]{12}", hashed)


def walked(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What the walk over the text itself finds: numbers nobody holds, numbers held twice."""
    walk = article_walk.walk(text)
    return walk.left_over, walk.held_twice


def test_a_list_made_of_a_text_is_covered_exactly_where_the_walk_finds_holders():
    text = text_of_quotes() + "\n\nserved 417 users on seven days"
    found = article_numbers.compare(article_numbers.entries(text))
    assert len(found.left_over) == len(article_walk.walk(text).left_over) > 1
    assert {"417", "seven"} <= {number for number, _ in found.left_over}


@pytest.mark.parametrize(
    "gone", ["dense.throughput.8", "saturation.tail", "holdout.precision.baseline_guardrail"]
)
def test_a_claim_that_went_missing_would_be_noticed(gone, monkeypatch):
    text = text_of_quotes()
    held = len(article_walk.walk(text).left_over)
    monkeypatch.setattr(article_walk, "claims", lambda: tuple(c for c in CLAIMS if c.id != gone))
    assert len(article_walk.walk(text).left_over) > held


@pytest.mark.parametrize("gone", ["dense.throughput.8", "saturation.tail"])
def test_a_claim_that_went_missing_is_noticed_without_the_text(gone, monkeypatch):
    monkeypatch.setattr(article_numbers, "claims", lambda: tuple(c for c in CLAIMS if c.id != gone))
    assert article_numbers.compare(article_numbers.listed()).left_over


def test_an_exclusion_that_went_missing_is_noticed_without_the_text(monkeypatch):
    for gone in exclusions():
        left = tuple(e for e in exclusions() if e is not gone)
        with monkeypatch.context() as patch:
            patch.setattr(article_numbers, "exclusions", lambda left=left: left)
            assert article_numbers.compare(article_numbers.listed()).left_over, gone.id


def test_a_claim_that_prints_another_number_or_quotes_other_words_is_noticed_without_the_text(monkeypatch):
    of = claim("dense.throughput.8")
    rest = [c for c in CLAIMS if c is not of]
    for other in (replace(of, printed="7.77"), replace(of, quote=f"other words {of.printed}")):
        with monkeypatch.context() as patch:
            patch.setattr(article_numbers, "claims", lambda other=other: (*rest, other))
            found = article_numbers.compare(article_numbers.listed())
        assert found.left_over and found.not_there


def test_the_walk_finds_a_number_nobody_holds():
    text = text_of_quotes()
    free = [len(article_walk.walk(t).left_over) for t in (text, text + "\n\nserved 417 users on seven days")]
    assert free[1] - free[0] == 2


def test_numbers_are_read_in_digits_words_ranges_and_units():
    text = "22.7K, 1,060 ms, 34-65 ms, 89%, once, 115 to 118, $0.893, >=90%"
    assert [v for _, v in article_walk.numbers(text)] == pytest.approx(
        [22700, 1.06, 0.034, 0.065, 0.89, 1, 115, 118, 0.893, 0.9]
    )
