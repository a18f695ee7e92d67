"""From a status, a body or an exception to one word of the outcome taxonomy, and what to do next.

Pure. The words are those of `records.Outcome`; what an answer means (`bad_json`, `schema_violation`,
`constraint_not_applied`) is judged where its contract is known.
"""

import json
import re
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass

from nlqlib.records import Json, Outcome
from nlqlib.serving.answer import Answer
from nlqlib.serving.endpoint import Address

OVERFLOW = re.compile(
    r"maximum (context|model) length|context_length_exceeded|context length is only", re.IGNORECASE
)
OVERFLOW_PARAMS = ("input_tokens", "input_text")  # vLLM 0.32 names the field that is too long
NO_MODEL = re.compile(
    r"model\b.*(does not exist|not found|not exist)|invalid model", re.IGNORECASE | re.DOTALL
)
TOOL_REASONS = ("tool_calls", "function_call")


class Broken(ConnectionError):
    """The connection ended before the response did."""


class NotHttp(Broken):
    """What came back is not HTTP."""


@dataclass(frozen=True)
class Verdict:
    """An outcome and, for anything but a clean answer, the reason."""

    outcome: Outcome
    error: str | None = None


FINE = Verdict("ok")


@dataclass(frozen=True)
class ServerError:
    """The parts of an error object that servers agree on."""

    message: str
    param: str | None = None
    code: str | None = None


def read_error(body: bytes | Json) -> ServerError:
    """The server's own words in an error body: vLLM's, OpenAI's or FastAPI's object, else the text itself."""
    payload: object = body
    if isinstance(body, bytes):
        try:
            payload = json.loads(body)
        except ValueError:
            return ServerError(" ".join(body.decode(errors="replace").split()))
    inner = payload.get("error", payload) if isinstance(payload, dict) else payload
    if not isinstance(inner, dict):
        return ServerError(str(inner))
    message = inner.get("message") or inner.get("detail") or json.dumps(inner, ensure_ascii=False)
    param, code = inner.get("param"), inner.get("code")
    return ServerError(
        message if isinstance(message, str) else json.dumps(message, ensure_ascii=False),
        param if isinstance(param, str) else None,
        str(code) if code is not None else None,
    )


def of_status(status: int, body: bytes) -> Verdict:
    """The outcome of a response whose status is not 200."""
    error = read_error(body)
    outcome, advice = _of_status(status, error)
    said = f"HTTP {status}: {error.message}" if error.message else f"HTTP {status} without a body"
    return Verdict(outcome, f"{said} ({advice})" if advice else said)


def _of_status(status: int, error: ServerError) -> tuple[Outcome, str | None]:
    if status in (400, 413, 422) and is_overflow(error):
        return "context_overflow", "shorten the prompt, lower max_tokens, or serve a larger window"
    if status in (400, 404) and is_wrong_model(error):
        return "wrong_model", "GET /models lists what this endpoint serves"
    if status in (401, 403):
        return "unauthorized", "check the key in the configured environment variable"
    if status == 404:
        return "http_4xx", "does the base URL end in the API's path, usually /v1?"
    if status == 429:
        return "http_429", None
    if status == 503:
        return "http_503", None
    if 300 <= status < 400:
        return "bad_response", "the endpoint redirects: use the address it points to as base URL"
    if status >= 500:
        return "http_5xx", None
    return ("http_4xx", None) if status >= 400 else ("bad_response", "HTTP 200 was expected")


def is_overflow(error: ServerError) -> bool:
    """Does this error say that the prompt, or prompt + max_tokens, exceeds the window?"""
    return error.param in OVERFLOW_PARAMS or bool(OVERFLOW.search(f"{error.message} {error.code}"))


def is_wrong_model(error: ServerError) -> bool:
    """Does this error say that the endpoint does not serve the model asked for?"""
    return error.code == "model_not_found" or bool(NO_MODEL.search(error.message))


def of_answer(answer: Answer, max_tokens: int, fixed: bool = False) -> Verdict:
    """The outcome of a response with HTTP 200 that arrived to its end.

    `fixed`: exactly `max_tokens` tokens were asked for (`ignore_eos`), so that such an answer is whole.
    """
    if answer.error is not None:
        return _of_error_object(answer)
    if answer.malformed is not None:
        return Verdict("bad_response", f"HTTP 200, but the body is no chat completion: {answer.malformed}")
    reason = answer.finish_reason
    if reason == "length" and not (fixed and answer.output_tokens == max_tokens):
        return Verdict("length", _why_cut(answer.output_tokens, max_tokens))
    if reason in ("abort", "error"):
        return Verdict("mid_stream_error", f"the engine gave up: finish_reason={reason}")
    if reason is None and answer.streamed:
        return Verdict("mid_stream_error", "the stream ended without a finish_reason: it is not complete")
    if not answer.text.strip() and reason not in TOOL_REASONS:
        return Verdict(
            "empty", "only reasoning, no content" if answer.reasoned else "HTTP 200 without any text"
        )
    return FINE


def _of_error_object(answer: Answer) -> Verdict:
    error = read_error({"error": answer.error})
    if is_overflow(error):
        return Verdict("context_overflow", error.message)
    outcome: Outcome = "mid_stream_error" if answer.streamed else "bad_response"
    return Verdict(outcome, f"error inside HTTP 200: {error.message}")


def _why_cut(output_tokens: int | None, max_tokens: int) -> str:
    if output_tokens is not None and output_tokens < max_tokens:
        return (
            f"max_tokens {max_tokens} was clamped by the server: cut after {output_tokens} tokens, "
            "where prompt and answer fill the window"
        )
    return f"the answer was cut at max_tokens={max_tokens}"


def of_timeout(timeout_s: float) -> Verdict:
    """The outcome of a request that was given up after `timeout_s` seconds."""
    return Verdict("timeout", f"no complete answer within {timeout_s:g} s")


def of_exception(
    failure: BaseException, address: Address, answered: bool = False, proxy: str | None = None
) -> Verdict:
    """The outcome of a request whose connection failed.

    `answered`: after the status line had come. `proxy`: the ignored variable that names a proxy, if any.
    """
    hint = f" ({proxy} is set and ignored)" if proxy else ""
    return Verdict("disconnected", _why_disconnected(failure, address, answered) + hint)


def _why_disconnected(failure: BaseException, address: Address, answered: bool) -> str:
    where = address.netloc
    found = list(causes(failure))
    for cause in found:
        if isinstance(cause, socket.gaierror):
            return f"the host name of {where} is not known: check the base URL"
        if isinstance(cause, ssl.SSLCertVerificationError):
            why = getattr(cause, "verify_message", None) or cause
            return f"the certificate of {where} is not trusted ({why}): name its authority in ca_file"
        if isinstance(cause, ssl.SSLError):
            return f"no TLS with {where}: does it serve https, or is the base URL plain http://?"
        if isinstance(cause, ConnectionRefusedError):
            return f"connection refused: is the server running at {where}?"
    if any(isinstance(cause, NotHttp) for cause in found):
        return f"{where} does not answer in HTTP: does it serve https, or is the port another service's?"
    if answered:
        return f"{where} closed the connection in the middle of its answer: see the server's log"
    return (
        f"{where} closed the connection before it answered: see the server's log. The request may have been "
        "processed, so it was not sent again"
    )


def causes(failure: BaseException) -> Iterator[BaseException]:
    """`failure` and everything it came from, groups included."""
    seen: set[int] = set()
    left: list[BaseException | None] = [failure]
    while left:
        one = left.pop(0)
        if one is None or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        left += [one.__cause__, one.__context__, *getattr(one, "exceptions", ())]
