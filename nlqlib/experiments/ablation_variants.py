"""The baseline prompt with one thing changed at a time: order of the keys, evidence, a label, the examples.

A variant is data. The prompt's text, the worked examples and the schema that the server enforces are changed
together, so that a model is never told one form and held to another; the answer is read back into the wire
form, and judged as every answer is.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from nlqlib.nlq.catalog import Catalog
from nlqlib.nlq.form import BadJson, read_json
from nlqlib.nlq.prompt import FOLDER, Example, examples, filled
from nlqlib.nlq.schema import wire_schema
from nlqlib.records import Json, OutputContract

BASE = "baseline"
KEYS = ("evidence", "query_type", "metrics", "dimensions", "filters", "period", "grain", "sort", "limit")
COUNTED = {8: "eight", 9: "nine"}
LIST = "Write all nine keys, in this order:\n"
"""The line of the prompt above the list of keys, one to a line."""


@dataclass(frozen=True)
class Variant:
    """What differs from the prompt as it is."""

    name: str
    what: str
    keys: tuple[str, ...] = KEYS
    """Keys of an answer, in the order in which they are generated."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Other words for values of `query_type`."""
    every: int | None = 1
    """Every so-manieth of the worked examples is shown, from the last on where negative; `None`: none."""


def _without(key: str) -> tuple[str, ...]:
    return tuple(k for k in KEYS if k != key)


AS_IS = Variant("as-is", "nothing")
VARIANTS = (
    AS_IS,
    Variant("kind-first", "query_type before evidence", ("query_type", *_without("query_type"))),
    Variant("kind-last", "query_type after all other keys", (*_without("query_type"), "query_type")),
    Variant("no-evidence", "no evidence key", _without("evidence")),
    Variant("ranking", "the label ranking for top_n_by_metric", labels={"top_n_by_metric": "ranking"}),
    Variant("examples-none", "no worked example", every=None),
    Variant("examples-half", "every second worked example", every=2),
    Variant("examples-reversed", "the worked examples in reverse", every=-1),
)


@lru_cache(maxsize=len(VARIANTS))
def _template(name: str) -> str:
    variant = next(v for v in VARIANTS if v.name == name)
    text = (FOLDER / f"{BASE}.md").read_text("utf-8")
    before, rest = text.split(LIST)
    listed, after = rest.split("\n\n", 1)
    lines = {line.split(":", 1)[0].removeprefix("- "): line for line in listed.splitlines()}
    head = LIST.replace("nine", COUNTED[len(variant.keys)])
    text = before + head + "\n".join(lines[key] for key in variant.keys) + "\n\n" + after
    for label, other in variant.labels.items():
        text = text.replace(label, other)
    return text


def system_text(variant: Variant, catalog: Catalog) -> str:
    """The system message of `variant`."""
    shown = () if variant.every is None else examples(BASE)[:: variant.every]
    text = "\n\n".join(_example_text(one, variant) for one in shown)
    template = _template(variant.name)
    if variant.every is None:
        template = template.replace("# Examples\n", "")
    return filled(template.replace("<<examples>>", text), catalog)


def _example_text(example: Example, variant: Variant) -> str:
    note = f"{example.note}\n" if example.note else ""
    told = json.dumps(said_as(example.intent.wire(), variant), indent=2, ensure_ascii=False)
    return f"{note}Question: {example.question}\n{told}"


def said_as(wire: Json, variant: Variant) -> Json:
    """An intent in wire form as `variant` says it."""
    kind = wire["query_type"]
    told = wire | {"query_type": variant.labels.get(kind, kind)}
    return {key: told[key] for key in variant.keys}


def as_wire(text: str | None, variant: Variant) -> str | None:
    """An answer in the form of `variant`, in wire form; what is no JSON object is left as it is."""
    try:
        told = read_json(text or "")
    except BadJson:
        return text
    if not isinstance(told, dict):
        return text
    wire = {"evidence": ""} | told if "evidence" not in variant.keys else told
    named = {other: label for label, other in variant.labels.items()}
    kind = wire.get("query_type")
    if isinstance(kind, str) and kind in named:
        wire = wire | {"query_type": named[kind]}
    known = [key for key in KEYS if key in wire]
    return json.dumps({key: wire[key] for key in (*known, *_others(wire))}, indent=2, ensure_ascii=False)


def _others(wire: Json) -> Sequence[str]:
    return [key for key in wire if key not in KEYS]


def contract(variant: Variant, catalog: Catalog) -> OutputContract:
    """The schema of an answer in the form of `variant`, enforced by the server."""
    schema = _schema(variant, wire_schema(catalog))
    return OutputContract("structured_outputs", {"structured_outputs": {"json": schema}}, schema)


def _schema(variant: Variant, schema: Json) -> Json:
    keys = {key: schema["properties"][key] for key in variant.keys}
    kinds = [variant.labels.get(kind, kind) for kind in keys["query_type"]["enum"]]
    keys["query_type"] = keys["query_type"] | {"enum": kinds}
    return schema | {"properties": keys, "required": list(keys)}
