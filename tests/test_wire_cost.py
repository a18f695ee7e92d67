"""What is done the short way on the path of every request, and must come to the same as the long one."""

import json
from dataclasses import fields, replace
from itertools import islice

import pytest
from client_world import ask, request
from fake_behaviours import Say

from nlqlib.load.closed_loop import cycled
from nlqlib.records import Completion
from nlqlib.serving.answer import Answer, decode, whole


@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_holds_every_field_and_no_other(stream: bool) -> None:
    (found,) = ask("wire", "in process", Say("a b"), request(stream))
    assert set(vars(found)) == {field.name for field in fields(Completion)}
    assert replace(found) == found and hash(replace(found)) == hash(found)


def test_a_repeated_request_differs_in_its_id_alone() -> None:
    asked = request(max_tokens=7, extra={"seed": 1})
    first, second = islice(cycled([asked]), 2)
    assert (first, second) == (replace(asked, request_id="r1#0"), replace(asked, request_id="r1#1"))
    assert second.messages is asked.messages


@pytest.mark.parametrize("text", ['{"a": 1}', ' {"a": 1}', '{"a": 1}\n', '\r\n{"a": 1} '])
def test_space_around_a_body_is_allowed(text: str) -> None:
    assert decode(Answer(), text) == json.loads(text)


@pytest.mark.parametrize("text", ['{"a": 1}{', '{"a": 1} x', "", "{", "\ufeff{}"])
def test_anything_else_around_it_is_not_json(text: str) -> None:
    answer = Answer()
    assert decode(answer, text) is None and answer.malformed is not None


def test_a_body_is_read_into_the_answer_that_is_at_hand() -> None:
    answer = Answer()
    assert whole(b'{"choices":[{"message":{"content":"x"}}]}', answer) is answer and answer.text == "x"
