"""Completions recorded from a real model, found again by what was asked.

A recording is keyed by model, messages, sampling and output contract. How many tokens were allowed is not
part of the key: at temperature 0 an answer that ended by itself after n tokens is the answer under every
larger limit, and its first m tokens are the answer under a smaller one.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from nlqlib.files import text_lines
from nlqlib.records import Json

UNKEYED = frozenset(
    {
        # how the answer is delivered, or how much of it: not what it says
        "stream",
        "stream_options",
        "max_tokens",
        "max_completion_tokens",
        "logprobs",
        "top_logprobs",
        "return_token_ids",
        "cache_salt",
        "user",
        "request_id",
    }
)

NUMBERS = frozenset({"temperature", "top_p"})
"""Sampling parameters of which 0 and 0.0 are one value."""


class RecordingError(ValueError):
    """A recording is missing, cut or not what its description says."""


@dataclass(frozen=True)
class Recording:
    """One recorded answer."""

    key: str
    text: str
    finish_reason: str
    prompt_tokens: int
    token_ids: tuple[int, ...]
    """Output token ids, the end-of-turn token included."""
    logprobs: tuple[Json, ...] | None = None
    """One entry per output token, as the server gave it."""
    concurrency: int = 1
    """Requests in flight while this was recorded: batches change the last bits of a sum."""
    about: Json = field(default_factory=dict)
    """For people: question id, contract, prompt."""


def request_key(body: Mapping[str, Any], model: str) -> str:
    """SHA-256 of everything in the request `body` that decides what `model` answers."""
    asked = {k: float(v) if k in NUMBERS else v for k, v in body.items() if k not in UNKEYED}
    asked["model"] = model
    text = json.dumps(asked, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class Recordings:
    """All recordings of one `model`, by key, and the descriptions of the files they came from."""

    model: str
    by_key: Mapping[str, Recording]
    sources: tuple[Json, ...] = ()

    def find(self, body: Mapping[str, Any]) -> Recording | None:
        """The recording that answers request `body`, or `None`."""
        return self.by_key.get(request_key(body, self.model))

    @property
    def sha256(self) -> str:
        """One hash over all recorded answers, for fingerprints."""
        lines = sorted(f"{r.key} {hashlib.sha256(r.text.encode()).hexdigest()}" for r in self.by_key.values())
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def slug(model: str) -> str:
    """A folder name for a model name."""
    return model.rsplit("/", 1)[-1].lower()


def load_recordings(folder: Path) -> Recordings:
    """Every `*.jsonl` under `folder`, each verified against the `*.meta.json` beside it."""
    files = sorted(folder.glob("*.jsonl"))
    if not files:
        raise RecordingError(f"no recordings in {folder.name}/: make some with `make record`")
    sources, found = [], {}
    for path in files:
        source, recordings = _load_file(path)
        sources.append(source)
        found.update({r.key: r for r in recordings})
    models = {s["model"] for s in sources}
    if len(models) != 1:
        raise RecordingError(f"{folder.name}/ mixes models {sorted(models)}: one folder for each model")
    return Recordings(models.pop(), found, tuple(sources))


def _load_file(path: Path) -> tuple[Json, list[Recording]]:
    meta_path = path.with_suffix(".meta.json")
    try:
        raw, source = path.read_bytes(), json.loads(meta_path.read_text("utf-8"))
    except FileNotFoundError as missing:
        raise RecordingError(
            f"{Path(missing.filename).name} is missing beside {path.name}: record again with `make record`"
        ) from missing
    if hashlib.sha256(raw).hexdigest() != source["sha256"]:
        raise RecordingError(
            f"{path.name} is cut or changed (its hash is not the one in {meta_path.name}): "
            "restore it from the repository or record again with `make record`"
        )
    return source, [_parse(json.loads(line)) for line in text_lines(raw.decode())]


def _parse(row: Json) -> Recording:
    logprobs = row.get("logprobs")
    listed = {
        "token_ids": tuple(row["token_ids"]),
        "logprobs": None if logprobs is None else tuple(logprobs),
    }
    return Recording(**(row | listed))


def save_recordings(path: Path, recordings: Iterable[Recording], source: Json) -> None:
    """Write `recordings` and, beside them, `source` (model, hash, engine, date …) with the file's hash.

    Each file is written under a temporary name and renamed; the description goes last.
    """
    ordered = sorted(recordings, key=lambda r: (json.dumps(r.about, sort_keys=True), r.key))
    lines = [json.dumps(_row(r), sort_keys=True, ensure_ascii=False) for r in ordered]
    raw = "".join(line + "\n" for line in lines).encode()
    described = {**source, "n": len(ordered), "sha256": hashlib.sha256(raw).hexdigest()}
    path.parent.mkdir(parents=True, exist_ok=True)
    _replace(path, raw)
    meta = json.dumps(described, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    _replace(path.with_suffix(".meta.json"), meta.encode())


def _row(recording: Recording) -> Json:
    return {k: v for k, v in asdict(recording).items() if v is not None}


def _replace(path: Path, raw: bytes) -> None:
    temporary = path.with_name(path.name + ".part")
    temporary.write_bytes(raw)
    temporary.replace(path)
