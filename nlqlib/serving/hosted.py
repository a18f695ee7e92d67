"""Hosted models that speak in another way, as an OpenAI-compatible endpoint in this process.

Where `response_format` is not read, the form of an answer is forced by one tool that must be called: its
arguments are the answer. `tool` keeps the OpenAI protocol, `converse` translates to Amazon Bedrock's. The key
is the caller's Authorization header, handed on and never kept.
"""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import quote
from weakref import WeakKeyDictionary

import httpx2
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from nlqlib.records import Json

Dialect = Literal["tool", "converse"]
TOOL = "answer"
ABOUT = "Give the answer."
ENDED = {"max_tokens": "length", "length": "length"}
"""Finish reasons of either protocol that mean a cut answer; every other one is a whole one."""


def schema_of(body: Json) -> Json | None:
    """The schema that an OpenAI request asks for by `response_format`; `None` where it asks for none."""
    form = body.get("response_format")
    return form["json_schema"]["schema"] if form else None


def tool_body(body: Json) -> Json:
    """An OpenAI request with a forced tool in the place of `response_format`."""
    schema = schema_of(body)
    if schema is None:
        return body
    function = {"name": TOOL, "description": ABOUT, "parameters": schema}
    forced = {"type": "function", "function": {"name": TOOL}}
    kept = {k: v for k, v in body.items() if k != "response_format"}
    return {**kept, "tools": [{"type": "function", "function": function}], "tool_choice": forced}


def tool_answer(payload: Json) -> Json:
    """An OpenAI completion with the arguments of the called tool as its content."""
    return {**payload, "choices": [_spoken(choice) for choice in payload.get("choices") or []]}


def _spoken(choice: Json) -> Json:
    message = choice.get("message") or {}
    calls = message.get("tool_calls") or []
    if not calls:
        return choice
    told = {"role": "assistant", "content": calls[0]["function"]["arguments"]}
    cut = choice.get("finish_reason") == "length"
    return {**choice, "message": told, "finish_reason": "length" if cut else "stop"}


def converse_body(body: Json) -> Json:
    """An OpenAI request as one of Bedrock's Converse API; the model stands in its address, not in here."""
    messages = body["messages"]
    system = [{"text": m["content"]} for m in messages if m["role"] == "system"]
    turns = [
        {"role": m["role"], "content": [{"text": m["content"]}]} for m in messages if m["role"] != "system"
    ]
    settings = {"maxTokens": body["max_tokens"], "temperature": body["temperature"]}
    made: Json = {"messages": turns, "system": system, "inferenceConfig": settings}
    schema = schema_of(body)
    if schema is not None:
        spec = {"name": TOOL, "description": ABOUT, "inputSchema": {"json": schema}}
        made["toolConfig"] = {"tools": [{"toolSpec": spec}], "toolChoice": {"tool": {"name": TOOL}}}
    return made


def converse_answer(payload: Json, model: str) -> Json:
    """An answer of the Converse API as an OpenAI completion."""
    blocks = payload["output"]["message"]["content"]
    called = [json.dumps(b["toolUse"]["input"], ensure_ascii=False) for b in blocks if "toolUse" in b]
    text = called[0] if called else "".join(b.get("text", "") for b in blocks)
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": ENDED.get(payload.get("stopReason", ""), "stop"),
    }
    usage = _usage(payload.get("usage") or {})
    return {"object": "chat.completion", "model": model, "choices": [choice], "usage": usage}


def _usage(told: Mapping[str, int]) -> Json:
    """Bedrock counts fresh, written and cached prompt tokens apart; OpenAI counts them together."""
    if "inputTokens" not in told or "outputTokens" not in told:
        return {}
    cached = told.get("cacheReadInputTokens", 0)
    prompt = told["inputTokens"] + cached + told.get("cacheWriteInputTokens", 0)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": told["outputTokens"],
        "total_tokens": prompt + told["outputTokens"],
        "prompt_tokens_details": {"cached_tokens": cached},
    }


@dataclass
class Hosted:
    """The ASGI application in front of one hosted model."""

    base_url: str
    """`https://host/v1` for `tool`, `https://host` for `converse`."""
    model: str
    dialect: Dialect
    timeout_s: float = 600.0
    _clients: "WeakKeyDictionary[Any, httpx2.AsyncClient]" = field(default_factory=WeakKeyDictionary)
    """One for each event loop, so that connections are kept from request to request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            await (await self._respond(Request(scope, receive)))(scope, receive, send)

    async def _respond(self, request: Request) -> Response:
        if request.url.path.endswith("/models"):
            return JSONResponse({"object": "list", "data": [{"id": self.model, "object": "model"}]})
        body = await request.json()
        if body.get("stream"):
            return _refused(400, "this adapter does not stream: ask for the whole answer")
        try:
            heard = await self._client().post(
                self.address, json=self._asked(body), headers=_headers(request.headers)
            )
        except httpx2.HTTPError as problem:
            return _refused(502, f"the hosted model cannot be reached ({type(problem).__name__})")
        return self._answered(heard)

    @property
    def address(self) -> str:
        """Where requests go."""
        if self.dialect == "converse":
            return f"{self.base_url}/model/{quote(self.model, safe='')}/converse"
        return f"{self.base_url}/chat/completions"

    def _asked(self, body: Json) -> Json:
        return converse_body(body) if self.dialect == "converse" else tool_body(body)

    def _answered(self, heard: httpx2.Response) -> Response:
        waits = {k: v for k, v in heard.headers.items() if k.lower() == "retry-after"}
        if heard.status_code != 200:
            return Response(heard.content, heard.status_code, waits, media_type="application/json")
        try:
            read = self._read(heard.json())
        except (ValueError, KeyError, TypeError) as problem:
            return _refused(502, f"the hosted model's answer cannot be read ({type(problem).__name__})")
        return JSONResponse(read)

    def _read(self, payload: Json) -> Json:
        return converse_answer(payload, self.model) if self.dialect == "converse" else tool_answer(payload)

    def _client(self) -> httpx2.AsyncClient:
        loop = asyncio.get_running_loop()
        if loop not in self._clients:
            self._clients[loop] = httpx2.AsyncClient(timeout=self.timeout_s, trust_env=False)
        return self._clients[loop]


def _headers(given: Mapping[str, str]) -> dict[str, str]:
    return {k: v for k, v in given.items() if k.lower() == "authorization"}


def _refused(status: int, message: str) -> Response:
    return JSONResponse({"error": {"message": message, "type": "adapter"}}, status)
