"""How much a diagnosis sends at most, held against MAX_REQUESTS and MAX_TOKENS before anything is sent."""

from collections.abc import Mapping, Sequence

from nlqlib.experiments import staircase
from nlqlib.experiments.diagnose import Plan, level_spec, requests_of, variant
from nlqlib.experiments.study import Study
from nlqlib.plan import LimitError
from nlqlib.records import ChatRequest
from nlqlib.tokens import count_chat


def sends(study: Study, plan: Plan, processes: int = 0) -> int:
    """Requests that `plan` sends, warming included; levels that are retained already send none."""
    levels = sum(level_spec(study, plan, n).requests for n in _missing(study, plan))
    if not processes:
        return levels
    wanted = staircase.trial(study, processes)
    return levels + staircase.spec(study, wanted).requests


def most_tokens(study: Study, plan: Plan, processes: int = 0) -> int:
    """Prompt and output tokens of the same, every answer as long as it may be; prompts by Qwen2.5's count."""
    asked = requests_of(study, plan)
    prompts = [count_chat(r.messages) for r in asked]
    found = 0
    for n in _missing(study, plan):
        sent = plan.sent(n, study.quick)
        found += sum(_cycled([p + r.max_tokens for p, r in zip(prompts, asked, strict=True)], sent))
        found += sum(p + 1 for p in prompts[:sent])
    if processes:
        wanted = staircase.trial(study, processes)
        found += staircase.spec(study, wanted).requests * max(map(_longest, staircase.offered(study, wanted)))
    return found


def _longest(request: ChatRequest) -> int:
    return count_chat(request.messages) + request.max_tokens


def _cycled(values: Sequence[int], n: int) -> list[int]:
    return [values[i % len(values)] for i in range(n)]


def _missing(study: Study, plan: Plan) -> list[int]:
    there = variant(study, plan)
    return [n for n in plan.concurrency if not there.retained(level_spec(there, plan, n))]


def check(study: Study, plan: Plan, processes: int, environment: Mapping[str, str]) -> None:
    """Raise `LimitError` where the environment's limits do not allow the plan, or are no numbers."""
    for name, count in (("MAX_REQUESTS", sends), ("MAX_TOKENS", most_tokens)):
        limit = _limit(name, environment)
        if limit is not None and (wanted := count(study, plan, processes)) > limit:
            raise LimitError(
                f"the diagnosis may need {wanted:,} but {name} allows {limit:,}: raise it, or give fewer "
                "levels with --concurrency or fewer --requests; nothing was sent"
            )


def _limit(name: str, environment: Mapping[str, str]) -> int | None:
    told = environment.get(name, "").replace("_", "").replace(",", "")
    if not told:
        return None
    if not told.isdecimal():
        raise LimitError(f"{name} takes a whole number, not {environment[name]!r}")
    return int(told)
