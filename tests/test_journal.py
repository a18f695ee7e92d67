"""A journal keeps every whole answer, whatever a kill or a full disk has left at its end."""

from pathlib import Path

import pytest

from nlqlib.experiments.journal import Journal
from nlqlib.records import Completion

HEADER = {"of": "this"}


def journal(folder: Path, *answers: str) -> Journal:
    """The journal in `folder`, as it is opened, with more answers."""
    opened = Journal.open(HEADER, folder)
    for text in answers:
        opened.add(text, Completion(text, "ok", text))
    return opened


@pytest.mark.parametrize("cut", [1, 2, 3, 40])
def test_an_answer_that_was_cut_is_none_and_the_others_stay(tmp_path: Path, cut: int) -> None:
    """Within a character, between two, and in the middle of the line."""
    path = journal(tmp_path, "kept", "größe").path
    whole = path.read_bytes()
    end = whole.rindex("ß".encode()) + 2 if cut < 40 else len(whole)
    path.write_bytes(whole[: end - cut])
    assert journal(tmp_path).answers.keys() == {"kept"}


def test_what_is_added_after_a_cut_stands_on_a_line_of_its_own(tmp_path: Path) -> None:
    path = journal(tmp_path, "kept", "cut").path
    path.write_bytes(path.read_bytes()[:-20])
    journal(tmp_path, "added", "and another")
    assert journal(tmp_path).answers.keys() == {"kept", "added", "and another"}


def test_a_journal_that_is_whole_is_opened_as_it_is(tmp_path: Path) -> None:
    path = journal(tmp_path, "kept").path
    before = path.read_bytes()
    assert journal(tmp_path).answers["kept"].text == "kept" and path.read_bytes() == before
