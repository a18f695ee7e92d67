"""A scenario file: an engine, step times and a list of requests in, the times of every request out. Pure.

    {"engine":    {"num_gpu_blocks": 2588, "max_num_seqs": 256, "vllm_version": "0.19"},
     "step_time": {"fixed_s": 0.01},
     "requests":  [{"arrival_s": 0.0, "prompt_tokens": 100, "output_tokens": 20}]}

`engine` takes vLLM's names (`EngineLimits`) and `vllm_version`, which sets the flags that versions differ in.
`step_time` takes coefficients (`StepTime`) or `{"twin": "l4-qwen2.5-3b"}`, whose engine then fills what
`engine` leaves out. A request may bring `prompt_token_ids`, which decide its prefix-cache hits,
`output_token_ids`, `cache_salt`, an `id`, and `output_tokens`. Whatever is not understood is refused, with
the nearest known name.
"""

import dataclasses
import difflib
import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from nlqlib.records import Json
from nlqlib.twin import limits, model, step_time
from nlqlib.twin.blocks import HashTable
from nlqlib.twin.drive import open_loop
from nlqlib.twin.limits import EngineError, EngineLimits
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence
from nlqlib.twin.step_time import StepTime

T = TypeVar("T")


class ScenarioError(ValueError):
    """A scenario that cannot be run; the text says where in the file and what would do."""


@dataclass(frozen=True)
class ScenarioRequest:
    """One line of `requests`. Ids are `None` where only a length was given: then nothing is shared."""

    id: str
    arrival_s: float
    prompt_tokens: int
    output_tokens: int
    prompt_token_ids: tuple[int, ...] | None = None
    output_token_ids: tuple[int, ...] | None = None
    cache_salt: str = ""


@dataclass(frozen=True)
class Scenario:
    """A checked scenario; `requests` in the order of the file."""

    limits: EngineLimits
    step_time: StepTime
    requests: tuple[ScenarioRequest, ...]


@dataclass(frozen=True)
class RequestTimes:
    """What became of one request: seconds of the scenario's clock, tokens, and how often it was preempted."""

    id: str
    queued_s: float
    scheduled_s: float
    first_token_s: float
    last_token_s: float
    prompt_tokens: int
    output_tokens: int
    cached_tokens: int
    preemptions: int


@dataclass(frozen=True)
class Outcome:
    """A scenario that has run: `requests` in the order of the file, and totals (tokens, counts)."""

    requests: tuple[RequestTimes, ...]
    steps: int
    prefix_cache_queries: int
    prefix_cache_hits: int
    preemptions: int

    def to_json(self) -> Json:
        """Plain data, for a file or a table."""
        return dataclasses.asdict(self)


_TOP = ("engine", "step_time", "requests")
_REQUEST = (
    *("id", "arrival_s", "prompt_tokens", "prompt_token_ids", "output_tokens", "output_token_ids"),
    "cache_salt",
)
LARGEST = 1e12
"""Of any number in a scenario: seconds, tokens or blocks beyond it mean nothing, and times stay finite."""
BELOW = f"below {LARGEST:g}"
WHOLE = f"it must be a whole number {BELOW}"
MAX_BLOCK = 4096
"""Tokens in one KV block, well above what any engine takes."""
SHOWN = 60
"""Characters of a wrong value that a message repeats."""
_BOOLEANS = {field.name for field in dataclasses.fields(EngineLimits) if field.type is bool}


def parse(text: str) -> Scenario:
    """The scenario in `text` (JSON); raises `ScenarioError`."""
    try:
        found = json.loads(text, parse_constant=_not_finite)
    except json.JSONDecodeError as error:
        raise ScenarioError(f"not JSON: {error.msg} in line {error.lineno}, column {error.colno}") from None
    except RecursionError:
        raise ScenarioError("the file is nested deeper than any scenario; take the brackets out") from None
    except ValueError as error:  # Python reads no integer of thousands of digits
        raise ScenarioError(f"the file holds a number that no scenario needs: {error}") from None
    return from_json(found)


def from_json(found: Any) -> Scenario:
    """A scenario from parsed JSON; raises `ScenarioError` for anything missing, unknown or impossible."""
    top = _object("the scenario", found, _TOP, _TOP)
    times, base = _step_time(top["step_time"])
    engine = _engine(top["engine"], base)
    if not isinstance(top["requests"], list) or not top["requests"]:
        raise ScenarioError("requests must be a list with at least one request")
    requests = tuple(_request(i, row) for i, row in enumerate(top["requests"]))
    for i, request in enumerate(requests):
        _checked(f"requests[{i}]", partial(engine.check, request.prompt_tokens, request.output_tokens))
    ids = Counter(request.id for request in requests)
    if len(ids) < len(requests):
        raise ScenarioError(f"request id {ids.most_common(1)[0][0]!r} is used twice; ids must differ")
    return Scenario(engine, times, requests)


def run(scenario: Scenario) -> Outcome:
    """Every request's times. The same scenario gives the same numbers, always."""
    table = HashTable(scenario.limits.block_size)
    sequences = [_sequence(request, table) for request in scenario.requests]
    arrivals = sorted(
        zip((r.arrival_s for r in scenario.requests), sequences, strict=True), key=lambda a: a[0]
    )
    replica = Replica(scenario.limits, scenario.step_time, table)
    open_loop(replica, arrivals)
    counted = replica.scheduler
    return Outcome(
        requests=tuple(_times(seq) for seq in sequences),
        steps=replica.counters.steps,
        prefix_cache_queries=counted.queries,
        prefix_cache_hits=counted.hits,
        preemptions=counted.preemptions,
    )


# --- parts of the file ------------------------------------------------------------------------------------


def _step_time(found: Any) -> tuple[StepTime, dict[str, Any]]:
    """The step times, and the engine settings that come with them if they are a stored twin's."""
    if isinstance(found, Mapping) and "twin" in found:
        _object("step_time", found, ("twin",), ("twin",))
        stored = _checked("step_time.twin", lambda: model.document(str(found["twin"])))
        return _checked("step_time.twin", lambda: model.from_document(stored)).step_time, dict(
            stored["engine"]
        )
    values = _object("step_time", found, step_time.NAMES, ())
    for name, value in values.items():
        if name != "graph_sizes":
            _number(f"step_time.{name}", value)
        elif not isinstance(value, list) or not all(_is_whole(n) for n in value):
            raise ScenarioError("step_time.graph_sizes must be a list of whole numbers")
    times = _checked("step_time", lambda: step_time.from_json(values))
    if times.features_s(1, 1, 1, 1) <= 0:
        raise ScenarioError("step_time gives steps that take no time; set fixed_s or weights_s above 0")
    return times, {}


def _engine(found: Any, base: dict[str, Any]) -> EngineLimits:
    known = (*limits.FIELDS, "vllm_version")
    values = _object("engine", found, known, () if base else ("num_gpu_blocks",))
    version = values.pop("vllm_version", None)
    for name, value in values.items():
        if name in _BOOLEANS:
            if not isinstance(value, bool):
                raise ScenarioError(f"engine.{name} is {_short(value)}; it must be true or false")
        elif name == "watermark":
            _number("engine.watermark", value)
        elif not _is_whole(value) and not (name == "max_model_len" and value is None):
            raise ScenarioError(f"engine.{name} is {_short(value)}; {WHOLE}")
    if values.get("block_size", 0) > MAX_BLOCK:
        raise ScenarioError(
            f"engine.block_size is {values['block_size']}; no block holds over {MAX_BLOCK} tokens"
        )
    flags = _checked("engine.vllm_version", lambda: limits.version_defaults(str(version))) if version else {}
    settings = base | flags | values
    if "max_num_seqs" not in settings:
        settings["max_num_seqs"] = min(
            EngineLimits.max_num_seqs, settings.get("max_num_batched_tokens", 2048)
        )
    return _checked("engine", lambda: EngineLimits(**settings))


def _request(i: int, found: Any) -> ScenarioRequest:
    where = f"requests[{i}]"
    row = _object(where, found, _REQUEST, ("arrival_s",))
    prompt, prompt_ids = _tokens(where, row, "prompt_tokens", "prompt_token_ids")
    output, output_ids = _tokens(where, row, "output_tokens", "output_token_ids")
    if output_ids is not None and prompt_ids is None:
        raise ScenarioError(f"{where}.output_token_ids mean nothing without prompt_token_ids")
    return ScenarioRequest(
        id=str(row.get("id", i)),
        arrival_s=_number(f"{where}.arrival_s", row["arrival_s"]),
        prompt_tokens=prompt,
        output_tokens=output,
        prompt_token_ids=prompt_ids,
        output_token_ids=output_ids,
        cache_salt=str(row.get("cache_salt", "")),
    )


def _tokens(where: str, row: Json, count: str, ids: str) -> tuple[int, tuple[int, ...] | None]:
    """Length and, where given, content of a prompt or an answer."""
    if ids not in row:
        if count not in row:
            raise ScenarioError(f"{where} lacks {count} (or {ids})")
        if not _is_whole(row[count]) or row[count] < 1:
            raise ScenarioError(f"{where}.{count} is {_short(row[count])}; {WHOLE}, at least 1")
        return row[count], None
    found = row[ids]
    if not isinstance(found, list) or not found or not all(_is_whole(n) for n in found):
        raise ScenarioError(f"{where}.{ids} must be a list of at least one token id")
    if count in row and row[count] != len(found):
        raise ScenarioError(
            f"{where}.{count} is {_short(row[count])}, but {ids} has {len(found)}; leave one out"
        )
    return len(found), tuple(found)


def _sequence(request: ScenarioRequest, table: HashTable) -> Sequence:
    chain = None
    if request.prompt_token_ids is not None:
        chain = table.chain(request.prompt_token_ids + (request.output_token_ids or ()), request.cache_salt)
    return Sequence(request.id, request.prompt_tokens, request.output_tokens, chain)


def _times(seq: Sequence) -> RequestTimes:
    times = seq.times()
    assert times is not None and seq.cached_tokens is not None, f"{seq} did not finish"
    lengths = (seq.prompt_tokens, seq.output_tokens, seq.cached_tokens, seq.preemptions)
    return RequestTimes(seq.request_id, *times, *lengths)


# --- checks -----------------------------------------------------------------------------------------------


def _object(where: str, found: Any, known: Iterable[str], needed: Iterable[str]) -> Json:
    """`found` as a dictionary with only `known` keys and all `needed` ones."""
    known = tuple(known)
    if not isinstance(found, Mapping):
        raise ScenarioError(f"{where} must be an object with {', '.join(known)}; it is {_short(found)}")
    for key in found:
        if key not in known:
            near = difflib.get_close_matches(str(key), known, 1)
            hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"
            raise ScenarioError(f"{where} has an unknown key {key!r}; {hint}")
    for key in needed:
        if key not in found:
            raise ScenarioError(f"{where} lacks {key!r}")
    return dict(found)


def _number(where: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < LARGEST:
        raise ScenarioError(f"{where} is {_short(value)}; it must be a finite number, not negative, {BELOW}")
    return float(value)


def _short(value: Any) -> str:
    """`value` as it was written, cut where nobody would read on."""
    try:
        shown = repr(value)
    except (ValueError, RecursionError):  # thousands of digits, or of brackets
        return "too long to be shown"
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}…"


def _not_finite(constant: str) -> float:
    raise ScenarioError(f"{constant} is not a number a scenario can hold; use a finite one")


def _checked(where: str, build: Callable[[], T]) -> T:
    """`build()`, its complaint about an engine prefixed by the place in the file."""
    try:
        return build()
    except EngineError as error:
        raise ScenarioError(f"{where}: {error}") from None


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < LARGEST
