"""An endpoint whose model answers from a script: whole intents, kinds with log-probabilities, slots.

It stands for a real engine where recordings are made, and where an evaluation is interrupted.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from nlqlib import tokens
from nlqlib.nlq.belief import WORDS
from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.target import Connection, Target

MODEL = "scripted/model"
END = 151645
"""The end-of-turn token."""
Json = dict[str, Any]


@dataclass
class Scripted:
    """A model that knows the intent of each question, and how sure it is of the kind."""

    intents: Mapping[str, Json]
    sure: float = 4.0
    """Nats between its kind and each other one."""
    fails: Callable[[str], bool] = lambda question: False
    """Questions that end in HTTP 503."""
    asked: list[str] = field(default_factory=list)
    """Questions in the order of arrival, warm-up included."""

    async def chat(self, request: Request) -> Response:
        body = await request.json()
        question = body["messages"][-1]["content"].splitlines()[0].removeprefix("Question: ")
        self.asked.append(question)
        if self.fails(question):
            return JSONResponse({"error": {"message": "overloaded"}}, 503)
        return JSONResponse(self._completion(body, question))

    def _completion(self, body: Json, question: str) -> Json:
        text, first = self._answer(body, question)
        ids = [*tokens.encode(text), END][: body["max_tokens"]]
        cut = len(ids) <= len(tokens.encode(text))
        choice: Json = {
            "index": 0,
            "message": {"role": "assistant", "content": tokens.decode(ids) if cut else text},
            "finish_reason": "length" if cut else "stop",
        }
        if body.get("return_token_ids"):
            choice["token_ids"] = ids
        if body.get("logprobs"):
            rest = [{"token": tokens.decode([i]), "logprob": -0.01, "top_logprobs": []} for i in ids[1:]]
            choice["logprobs"] = {"content": [first, *rest]}
        n = tokens.count_chat(body["messages"])
        usage = {"prompt_tokens": n, "completion_tokens": len(ids), "total_tokens": n + len(ids)}
        return {"id": "x", "object": "chat.completion", "created": 0, "model": MODEL} | {
            "choices": [choice],
            "usage": usage,
        }

    def _answer(self, body: Json, question: str) -> tuple[str, Json]:
        intent = self.intents[question]
        form = body.get("structured_outputs", {})
        if "choice" in form:
            return self._kind(intent)
        if "query_type" in form.get("json", {}).get("properties", {"query_type": None}):
            return json.dumps(intent, indent=2), {}
        return json.dumps({k: intent[k] for k in form["json"]["properties"]}), {}

    def _kind(self, intent: Json) -> tuple[str, Json]:
        label = WORDS[intent["query_type"]]
        first = {word: tokens.decode([tokens.encode(word)[0]]) for word in WORDS.values()}
        top = [
            {"token": token, "logprob": -0.1 if word == label else -0.1 - self.sure}
            for word, token in first.items()
        ]
        return label, {"token": first[label], "logprob": -0.1, "top_logprobs": top}

    def target(self) -> Target:
        """This model as a target that is neither the twin nor started by us."""

        async def models(_: Request) -> Response:
            return JSONResponse({"data": [{"id": MODEL, "max_model_len": 4096}]})

        async def version(_: Request) -> Response:
            return JSONResponse({"version": "0.32.0"})

        app = Starlette(
            routes=[
                Route("/v1/chat/completions", self.chat, methods=["POST"]),
                Route("/v1/models", models),
                Route("/version", version),
            ]
        )
        endpoint = Endpoint("http://scripted/v1", MODEL, timeout_s=60.0)
        return Target(
            name="scripted",
            kind="url",
            clock="real",
            can=frozenset(),
            declared={"name": "scripted", "model": MODEL},
            speaker=MODEL,
            connect=lambda: Connection(endpoint, app),
        )
