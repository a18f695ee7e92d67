"""The wire schema of an intent, in the part of JSON schema that structured-output backends keep to.

Unions are `anyOf`; no `uniqueItems`, no empty `enum`, no string with both a pattern and a length; the root is
a plain object whose keys stand in the order in which they are generated. The form of a filter hangs on its
operator, so each of the three forms is an object of its own. What hangs on a key written earlier (the grain
of a time series) cannot be said without a union at the root, which hosted endpoints refuse: `intent.check`
says it. Compiled and matched with xgrammar and llguidance of vLLM 0.32.
"""

from typing import Any

from nlqlib.nlq.catalog import Catalog
from nlqlib.records import Json

QUERY_TYPES = ("breakdown", "top_n_by_metric", "time_series")
GRAINS = ("day", "week", "month", "quarter", "year")
DIRECTIONS = ("asc", "desc")
LIST_OPS = ("in", "not_in")
NULL_OPS = ("is_null", "not_null")
METRIC_OPS = ("gt", "gte", "lt", "lte")

MAX_EVIDENCE, MAX_METRICS, MAX_DIMENSIONS, MAX_FILTERS, MAX_VALUES, MAX_LIMIT = 80, 3, 2, 4, 12, 1000

_DAYS = r"(0[1-9]|1[0-2])(-(0[1-9]|1[0-9]|2[0-8]))?|(0[13-9]|1[0-2])-(29|30)|(0[13578]|1[02])-31"
_LEAP_DAY = r"(19|20)([02468][048]|[13579][26])-02-29"
_POINT = rf"((19|20)[0-9]{{2}}(-(Q[1-4]|{_DAYS}))?|{_LEAP_DAY})"
_NAMED = r"this_(month|quarter|year)|last_(week|month|quarter|year)|last_[1-9][0-9]{0,2}_(days|weeks|months)"
PERIOD_PATTERN = rf"^(all|{_POINT}(\.\.{_POINT})?|{_NAMED})$"
"""Every period that can exist, leap years included; whether the data reach it is checked with the catalog."""


def wire_schema(catalog: Catalog) -> Json:
    """JSON schema of an intent over the metrics and dimensions of `catalog`, as it is sent to a server."""
    metrics, dimensions = list(catalog.metrics), list(catalog.dimensions)
    sort = _object(by=_one_of([*metrics, *dimensions]), direction=_one_of(DIRECTIONS))
    return _object(
        evidence={"type": "string", "maxLength": MAX_EVIDENCE},
        query_type=_one_of(QUERY_TYPES),
        metrics=_list(_one_of(metrics), MAX_METRICS, at_least=1),
        dimensions=_list(_one_of(dimensions), MAX_DIMENSIONS),
        filters=_list(_filter(metrics, dimensions), MAX_FILTERS),
        period={"type": "string", "pattern": PERIOD_PATTERN},
        grain=_or_null(_one_of(GRAINS)),
        sort=_or_null(sort),
        limit=_or_null({"type": "integer", "minimum": 1, "maximum": MAX_LIMIT}),
    )


def _filter(metrics: list[str], dimensions: list[str]) -> Json:
    value = {"anyOf": [{"type": "string"}, {"type": "number"}]}
    listed = _list(value, MAX_VALUES, at_least=1)
    nothing = _list({"type": "string"}, 0)
    threshold = _list({"type": "number"}, 1, at_least=1)
    forms = (
        (dimensions, LIST_OPS, listed),
        (dimensions, NULL_OPS, nothing),
        (metrics, METRIC_OPS, threshold),
    )
    return {"anyOf": [_object(field=_one_of(f), op=_one_of(o), values=v) for f, o, v in forms]}


def _object(**properties: Json) -> Json:
    required = list(properties)
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def _one_of(words: Any) -> Json:
    return {"type": "string", "enum": list(words)}


def _list(items: Json, at_most: int, at_least: int = 0) -> Json:
    smallest = {"minItems": at_least} if at_least else {}
    return {"type": "array", "items": items, **smallest, "maxItems": at_most}


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}
