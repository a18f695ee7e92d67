"""A long prompt is cheap only when reusable: one cell for each scenario, planned and counted hits beside it.

One request at a time, as in the article. A cell has a salt and a seed of its own and warms up outside its
window; on the twin its engine is fresh besides, and where the cache can be emptied that happens before the
cold cell. What the cache must find is planned from token ids before anything is sent.
"""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

import httpx2

from nlqlib.analysis.prefix_cache import Lookup
from nlqlib.analysis.window import Window, window
from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.accepted import warm
from nlqlib.experiments.arm_result import observed
from nlqlib.experiments.contract_basis import contract_points, page_contract
from nlqlib.experiments.prefix_counted import block_size, with_plan
from nlqlib.experiments.prefix_sending import EOS, SALT, USUAL, Sending, SpelledOut, refused
from nlqlib.experiments.prompt_variants import (
    COLD,
    DIVERSE,
    LEADING,
    PARTIAL,
    SCENARIOS,
    SHORT,
    WARM,
    WARMING_QUESTION,
    Chat,
    Making,
    Schedule,
    article_rate,
    schedule,
    short_prompt,
    system_prompt,
)
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.study import Spec, Study
from nlqlib.experiments.sweep import (
    ANSWER_SD,
    ANSWER_TOKENS,
    IGNORE_EOS,
    QUICK_TOKENS,
    SET,
    session,
    settled,
)
from nlqlib.load.closed_loop import closed_loop
from nlqlib.load.sampling import Sampler
from nlqlib.nlq.pipeline import contracts
from nlqlib.progress import progress
from nlqlib.records import ANSWERED, ChatRequest, Completion, Json, ServerIdentity
from nlqlib.serving.client import Client
from nlqlib.serving.identity import identify, reader
from nlqlib.serving.target import Target, TargetError

MODULES = ("nlqlib.experiments.prefix",)
MAX_TOKENS = 256
"""As in the article's workload."""
REQUESTS: Mapping[str, Mapping[str, int]] = {
    "full": {WARM: 150, PARTIAL: 60, DIVERSE: 60, LEADING: 80, COLD: 40, SHORT: 60},
    "quick": {WARM: 8, PARTIAL: 4, DIVERSE: 5, LEADING: 8, COLD: 3, SHORT: 5},
}
"""The article's 150 requests, of which the first 20 ask a question for the first time, give its warm rate; 80
are enough for new and known desks to mix to that of the leading-unique prompt, to a tenth of a per cent.
Quick runs compute every prompt on two cores."""
QUESTIONS: Mapping[str, int] = {"full": 20, "quick": 4}
EXAMPLES: Mapping[str, int | None] = {"full": None, "quick": 2}
"""Worked examples in the prompt; `None`: all. Quick prompts are half as long, and so are the waits."""


@dataclass(frozen=True)
class Cell:
    """One scenario to be measured once."""

    scenario: str
    requests: int
    questions: int
    """Different ones, asked in turn."""
    examples: int | None
    """Worked examples in the prompt; `None`: all."""
    seed: int
    output_tokens: int | None = None
    """Every answer is exactly that long (`ignore_eos`); `None`: it ends where the model ends it."""

    @property
    def point(self) -> str:
        """`warm-shared-prefix`."""
        return self.scenario.replace(" ", "-")


def cells(study: Study, n: int = 0, seed: int = 0, scenarios: Sequence[str] = ()) -> list[Cell]:
    """The cells of the page, each with a seed of its own. `n`: requests of each; 0: `REQUESTS`."""
    wanted, profile = scenarios or (*SCENARIOS, SHORT), study.profile
    short = study.quick and study.target.kind != "twin"
    return [
        Cell(
            name,
            n or REQUESTS[profile][name],
            QUESTIONS[profile],
            0 if name == SHORT else EXAMPLES[profile],
            seed + i,
            QUICK_TOKENS if short else None,
        )
        for i, name in enumerate((*SCENARIOS, SHORT))
        if name in wanted
    ]


def measure(study: Study, n: int = 0, seed: int = 0, scenarios: Sequence[str] = ()) -> list[Record]:
    """The cells in their order: each retained already, or measured now."""
    wanted = cells(study, n, seed, scenarios)
    contract = page_contract(study) if _missing(study, wanted) else USUAL.contract
    with progress(len(wanted), "scenario") as bar:
        found = []
        for cell in wanted:
            found.append(_record(study, cell, contract))
            bar.advance(cell.scenario)
        return found


def _missing(study: Study, wanted: Sequence[Cell]) -> bool:
    """Is anything to be asked of an endpoint that has to be probed first?"""
    return study.target.kind == "url" and any(not study.retained(spec(study, cell)) for cell in wanted)


def _record(study: Study, cell: Cell, contract: str) -> Record:
    there = at(study, cell)
    return there.point(spec(study, cell), lambda: there.measured(_measure(there, cell, contract)))


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`, each with the study of its variant."""
    wanted = cells(study, int(params["n_requests"]), int(params["seed"]), params["scenarios"])
    probed = contract_points(study) if _missing(study, wanted) else []
    return [*probed, *((at(study, cell), spec(study, cell)) for cell in wanted)]


def at(study: Study, cell: Cell) -> Study:
    """`study` where `cell` is measured: on the twin a fresh engine of its own."""
    if study.target.kind != "twin":
        return study
    drawn = {"output_tokens": ANSWER_TOKENS, "output_sd": ANSWER_SD}
    return replace(study, target=study.target.engine(words="synthetic", seed=cell.seed, **drawn))


# ---- the plan --------------------------------------------------------------------------------------------

PREFILL_TOKENS_PER_S = {"twin": 1e6, "local": 125.0, "url": 8000.0}
GAP_S = {"twin": 0.0, "local": 0.14, "url": 0.027}
PROMPT_TOKENS = {"full": 3320, "quick": 2000}


def spec(study: Study, cell: Cell) -> Spec:
    """The point that `cell` becomes."""
    rounds = -(-cell.requests // cell.questions) if cell.scenario == PARTIAL else 1
    warming = 0 if cell.scenario in (LEADING, COLD) else rounds
    workload = replace(question_workload(SET, cell.questions), seed=cell.seed)
    return Spec(
        cell.point,
        asdict(cell),
        MODULES,
        workload,
        requests=cell.requests + warming + (study.target.kind == "url"),
        about_s=_about_s(study, cell, warming),
    )


def _about_s(study: Study, cell: Cell, warming: int) -> float:
    """About how long the cell takes: the tokens it computes, and its answers one after the other."""
    kind, whole = study.target.kind, PROMPT_TOKENS[study.profile]
    rate = 0.0 if cell.scenario == COLD else article_rate(cell.scenario) or 0.97
    computed = whole * (warming + (1 - rate) * cell.requests)
    answers = cell.requests * (cell.output_tokens or ANSWER_TOKENS)
    return computed / PREFILL_TOKENS_PER_S[kind] + answers * GAP_S[kind] + 0.01 * cell.requests


# ---- measuring -------------------------------------------------------------------------------------------


async def _measure(study: Study, cell: Cell, contract: str) -> Measured:
    server = await identify(study.target)
    async with session(study.target, study.client) as (client, metrics):
        how = Sending(contract, await _refused(study, cell, client, contract))
        planned = plan(study, cell, server, how)
        emptied = await empty_cache(study.target) if cell.scenario == COLD else None
        await warm(client, _requests(study, cell, planned.warming, "w", how))
        before = await settled(metrics)
        sampler = Sampler(metrics.sample) if metrics else None
        asked = _requests(study, cell, planned.measured, "", how)
        run = await closed_loop(client, asked, 1, len(asked), sampler=sampler)
        after = await settled(metrics)
    check_answered(cell, run.completions)
    ours = study.target.kind != "url"
    seen = window(before, after) if before and after else Window(0.0, ())
    found = observed(run, before, after, [], study.target.time_tag, no_gateway=ours)
    told = {"emptied": emptied, "clock": study.target.clock, **asdict(how)}
    return with_plan(replace(found, results=found.results | told), run.completions, planned, seen, server)


async def _refused(study: Study, cell: Cell, client: Client, contract: str) -> tuple[str, ...]:
    """What the endpoint refuses of the requests of `cell`; engines of ours take every field."""
    if study.target.kind != "url":
        return ()
    chat = Chat(({"role": "user", "content": WARMING_QUESTION},), uuid.uuid4().hex)
    probe = request(study, cell, chat, "check", Sending(contract))
    return await refused(client, replace(probe, max_tokens=1))


def check_answered(cell: Cell, done: Sequence[Completion]) -> None:
    """Raise `TargetError` where not one request of `cell` was answered: it is asked again then."""
    if not any(c.outcome in ANSWERED for c in done):
        raise TargetError(
            f"{cell.scenario}: none of {len(done)} requests was answered "
            f"({done[0].outcome}: {done[0].error}); "
            "nothing was retained: see to the endpoint and run again"
        )


def plan(study: Study, cell: Cell, server: ServerIdentity, how: Sending = USUAL) -> Schedule:
    """What `cell` sends to `server`, apart from all that was sent before, and what must be found of it."""
    run = "twin" if study.target.kind == "twin" else uuid.uuid4().hex
    making = (SpelledOut if SALT in how.refused else Making)(
        _system(study, cell),
        tuple(q.question for q in load_questions(SET)[: cell.questions]),
        cell.requests,
        block_size(server),
        f"{run}-{cell.point}",
        cell.seed,
    )
    found = schedule(cell.scenario, making)
    caching = str(server.engine_args.get("enable_prefix_caching")) != "False"
    return found if caching else replace(found, lookups=tuple(Lookup(f.tokens, 0) for f in found.lookups))


def _system(study: Study, cell: Cell) -> str:
    shorter = cell.scenario == SHORT
    return short_prompt(study.catalog) if shorter else system_prompt(study.catalog, cell.examples)


def _requests(study: Study, cell: Cell, chats: Sequence[Chat], kind: str, how: Sending) -> list[ChatRequest]:
    return [request(study, cell, chat, f"{kind}{i}", how) for i, chat in enumerate(chats)]


def request(study: Study, cell: Cell, chat: Chat, name: str, how: Sending = USUAL) -> ChatRequest:
    """`chat` as a request of the article's workload, sent as `how` says."""
    length = None if EOS in how.refused else cell.output_tokens
    salted = {SALT: chat.salt} if chat.salt else {}
    return ChatRequest(
        f"{cell.point}-{name}",
        chat.messages,
        length or MAX_TOKENS,
        contract=contracts(study.catalog)[how.contract],
        extra={**salted, **({} if length is None else IGNORE_EOS)},
    )


async def empty_cache(target: Target) -> bool | None:
    """Empty the server's prefix cache; `None` where that is not ours to do, `False` where it was refused."""
    if "reset_cache" not in target.can:
        return None
    there = target.connection
    async with reader(there) as client:
        try:
            answer = await client.post(
                there.endpoint.base_url.rstrip("/").removesuffix("/v1") + "/reset_prefix_cache"
            )
        except httpx2.TransportError:
            return False
    return bool(answer.status_code == 200)
