"""The twin as an OpenAI-compatible ASGI application.

First form: it replays recorded completions and has no clock yet, so it says nothing about time. Words come
from a real model; nothing here is generated.
"""

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import Route

from nlqlib import tokens
from nlqlib.records import Json
from nlqlib.twin.recordings import Recording, Recordings

VERSION = "0.1"
MAX_MODEL_LEN = 4096


@dataclass
class Counters:
    """What `/metrics` reports; nothing that would need a clock."""

    requests: dict[str, int] = field(default_factory=dict)
    prompt_tokens: int = 0
    generation_tokens: int = 0

    def count(self, finish_reason: str, prompt_tokens: int, output_tokens: int) -> None:
        self.requests[finish_reason] = self.requests.get(finish_reason, 0) + 1
        self.prompt_tokens += prompt_tokens
        self.generation_tokens += output_tokens

    def exposition(self, model: str) -> str:
        """Prometheus text of the counters under vLLM's names."""
        label = f'model_name="{model}",engine="0"'
        lines = ["# TYPE vllm:request_success_total counter"]
        lines += [
            f'vllm:request_success_total{{{label},finished_reason="{reason}"}} {n}'
            for reason, n in sorted(self.requests.items())
        ]
        for name in ("prompt_tokens", "generation_tokens"):
            lines += [
                f"# TYPE vllm:{name}_total counter",
                f"vllm:{name}_total{{{label}}} {getattr(self, name)}",
            ]
        return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class Answer:
    """A recording cut to what one request allows."""

    text: str
    finish_reason: str
    prompt_tokens: int
    token_ids: tuple[int, ...]
    logprobs: tuple[Json, ...] | None

    @property
    def usage(self) -> Json:
        n = len(self.token_ids)
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": n,
            "total_tokens": self.prompt_tokens + n,
        }


class Refused(Exception):
    """A request the twin answers with an HTTP error."""

    def __init__(self, status: int, message: str, kind: str, param: str | None = None) -> None:
        super().__init__(message)
        self.status, self.kind, self.param = status, kind, param


def cut(recording: Recording, max_tokens: int) -> Answer:
    """`recording` as it would have come out under `max_tokens`."""
    ids = recording.token_ids
    truncated = len(ids) > max_tokens
    if recording.finish_reason == "length" and max_tokens > len(ids):
        raise Refused(422, f"the recorded answer was itself cut at {len(ids)} tokens; {HINT}", "recording")
    if not truncated:
        return Answer(
            recording.text, recording.finish_reason, recording.prompt_tokens, ids, recording.logprobs
        )
    ids = ids[:max_tokens]
    logprobs = recording.logprobs[:max_tokens] if recording.logprobs is not None else None
    return Answer(tokens.decode(ids), "length", recording.prompt_tokens, ids, logprobs)


HINT = "record it on a real engine: `make record`"


def parse(raw: bytes) -> Json:
    """The request body. Raises `Refused` with 400 where it is no chat request."""
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise Refused(400, "the request body is not JSON", "BadRequestError") from error
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not all(isinstance(m, dict) for m in messages):
        raise Refused(400, "`messages` must be a list of {role, content}", "BadRequestError", "messages")
    if not all(isinstance(m.get(k), str) for m in messages for k in ("role", "content")):
        raise Refused(400, "each message needs a role and a content", "BadRequestError", "messages")
    return dict(body)


def answer(body: Json, recordings: Recordings, max_model_len: int = MAX_MODEL_LEN) -> Answer:
    """The replayed answer to request `body`.

    Raises `Refused` with 404 for another model, 400 beyond the window (as vLLM 0.12 does) and 422 for a
    prompt that was never recorded.
    """
    if body.get("model") not in (None, recordings.model):
        raise Refused(404, f"The model `{body['model']}` does not exist.", "NotFoundError", "model")
    n_prompt = tokens.count_chat(body["messages"])
    max_tokens = body.get("max_tokens") or body.get("max_completion_tokens") or max_model_len - n_prompt
    if n_prompt + max_tokens > max_model_len:
        raise Refused(
            400,
            f"This model's maximum context length is {max_model_len} tokens. However, you requested "
            f"{n_prompt + max_tokens} tokens ({n_prompt} in the messages, {max_tokens} in the completion).",
            "BadRequestError",
        )
    recording = recordings.find(body)
    if recording is None:
        raise Refused(422, f"the twin only replays, and this prompt was never recorded; {HINT}", "recording")
    if body.get("logprobs") and recording.logprobs is None:
        raise Refused(422, f"this prompt was recorded without log-probabilities; {HINT}", "recording")
    return cut(recording, max_tokens)


def create_app(recordings: Recordings, max_model_len: int = MAX_MODEL_LEN) -> Starlette:
    """The endpoint as an ASGI application; its state is its counters."""
    counters = Counters()

    async def chat(request: Request) -> Response:
        try:
            body = parse(await request.body())
            found = answer(body, recordings, max_model_len)
        except Refused as refused:
            return error(refused)
        counters.count(found.finish_reason, found.prompt_tokens, len(found.token_ids))
        if body.get("stream"):
            return StreamingResponse(chunks(found, body, recordings.model), media_type="text/event-stream")
        return JSONResponse(whole(found, body, recordings.model))

    async def tokenize(request: Request) -> Response:
        body = json.loads(await request.body())
        text = tokens.chat_text(body["messages"]) if "messages" in body else str(body["prompt"])
        ids = tokens.encode(text)
        return JSONResponse({"count": len(ids), "max_model_len": max_model_len, "tokens": ids})

    async def models(_: Request) -> Response:
        card = {"id": recordings.model, "object": "model", "max_model_len": max_model_len}
        return JSONResponse({"object": "list", "data": [card]})

    async def metrics(_: Request) -> Response:
        return PlainTextResponse(counters.exposition(recordings.model))

    async def health(_: Request) -> Response:
        return Response(status_code=200)

    async def version(_: Request) -> Response:
        return JSONResponse({"version": f"twin-{VERSION}"})

    return Starlette(
        routes=[
            Route("/v1/chat/completions", chat, methods=["POST"]),
            Route("/v1/models", models),
            Route("/tokenize", tokenize, methods=["POST"]),
            Route("/health", health),
            Route("/version", version),
            Route("/metrics", metrics),
        ]
    )


def error(refused: Refused) -> Response:
    """vLLM's error object."""
    detail = {
        "message": str(refused),
        "type": refused.kind,
        "param": refused.param,
        "code": refused.status,
    }
    return JSONResponse({"error": detail}, status_code=refused.status)


def whole(found: Answer, body: Json, model: str) -> Json:
    """The plain chat completion."""
    choice: Json = {
        "index": 0,
        "message": {"role": "assistant", "content": found.text},
        "finish_reason": found.finish_reason,
    }
    if body.get("logprobs"):
        choice["logprobs"] = {"content": list(found.logprobs or ())}
    if body.get("return_token_ids"):
        choice["token_ids"] = list(found.token_ids)
    return {
        "id": "chatcmpl-twin",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": [choice],
        "usage": found.usage,
    }


async def chunks(found: Answer, body: Json, model: str) -> AsyncIterator[str]:
    """The same completion as server-sent events: a role chunk, one per output token, usage, the end mark."""
    yield event(model, {"role": "assistant", "content": ""})
    for i, (piece, token) in enumerate(pieces(found)):
        extra: Json = {"token_ids": [token]} if body.get("return_token_ids") else {}
        if body.get("logprobs") and found.logprobs is not None:
            extra["logprobs"] = {"content": [found.logprobs[i]]} if i < len(found.logprobs) else None
        last = i == len(found.token_ids) - 1
        yield event(model, {"content": piece}, found.finish_reason if last else None, extra)
    if (body.get("stream_options") or {}).get("include_usage"):
        head = {"id": "chatcmpl-twin", "object": "chat.completion.chunk", "created": 0, "model": model}
        yield f"data: {json.dumps({**head, 'choices': [], 'usage': found.usage})}\n\n"
    yield "data: [DONE]\n\n"


def event(model: str, delta: Json, finish_reason: str | None = None, extra: Json | None = None) -> str:
    """One chunk as a server-sent event."""
    choice: dict[str, Any] = {"index": 0, "delta": delta, "finish_reason": finish_reason, **(extra or {})}
    head = {"id": "chatcmpl-twin", "object": "chat.completion.chunk", "created": 0, "model": model}
    return f"data: {json.dumps({**head, 'choices': [choice]})}\n\n"


def pieces(found: Answer) -> list[tuple[str, int]]:
    """Text that each output token adds; together they are the whole text."""
    out, shown = [], ""
    for i, token in enumerate(found.token_ids):
        last = i == len(found.token_ids) - 1
        text = found.text if last else tokens.decode(found.token_ids[: i + 1])
        text = text if last or not text.endswith("�") else shown
        piece = text[len(shown) :] if text.startswith(shown) else ""
        out.append((piece, token))
        shown += piece
    return out
