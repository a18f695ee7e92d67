"""The small frozen types that travel through the suite: one request, one answer, one measured point.

Times are seconds of the running event loop, relative to the start of the point. `None` means missing,
never zero.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

Json = dict[str, Any]
Message = Mapping[str, str]

Outcome = Literal[
    "ok",  # a complete, usable answer
    "length",  # finish_reason=length: the answer was cut
    "empty",  # HTTP 200 and no text
    "bad_json",  # not JSON although the contract was applied
    "schema_violation",  # JSON, but not by the schema
    "constraint_not_applied",  # prose although JSON was asked for: the server ignored the field
    "bad_response",  # HTTP 200 whose body is no chat completion
    "context_overflow",  # the prompt, or prompt + max_tokens, exceeds the window
    "wrong_model",  # the endpoint does not serve the model asked for
    "unauthorized",  # HTTP 401 or 403
    "http_4xx",
    "http_429",
    "http_503",
    "http_5xx",
    "timeout",
    "disconnected",
    "mid_stream_error",
]
OUTCOMES: tuple[str, ...] = Outcome.__args__  # type: ignore[attr-defined]
ANSWERED = frozenset({"ok", "length", "empty", "bad_json", "schema_violation", "constraint_not_applied"})
"""Outcomes in which the model spoke; all others are failures of the path, not of the meaning."""
COMPLETED = frozenset({"ok", "length"})
"""Outcomes that show an endpoint at work; a workload of fixed output lengths has every answer cut."""
MetricTag = Literal["measured", "counted", "fitted", "predicted", "replayed", "modelled", "by construction"]
"""How a number came about. `counted`: by the tokenizer on the text itself, the same on every target."""

Status = Literal["started", "success", "cancelled", "error"]
Clock = Literal["virtual", "real"]


@dataclass(frozen=True)
class OutputContract:
    """What form of answer is asked for, and by which request fields."""

    name: str
    """`unconstrained`, `structured_outputs`, `response_format`, `guided_json` …"""
    fields: Json = field(default_factory=dict)
    """Extra top-level fields of the request body that carry the contract."""
    schema: Json | None = None
    """JSON schema the answer must keep to; `None` when no form is promised."""
    engine: Json = field(default_factory=dict)
    """Server flags without which the contract is not kept: what they are decides the answer too."""


UNCONSTRAINED = OutputContract("unconstrained")


@dataclass(frozen=True)
class ChatRequest:
    """One chat completion to be sent; the model's name belongs to the endpoint, not to the request."""

    request_id: str
    messages: tuple[Message, ...]
    max_tokens: int = 256
    temperature: float = 0.0
    stream: bool = False
    contract: OutputContract = UNCONSTRAINED
    logprobs: int | None = None
    """Alternatives per output token, or `None` for no log-probabilities."""
    want_token_ids: bool = False
    """Ask for output token ids (vLLM's `return_token_ids`)."""
    extra: Json = field(default_factory=dict)
    """Further body fields, sent as they are (`ignore_eos`, `seed`, `cache_salt` …)."""

    def body(self, model: str) -> Json:
        """The JSON body of POST /chat/completions."""
        body: Json = {
            "model": model,
            "messages": [dict(m) for m in self.messages],
            "max_tokens": self.max_tokens,
            "temperature": self.temperature,
            **self.contract.fields,
            **self.extra,
        }
        if self.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": self.logprobs}
        if self.want_token_ids:
            body["return_token_ids"] = True
        if self.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        return body


@dataclass(frozen=True)
class Completion:
    """What came back for one request. Failures carry no latency; see `e2e_s`."""

    request_id: str
    outcome: Outcome
    text: str | None = None
    finish_reason: str | None = None
    http_status: int | None = None
    error: str | None = None
    """Redacted and shortened error body or exception text."""
    model: str | None = None
    """The model the server says it used."""
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    planned_s: float | None = None
    start_s: float | None = None
    first_token_s: float | None = None
    """First content or reasoning delta (streaming only)."""
    first_content_s: float | None = None
    end_s: float | None = None
    token_times_s: tuple[float, ...] = ()
    """Arrival of each delta that carried tokens (streaming only)."""
    router_queue_s: float | None = None
    replica_queue_s: float | None = None
    replica: str | None = None
    retry_after_s: float | None = None
    """How long the server asked to wait, from a `Retry-After` in seconds (429, 503)."""
    token_ids: tuple[int, ...] | None = None
    logprobs: tuple[Json, ...] | None = None

    @property
    def ok(self) -> bool:
        return self.outcome == "ok"

    @property
    def e2e_s(self) -> float | None:
        """End-to-end latency in seconds; `None` for a failure or where there is no clock."""
        if not self.ok or self.start_s is None or self.end_s is None:
            return None
        return self.end_s - self.start_s

    @property
    def ttft_s(self) -> float | None:
        """Time to first token in seconds (streaming only)."""
        if not self.ok or self.start_s is None or self.first_token_s is None:
            return None
        return self.first_token_s - self.start_s

    def failed(self, outcome: Outcome, error: str) -> "Completion":
        """The same completion under another `outcome`, with the reason."""
        return replace(self, outcome=outcome, error=error)


@dataclass(frozen=True)
class Metric:
    """One number of a point: `value` is `None` when it could not be observed."""

    name: str
    unit: str
    stat: str
    """`mean`, `p95`, `count`, `share` …"""
    value: float | None
    n: int | None
    """How many it rests on; `None` where that is not known."""
    tag: MetricTag


@dataclass(frozen=True)
class Rule:
    """A validity rule and what it found: data, shown under every table."""

    rule: str
    value: float | str | None
    threshold: float | str | None
    ok: bool | None
    """`None`: could not be checked."""


@dataclass(frozen=True)
class ServerIdentity:
    """Who answered. What an endpoint does not say is `None`."""

    model: str | None
    revision: str | None = None
    engine: str | None = None
    """`vllm`, `vllm-cpu`, `twin` …"""
    engine_version: str | None = None
    engine_args: Json = field(default_factory=dict)
    accelerator: str | None = None
    max_model_len: int | None = None


@dataclass(frozen=True)
class Workload:
    """What was sent: the name, the hash and the size of a fixed list of requests."""

    name: str
    sha256: str
    n: int
    seed: int | None = None
