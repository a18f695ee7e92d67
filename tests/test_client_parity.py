"""For the same responses both clients return the same completion, in process and over a socket."""

import pytest
from client_world import KINDS, PLACES, ask, request, shared_socket, timeless
from fake_behaviours import Behaviour, Raw, Say, Status, delta, error_object, event, last, stream

__all__ = ["shared_socket"]  # the fixture must be found in this module

WHOLE = event(delta(content="yes")) + event(delta(content="", finish_reason="stop"))
COUNTS = {"prompt_tokens": 5, "completion_tokens": 37, "total_tokens": 42}
JSON_BODY = b'{"model":"fake","choices":[{"index":0,"message":{"role":"assistant","content":"yes"},'
JSON_BODY += b'"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}'
OVERFLOW_12 = (
    "'max_tokens' or 'max_completion_tokens' is too large: 256. This model's maximum context length is 4096 "
    "tokens and your request has 4090 input tokens (256 > 4096 - 4090)."
)
OVERFLOW_32 = "However, your prompt contains 5000 input tokens, which exceeds this limit"

PLAIN: dict[str, tuple[Behaviour, str, str | None]] = {
    "an answer": (Say("yes"), "ok", None),
    "chunked body": (Raw((JSON_BODY[:40], 0.01, JSON_BODY[40:])), "ok", None),
    "connection closed after the answer": (Say("yes", headers=(("Connection", "close"),)), "ok", None),
    "no text": (Say(""), "empty", "without any text"),
    "blanks only": (Say(" \n "), "empty", "without any text"),
    "reasoning only": (Say("", reasoning="hm"), "empty", "only reasoning"),
    "cut at max_tokens": (
        Say("a b", finish_reason="length", output_tokens=256),
        "length",
        "cut at max_tokens=256",
    ),
    "silently clamped": (Say("a b", finish_reason="length", output_tokens=6), "length", "clamped"),
    "aborted": (Say("a b", finish_reason="abort"), "mid_stream_error", "abort"),
    "overflow, vLLM 0.12": (Status(400, error_object(400, OVERFLOW_12)), "context_overflow", "4090 input"),
    "overflow, vLLM 0.32": (
        Status(400, error_object(400, OVERFLOW_32, param="input_tokens")),
        "context_overflow",
        "5000 input",
    ),
    "another 400": (Status(400, error_object(400, "temperature must be ≥ 0")), "http_4xx", "temperature"),
    "wrong path": (Status(404, {"detail": "Not Found"}), "http_4xx", "/v1"),
    "401": (Status(401, {"error": "Unauthorized"}), "unauthorized", "Unauthorized"),
    "403": (Status(403, "no"), "unauthorized", "check the key"),
    "429": (Status(429, {"detail": "slow"}, headers=(("Retry-After", "2"),)), "http_429", "slow"),
    "503": (Status(503, ""), "http_503", "without a body"),
    "500": (Status(500, "Internal Server Error"), "http_5xx", "Internal Server Error"),
    "redirect": (Status(307, "", headers=(("Location", "/v2"),)), "bad_response", "redirects"),
    "not JSON": (Raw((b"<html>hello</html>",), content_type="text/html"), "bad_response", "not JSON"),
    "bad JSON": (Raw((JSON_BODY[:-9],)), "bad_response", "not JSON"),
    "an empty body": (Raw(()), "bad_response", "empty"),
    "a JSON list": (Raw((b"[1, 2]",)), "bad_response", "list"),
    "no choices": (Raw((b'{"object": "list", "data": []}',)), "bad_response", "no choices"),
    "an error inside 200": (Raw((b'{"error": {"message": "boom"}}',)), "bad_response", "boom"),
    "truncated, with length": (
        Raw((JSON_BODY[:50],), length=300, end="cut"),
        "disconnected",
        "in the middle",
    ),
    "truncated, in chunks": (Raw((JSON_BODY[:50],), end="cut"), "disconnected", "in the middle"),
    "JSON under another name": (Raw((JSON_BODY,), content_type="text/plain"), "ok", None),
}

STREAMED: dict[str, tuple[Behaviour, str, str | None]] = {
    "an answer": (Say("yes it is", itl_s=0.002), "ok", None),
    "reasoning first": (Say("yes", reasoning="let me see"), "ok", None),
    "counts of usage, not of chunks": (stream(WHOLE, last(COUNTS), "[DONE]"), "ok", None),
    "no usage": (stream(WHOLE, "[DONE]"), "ok", None),
    "CRLF": (stream(WHOLE.replace(b"\n", b"\r\n"), "[DONE]"), "ok", None),
    "comments and other fields": (
        stream(b": ping\n\nretry: 9\nevent: x\n", WHOLE, b":\n\n", "[DONE]"),
        "ok",
        None,
    ),
    "a character split in two": (
        stream(
            event(delta(content="é"))[:-17],
            *[bytes([b]) for b in event(delta(content="é"))[-17:]],
            WHOLE,
            "[DONE]",
        ),
        "ok",
        None,
    ),
    "one event in ten segments": (stream(*(p for b in WHOLE for p in (bytes([b]),)), "[DONE]"), "ok", None),
    "no [DONE] after the end": (stream(WHOLE), "ok", None),
    "no end at all": (stream(delta(content="yes")), "mid_stream_error", "finish_reason"),
    "nothing at all": (stream("[DONE]"), "mid_stream_error", "finish_reason"),
    "an error in the middle": (
        stream(delta(content="ye"), error_object(500, "engine died"), "[DONE]"),
        "mid_stream_error",
        "engine died",
    ),
    "cut in the middle": (stream(delta(content="ye"), end="cut"), "disconnected", "in the middle"),
    "an event that is no JSON": (stream(delta(content="ye"), "{oops"), "bad_response", "not JSON"),
    "a plain answer to a stream": (Raw((JSON_BODY,)), "ok", None),
    "hangs after [DONE]": (stream(WHOLE, "[DONE]", end="hang"), "ok", None),
    "no text": (stream(delta(content="", finish_reason="stop"), "[DONE]"), "empty", None),
    "503": (Status(503, {"detail": "busy"}), "http_503", "busy"),
    "cut at max_tokens": (Say("a b", finish_reason="length", output_tokens=256), "length", "cut at"),
}

CASES = [(name, False, *case) for name, case in PLAIN.items()]
CASES += [(name, True, *case) for name, case in STREAMED.items()]


@pytest.mark.parametrize(
    ("streams", "behaviour", "outcome", "says"),
    [case[1:] for case in CASES],
    ids=[f"{'stream' if case[1] else 'plain'}: {case[0]}" for case in CASES],
)
def test_both_clients_return_the_same_completion_in_process_and_over_a_socket(
    streams: bool, behaviour: Behaviour, outcome: str, says: str | None
) -> None:
    found = {
        (kind, place): timeless(ask(kind, place, behaviour, request(streams))[0])
        for kind in KINDS
        for place in PLACES
    }
    first = found["wire", "in process"]
    assert first.outcome == outcome, first
    assert says is None or says in (first.error or "")
    assert (first.error is None) == (outcome == "ok")
    for combination, completion in found.items():
        assert completion == first, combination
