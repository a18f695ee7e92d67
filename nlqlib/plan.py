"""How much a run will send and about how long it takes, said and limited before anything is sent."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass

from nlqlib.records import Json


class LimitError(ValueError):
    """The plan exceeds a hard limit, or cannot be held to it; says what to change."""


@dataclass(frozen=True)
class Plan:
    """What one notebook will send, right within a factor of two, and what it may send at most."""

    requests: int = 0
    prompt_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    """Wall time of the measurements; a notebook's own start is not in it."""
    beyond_tokens: int = 0
    """On top of the planned ones, were every prompt and answer as long as it may be."""

    def __add__(self, other: "Plan") -> "Plan":
        return Plan(
            self.requests + other.requests,
            self.prompt_tokens + other.prompt_tokens,
            self.output_tokens + other.output_tokens,
            self.seconds + other.seconds,
            self.beyond_tokens + other.beyond_tokens,
        )

    @property
    def tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    @property
    def most_tokens(self) -> int:
        """An upper bound, as far as the model counts the tokens of a prompt as Qwen2.5 does."""
        return self.tokens + self.beyond_tokens

    def to_json(self) -> Json:
        """The plan and its bound as plain data."""
        return {**asdict(self), "most_tokens": self.most_tokens}


@dataclass(frozen=True)
class Asked:
    """What a notebook is to be planned for."""

    notebook: str
    target: str
    """`twin`, `local` or a URL."""
    profile: str
    client: str | None
    """`None`: the notebook's own."""
    params: Json
    """Parameters in force: the notebook's own and those passed."""
    remeasure: bool


PlanFunction = Callable[[Asked], Plan]
"""The plan of one notebook; points that are retained already count nothing."""


def total(plans: Mapping[str, Plan | None]) -> Plan:
    """The sum of the `plans` that are known."""
    return sum((plan for plan in plans.values() if plan), Plan())


def check_limits(plans: Mapping[str, Plan | None], max_requests: int | None, max_tokens: int | None) -> None:
    """Raises `LimitError` when a limit is given that the plan might exceed, or where a plan is not known.

    Tokens are counted at most: every answer as long as its request allows.
    """
    if max_requests is None and max_tokens is None:
        return
    unknown = [name for name, plan in plans.items() if plan is None]
    if unknown:
        raise LimitError(
            f"MAX_REQUESTS and MAX_TOKENS cannot be kept: {', '.join(unknown)} has no plan; "
            "leave it out of NOTEBOOKS, or run without limits"
        )
    needed = total(plans)
    for name, wanted, limit in (
        ("MAX_REQUESTS", needed.requests, max_requests),
        ("MAX_TOKENS", needed.most_tokens, max_tokens),
    ):
        if limit is not None and wanted > limit:
            raise LimitError(
                f"the run may need {wanted:,} but {name} allows {limit:,}: raise it, choose fewer NOTEBOOKS, "
                "or use PROFILE=quick; nothing was sent"
            )


def limit_of(name: str, environment: Mapping[str, str]) -> int | None:
    """The hard limit called `name`; `None` where there is none. Raises `LimitError` for no number."""
    told = environment.get(name, "").replace("_", "").replace(",", "")
    if not told:
        return None
    if not told.isdecimal():
        raise LimitError(f"{name} takes a whole number, not {environment[name]!r}")
    return int(told)


def plan_rows(plans: Mapping[str, Plan | None]) -> list[list[str]]:
    """Table rows: notebook, requests, prompt tokens, output tokens, duration; a total at the end."""
    rows = [[name, *_cells(plan)] for name, plan in plans.items()]
    return [*rows, ["total", *_cells(total(plans))]] if len(plans) > 1 else rows


def most_line(plans: Mapping[str, Plan | None]) -> str:
    """What `MAX_TOKENS` is held against, as a line; empty where nothing is sent."""
    most = total(plans).most_tokens
    if not most:
        return ""
    return f"at most {most:,} tokens, every answer as long as it may be: what MAX_TOKENS is held against"


HEADER = ["notebook", "requests", "prompt tokens", "output tokens", "about"]


def _cells(plan: Plan | None) -> Sequence[str]:
    if plan is None:
        return ["unknown"] * 4
    counts = (plan.requests, plan.prompt_tokens, plan.output_tokens)
    return [*(f"{n:,}" for n in counts), duration(plan.seconds)]


def duration(seconds: float) -> str:
    """`41 s`, `12 min` or `3.5 h`."""
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 100 * 60 else f"{seconds / 3600:.1f} h"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Plain text in columns, the first aligned left, the others right."""
    lines = [list(header), *map(list, rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(header))]
    return "\n".join(
        "  ".join(c.rjust(w) if i else c.ljust(w) for i, (c, w) in enumerate(zip(line, widths, strict=True)))
        for line in lines
    )
