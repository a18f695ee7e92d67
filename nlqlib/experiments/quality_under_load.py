"""Does a model say the same when others are asked beside it? The same questions at several concurrencies.

Batches change the last bits of a sum, and a token whose lead over the next one is smaller than that may turn.
So each question is answered alone first, with the log-probability of every token and of its runner-up, and
then with others in flight; what differs is judged by its text, its intent and its rows.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial

from nlqlib.artifacts import Measured, Record
from nlqlib.experiments.conditions import CONDITIONS, MAX_TOKENS, requests
from nlqlib.experiments.heard import KEPT
from nlqlib.experiments.questions import load_questions, question_workload
from nlqlib.experiments.quiet import busy_share, idle_rule
from nlqlib.experiments.study import Spec, Study
from nlqlib.load.batch import complete_all
from nlqlib.records import ANSWERED, ChatRequest, Completion, Json, Rule
from nlqlib.serving.identity import identify

NOTEBOOK = "12_quality_under_load"
MODULES = ("nlqlib.experiments.quality_under_load", "nlqlib.twin.app")
SET = "dev"
HOW = CONDITIONS["baseline"]
QUESTIONS = {"full": 20, "quick": 8}
"""Of the development set; on two cores eight answers in turn take two minutes."""
ROUNDS = {"full": 5.0, "quick": 1.25}
"""Requests per request in flight, so that N really are in flight for most of the time."""
IMPOSSIBLE = -1000.0
"""Nats; a server writes −9999 for what a grammar forbids."""
ALONE_TURNS = {"full": 2, "quick": 1}
"""How often each question is answered alone: the second time is the control, where it costs little."""


@dataclass(frozen=True)
class Quality:
    """The same questions, with `concurrency` in flight."""

    concurrency: int
    questions: int
    turns: int
    """How often each question is asked."""
    logprobs: int
    """Alternatives asked for per token; 0: no log-probabilities."""

    @property
    def requests(self) -> int:
        return self.questions * self.turns

    @property
    def point(self) -> str:
        return f"quality-n{self.concurrency:02d}"


def qualities(study: Study, concurrencies: Sequence[int], questions: int, logprobs: int) -> list[Quality]:
    """The levels in their order, one request in flight first: all others are compared with it.

    0 `questions`: the profile's own. The twin replays recordings, which hold no log-probabilities of whole
    answers, so none are asked of it.
    """
    n = questions or QUESTIONS[study.profile]
    kept = 0 if study.target.kind == "twin" else logprobs
    found = sorted({1, *concurrencies})
    return [Quality(c, n, _turns(study, c, n), kept) for c in found]


def _turns(study: Study, concurrency: int, questions: int) -> int:
    """Turns through the questions, whole ones, so that each is asked as often."""
    if concurrency == 1:
        return ALONE_TURNS[study.profile]
    return max(1, -int(-ROUNDS[study.profile] * concurrency // questions))


def spec(level: Quality) -> Spec:
    """The level as a point: one more request warms the prefix."""
    params = {**asdict(level), **HOW.params(), "max_tokens": MAX_TOKENS}
    workload = question_workload(SET, level.questions)
    return Spec(level.point, params, MODULES, workload, "point", level.requests + 1, level.concurrency)


def points(study: Study, params: Json) -> list[tuple[Study, Spec]]:
    """Every point of the notebook under its `params`."""
    found = qualities(study, params["concurrencies"], int(params["n_questions"]), int(params["logprobs"]))
    return [(study, spec(level)) for level in found]


def under_load(
    study: Study, concurrencies: Sequence[int], questions: int = 0, logprobs: int = 2
) -> list[Record]:
    """The levels: each retained already, or measured now."""
    return [
        study.point(spec(level), partial(_measure, study, level))
        for level in qualities(study, concurrencies, questions, logprobs)
    ]


def _measure(study: Study, level: Quality) -> Measured:
    local = study.target.kind == "local"
    if local:
        study.target.connection  # noqa: B018 - its engine must be up before the machine is looked at
    before = busy_share() if local else None
    done, waited_s, peak = study.run(_ask(study, level))
    server = study.run(identify(study.target))
    rules = [_reached(peak, level), *([idle_rule(before, busy_share())] if local else [])]
    failed = [one for one in done if one.outcome not in ANSWERED]
    if failed and level.concurrency == 1:
        raise RuntimeError(
            f"{len(failed)} of {len(done)} requests failed ({failed[0].outcome}: {failed[0].error}), and all "
            "other levels are compared with these: run again"
        )
    outcomes: Counter[str] = Counter(one.outcome for one in done)
    origin = min((one.start_s for one in done if one.start_s is not None), default=0.0)
    return Measured(
        server=server,
        requests={"total": len(done), **outcomes},
        samples=[_row(one, origin, tokens=level.concurrency == 1) for one in done],
        validity=rules,
        results={"rate_limit_wait_s": waited_s, "peak_in_flight": peak},
    )


async def _ask(study: Study, level: Quality) -> tuple[list[Completion], float, int]:
    """The answers in the order of asking, after one that warms the prefix."""
    client = study.target.client(study.client)
    try:
        asked = offered(study, level)
        await client.complete(replace(asked[0], request_id="warm-up", max_tokens=1))
        done, waited_s = await complete_all(client, asked, level.concurrency, "question")
        return done, waited_s, client.stats.peak_in_flight
    finally:
        await client.aclose()


def offered(study: Study, level: Quality) -> list[ChatRequest]:
    """The questions in their order, as often as the level asks, named `<question>#<turn>`."""
    plain = requests(load_questions(SET)[: level.questions], HOW, study.catalog)
    told = [replace(r, logprobs=level.logprobs) for r in plain] if level.logprobs else plain
    return [replace(r, request_id=f"{r.request_id}#{turn}") for turn in range(level.turns) for r in told]


def _reached(peak: int, level: Quality) -> Rule:
    wanted = min(level.concurrency, level.requests)
    return Rule("requests in flight at most", peak, wanted, peak >= wanted)


def _row(done: Completion, origin: float, tokens: bool) -> Json:
    told = {name: getattr(done, name) for name in KEPT}
    for name in ("start_s", "end_s"):
        told[name] = None if told[name] is None else told[name] - origin
    question, _, turn = done.request_id.partition("#")
    kept = {"question_id": question, "turn": int(turn), **told}
    return kept | ({"tokens": token_leads(done.logprobs)} if tokens and done.logprobs else {})


def token_leads(logprobs: Sequence[Mapping[str, object]]) -> list[Json]:
    """Each token with its log-probability and its lead over the likeliest other one, in nats.

    `None` where no other token was possible: a grammar leaves one, or none was told.
    """
    return [_lead(token) for token in logprobs]


def _lead(token: Mapping[str, object]) -> Json:
    told, others = token.get("logprob"), token.get("top_logprobs")
    own = float(told) if isinstance(told, int | float) else None
    listed = others if isinstance(others, list) else []
    rivals = [float(o["logprob"]) for o in listed if o["token"] != token.get("token")]
    possible = [p for p in rivals if p > IMPOSSIBLE]
    lead = None if own is None or not possible else own - max(possible)
    return {"token": token.get("token"), "logprob": own, "lead": lead}
