"""What a worker process is given and what it gives back, as JSON.

The key of an endpoint is not in it: a worker inherits the environment and reads it there, by its name.
"""

from dataclasses import asdict, dataclass
from itertools import accumulate, pairwise
from typing import Literal

from nlqlib.records import ChatRequest, Completion, Json, OutputContract
from nlqlib.serving.endpoint import Endpoint

TUPLES = ("token_times_s", "token_ids", "logprobs")
"""Fields of a completion that JSON would leave as lists."""


@dataclass(frozen=True)
class Share:
    """One process's share of a closed loop: every `step`-th request from number `first` on."""

    concurrency: int
    n: int
    lead_in: int
    first: int
    step: int
    salt: str | None


@dataclass(frozen=True)
class Job:
    """The part of a load that one process offers."""

    endpoint: Endpoint
    requests: tuple[ChatRequest, ...]
    """One to send once, or a workload to cycle through."""
    kind: Literal["wire", "openai"] = "wire"
    share: Share | None = None
    """Of a closed loop; `None`: send one request."""

    def to_json(self) -> Json:
        """A JSON object; header values are in it, so it goes through a pipe and into no file."""
        return {
            "endpoint": {**asdict(self.endpoint), "headers": dict(self.endpoint.headers)},
            "requests": [asdict(request) for request in self.requests],
            "kind": self.kind,
            "share": None if self.share is None else asdict(self.share),
        }


def job_of(form: Json) -> Job:
    """The job in `form`, as `Job.to_json` wrote it."""
    requests = tuple(request_of(row) for row in form["requests"])
    share = None if form["share"] is None else Share(**form["share"])
    return Job(Endpoint(**form["endpoint"]), requests, form["kind"], share)


def request_of(row: Json) -> ChatRequest:
    """A request from its JSON form."""
    contract, messages = OutputContract(**row["contract"]), tuple(row["messages"])
    return ChatRequest(**{**row, "contract": contract, "messages": messages})


def completion_of(row: Json) -> Completion:
    """A completion from its JSON form."""
    tuples = {name: None if row[name] is None else tuple(row[name]) for name in TUPLES}
    return Completion(**{**row, **tuples})


def split(total: int, weights: list[int]) -> list[int]:
    """`total` in whole shares by `weights`, none off its exact share by more than one."""
    whole = sum(weights)
    ends = [total * seen // whole for seen in accumulate(weights, initial=0)]
    return [high - low for low, high in pairwise(ends)]
