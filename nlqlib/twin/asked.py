"""A chat request as the twin reads it: checked, tokenised, and kept, since a workload repeats its prompts."""

import json
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from nlqlib import tokens
from nlqlib.records import Json
from nlqlib.twin.answer import Refused

Ids = npt.NDArray[np.int32]

BAD = "BadRequestError"


@dataclass(frozen=True, eq=False)
class Asked:
    """One request body; two are equal only if they are the same object."""

    body: Json
    prompt_ids: Ids
    max_tokens: int
    """Most tokens the answer may have, in this window."""

    @property
    def prompt_tokens(self) -> int:
        return len(self.prompt_ids)

    @property
    def streams(self) -> bool:
        return bool(self.body.get("stream"))

    @property
    def salt(self) -> str:
        """vLLM's `cache_salt`: prompts with different salts share no cached block."""
        return str(self.body.get("cache_salt") or "")


@lru_cache(maxsize=1024)
def prompt_ids(text: str) -> Ids:
    """Token ids of a rendered prompt."""
    return np.array(tokens.encode(text), dtype=np.int32)


def read(raw: bytes, model: str, window: int, clamps: bool = False) -> Asked:
    """The request in `raw` for `model` in a `window` of tokens.

    `clamps`: a prompt that fits has its `max_tokens` shortened silently, as newer engines do; otherwise the
    two together must fit. Raises `Refused` with 400 for what is no chat request or does not fit, and 404 for
    another model.
    """
    body = _parse(raw)
    if body.get("model") not in (None, model):
        raise Refused(404, f"The model `{body['model']}` does not exist.", "NotFoundError", "model")
    ids = prompt_ids(tokens.chat_text(body["messages"]))
    left = window - len(ids)
    wanted = _max_tokens(body)
    if clamps and left < 1:
        raise Refused(
            400,
            f"This model's maximum context length is {window} tokens; the messages have {len(ids)}.",
            BAD,
            "input_tokens",
        )
    asked = max(left, 1) if wanted is None else min(wanted, left) if clamps else wanted
    if asked > left:
        raise Refused(
            400,
            f"This model's maximum context length is {window} tokens. However, you requested "
            f"{len(ids) + asked} tokens ({len(ids)} in the messages, {asked} in the completion).",
            BAD,
        )
    return Asked(body, ids, asked)


def _parse(raw: bytes) -> Json:
    try:
        body = json.loads(raw)
    except ValueError as error:
        raise Refused(400, "the request body is not JSON", BAD) from error
    messages = body.get("messages") if isinstance(body, dict) else None
    if not isinstance(messages, list) or not messages or not all(isinstance(m, dict) for m in messages):
        raise Refused(400, "`messages` must be a list of {role, content}", BAD, "messages")
    if not all(isinstance(m.get(k), str) for m in messages for k in ("role", "content")):
        raise Refused(400, "each message needs a role and a content", BAD, "messages")
    return dict(body)


def _max_tokens(body: Json) -> int | None:
    wanted = body.get("max_completion_tokens")
    wanted = body.get("max_tokens") if wanted is None else wanted
    if wanted is None:
        return None
    if isinstance(wanted, bool) or not isinstance(wanted, int) or wanted < 1:
        raise Refused(
            400, f"max_tokens must be a whole number of at least 1, not {wanted!r}", BAD, "max_tokens"
        )
    return wanted
