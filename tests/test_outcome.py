"""Status, body or exception → outcome and what to do next."""

import errno
import itertools
import json
import socket
import ssl

import httpx2
import pytest

from nlqlib.records import OUTCOMES, Json
from nlqlib.serving.answer import Answer, fold, whole
from nlqlib.serving.endpoint import parse_address
from nlqlib.serving.outcome import Broken, NotHttp, of_answer, of_exception, of_status, of_timeout, read_error

HERE = parse_address("http://10.0.0.7:8000/v1")


def error(message: str, param: str | None = None, code: object = None) -> Json:
    return {"error": {"message": message, "type": "BadRequestError", "param": param, "code": code}}


STATUSES: list[tuple[int, Json | str, str]] = [
    (
        400,
        error("This model's maximum context length is 4096 tokens. However, you requested …"),
        "context_overflow",
    ),
    (400, error("too long", param="input_tokens"), "context_overflow"),
    (400, error("too long", param="input_text"), "context_overflow"),
    (400, error("too long", code="context_length_exceeded"), "context_overflow"),
    (
        400,
        error("The decoder prompt (length 5000) is longer than the maximum model length of 4096."),
        "context_overflow",
    ),
    (
        400,
        {"object": "error", "message": "maximum context length is 4096 tokens", "code": 400},
        "context_overflow",
    ),
    (413, "maximum context length exceeded", "context_overflow"),
    (400, error("Invalid 'temperature'", param="temperature"), "http_4xx"),
    (404, error("The model `gpt` does not exist.", param="model", code=404), "wrong_model"),
    (404, error("no such", code="model_not_found"), "wrong_model"),
    (400, error("Invalid model name passed in model=gpt"), "wrong_model"),
    (404, {"detail": "Not Found"}, "http_4xx"),
    (401, {"error": "Unauthorized"}, "unauthorized"),
    (403, "<html>Forbidden</html>", "unauthorized"),
    (429, error("Rate limit reached"), "http_429"),
    (503, "", "http_503"),
    (500, "Internal Server Error", "http_5xx"),
    (502, "<html>Bad Gateway</html>", "http_5xx"),
    (504, "", "http_5xx"),
    (408, "", "http_4xx"),
    (422, {"detail": [{"loc": ["body", "messages"], "msg": "Field required"}]}, "http_4xx"),
    (302, "", "bad_response"),
    (204, "", "bad_response"),
]


@pytest.mark.parametrize(("status", "body", "outcome"), STATUSES)
def test_each_status_has_one_word_and_says_its_number(status: int, body: Json | str, outcome: str) -> None:
    raw = body.encode() if isinstance(body, str) else json.dumps(body).encode()
    found = of_status(status, raw)
    assert found.outcome == outcome
    assert outcome in OUTCOMES
    assert str(status) in (found.error or "")


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b'{"error": {"message": "m", "param": "p", "code": 400}}', "m"),
        (b'{"object": "error", "message": "m"}', "m"),
        (b'{"detail": "m"}', "m"),
        (b'{"error": "m"}', "m"),
        (b" two\n lines ", "two lines"),
        (b"\xff\xfe", "\ufffd\ufffd"),
        (b"[]", "[]"),
        (b"", ""),
        (b'{"detail": [{"msg": "Field required"}]}', '[{"msg": "Field required"}]'),
    ],
)
def test_the_servers_own_words_are_found_in_every_known_form(body: bytes, message: str) -> None:
    assert read_error(body).message == message


def chained(*failures: BaseException) -> BaseException:
    for outer, inner in itertools.pairwise(failures):
        outer.__cause__ = inner
    return failures[0]


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (ConnectionRefusedError(), "is the server running at 10.0.0.7:8000?"),
        (chained(httpx2.ConnectError("x"), OSError("y"), ConnectionRefusedError()), "is the server running"),
        (
            chained(httpx2.ConnectError("x"), ExceptionGroup("y", [ConnectionRefusedError()])),
            "is the server running",
        ),
        (chained(Broken("x"), socket.gaierror(-2, "unknown")), "check the base URL"),
        (ssl.SSLCertVerificationError("self-signed"), "ca_file"),
        (ssl.SSLError("WRONG_VERSION_NUMBER"), "https"),
        (NotHttp("x"), "HTTP"),
        (ConnectionResetError(errno.ECONNRESET, "reset"), "before it answered"),
        (Broken("x"), "not sent again"),
    ],
)
def test_a_failed_connection_says_what_to_do_next(failure: BaseException, says: str) -> None:
    found = of_exception(failure, HERE)
    assert found.outcome == "disconnected"
    assert says in (found.error or "")


def test_a_connection_lost_after_the_head_was_lost_in_the_middle_of_the_answer() -> None:
    assert "in the middle" in (of_exception(Broken("x"), HERE, answered=True).error or "")


def test_an_ignored_proxy_is_named_beside_the_failure() -> None:
    assert "ALL_PROXY is set and ignored" in (of_exception(Broken("x"), HERE, proxy="ALL_PROXY").error or "")


def test_a_timeout_says_how_long_was_waited() -> None:
    assert of_timeout(30.0).error == "no complete answer within 30 s"


def answer(content: object = "yes", finish_reason: str | None = "stop", n: int | None = 3) -> Answer:
    usage = {} if n is None else {"usage": {"prompt_tokens": 9, "completion_tokens": n}}
    choice = {"message": {"content": content}, "finish_reason": finish_reason}
    return whole({"model": "m", "choices": [choice], **usage})


@pytest.mark.parametrize(
    ("given", "outcome"),
    [
        (answer(), "ok"),
        (answer(finish_reason=None), "ok"),  # some servers leave it out of a plain answer
        (answer(""), "empty"),
        (answer(None), "empty"),
        (answer(None, "tool_calls"), "ok"),
        (answer("", "length"), "length"),
        (answer(finish_reason="abort"), "mid_stream_error"),
        (whole(b"nonsense"), "bad_response"),
        (whole(b"[]"), "bad_response"),
        (whole({"choices": []}), "bad_response"),
        (whole({"choices": [{"finish_reason": "stop"}]}), "bad_response"),
        (whole({"choices": "yes"}), "bad_response"),
        (whole({"error": "boom"}), "bad_response"),
        (whole({"error": {"message": "maximum context length is 8"}}), "context_overflow"),
    ],
)
def test_a_200_is_judged_by_its_answer(given: Answer, outcome: str) -> None:
    assert of_answer(given, 256).outcome == outcome


@pytest.mark.parametrize(("n", "clamped"), [(6, True), (256, False), (None, False)])
def test_fewer_tokens_than_max_tokens_and_finish_reason_length_is_clamped(
    n: int | None, clamped: bool
) -> None:
    found = of_answer(answer("a b", "length", n), 256)
    assert found.outcome == "length"
    assert ("clamped" in (found.error or "")) == clamped


def test_usage_of_the_last_chunk_counts_and_not_the_number_of_chunks() -> None:
    got = Answer()
    fold(got, {"choices": [{"delta": {"content": "a"}, "finish_reason": "stop"}]}, 1.0)
    assert got.output_tokens is None
    fold(got, {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 37}}, 2.0)
    assert (got.output_tokens, got.token_times_s) == (37, [1.0])


def test_counts_that_are_no_numbers_are_missing() -> None:
    got = whole({"choices": [{"message": {"content": "a"}}], "usage": {"completion_tokens": "37"}})
    assert (got.output_tokens, got.prompt_tokens, got.cached_tokens) == (None, None, None)


def test_an_answer_of_exactly_the_fixed_length_asked_for_is_whole() -> None:
    answer = Answer(finish_reason="length", output_tokens=16)
    answer.parts.append("words")
    assert of_answer(answer, 16, fixed=True).outcome == "ok"
    assert of_answer(answer, 16).outcome == "length"
    assert of_answer(answer, 20, fixed=True).outcome == "length"
