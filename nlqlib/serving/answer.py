"""What an endpoint answers, read into one form: a plain chat completion or the chunks of a stream.

Tokens come from `usage`, never from counting chunks. The first token is the first content or reasoning
delta, never the chunk that only announces the role.
"""

import json
from dataclasses import dataclass, field
from typing import Any

from nlqlib.records import Json

SCAN = json.JSONDecoder().raw_decode


@dataclass
class Answer:
    """The readable part of a response; it grows as chunks of a stream arrive."""

    model: str | None = None
    parts: list[str] = field(default_factory=list)
    """Content, in pieces."""
    reasoned: bool = False
    """Reasoning arrived, whatever became of the content."""
    finish_reason: str | None = None
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    token_ids: list[int] | None = None
    logprobs: list[Json] | None = None
    first_token_s: float | None = None
    first_content_s: float | None = None
    token_times_s: list[float] = field(default_factory=list)
    streamed: bool = False
    error: Json | None = None
    """The error object of a stream, or of a body that came with HTTP 200."""
    malformed: str | None = None
    """Why this is no chat completion; `None` when it is one."""

    @property
    def text(self) -> str:
        return "".join(self.parts)


def whole(body: bytes | Json, answer: Answer | None = None) -> Answer:
    """The answer in the body of a plain response, read into a fresh `answer` if one is at hand.

    Never raises: see `Answer.malformed` and `.error`.
    """
    answer = Answer() if answer is None else answer
    payload = body if isinstance(body, dict) else decode(answer, body)
    if payload is not None and not _failed(answer, payload):
        choice = _choice(answer, payload)
        if choice is None:
            answer.malformed = answer.malformed or "it has no choices"
        else:
            _take(answer, choice, choice.get("message"))
    return answer


def fold(answer: Answer, payload: str | Json, now_s: float) -> None:
    """Add one event of a stream, arrived at `now_s`, to `answer`. Never raises: see `Answer.malformed`."""
    answer.streamed = True
    event = payload if isinstance(payload, dict) else decode(answer, payload)
    if event is None or _failed(answer, event):
        return
    choice = _choice(answer, event)
    if choice is None:
        return
    content, reasoning, ids = _take(answer, choice, choice.get("delta") or {})
    if content or reasoning or ids:
        answer.token_times_s.append(now_s)
    if content and answer.first_content_s is None:
        answer.first_content_s = now_s
    if (content or reasoning) and answer.first_token_s is None:
        answer.first_token_s = now_s


def decode(answer: Answer, payload: str | bytes) -> Json | None:
    """`payload` as a JSON object, or `None` with the reason left in `answer.malformed`."""
    try:
        value = _loads(payload if isinstance(payload, str) else payload.decode())
    except ValueError:
        sample = payload if isinstance(payload, str) else payload.decode(errors="replace")
        answer.malformed = f"it is not JSON: {sample[:120]!r}" if sample else "it is empty"
        return None
    if not isinstance(value, dict):
        answer.malformed = f"it is a JSON {type(value).__name__}, not an object"
        return None
    return value


def _loads(text: str) -> Any:
    """As `json.loads`, which looks for space around the value first: half of what a short event costs."""
    try:
        value, end = SCAN(text)
    except ValueError:  # space in front is one reason
        return json.loads(text)
    return value if end == len(text) else json.loads(text)


def _failed(answer: Answer, payload: Json) -> bool:
    error = payload.get("error")
    if not error:
        return False
    if answer.error is None:
        answer.error = error if isinstance(error, dict) else {"message": str(error)}
    return True


def _choice(answer: Answer, payload: Json) -> Json | None:
    """The first choice; the model's name and the usage are taken on the way."""
    model = payload.get("model")
    if isinstance(model, str):
        answer.model = model
    usage = payload.get("usage")
    if isinstance(usage, dict):
        answer.prompt_tokens = _count(usage.get("prompt_tokens"))
        answer.output_tokens = _count(usage.get("completion_tokens"))
        details = usage.get("prompt_tokens_details")
        answer.cached_tokens = _count(details.get("cached_tokens")) if isinstance(details, dict) else None
    choices = payload.get("choices")
    if choices is None or choices == []:
        return None
    if not isinstance(choices, list) or not isinstance(choices[0], dict):
        answer.malformed = "its `choices` is no list of objects"
        return None
    first: Json = choices[0]
    return first


def _take(answer: Answer, choice: Json, message: Any) -> tuple[bool, bool, bool]:
    """Take over one message or delta; says whether it held content, reasoning and token ids."""
    if not isinstance(message, dict):
        answer.malformed = "its choice has no message"
        return False, False, False
    content = message.get("content")
    has_content = False
    if isinstance(content, str) and content:
        has_content = True
        answer.parts.append(content)
    reasoning = bool(message.get("reasoning") or message.get("reasoning_content"))  # newer and older name
    answer.reasoned |= reasoning
    if isinstance(reason := choice.get("finish_reason"), str):
        answer.finish_reason = reason
    if isinstance(ids := choice.get("token_ids"), list):
        answer.token_ids = answer.token_ids or []
        answer.token_ids += ids
    logprobs = choice.get("logprobs")
    if isinstance(logprobs, dict) and isinstance(logprobs.get("content"), list):
        answer.logprobs = answer.logprobs or []
        answer.logprobs += logprobs["content"]
    return has_content, reasoning, bool(ids)


def _count(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None
