r"""JSON without a space that could be left out, in every way a server can be made to write it.

What a schema allows is written as one regular expression over minified text, and that expression as an EBNF
grammar; llguidance takes the schema itself with a key of its own. All three allow less than the schema or as
much, never more in form; what no grammar can check (duplicates, a grain without a time series) stays with
`intent.check`. Which of them a server honours is for a probe to find out.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from nlqlib.records import Json, OutputContract

SERVER_FLAG: Json = {
    "structured_outputs_config": {"backend": "xgrammar", "disable_any_whitespace": True},
}
"""vLLM's `--structured-outputs-config`: every JSON answer of the server is written without whitespace."""
GUIDANCE_FLAG: Json = {"structured_outputs_config": {"backend": "guidance"}}
"""The same flag choosing llguidance, which leaves the whitespace to each request's schema."""
MAX_DIGITS = 15
"""Of a number, before and after its point: what a double holds. A grammar without a bound may never end."""
MAX_STRING = 200
"""Characters of a string that the schema leaves open, for the same reason."""

_CHAR = r'([^"\\\x00-\x1f]|\\(["\\/bfnrt]|u[0-9a-fA-F]{4}))'
_NUMBER = rf"(-?(0|[1-9][0-9]{{0,{MAX_DIGITS - 1}}})(\.[0-9]{{1,{MAX_DIGITS}}})?)"
_SPECIAL = re.compile(r"[\\.\[\]{}()*+?|^$]")
_PIECES = re.compile(r"\\.|\[\^?\\?.[^\]]*\]|\{[0-9,]+\}|[()|?*+]|[^\\\[\]{}()|?*+]+(?![?*+{])|.", re.DOTALL)
"""An escape, a class, a count, an operator, a run of plain text that no operator binds to, one character."""


class UnsupportedSchema(ValueError):
    """A schema that says something no expression is written for here."""


def compact_contracts(schema: Json) -> Mapping[str, OutputContract]:
    """The contracts that promise `schema` in minified form, by name.

    `compact_guidance`, `compact_regex` and `compact_grammar` are asked for with each request. `compact_flag`
    asks as for any JSON, of a server that was started with `SERVER_FLAG`, and `guidance_flag` as
    `compact_guidance` does, of one with `GUIDANCE_FLAG`.
    """
    asked: dict[str, Json] = {
        "compact_guidance": {"json": compact_guidance(schema)},
        "compact_regex": {"regex": compact_regex(schema)},
        "compact_grammar": {"grammar": compact_ebnf(schema)},
    }
    made = {name: OutputContract(name, {"structured_outputs": body}, schema) for name, body in asked.items()}
    plain, marked = {"structured_outputs": {"json": schema}}, made["compact_guidance"].fields
    flagged = {
        "compact_flag": OutputContract("compact_flag", plain, schema, SERVER_FLAG),
        "guidance_flag": OutputContract("guidance_flag", marked, schema, GUIDANCE_FLAG),
    }
    return made | flagged


def compact_guidance(schema: Json) -> Json:
    """`schema` with llguidance's own key for inflexible whitespace, which every other backend ignores.

    vLLM has one backend for all requests: the one it was started with, or else the one that its first
    structured request needed, which is xgrammar for this schema.
    """
    return {**schema, "x-guidance": {"whitespace_flexible": False}}


def compact_regex(schema: Json) -> str:
    """A regular expression for every minified document of `schema`. Raises `UnsupportedSchema`."""
    if "anyOf" in schema:
        return f"({'|'.join(map(compact_regex, schema['anyOf']))})"
    if "enum" in schema:
        return f"({'|'.join(_literal(value) for value in schema['enum'])})"
    kind = str(schema.get("type"))
    if kind not in _BUILT:
        raise UnsupportedSchema(f"no expression is written for the type {kind}: {json.dumps(schema)[:80]}")
    return _BUILT[kind](schema)


def _literal(value: object) -> str:
    return _escape(json.dumps(value, ensure_ascii=False))


def _escape(text: str) -> str:
    return _SPECIAL.sub(lambda found: f"\\{found[0]}", text)


def _object(schema: Json) -> str:
    properties = schema["properties"]
    if schema.get("required") != list(properties):
        raise UnsupportedSchema("every key of an object must be required, in the order of its properties")
    return rf"\{{{','.join(f'{_key(name)}{compact_regex(sub)}' for name, sub in properties.items())}\}}"


def _key(name: str) -> str:
    return f"{_literal(name)}:"


def _array(schema: Json) -> str:
    low, high = schema.get("minItems", 0), schema.get("maxItems")
    if high is None:
        raise UnsupportedSchema("an array needs a maxItems, or the answer may never end")
    if high == 0:
        return r"\[\]"
    item = compact_regex(schema["items"])
    filled = f"{item}(,{item}){{{max(low, 1) - 1},{high - 1}}}" if high > 1 else item
    return rf"\[{filled}\]" if low else rf"\[({filled})?\]"


def _string(schema: Json) -> str:
    if "pattern" in schema:
        return f'"({schema["pattern"].removeprefix("^").removesuffix("$")})"'
    return f'"{_CHAR}{{{schema.get("minLength", 0)},{schema.get("maxLength", MAX_STRING)}}}"'


def _integer(schema: Json) -> str:
    low, high = schema.get("minimum"), str(schema.get("maximum"))
    if low != 1 or not re.fullmatch(r"10+", high):
        raise UnsupportedSchema("a whole number must be from 1 to a power of ten")
    return f"([1-9][0-9]{{0,{len(high) - 2}}}|{high})"


_BUILT: Mapping[str, Any] = {
    "object": _object,
    "array": _array,
    "string": _string,
    "integer": _integer,
    "number": lambda _: _NUMBER,
    "null": lambda _: "null",
}


def compact_ebnf(schema: Json) -> str:
    """The same as a grammar in the EBNF that xgrammar reads: one rule for each key of the outermost object.

    Raises `UnsupportedSchema`, for what is no object too.
    """
    if schema.get("type") != "object":
        raise UnsupportedSchema("the outermost schema must be an object")
    compact_regex(schema)  # refuses what no expression is written for
    names = {key: f"{re.sub('[^a-z0-9]', '_', key.lower())}_value" for key in schema["properties"]}
    keys = [f"{_terminal(json.dumps(key) + ':')} {rule}" for key, rule in names.items()]
    root = " ".join(['root ::= "{"', ' "," '.join(keys), '"}"'])
    rules = [f"{names[k]} ::= {as_ebnf(compact_regex(sub))}" for k, sub in schema["properties"].items()]
    return "\n".join([root, *rules, ""])


def as_ebnf(expression: str) -> str:
    """A regular `expression` of this module as the right side of a rule: the same operators, quoted text."""
    return re.sub(r" (?=[{?*+])", "", " ".join(map(_piece, _PIECES.findall(expression))))


def _piece(piece: str) -> str:
    if piece in "()|?*+" or piece[0] == "[" or re.fullmatch(r"\{[0-9,]+\}", piece):
        return piece
    return _terminal(piece[1:] if piece[0] == "\\" else piece)


def _terminal(text: str) -> str:
    """`text` in quotes, its own quotes and backslashes escaped."""
    return f'"{text.replace(chr(92), chr(92) * 2).replace(chr(34), chr(92) + chr(34))}"'
