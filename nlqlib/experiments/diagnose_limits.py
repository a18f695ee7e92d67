"""How much a diagnosis sends at most, held against MAX_REQUESTS and MAX_TOKENS before anything is sent."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

from nlqlib.experiments import staircase
from nlqlib.experiments.diagnose import Plan, level_spec, requests_of, variant
from nlqlib.experiments.plans import duration_s
from nlqlib.experiments.study import Spec, Study
from nlqlib.plan import LimitError, duration, limit_of
from nlqlib.records import ChatRequest
from nlqlib.tokens import count_chat


def sends(study: Study, plan: Plan, processes: int = 0) -> int:
    """Requests that `plan` may send, warming and repeats included; retained levels send none."""
    levels = sum(spec.requests for spec in _missing(study, plan))
    if not processes:
        return levels
    wanted = staircase.trial(study, processes)
    return levels + staircase.spec(study, wanted).requests


def most_tokens(study: Study, plan: Plan, processes: int = 0) -> int:
    """Prompt and output tokens of the same, every answer as long as it may be; prompts by Qwen2.5's count."""
    asked = requests_of(study, plan)
    prompts = [count_chat(r.messages) for r in asked]
    found = 0
    for spec in _missing(study, plan):
        sent = int(spec.params["requests"])
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


def planned(study: Study, plan: Plan, processes: int = 0) -> str:
    """What is about to be sent, and about how long it takes, in one line; retained levels left out."""
    once = replace(plan, repeats=0)
    first, tokens = sends(study, once, processes), most_tokens(study, once, processes)
    line = (
        f"target {study.target.name}, profile {study.profile}: {first:,} requests in {len(plan.concurrency)} "
        f"levels, warming included, of at most {tokens:,} tokens; about {duration(about_s(study, plan))}"
    )
    if not plan.repeats:
        return line
    most = sends(study, plan, processes)
    return f"{line}; up to {most:,} requests if noise leaves the verdict open (--repeats {plan.repeats})"


def about_s(study: Study, plan: Plan) -> float:
    """About how long the levels of `plan` take without repeats, seconds; staircase left out."""
    admission = study.target.declared.get("admission") or {}
    limit = min((v for k in ("router", "replica") if (v := admission.get(k))), default=None)
    kind, tokens = study.target.kind, longest(study, plan)
    specs = _missing(study, replace(plan, repeats=0))
    admitted = [replace(s, concurrency=min(s.concurrency, limit or s.concurrency)) for s in specs]
    return sum(duration_s(spec, kind, tokens) for spec in admitted)


def longest(study: Study, plan: Plan) -> int | None:
    """Tokens of the longest answer that may be given to chats of the user's own, or that are fixed."""
    fixed = study.quick and study.target.kind != "twin"
    return max(r.max_tokens for r in requests_of(study, plan)) if plan.chats or fixed else None


def _missing(study: Study, plan: Plan) -> list[Spec]:
    passes = [(n, repeat) for repeat in range(plan.repeats + 1) for n in plan.concurrency]
    there = [(variant(study, replace(plan, seed=plan.seed + r)), n, r) for n, r in passes]
    return [s for at, n, r in there if not at.retained(s := level_spec(at, plan, n, r))]


def check(study: Study, plan: Plan, processes: int, environment: Mapping[str, str]) -> None:
    """Raise `LimitError` where the environment's limits do not allow the plan, or are no numbers."""
    for name, count in (("MAX_REQUESTS", sends), ("MAX_TOKENS", most_tokens)):
        limit = limit_of(name, environment)
        if limit is not None and (wanted := count(study, plan, processes)) > limit:
            raise LimitError(
                f"the diagnosis may need {wanted:,} but {name} allows {limit:,}: raise it, or give fewer "
                "levels with --concurrency, fewer --requests or --repeats 0; nothing was sent"
            )
