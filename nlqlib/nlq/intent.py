"""The intent: the one thing a model may say. Its type, how it is read, and what it must keep to.

An answer is read in three steps, each with an error of its own: it is JSON (`BadJson`), the JSON keeps to the
wire schema (`SchemaViolation`), the intent keeps to the contract that no grammar can check
(`ContractViolation`: duplicates, grain, reach, values, period). What the answer *means* is judged elsewhere.
"""

import json
from datetime import date
from typing import Annotated, Any, Literal, NoReturn

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)
from pydantic import ValidationError as PydanticError
from pydantic_core import PydanticCustomError

from nlqlib.nlq.catalog import Catalog, Dimension, QuestionError, Value
from nlqlib.nlq.form import BadJson, IntentError, SchemaViolation, path, read_json, schema_problem
from nlqlib.nlq.periods import parse_period
from nlqlib.nlq.schema import (
    LIST_OPS,
    MAX_DIMENSIONS,
    MAX_EVIDENCE,
    MAX_FILTERS,
    MAX_LIMIT,
    MAX_METRICS,
    MAX_VALUES,
    METRIC_OPS,
    NULL_OPS,
    wire_schema,
)
from nlqlib.records import Json

Kind = Literal["breakdown", "top_n_by_metric", "time_series"]
Grain = Literal["day", "week", "month", "quarter", "year"]
Op = Literal["in", "not_in", "is_null", "not_null", "gt", "gte", "lt", "lte"]
LARGEST = 10**18
"""Of a number in a filter: what a database compares exactly."""
RULES = ("type", "duplicate", "operator", "grain", "dimensions", "sort", "name", "reach", "value", "period")
"""What an intent can break that a grammar cannot check: the words of `ContractViolation.rule`."""

PERIOD_HINT = "; write all, 2024, 2024-Q2, 2024-03, 2024-03-05, 2024-01..2024-06, this_month or last_30_days"


class ContractViolation(IntentError):
    """The answer keeps to the wire schema, but breaks `rule` of the contract."""

    def __init__(self, rule: str, message: str) -> None:
        super().__init__(message)
        self.rule = rule


def _distinct(items: tuple[Any, ...]) -> tuple[Any, ...]:
    twice = next((x for x in items if items.count(x) > 1), None)
    if twice is not None:
        raise PydanticCustomError(
            "duplicate", "{name} stands there twice; name it once", {"name": str(twice)}
        )
    return items


Distinct = AfterValidator(_distinct)
Finite = Annotated[StrictFloat, Field(allow_inf_nan=False)]


class _Frozen(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Filter(_Frozen):
    """A condition: on the values of a dimension, or (HAVING) on a metric, ratios as 0.08."""

    field: str
    op: Op
    values: Annotated[tuple[StrictStr | StrictInt | Finite, ...], Field(max_length=MAX_VALUES)]

    @model_validator(mode="after")
    def _values_fit(self) -> "Filter":
        n, numbers = len(self.values), all(not isinstance(v, str) for v in self.values)
        if self.op in NULL_OPS and n:
            _refuse("operator", f"{self.op} takes no values, so values must be []")
        if self.op in LIST_OPS and not n:
            _refuse("operator", f"{self.op} on {self.field} needs at least one value")
        if self.op in METRIC_OPS and not (n == 1 and numbers):
            _refuse("operator", f"{self.op} on {self.field} needs exactly one number")
        if any(not isinstance(v, str) and abs(v) > LARGEST for v in self.values):
            _refuse("value", f"a number of {self.field} is beyond {LARGEST:.0e}, as nothing in the data is")
        return self


class Sort(_Frozen):
    """The order asked for."""

    by: str
    direction: Literal["asc", "desc"]


class Intent(_Frozen):
    """What a question asks for, in wire form. Field by field as in the wire schema, in the same order."""

    evidence: Annotated[str, Field(max_length=MAX_EVIDENCE)]
    """Words of the question that decide `query_type`; not part of any equality."""
    query_type: Kind
    metrics: Annotated[tuple[str, ...], Field(min_length=1, max_length=MAX_METRICS), Distinct]
    dimensions: Annotated[tuple[str, ...], Field(max_length=MAX_DIMENSIONS), Distinct]
    filters: Annotated[tuple[Filter, ...], Field(max_length=MAX_FILTERS)]
    period: str
    grain: Grain | None
    sort: Sort | None
    limit: Annotated[int, Field(ge=1, le=MAX_LIMIT)] | None

    @model_validator(mode="after")
    def _grain_fits(self) -> "Intent":
        series = self.query_type == "time_series"
        if series and self.grain is None:
            _refuse("grain", "a time_series needs a grain: day, week, month, quarter or year")
        if not series and self.grain is not None:
            _refuse(
                "grain", f"grain {self.grain} belongs to a time_series; for a {self.query_type} it is null"
            )
        if series and len(self.dimensions) > 1:
            _refuse("dimensions", "a time_series takes at most one dimension besides time")
        return self

    def wire(self) -> Json:
        """The JSON object, keys in wire order."""
        return self.model_dump(mode="json")

    def text(self, indent: int | None = None) -> str:
        """The JSON text: compact, or pretty with `indent` spaces."""
        separators = (",", ":") if indent is None else None
        return json.dumps(self.wire(), indent=indent, separators=separators, ensure_ascii=False)


def _refuse(rule: str, message: str) -> NoReturn:
    raise PydanticCustomError(rule, "{message}", {"message": message})


def parse_intent(text: str, catalog: Catalog) -> Intent:
    """The valid intent in an answer `text`. Raises `BadJson`, `SchemaViolation` or `ContractViolation`."""
    return intent_of(read_json(text), catalog)


def intent_of(document: Any, catalog: Catalog) -> Intent:
    """The valid intent in a JSON `document`. Raises `SchemaViolation` or `ContractViolation`."""
    problem = schema_problem(document, wire_schema(catalog))
    if problem:
        raise SchemaViolation(problem + (PERIOD_HINT if problem.startswith("period: ") else ""))
    try:
        intent = Intent.model_validate(document)
    except PydanticError as error:
        first = error.errors()[0]
        rule = first["type"] if first["type"] in RULES else "type"
        raise ContractViolation(rule, f"{path(first['loc'])}{first['msg']}") from error
    check(intent, catalog)
    return intent


def check(intent: Intent, catalog: Catalog) -> None:
    """Raise `ContractViolation` where `intent` asks for what `catalog` does not have or cannot split."""
    _check_names(intent, catalog)
    _check_sort(intent, catalog)
    _check_reach(intent, catalog)
    for condition in intent.filters:
        resolve_values(condition, catalog)
    resolve_period(intent.period, catalog)


def _check_names(intent: Intent, catalog: Catalog) -> None:
    try:
        for name in intent.metrics:
            catalog.metric(name)
        for name in intent.dimensions:
            catalog.dimension(name)
        for condition in intent.filters:
            known = catalog.metric if condition.op in METRIC_OPS else catalog.dimension
            known(condition.field)
    except QuestionError as error:
        raise ContractViolation("name", str(error)) from error


def _check_sort(intent: Intent, catalog: Catalog) -> None:
    by = sorted_by(intent)
    if by is not None and by not in intent.dimensions and by not in catalog.metrics:
        columns = ", ".join((*intent.metrics, *intent.dimensions))
        raise ContractViolation(
            "sort", f"cannot sort by {by}: the answer is not split by it; there are {columns}"
        )


def sorted_by(intent: Intent) -> str | None:
    """What `sort.by` names where it counts; in a ranking by its one metric only the direction does."""
    if intent.sort is None or (intent.query_type == "top_n_by_metric" and len(intent.metrics) == 1):
        return None
    return intent.sort.by


def _check_reach(intent: Intent, catalog: Catalog) -> None:
    names = [*intent.metrics, *intent.dimensions, *(f.field for f in intent.filters), sorted_by(intent) or ""]
    metrics = [name for name in names if name in catalog.metrics]
    for dimension in (name for name in names if name in catalog.dimensions):
        deaf = next((m for m in metrics if not catalog.reaches(m, dimension)), None)
        if deaf is not None:
            able = ", ".join(m for m in catalog.metrics if catalog.reaches(m, dimension))
            raise ContractViolation(
                "reach", f"{deaf} cannot be split or filtered by {dimension}; only {able} can"
            )


def resolve_values(condition: Filter, catalog: Catalog) -> frozenset[Value | float]:
    """The values of a filter in their canonical form. Raises `ContractViolation` for an unknown one.

    Values that live in the warehouse are checked only by a catalog that has been given them.
    """
    if condition.op not in LIST_OPS:
        return frozenset(condition.values)
    known = catalog.dimension(condition.field)
    try:
        return frozenset(_resolve(known, value, catalog) for value in condition.values)
    except QuestionError as error:
        raise ContractViolation("value", str(error)) from error


def _resolve(known: Dimension, value: Value | float, catalog: Catalog) -> Value:
    plain = int(value) if isinstance(value, float) and value.is_integer() else value
    if known.lookup is not None and not known.names:
        return int(plain) if str(plain).isdecimal() else str(plain)
    return catalog.resolve(known.name, plain if isinstance(plain, int) else str(plain))


def resolve_period(text: str, catalog: Catalog) -> tuple[date, date]:
    """`text` as half-open local dates, clipped to the data. Raises `ContractViolation`."""
    try:
        return parse_period(text, catalog)
    except QuestionError as error:
        raise ContractViolation("period", " ".join(str(error).split())) from error


__all__ = [
    "BadJson",
    "ContractViolation",
    "Filter",
    "Intent",
    "IntentError",
    "SchemaViolation",
    "Sort",
    "check",
    "intent_of",
    "parse_intent",
    "resolve_period",
    "resolve_values",
    "sorted_by",
    "wire_schema",
]
