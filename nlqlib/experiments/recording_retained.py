"""Recordings made from the answers that a run retained, so that the twin replays the run that is reported.

Two runs of one engine differ in a few answers, since batches change the last bits of a sum. What was judged
of a real engine and what the twin replays therefore come from one run. Reads and writes files, asks nobody.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from nlqlib import paths, tokens
from nlqlib.artifact_record import load_record
from nlqlib.artifacts import Record
from nlqlib.experiments.conditions import Condition, requests
from nlqlib.experiments.heard import heard_of, named_kind, request_digest, sendable, without_bytes
from nlqlib.experiments.questions import Question, load_questions
from nlqlib.experiments.recording import about_server, asking, file_name, recorded
from nlqlib.nlq.catalog import Catalog, load_catalog
from nlqlib.nlq.planner import slots_request
from nlqlib.records import COMPLETED, ChatRequest, Completion, Json
from nlqlib.twin.recordings import (
    Recording,
    RecordingError,
    load_recordings,
    request_key,
    save_recordings,
    slug,
)

END_OF_TURN = "<|im_end|>"
ENCODED = "encoded from the text, in as many pieces as the server counted"
"""How token ids came about that the run did not retain."""


@dataclass(frozen=True)
class Filled:
    """One file of recordings, and what the run changed in it."""

    path: Path
    answers: int
    taken: int
    """Answers that were not recorded as the run has them."""


def fill(folder: Path, root: Path | None = None) -> list[Filled]:
    """Write the answers retained in `folder` below `root`, by default where the twin looks for them.

    A file for each set and way of asking. The very same answer, recorded already, stays as it is but for how
    many requests were in flight. Raises `RecordingError` where `folder` holds no answers to what is asked
    today, or one that cannot be replayed.
    """
    catalog = load_catalog()
    found = [(record, how) for record, how in _answers(folder) if _asked_today(record, how, catalog)]
    if not found:
        raise RecordingError(f"{folder} holds no answers to what is asked today: measure them first")
    there = root or paths.RECORDINGS
    known = {path: _known(path) for path in {_folder(record, there) for record, _ in found}}
    return [_write(record, how, catalog, there, known[_folder(record, there)]) for record, how in found]


def _answers(folder: Path) -> Iterator[tuple[Record, Condition]]:
    """The answers retained in `folder`, each with how they were asked for."""
    for path in sorted(folder.glob("answers-*-????????.json")):
        record = load_record(path)
        if record.status == "success":
            yield record, replace(asking(record.params["prompt"]), contract=record.params["contract"])


def _asked_today(record: Record, how: Condition, catalog: Catalog) -> bool:
    questions = load_questions(_source(record), catalog)
    return bool(record.params["requests_sha256"] == request_digest(questions, how, catalog))


def _source(record: Record) -> str:
    return record.workload.name if record.workload else ""


def _folder(record: Record, root: Path) -> Path:
    """Where recordings of the model that answered are. Raises `RecordingError` where none is named."""
    if record.server is None or record.server.model is None:
        raise RecordingError(f"{record.path.name} does not say which model answered: nothing was recorded")
    return root / slug(record.server.model)


def _known(folder: Path) -> Mapping[str, Recording]:
    return load_recordings(folder).by_key if list(folder.glob("*.jsonl")) else {}


def _write(
    record: Record, how: Condition, catalog: Catalog, root: Path, known: Mapping[str, Recording]
) -> Filled:
    path = _folder(record, root) / f"{file_name(_source(record), how)}.jsonl"
    made = as_recordings(record, how, catalog, known)
    save_recordings(path, made, _about(record, how, catalog))
    return Filled(path, len(made), sum(_differs(known.get(one.key), one) for one in made))


def _differs(old: Recording | None, new: Recording) -> bool:
    """Was something else said, whatever was in flight?"""
    return old is None or replace(old, concurrency=new.concurrency) != new


def as_recordings(
    record: Record, how: Condition, catalog: Catalog, known: Mapping[str, Recording]
) -> list[Recording]:
    """One recording for each answer of `record`, the `known` one where it is the very same answer."""
    model, at = str(record.server and record.server.model), int(record.params["concurrency"])
    questions = load_questions(_source(record), catalog)
    return [
        _recording(request, done, model, how, at, known)
        for request, done in exchanges(record.samples(), questions, how, catalog)
    ]


def exchanges(
    rows: Sequence[Json], questions: Sequence[Question], how: Condition, catalog: Catalog
) -> Iterator[tuple[ChatRequest, Completion]]:
    """Every request that retained `rows` answer, with its answer."""
    first = {r.request_id: r for r in requests(sendable(questions, how), how, catalog)}
    for row, heard in zip(rows, heard_of(rows).values(), strict=True):
        name, sent = row["question_id"], [first[row["question_id"]]]
        if len(heard) > 1:
            kind = named_kind(heard[0])
            sent.append(slots_request(row["question"], kind, catalog, how.contract, f"{name} slots"))
        yield from zip(sent, heard, strict=True)


def _recording(
    request: ChatRequest,
    done: Completion,
    model: str,
    how: Condition,
    concurrency: int,
    known: Mapping[str, Recording],
) -> Recording:
    old = known.get(request_key({**request.body(model), **request.contract.engine}, model))
    if old is not None and _same_answer(old, done):
        return replace(old, concurrency=concurrency)
    ids = old.token_ids if old is not None and _same_text(old, done) else _encoded(request, done)
    made = recorded(request, replace(done, token_ids=ids), model, how, concurrency)
    return made if old and ids is old.token_ids else replace(made, about=made.about | {"token_ids": ENCODED})


def _same_text(old: Recording, done: Completion) -> bool:
    told = (done.text, done.finish_reason, done.prompt_tokens, done.output_tokens)
    return (old.text, old.finish_reason, old.prompt_tokens, len(old.token_ids)) == told


def _same_answer(old: Recording, done: Completion) -> bool:
    """The same in what a judgement reads: also in the beliefs, where they were asked for."""
    spoken = tuple(without_bytes(token) for token in old.logprobs or ())
    return _same_text(old, done) and (done.logprobs is None or spoken == done.logprobs)


def _encoded(request: ChatRequest, done: Completion) -> tuple[int, ...]:
    """The ids of an answer's text. Raises `RecordingError` where the server counted another number."""
    if done.outcome not in COMPLETED or done.text is None:
        raise RecordingError(
            f"{request.request_id} has no answer to replay ({done.outcome}): measure it again"
        )
    end = END_OF_TURN if done.finish_reason == "stop" else ""
    ids = _pieces(tokens.encode(done.text + end), done.output_tokens or 0)
    if len(ids) != done.output_tokens:
        raise RecordingError(
            f"the text of {request.request_id} is {len(ids)} tokens, and the server counted "
            f"{done.output_tokens}: record it with `python -m nlqlib record`"
        )
    return tuple(ids)


def _pieces(ids: list[int], wanted: int) -> list[int]:
    """`ids` in smaller pieces of the same text until they are `wanted`: at white space, then anywhere.

    Under a grammar a model writes in more tokens than an encoder needs, above all its white space.
    """
    for fits in (str.isspace, str.isprintable):
        missing, found = wanted - len(ids), list[int]()
        for one in ids:
            text = tokens.decode([one])
            cut = min(missing, len(text) - 1) if fits(text) and text.isascii() and text != END_OF_TURN else 0
            found += [one] if cut <= 0 else [*map(_letter, text[:cut]), *tokens.encode(text[cut:])]
            missing -= max(cut, 0)
        ids = found
    return ids


def _letter(text: str) -> int:
    [one] = tokens.encode(text)
    return one


def _about(record: Record, how: Condition, catalog: Catalog) -> Json:
    """What the file is, and which run it comes from."""
    assert record.server is not None
    machine = (record.run.get("provenance") or {}).get("machine") or {}
    run = {
        "target": record.body["target"],
        "notebook": record.body["notebook"],
        "point": record.body["point"],
        "answers_sha256": record.body["samples"]["sha256"],
        "concurrency": record.params["concurrency"],
    }
    about = about_server(record.server, _source(record), how, catalog)
    return about | {
        "recorded_at": record.run.get("completed_at"),
        "machine": machine.get("processor"),
        "run": run,
    }
