"""What an endpoint has answered so far, so that an evaluation that was interrupted asks only for the rest.

Each answer is one line, written when it comes; a line that a killed process left half is no answer. The file
belongs to one evaluation, named by its header, and is removed when the evaluation is complete.
"""

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from nlqlib import paths
from nlqlib.files import append_line, canonical_json
from nlqlib.load.batch import Completes
from nlqlib.records import ANSWERED, ChatRequest, Completion, Json
from nlqlib.serving.target import Target
from nlqlib.twin.recordings import request_key

FOLDER = paths.BUILD / "answered"


def identity(target: Target) -> Json:
    """Who is asked: as declared, and for a URL also which one, as a hash."""
    if target.kind != "url":
        return target.declared
    host = hashlib.sha256(target.connection.endpoint.base_url.encode()).hexdigest()[:16]
    return {**target.declared, "url": host}


@dataclass
class Journal:
    """The answers of one unfinished evaluation, by request."""

    path: Path
    answers: dict[str, Completion] = field(default_factory=dict)

    @classmethod
    def open(cls, header: Json, folder: Path | None = None) -> "Journal":
        """The journal of the evaluation that `header` describes, with what it holds already."""
        path = (
            folder or FOLDER
        ) / f"{hashlib.sha256(canonical_json(header).encode()).hexdigest()[:16]}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        data = path.read_bytes() if path.exists() else b""
        if data and not data.endswith(b"\n"):
            append_line(path, "")  # else the next answer would continue the one that was cut
        return cls(path, dict(_answers(data)))

    def add(self, key: str, done: Completion) -> None:
        """Keep an answer; what failed is asked again."""
        if done.outcome in ANSWERED:
            self.answers[key] = done
            append_line(self.path, canonical_json({"key": key, "completion": asdict(done)}))

    def close(self) -> None:
        """The evaluation is complete."""
        self.path.unlink(missing_ok=True)


def _answers(data: bytes) -> list[tuple[str, Completion]]:
    found = []
    for line in data.split(b"\n"):
        try:
            row = json.loads(line.decode("utf-8"))
        except ValueError:  # cut by a kill, even within a character
            continue
        found.append((row["key"], _completion(row["completion"])))
    return found


def _completion(row: Json) -> Completion:
    listed = {
        name: None if row[name] is None else tuple(row[name])
        for name in ("token_times_s", "token_ids", "logprobs")
    }
    return Completion(**(row | listed))


@dataclass
class Deferred:
    """A client that its first request opens: what is remembered needs no endpoint."""

    make: Callable[[], Completes]
    opened: Completes | None = None

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        """The completion of `request`."""
        if self.opened is None:
            self.opened = self.make()
        return await self.opened.complete(request, planned_s)

    async def aclose(self) -> None:
        """Close the client, where it was opened."""
        if self.opened is not None:
            await self.opened.aclose()


@dataclass
class RememberingClient:
    """A client that answers from a journal what is in there, and keeps there what it had to ask for."""

    client: Completes
    journal: Journal
    model: str

    async def complete(self, request: ChatRequest, planned_s: float | None = None) -> Completion:
        """The completion of `request`, as the journal or else the endpoint has it."""
        key = request_key(request.body(self.model), self.model)
        known = self.journal.answers.get(key)
        if known is not None:
            return replace(known, request_id=request.request_id)
        done = await self.client.complete(request, planned_s)
        self.journal.add(key, done)
        return done

    async def aclose(self) -> None:
        await self.client.aclose()
