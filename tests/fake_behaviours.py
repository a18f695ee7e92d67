"""What the fake server can do with a request, as small frozen values, and the payloads they are made of."""

import json
import random
from dataclasses import dataclass
from typing import Any, Literal

Json = dict[str, Any]
Headers = tuple[tuple[str, str], ...]

MODEL = "fake"


@dataclass(frozen=True)
class Say:
    """A chat completion, plain or in word-sized chunks as the request asks."""

    text: str = "an answer of five words"
    reasoning: str = ""
    finish_reason: str | None = "stop"
    prompt_tokens: int = 5
    output_tokens: int | None = None
    """`None`: one per word."""
    cached_tokens: int | None = None
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[Json, ...] | None = None
    latency_s: float = 0.0
    """Before the first byte."""
    itl_s: float = 0.0
    """Between chunks."""
    headers: Headers = ()


@dataclass(frozen=True)
class Status:
    """An HTTP error with a body."""

    code: int
    body: str | Json = ""
    headers: Headers = ()
    latency_s: float = 0.0


@dataclass(frozen=True)
class Raw:
    """Exactly these bytes; a float between them is a pause in seconds."""

    pieces: tuple[bytes | float, ...]
    status: int = 200
    content_type: str = "application/json"
    headers: Headers = ()
    length: int | None = None
    """Content-Length; `None` sends chunks."""
    end: Literal["whole", "cut", "hang"] = "whole"
    """What comes after the last piece: the proper end, a dropped connection, or nothing for ever."""


@dataclass(frozen=True)
class Hang:
    """Never answers; ends when the caller goes away."""


@dataclass(frozen=True)
class EchoHeaders:
    """An error whose message repeats every header of the request, the key among them."""

    code: int = 401


Behaviour = Say | Status | Raw | Hang | EchoHeaders


@dataclass(frozen=True)
class Faults:
    """Rejections at random: shares of all requests, the same ones for the same seed."""

    share_503: float = 0.0
    share_429: float = 0.0
    seed: int = 0

    def of(self, number: int) -> Status | None:
        """The fault of request `number`, or `None`."""
        draw = random.Random(f"{self.seed}/{number}").random()
        if draw < self.share_503:
            return Status(503, error_object(503, "overloaded", "ServiceUnavailable"))
        if draw < self.share_503 + self.share_429:
            return Status(429, error_object(429, "slow down", "RateLimit"), headers=(("Retry-After", "2"),))
        return None


def words(text: str) -> list[str]:
    """`text` in pieces that make it up again: words with the space in front."""
    first, *others = text.split(" ")
    return ([first] if first else []) + [f" {word}" for word in others]


def usage(behaviour: Say) -> Json:
    """Token counts as vLLM reports them."""
    made = behaviour.output_tokens
    n_output = len(words(behaviour.reasoning)) + len(words(behaviour.text)) if made is None else made
    counts: Json = {
        "prompt_tokens": behaviour.prompt_tokens,
        "completion_tokens": n_output,
        "total_tokens": behaviour.prompt_tokens + n_output,
    }
    if behaviour.cached_tokens is not None:
        counts["prompt_tokens_details"] = {"cached_tokens": behaviour.cached_tokens}
    return counts


def completion(behaviour: Say) -> Json:
    """The body of a plain chat completion."""
    message: Json = {"role": "assistant", "content": behaviour.text}
    if behaviour.reasoning:
        message["reasoning"] = behaviour.reasoning
    choice: Json = {"index": 0, "message": message, "finish_reason": behaviour.finish_reason}
    if behaviour.token_ids is not None:
        choice["token_ids"] = list(behaviour.token_ids)
    if behaviour.logprobs is not None:
        choice["logprobs"] = {"content": list(behaviour.logprobs)}
    head = {"id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": MODEL}
    return {**head, "choices": [choice], "usage": usage(behaviour)}


def chunks(behaviour: Say) -> list[Json]:
    """The same completion as chunks: role, one per word, finish, usage."""
    made = [delta(role="assistant", content="")]
    made += [delta(reasoning=word) for word in words(behaviour.reasoning)]
    for number, word in enumerate(words(behaviour.text)):
        extra: Json = {}
        if behaviour.token_ids is not None:
            extra["token_ids"] = list(behaviour.token_ids[number : number + 1])
        if behaviour.logprobs is not None:
            extra["logprobs"] = {"content": list(behaviour.logprobs[number : number + 1])}
        made.append(delta(content=word, **extra))
    made.append(delta(content="", finish_reason=behaviour.finish_reason))
    return [*made, last(usage(behaviour))]


CHUNK_HEAD = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 0, "model": MODEL}
CHOICE_FIELDS = ("finish_reason", "token_ids", "logprobs")


def delta(**fields: Any) -> Json:
    """One chunk; fields of the choice and of its delta together."""
    outer = {name: value for name, value in fields.items() if name in CHOICE_FIELDS}
    inner = {name: value for name, value in fields.items() if name not in CHOICE_FIELDS}
    choice = {"index": 0, "delta": inner, "finish_reason": None, **outer}
    return {**CHUNK_HEAD, "choices": [choice]}


def last(counts: Json) -> Json:
    """The chunk without choices that carries the usage."""
    return {**CHUNK_HEAD, "choices": [], "usage": counts}


def event(payload: Json | str) -> bytes:
    """One server-sent event."""
    text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def stream(*parts: Json | str | bytes | float, end: Literal["whole", "cut", "hang"] = "whole") -> Raw:
    """An event stream made of payloads, raw bytes and pauses."""
    pieces = tuple(p if isinstance(p, bytes | float) else event(p) for p in parts)
    return Raw(pieces, content_type="text/event-stream", end=end)


def error_object(code: int, message: str, kind: str = "BadRequestError", param: str | None = None) -> Json:
    """vLLM's error body."""
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


def unknown_model(name: object) -> Status:
    """vLLM's answer to a model it does not serve."""
    said = f"The model `{name}` does not exist."
    return Status(404, error_object(404, said, "NotFoundError", "model"))
