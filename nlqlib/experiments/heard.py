"""What a model says to a set of questions, and how that is written down and read again.

One request for each question, or the planner's two: all first requests go out, a few at a time, and then all
second ones, which depend on the first answers. Knows nothing of what an answer means, nor of any correction.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager

from nlqlib.experiments.conditions import Condition, requests
from nlqlib.experiments.journal import Deferred, Journal, RememberingClient
from nlqlib.experiments.questions import Question
from nlqlib.files import canonical_json
from nlqlib.load.batch import Completes, complete_all
from nlqlib.nlq.belief import read_belief
from nlqlib.nlq.catalog import Catalog, QuestionError
from nlqlib.nlq.intent import Kind
from nlqlib.nlq.planner import slots_request
from nlqlib.nlq.prompt import clean
from nlqlib.records import ANSWERED, ChatRequest, Completion, Json
from nlqlib.serving.client import ClientKind
from nlqlib.serving.target import Target
from nlqlib.twin.recordings import request_key

FALLBACK_KIND: Kind = "breakdown"
"""The usual case, for a question of which the model names no kind."""
KINDS: tuple[Kind, ...] = ("breakdown", "top_n_by_metric", "time_series")
KEPT = (
    "outcome",
    "text",
    "finish_reason",
    "http_status",
    "error",
    "model",
    "prompt_tokens",
    "output_tokens",
    "cached_tokens",
    "start_s",
    "end_s",
)
"""Fields of a completion that are retained; log-probabilities besides, without the bytes of each token."""

Heard = dict[str, tuple[Completion, ...]]
"""By question id, in the order of asking."""


def hopeless(question: str) -> str | None:
    """Why `question` is not worth sending; `None` where it is."""
    try:
        clean(question)
    except QuestionError as error:
        return str(error)
    return None


def sendable(questions: Sequence[Question], how: Condition) -> list[Question]:
    """The questions that are really sent: none where no model is asked."""
    return [q for q in questions if how.asks and hopeless(q.question) is None]


async def heard_from(
    target: Target,
    questions: Sequence[Question],
    how: Condition,
    catalog: Catalog,
    concurrency: int,
    kind: ClientKind = "openai",
    journal: Journal | None = None,
) -> tuple[Heard, float]:
    """The completions of those `questions` that are worth sending; the endpoint is opened when needed.

    The twin is asked afresh, with nothing in its caches.
    """
    sent = sendable(questions, how)
    if not sent:
        return {}, 0.0
    with fresh(target) as there:
        client = Deferred(lambda: there.client(kind))
        try:
            asking: Completes = client if journal is None else RememberingClient(client, journal, "")
            return await hear(asking, sent, how, catalog, concurrency)
        finally:
            await client.aclose()


@contextmanager
def fresh(target: Target) -> Iterator[Target]:
    """On the twin an engine of its own, so that no time depends on what ran before; else `target` itself."""
    if target.kind != "twin":
        yield target
        return
    with closing(target.engine()) as own:
        yield own


async def hear(
    client: Completes, questions: Sequence[Question], how: Condition, catalog: Catalog, concurrency: int
) -> tuple[Heard, float]:
    """What `client` says to each of `questions`, all of them sendable, and the seconds that rate limits cost.

    Where the first of two requests fails there is no second one.
    """
    first, waited = await complete_all(client, requests(questions, how, catalog), concurrency, "question")
    if not how.planned:
        return {q.id: (done,) for q, done in zip(questions, first, strict=True)}, waited
    spoken = [(q, done) for q, done in zip(questions, first, strict=True) if done.outcome in ANSWERED]
    second = [_slots(q, named_kind(done), how, catalog) for q, done in spoken]
    filled, more = await complete_all(client, second, concurrency, "slots")
    slots = {q.id: done for (q, _), done in zip(spoken, filled, strict=True)}
    both: Heard = {
        q.id: (done, slots[q.id]) if q.id in slots else (done,)
        for q, done in zip(questions, first, strict=True)
    }
    return both, waited + more


def named_kind(done: Completion) -> Kind:
    """The kind that the planner's first answer names, or the usual one."""
    return read_belief(done).kind or FALLBACK_KIND


def _slots(question: Question, kind: Kind, how: Condition, catalog: Catalog) -> ChatRequest:
    return slots_request(question.question, kind, catalog, how.contract, f"{question.id} slots")


def failed(heard: Heard) -> list[Completion]:
    """The requests that brought nothing of what the model says."""
    return [done for completions in heard.values() for done in completions if done.outcome not in ANSWERED]


def request_digest(questions: Sequence[Question], how: Condition, catalog: Catalog) -> str:
    """sha256 of every request that may be sent: it changes when a prompt, a schema or the catalog does."""
    asked = sendable(questions, how)
    possible = requests(asked, how, catalog)
    if how.planned:
        possible += [_slots(q, kind, how, catalog) for q in asked for kind in KINDS]
    digest = hashlib.sha256()
    for one in possible:
        digest.update(canonical_json(one.body("")).encode() + b"\n")
    return digest.hexdigest()


def kept_rows(
    heard: Heard, questions: Sequence[Question], how: Condition, catalog: Catalog
) -> Iterator[Json]:
    """One row for each question with everything that came back, times from the first request on."""
    starts = [done.start_s for each in heard.values() for done in each if done.start_s is not None]
    origin = min(starts, default=0.0)
    first = {r.request_id: r for r in requests(sendable(questions, how), how, catalog)}
    for q in (q for q in questions if q.id in heard):
        sent = [first[q.id]]
        if len(heard[q.id]) > 1:
            sent.append(_slots(q, named_kind(heard[q.id][0]), how, catalog))
        told = [_kept(r, done, origin) for r, done in zip(sent, heard[q.id], strict=True)]
        yield {"question_id": q.id, "question": q.question, "requests": told}


def _kept(request: ChatRequest, done: Completion, origin: float) -> Json:
    told = {name: getattr(done, name) for name in KEPT}
    for name in ("start_s", "end_s"):
        told[name] = None if told[name] is None else told[name] - origin
    spoken = done.logprobs and [without_bytes(token) for token in done.logprobs]
    return told | {"key": asked_key(request)} | ({"logprobs": spoken} if spoken else {})


def without_bytes(token: Mapping[str, object]) -> Json:
    """A token's log-probability and those of its alternatives."""
    others = token.get("top_logprobs")
    told = {k: v for k, v in token.items() if k in ("token", "logprob")}
    listed = others if isinstance(others, list) else []
    return told | {"top_logprobs": [{k: o[k] for k in ("token", "logprob")} for o in listed]}


def asked_key(request: ChatRequest) -> str:
    """Names what was asked, whoever is asked."""
    return request_key(request.body(""), "")


def heard_of(rows: Sequence[Json]) -> Heard:
    """What was heard, from the rows that were kept."""
    return {row["question_id"]: tuple(_completion(row, told) for told in row["requests"]) for row in rows}


def _completion(row: Json, told: Json) -> Completion:
    spoken = told.get("logprobs")
    fields = {name: told[name] for name in KEPT}
    return Completion(row["question_id"], **fields, logprobs=tuple(spoken) if spoken else None)


def by_key(rows: Sequence[Json]) -> dict[str, Completion]:
    """The answers of kept rows by what was asked: for a later run that asks some of it again."""
    return {
        told["key"]: _completion(row, told)
        for row in rows
        for told in row["requests"]
        if told["outcome"] in ANSWERED
    }
