"""Server-sent events, whole and in pieces."""

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nlqlib.serving.sse import EventDecoder

STREAM = (
    "data: äöü €\r\n\r\n: comment\n\ndata: first\ndata: second\n\nevent: x\ndata:none\n\ndata: [DONE]\n\n"
)
PAYLOADS = ["äöü €", "first\nsecond", "none", "[DONE]"]


def decoded(*pieces: bytes) -> list[str]:
    decoder = EventDecoder()
    return [payload for piece in pieces for payload in decoder.feed(piece)]


def test_payloads_come_in_order_without_comments_and_other_fields() -> None:
    assert decoded(STREAM.encode()) == PAYLOADS


@given(st.lists(st.integers(0, len(STREAM.encode())), max_size=12).map(sorted))
def test_any_way_of_cutting_the_bytes_gives_the_same_payloads(cuts: list[int]) -> None:
    raw = STREAM.encode()
    edges = [0, *cuts, len(raw)]
    pieces = [raw[a:b] for a, b in itertools.pairwise(edges)]
    assert decoded(*pieces) == PAYLOADS


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_every_line_end_of_the_standard_is_one(end: str) -> None:
    raw = f"data: a{end}{end}data: b{end}{end}".encode()
    assert decoded(raw) == ["a", "b"]
    assert decoded(*(bytes([b]) for b in raw)) == ["a", "b"]


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"]), min_size=1)))
def test_any_text_comes_through(texts: list[str]) -> None:
    assert decoded("".join(f"data: {text}\n\n" for text in texts).encode()) == texts


def test_an_event_is_handed_over_with_its_blank_line_and_not_before() -> None:
    decoder = EventDecoder()
    assert decoder.feed(b"data: a\n") == []
    assert decoder.feed(b"\n") == ["a"]


def test_a_byte_order_mark_and_an_unfinished_last_event_are_ignored() -> None:
    assert decoded(b"\xef\xbb\xbfdata: a\n\ndata: b\n") == ["a"]


def test_an_event_without_data_is_no_event() -> None:
    assert decoded(b"id: 7\n\nretry: 9\n\n:\n\n") == []


def test_only_the_first_space_after_the_colon_is_dropped() -> None:
    assert decoded(b"data:  a\n\n", b"data\n\n") == [" a", ""]
