"""A workload of the user's own: chats from a file instead of the study's questions.

One JSON object a line: `messages` (role and content), `max_tokens` (default 256), and, where every answer is
to have one length, `"ignore_eos": true`, which makes a vLLM server produce exactly `max_tokens`. `id`,
`temperature` and further request fields under `extra` are optional.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from nlqlib.files import text_lines
from nlqlib.records import ChatRequest, Json, Message, Workload

KNOWN = ("messages", "max_tokens", "ignore_eos", "id", "temperature", "extra")
MAX_TOKENS = 256


class ChatsError(ValueError):
    """A file of chats that cannot be used; says which line and what is wrong with it."""


def load_chats(path: str | Path) -> tuple[list[ChatRequest], Workload]:
    """The requests in `path`, in their order, and their identity for artifacts. Raises `ChatsError`."""
    source = Path(path)
    try:
        data = source.read_bytes()
    except OSError as error:
        raise ChatsError(f"cannot read {path}: {error.strerror}") from error
    found = list(_requests(data, source.name))
    if not found:
        raise ChatsError(f"{source.name} holds no chat: write one JSON object with `messages` on each line")
    return found, Workload(source.stem, hashlib.sha256(data).hexdigest(), len(found))


def _requests(data: bytes, name: str) -> Iterator[ChatRequest]:
    try:
        lines = text_lines(data.decode("utf-8"))
    except UnicodeDecodeError as error:
        raise ChatsError(f"{name} is not UTF-8 ({error.reason} at byte {error.start}): convert it") from error
    for number, line in enumerate(lines, start=1):
        if line.strip():
            yield _request(_object(line, f"{name}, line {number}"), f"{name}, line {number}", number)


def _object(line: str, where: str) -> Json:
    try:
        told = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ChatsError(f"{where} is not JSON: {error}") from error
    if not isinstance(told, dict):
        raise ChatsError(f"{where} is no JSON object: it should be an object with `messages`")
    unknown = sorted(set(told) - set(KNOWN))
    if unknown:
        raise ChatsError(f"{where} has unknown fields {', '.join(unknown)}: known are {', '.join(KNOWN)}")
    return told


def _request(told: Json, where: str, number: int) -> ChatRequest:
    extra = told.get("extra", {})
    if not isinstance(extra, dict):
        raise ChatsError(f"{where}: `extra` should be an object of request fields")
    return ChatRequest(
        str(told.get("id", f"chat-{number}")),
        tuple(_messages(told.get("messages"), where)),
        _positive(told.get("max_tokens", MAX_TOKENS), where),
        _number(told.get("temperature", 0.0), where),
        extra=extra | ({"ignore_eos": True} if told.get("ignore_eos") else {}),
    )


def _messages(told: Any, where: str) -> Iterator[Message]:
    if not isinstance(told, list) or not told:
        raise ChatsError(f"{where}: `messages` should be a list of at least one message")
    for message in told:
        if not (
            isinstance(message, dict) and isinstance(message.get("content"), str) and message.get("role")
        ):
            raise ChatsError(f"{where}: every message needs a `role` and a `content` that is text")
        yield {"role": str(message["role"]), "content": message["content"]}


def _positive(value: Any, where: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ChatsError(f"{where}: `max_tokens` should be a whole number from 1 on, not {value!r}")
    return value


def _number(value: Any, where: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or value < 0:
        raise ChatsError(f"{where}: `temperature` should be a number from 0 on, not {value!r}")
    return float(value)
