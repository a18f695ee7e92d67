"""Records what a real model answers, for the twin to replay."""

import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from nlqlib import paths
from nlqlib.experiments.questions import Question, load_questions
from nlqlib.load.batch import complete_all
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.pipeline import contracts, prepare
from nlqlib.nlq.prompt import prompt_sha256
from nlqlib.records import ChatRequest, Completion, Json, ServerIdentity
from nlqlib.serving.identity import identify
from nlqlib.serving.target import Target, TargetError
from nlqlib.twin.recordings import Recording, request_key, save_recordings, slug

CONTRACTS = ("unconstrained", "guided_json", "structured_outputs")
RECORDED = frozenset({"ok", "length"})


def record(
    target: Target, source: str, contract: str, prompt: str = "baseline", concurrency: int = 1
) -> Path:
    """Record the answers of `target` to the set `source` under the output `contract`; the file written.

    `concurrency` 1 makes a recording that a fresh sequential run repeats token by token. Raises
    `TargetError` when an answer is missing: half a recording is none.
    """
    catalog = load_catalog()
    questions = load_questions(source, catalog)
    asked = _requests(questions, contract, prompt, catalog)
    server, completions = target.run(_ask(target, asked, concurrency))
    if server.model is None:
        raise TargetError("the endpoint does not say which model it serves: nothing was recorded")
    failed = [c for c in completions if c.outcome not in RECORDED or c.token_ids is None]
    if failed:
        raise TargetError(
            f"{len(failed)} of {len(asked)} answers are missing ({failed[0].outcome}: {failed[0].error}): "
            "nothing was recorded"
        )
    model = server.model
    recordings = [
        _recording(request, done, model, concurrency, prompt)
        for request, done in zip(asked, completions, strict=True)
    ]
    path = paths.RECORDINGS / slug(model) / f"{Path(source).stem}-{prompt}-{contract}.jsonl"
    save_recordings(path, recordings, _about(server, source, contract, prompt, catalog))
    return path


def _requests(
    questions: Sequence[Question], contract: str, prompt: str, catalog: Catalog
) -> list[ChatRequest]:
    known = contracts(catalog)[contract]
    return [
        replace(
            prepare(q.question, catalog, prompt, known, request_id=f"{q.id} {contract}"),
            want_token_ids=True,
        )
        for q in questions
    ]


async def _ask(
    target: Target, asked: Sequence[ChatRequest], concurrency: int
) -> tuple[ServerIdentity, list[Completion]]:
    client = target.client("wire")
    try:
        await client.complete(replace(asked[0], request_id="warm-up", max_tokens=1))
        completions, _ = await complete_all(client, asked, concurrency, "recording")
        return await identify(target), completions
    finally:
        await client.aclose()


def _recording(
    request: ChatRequest, done: Completion, model: str, concurrency: int, prompt: str
) -> Recording:
    question, contract = request.request_id.split(" ")
    return Recording(
        key=request_key(request.body(model), model),
        text=done.text or "",
        finish_reason=done.finish_reason or "stop",
        prompt_tokens=done.prompt_tokens or 0,
        token_ids=done.token_ids or (),
        logprobs=done.logprobs,
        concurrency=concurrency,
        about={"question": question, "contract": contract, "prompt": prompt},
    )


def _about(server: ServerIdentity, source: str, contract: str, prompt: str, catalog: Catalog) -> Json:
    told = {k: v for k, v in asdict(server).items() if k != "model" and v is not None}
    return {
        "model": server.model,
        "server": told,
        "set": Path(source).stem,
        "contract": contract,
        "prompt": prompt,
        "prompt_sha256": prompt_sha256(catalog, prompt),
        "recorded_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": platform.machine(),
    }
