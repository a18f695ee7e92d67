"""Records what a real model answers, for the twin to replay.

What is recorded is a way of asking (a prompt, an output contract, or the planner's two steps) over a set of
questions. Every condition that asks in this way is then replayed from it, whatever its correction.
"""

import hashlib
import platform
from collections.abc import Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from nlqlib import paths
from nlqlib.experiments.asking import Asked, ask_with
from nlqlib.experiments.conditions import ASKINGS, Condition, requests
from nlqlib.experiments.journal import Journal, RememberingClient, identity
from nlqlib.experiments.output_contracts import FORMS
from nlqlib.experiments.questions import Question, load_questions, question_workload
from nlqlib.load.batch import Completes
from nlqlib.nlq.catalog import Catalog, QuestionError, load_catalog
from nlqlib.nlq.pipeline import contracts
from nlqlib.nlq.planner import kind_request, slots_request
from nlqlib.nlq.prompt import prompt_sha256
from nlqlib.records import COMPLETED, ChatRequest, Completion, Json, ServerIdentity
from nlqlib.serving.identity import identify
from nlqlib.serving.target import Target, TargetError
from nlqlib.twin.recordings import Recording, load_recordings, request_key, save_recordings, slug

CONTRACTS = ("unconstrained", "guided_json", "structured_outputs")


def record(
    target: Target, source: str, contract: str, prompt: str = "baseline", concurrency: int = 1
) -> Path:
    """Record the answers of `target` to the set `source` under the output `contract`; the file written.

    `concurrency` 1 makes a recording that a fresh sequential run repeats token by token. Raises
    `TargetError` when an answer is missing: half a recording is none, but what was answered is kept, and the
    next try asks only for the rest.
    """
    return record_asking(target, source, Condition(contract, prompt, contract), concurrency)


def asking(name: str) -> Condition:
    """The way of asking called `name`: one of `ASKINGS`, or a form of output. Raises `QuestionError`."""
    if name in FORMS:
        return FORMS[name].how
    if name not in ASKINGS:
        raise QuestionError(f"cannot record {name!r}: there are {', '.join([*ASKINGS, *FORMS])}, or all")
    return ASKINGS[name]


def record_asking(
    target: Target, source: str, how: Condition, concurrency: int = 1, again: bool = False
) -> Path:
    """Record the answers of `target` to the set `source`, asked as `how` asks; the file written.

    What the file holds already from the same server is kept, and only what changed is asked, unless `again`.
    """
    catalog = load_catalog()
    engine = contracts(catalog)[how.contract].engine
    if engine:
        with closing(target.engine(**engine)) as flagged:
            return _record(flagged, source, how, catalog, concurrency, again)
    return _record(target, source, how, catalog, concurrency, again)


def _record(
    target: Target, source: str, how: Condition, catalog: Catalog, concurrency: int, again: bool
) -> Path:
    questions = load_questions(source, catalog)
    server = target.run(identify(target))
    if server.model is None:
        raise TargetError("the endpoint does not say which model it serves: nothing was recorded")
    about = about_server(server, source, how, catalog)
    path = paths.RECORDINGS / slug(server.model) / f"{file_name(source, how)}.jsonl"
    known = {} if again else _known(path, about)
    journal = Journal.open(
        {"recording": asdict(how), "target": identity(target), "set": question_workload(source).sha256}
    )
    journal.answers.update({key: _answer(one, server.model) for key, one in known.items()})
    heard = target.run(_ask(target, questions, how, catalog, concurrency, journal))
    made = [recorded(request, done, server.model, how, concurrency) for request, done in heard]
    save_recordings(path, [replace(known.get(one.key, one), about=one.about) for one in made], about)
    journal.close()
    return path


def _known(path: Path, about: Json) -> dict[str, Recording]:
    """What is recorded already of the same set, asked alike, from the same server, by key."""
    if not path.exists():
        return {}
    recorded = load_recordings(path.parent)
    same = ("model", "server", "set", "prompt", "contract")
    alike = any(all(source.get(k) == about[k] for k in same) for source in recorded.sources)
    return dict(recorded.by_key) if alike else {}


def _answer(one: Recording, model: str) -> Completion:
    """A recording as the answer it was."""
    return Completion(
        request_id="known",
        outcome="length" if one.finish_reason == "length" else "ok",
        text=one.text,
        finish_reason=one.finish_reason,
        model=model,
        prompt_tokens=one.prompt_tokens,
        output_tokens=len(one.token_ids),
        token_ids=one.token_ids,
        logprobs=one.logprobs,
    )


def file_name(source: str, how: Condition) -> str:
    """The name of the file that holds the set `source`, asked as `how` asks, without its ending."""
    return f"{Path(source).stem}-{how.prompt}-{how.contract}"


@dataclass
class Listener:
    """A client that asks for token ids and keeps every request with what came back."""

    client: Completes
    heard: dict[str, tuple[ChatRequest, Completion]] = field(default_factory=dict)
    """By request id: what is tried again after a rate limit counts once."""

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        """The completion of `request`, with token ids."""
        done = await self.client.complete(replace(request, want_token_ids=True), planned_s)
        self.heard[request.request_id] = (request, done)
        return done

    async def aclose(self) -> None:
        """Close the client."""
        await self.client.aclose()


async def _ask(
    target: Target,
    questions: Sequence[Question],
    how: Condition,
    catalog: Catalog,
    concurrency: int,
    journal: Journal,
) -> list[tuple[ChatRequest, Completion]]:
    client = target.client("wire")
    try:
        first = requests(questions, how, catalog)[0]
        if not journal.answers:
            await client.complete(replace(first, request_id="warm-up", max_tokens=1))
        listener = Listener(RememberingClient(client, journal, client.endpoint.model or ""))
        asked, _ = await ask_with(listener, questions, how, catalog, concurrency)
        heard = list(listener.heard.values())
        _refuse_gaps(asked, heard)
        return heard
    finally:
        await client.aclose()


def _refuse_gaps(asked: Sequence[Asked], heard: Sequence[tuple[ChatRequest, Completion]]) -> None:
    """Raise `TargetError` where an answer is missing, or came without its tokens."""
    failed = [done for _, done in heard if done.outcome not in COMPLETED or done.token_ids is None]
    if failed:
        reason = failed[0].error or "no token ids came along: the endpoint must be a vLLM"
        raise TargetError(
            f"{len(failed)} of {len(heard)} answers to {len(asked)} questions are missing "
            f"({failed[0].outcome}: {reason}): nothing was recorded; run the same command again for the rest"
        )


def recorded(
    request: ChatRequest, done: Completion, model: str, how: Condition, concurrency: int
) -> Recording:
    """The answer `done` of `model` to `request`, to be found again by what was asked, and of which engine."""
    question, _, step = request.request_id.partition(" ")
    about = {"question": question, "contract": how.contract, "prompt": how.prompt}
    return Recording(
        key=request_key({**request.body(model), **request.contract.engine}, model),
        text=done.text or "",
        finish_reason=done.finish_reason or "stop",
        prompt_tokens=done.prompt_tokens or 0,
        token_ids=done.token_ids or (),
        logprobs=done.logprobs,
        concurrency=concurrency,
        about=about | ({"step": step or "kind"} if how.planned else {}),
    )


def about_server(server: ServerIdentity, source: str, how: Condition, catalog: Catalog) -> Json:
    """What a file of recordings says of itself: whose answers these are, to what, and since when."""
    told = {k: v for k, v in asdict(server).items() if k != "model" and v is not None}
    return {
        "model": server.model,
        "server": told,
        "set": Path(source).stem,
        "contract": how.contract,
        "prompt": how.prompt,
        "prompt_sha256": _planner_sha256(catalog) if how.planned else prompt_sha256(catalog, how.prompt),
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.machine(),
    }


def _planner_sha256(catalog: Catalog) -> str:
    """SHA-256 of the two system messages of the planner."""
    steps = (kind_request("revenue", catalog), slots_request("revenue", "breakdown", catalog))
    return hashlib.sha256("\n".join(step.messages[0]["content"] for step in steps).encode()).hexdigest()
