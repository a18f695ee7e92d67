"""Answers as bytes: the plain chat completion, and the same as server-sent events."""

import json
from typing import Any

from nlqlib.records import Json
from nlqlib.twin.answer import Answer, pieces
from nlqlib.twin.asked import Asked

IDENTITY = "chatcmpl-twin"
DONE = b"data: [DONE]\n\n"


def plain(answer: Answer, asked: Asked, model: str) -> bytes:
    """The body of a completion that does not stream."""
    choice: Json = {
        "index": 0,
        "message": {"role": "assistant", "content": answer.text},
        "finish_reason": answer.finish_reason,
    }
    if asked.body.get("logprobs"):
        choice["logprobs"] = {"content": list(answer.logprobs or ())}
    if asked.body.get("return_token_ids"):
        choice["token_ids"] = list(answer.token_ids or ())
    whole = {
        "id": IDENTITY,
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": answer.usage(asked.prompt_tokens),
    }
    return json.dumps(whole, ensure_ascii=False).encode()


class Events:
    """The events of one streamed answer: `first` (the role), one for each token, and the `tail`."""

    def __init__(self, answer: Answer, asked: Asked, model: str) -> None:
        self.first = _event(model, {"role": "assistant", "content": ""})
        self.tokens = _token_events(answer, asked, model)
        self.tail = _usage(answer, asked, model) + DONE


def _token_events(answer: Answer, asked: Asked, model: str) -> list[bytes]:
    found = []
    last = answer.output_tokens - 1
    with_ids, with_logprobs = asked.body.get("return_token_ids"), asked.body.get("logprobs")
    for i, piece in enumerate(pieces(answer)):
        extra: Json = {}
        if with_ids and answer.token_ids is not None:
            extra["token_ids"] = [answer.token_ids[i]]
        if with_logprobs and answer.logprobs is not None:
            extra["logprobs"] = {"content": [answer.logprobs[i]]} if i < len(answer.logprobs) else None
        found.append(_event(model, {"content": piece}, answer.finish_reason if i == last else None, extra))
    return found


def _usage(answer: Answer, asked: Asked, model: str) -> bytes:
    if not (asked.body.get("stream_options") or {}).get("include_usage"):
        return b""
    usage = {**_head(model), "choices": [], "usage": answer.usage(asked.prompt_tokens)}
    return b"data: " + json.dumps(usage).encode() + b"\n\n"


def _event(model: str, delta: Json, finish_reason: str | None = None, extra: Json | None = None) -> bytes:
    choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish_reason, **(extra or {})}
    return b"data: " + json.dumps({**_head(model), "choices": [choice]}).encode() + b"\n\n"


def _head(model: str) -> Json:
    return {"id": IDENTITY, "object": "chat.completion.chunk", "created": 0, "model": model}
