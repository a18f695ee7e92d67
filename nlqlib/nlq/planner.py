"""The planner: a question in three small steps instead of one large answer.

Names are linked without a model (`linking`), a short prompt sorts the question into one of three kinds, and a
second one fills the slots of that kind, with the linked names as the only ones it can write. What comes
out is an intent like any other, for the same correction. The kind carries log-probabilities, where the
endpoint gives them: how sure the model was.
"""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from nlqlib.nlq.belief import LABELS, WORDS
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.form import BadJson, read_json
from nlqlib.nlq.intent import Intent, Kind, intent_of
from nlqlib.nlq.linking import Links, link
from nlqlib.nlq.prompt import FOLDER, clean, filled
from nlqlib.nlq.schema import LIST_OPS, METRIC_OPS, NULL_OPS, wire_schema
from nlqlib.records import ChatRequest, Completion, Json, OutputContract

ALTERNATIVES = 20
"""Log-probabilities asked for per token: vLLM's limit unless its server flag says more."""
KIND_TOKENS, SLOT_TOKENS = 8, 256
NOTHING: Json = {"type": "null"}
ONE, SEVERAL = 1, 5
"""What a ranking is cut to when no number is named."""


def kind_request(
    question: str, catalog: Catalog, style: str = "structured_outputs", request_id: str = "question"
) -> ChatRequest:
    """The request that sorts `question`, with log-probabilities.

    `style` names how the form is asked for, as in `pipeline.contracts`. Raises `QuestionError` for a question
    that is empty or too long.
    """
    found = link(question, catalog)
    lines = [f"Question: {clean(question)}", f"Metrics: {_listed(found.metrics)}"]
    lines.append(f"Dimensions: {_listed(found.dimensions)}")
    lines += [f"Names of a {f}: {_listed(v)}" for f, v in found.named.items()]
    messages = _messages(_text("planner_kind"), "\n".join(lines))
    contract = _choice(style)
    return ChatRequest(request_id, messages, KIND_TOKENS, contract=contract, logprobs=ALTERNATIVES)


def _choice(style: str) -> OutputContract:
    if style == "structured_outputs":
        return OutputContract("structured_outputs", {"structured_outputs": {"choice": list(LABELS)}})
    return _contract(style, _object(kind={"type": "string", "enum": list(LABELS)}))


def _contract(style: str, schema: Json) -> OutputContract:
    """`schema` as it is asked for in `style`; a style that asks for no form asks for none here."""
    fields: dict[str, Json] = {
        "structured_outputs": {"structured_outputs": {"json": schema}},
        "response_format": {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"name": "slots", "schema": schema, "strict": True},
            }
        },
    }
    return OutputContract(style, fields[style], schema) if style in fields else OutputContract(style)


def _messages(system: str, user: str) -> tuple[Mapping[str, str], ...]:
    return ({"role": "system", "content": system}, {"role": "user", "content": user})


@lru_cache(maxsize=4)
def _text(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text("utf-8").strip()


def _listed(names: Sequence[Any]) -> str:
    return ", ".join(map(str, names)) or "none"


def slots_request(
    question: str,
    kind: Kind,
    catalog: Catalog,
    style: str = "structured_outputs",
    request_id: str = "question",
) -> ChatRequest:
    """The request that fills the slots of `kind` for `question`. Raises `QuestionError` as `kind_request`."""
    schema = slot_schema(kind, link(question, catalog), catalog)
    user = f"Question: {clean(question)}\nKind: {WORDS[kind]}"
    messages = _messages(filled(_text("planner_slots"), catalog), user)
    return ChatRequest(request_id, messages, SLOT_TOKENS, contract=_contract(style, schema))


def slot_schema(kind: Kind, found: Links, catalog: Catalog) -> Json:
    """The schema of the slots of `kind`, with what was `found` in the question as the only names.

    Where nothing was found for a slot that needs a name, every name is possible.
    """
    whole = wire_schema(catalog)["properties"]
    ranked = kind == "top_n_by_metric"
    metrics, dimensions = _metrics(found, catalog), _dimensions(found, ranked, catalog)
    most = 1 if kind == "time_series" else 2
    sort = _object(by=_enum([*metrics, *dimensions]), direction=_enum(["asc", "desc"]))
    slots: Json = {
        "metrics": _list(_enum(metrics), min(3, len(metrics)), at_least=1),
        "dimensions": _list(_enum(dimensions), min(most, len(dimensions)), at_least=1 if ranked else 0),
        "filters": _filters(found, metrics, catalog),
        "period": whole["period"],
        **({"grain": _enum(["day", "week", "month", "quarter", "year"])} if kind == "time_series" else {}),
        "sort": sort if ranked else {"anyOf": [sort, NOTHING]},
        "limit": _limit(found, ranked),
    }
    return _object(**slots)


def _metrics(found: Links, catalog: Catalog) -> list[str]:
    """Metrics that may be meant: the linked ones, unless a percentage asks for a ratio that is not linked."""
    linked = list(found.metrics)
    ratio = any(catalog.metric(m).unit == "ratio" for m in linked)
    fraction = any(0 < n < 1 for n in found.numbers)
    return linked if linked and (ratio or not fraction) else list(catalog.metrics)


def _dimensions(found: Links, ranked: bool, catalog: Catalog) -> list[str]:
    """Dimensions that may split: the named ones, and those of values that stand side by side.

    Values alone only filter, except in a ranking, which needs something to rank.
    """
    named = [*found.dimensions, *(found.named if found.side_by_side else ())]
    if ranked and not named:
        return list(found.named) or list(catalog.dimensions)
    return list(dict.fromkeys(named))


def _limit(found: Links, ranked: bool) -> Json:
    """The numbers named, or nothing; in a ranking also what it is cut to when none is named."""
    named = [int(n) for n in found.counts if n == int(n) and 1 <= n <= 1000]
    if not ranked:
        return {"anyOf": [_enum(named, "integer"), NOTHING]} if named else NOTHING
    usual = [SEVERAL if found.plural else ONE] if found.dimensions else [ONE, SEVERAL]
    return _enum(list(dict.fromkeys([*named, *usual])), "integer")


def _filters(found: Links, metrics: Sequence[str], catalog: Catalog) -> Json:
    ops = LIST_OPS if found.excluding else LIST_OPS[:1]
    forms = [
        _object(field=_enum([f]), op=_enum(ops), values=_list(_enum(v), len(v), at_least=1))
        for f, v in found.named.items()
    ]
    by_id = [f for f in found.dimensions if catalog.dimension(f).lookup and found.counts]
    if by_id:
        forms.append(_object(field=_enum(by_id), op=_enum(ops), values=_list(_ids(found), 3, at_least=1)))
    nullable = [f for f in found.dimensions_touched if catalog.dimension(f).nullable and found.recorded]
    if nullable:
        nothing = _list({"type": "string"}, 0)
        forms.append(_object(field=_enum(nullable), op=_enum(NULL_OPS), values=nothing))
    if found.comparing and found.counts:
        threshold = _list(_enum(found.counts, "number"), 1, at_least=1)
        forms.append(_object(field=_enum(metrics), op=_enum(METRIC_OPS), values=threshold))
    return _list({"anyOf": forms}, 4) if forms else _list({"type": "string"}, 0)


def _ids(found: Links) -> Json:
    """The numbers of a question as ids of a dimension whose names are not unique."""
    return _enum([int(n) for n in found.counts if n == int(n)] or [0], "integer")


def _object(**properties: Json) -> Json:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _enum(names: Sequence[Any], kind: str = "string") -> Json:
    return {"type": kind, "enum": list(names)}


def _list(items: Json, at_most: int, at_least: int = 0) -> Json:
    if not at_most:  # an enum must not be empty, so a list of nothing is a list of any strings, none of them
        return {"type": "array", "items": {"type": "string"}, "maxItems": 0}
    smallest = {"minItems": at_least} if at_least else {}
    return {"type": "array", "items": items, **smallest, "maxItems": at_most}


def read_slots(completion: Completion, kind: Kind, catalog: Catalog) -> tuple[Intent | None, str | None]:
    """The intent of `kind` in the slots that `completion` fills; else `None` and the reason."""
    try:
        slots = read_json(completion.text or "")
        if not isinstance(slots, dict):
            raise BadJson("not a JSON object")
        plain = {"evidence": "", "query_type": kind, "grain": None, "sort": None, "limit": None}
        return intent_of(plain | slots, catalog), None
    except QuestionError as error:
        return None, str(error)
