"""The form of an answer: is it JSON, and does the JSON keep to the schema that was asked for?

Pure, and without any idea of what an intent means. An answer that is not one JSON document and nothing else
is not repaired: the study measures what an endpoint enforces, and peeling JSON out of prose or a code fence
would hide that nothing was enforced.
"""

import difflib
import json
import math
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, NoReturn

from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from nlqlib.nlq.catalog import QuestionError
from nlqlib.records import Json, Outcome, OutputContract


class IntentError(QuestionError):
    """An answer from which no valid intent can be read."""


class BadJson(IntentError):
    """The answer is not one JSON document; prose or a code fence around JSON counts as that."""


class SchemaViolation(IntentError):
    """The answer is JSON, but not by the wire schema."""


def classify_answer(
    text: str | None, finish_reason: str | None, contract: OutputContract
) -> tuple[Outcome, str | None]:
    """The outcome of an answer that arrived whole, and the reason for anything but `ok`.

    In this order: `length` (a cut answer says nothing about its form), `empty`, then, where `contract`
    promises a schema, `constraint_not_applied`, `bad_json` and `schema_violation`. A grammar in force lets
    nothing stand before the opening of the document and ends the answer with its closing, so prose, a code
    fence or words after the JSON show that the constraint was not applied; `bad_json` is left for what begins
    as the document and then breaks. Without a promised schema every text is `ok`.
    """
    if finish_reason == "length":
        return "length", "the answer was cut before its end: raise max_tokens, or shorten what is asked for"
    if text is None or not text.strip():
        return "empty", "there is no text in the answer"
    if contract.schema is None:
        return "ok", None
    try:
        problem = schema_problem(read_json(text), contract.schema)
    except BadJson as error:
        if is_prose(text, contract.schema):
            return "constraint_not_applied", f"{contract.name} was ignored: {_sample(text)} is not bare JSON"
        return "bad_json", str(error)
    return ("schema_violation", problem) if problem else ("ok", None)


def is_prose(text: str, schema: Json) -> bool:
    """Does this broken `text` hold words before, after or instead of JSON, which no grammar lets pass?"""
    bare = text.strip()
    opening = {"object": "{", "array": "["}.get(str(schema.get("type")), "")
    if not bare.startswith(opening):
        return True
    try:
        _, end = json.JSONDecoder().raw_decode(bare)
    except (ValueError, RecursionError):
        return False
    return end < len(bare)


def _sample(text: str) -> str:
    bare = " ".join(text.split())
    return repr(bare if len(bare) <= 60 else f"{bare[:59]}…")


def read_json(text: str) -> Any:
    """`text` as one JSON document without doubled keys, NaN or lone surrogates. Raises `BadJson`."""
    strict: Json = {
        "parse_float": _finite,
        "parse_constant": _no_number,
        "object_pairs_hook": _no_twice,
    }
    try:
        document = json.loads(text, **strict)
        json.dumps(document, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        raise BadJson(
            f"not JSON: {error.msg} at character {error.pos}: {text[error.pos :][:40]!r}"
        ) from error
    except UnicodeEncodeError as error:
        raise BadJson("not JSON: half of a surrogate pair in a string") from error
    except (ValueError, RecursionError) as error:
        raise BadJson(f"not JSON: {error}") from error
    return document


def _no_number(word: str) -> NoReturn:
    raise ValueError(f"{word} is no JSON number")


def _finite(word: str) -> float:
    value = float(word)
    return value if math.isfinite(value) else _no_number(word[:40])


def _no_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"the key {next(k for k in keys if keys.count(k) > 1)!r} stands there twice")
    return found


def schema_problem(document: Any, schema: Json) -> str | None:
    """Where and how a JSON `document` first breaks `schema`, in one line; `None` when it keeps to it."""
    error = next(_validator(json.dumps(schema)).iter_errors(document), None)
    if error is None:
        return None
    cause = _in_branch(error)
    return f"{path(cause.absolute_path)}{_short(cause)}"


def _in_branch(error: ValidationError) -> ValidationError:
    """The error in the alternative of an `anyOf` that was most likely meant: right `op`, fewest errors."""
    while error.context:
        branches: dict[Any, list[ValidationError]] = {}
        for inner in error.context:
            branches.setdefault(inner.schema_path[0], []).append(inner)
        error = min(branches.values(), key=lambda found: (any("op" in e.path for e in found), len(found)))[0]
    return error


@lru_cache(maxsize=8)
def _validator(schema: str) -> Draft202012Validator:
    return Draft202012Validator(json.loads(schema))


def path(parts: Iterable[str | int]) -> str:
    """`filters.0.op: `, the place of an error in a document."""
    joined = ".".join(map(str, parts))
    return f"{joined}: " if joined else ""


def _short(error: ValidationError) -> str:
    if error.validator == "enum" and isinstance(error.instance, str):
        return (
            f"{error.instance[:40]!r} is not possible here; {_suggest(error.instance, error.validator_value)}"
        )
    if error.validator == "additionalProperties":
        known = list(error.schema["properties"])
        extra = next(key for key in error.instance if key not in known)
        return f"unknown key {extra[:40]!r}; {_suggest(extra, known)}"
    if error.validator == "pattern":
        return f"{error.instance[:40]!r} does not have the form asked for"
    return error.message if len(error.message) <= 160 else f"{error.message[:157]}…"


def _suggest(word: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(word, known, n=3, cutoff=0.5)
    return f"did you mean {', '.join(close)}?" if close else f"there are {', '.join(known)}"
