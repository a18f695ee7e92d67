"""The prompt's variants as a real engine answered them, written down for the twin to replay.

One run is the source of both the retained evaluation and the recording, so both show the same figures.
"""

import hashlib
import platform
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from nlqlib import paths
from nlqlib.artifacts import Record
from nlqlib.experiments.ablation_variants import AS_IS, BASE, VARIANTS, Variant, system_text
from nlqlib.experiments.ablations import CONCURRENCY, HOW, SET, asked
from nlqlib.experiments.recording import recorded
from nlqlib.nlq.catalog import Catalog
from nlqlib.records import Completion, Json
from nlqlib.serving.target import TargetError
from nlqlib.twin.recordings import Recording, save_recordings, slug


def keep(records: Mapping[str, Record], catalog: Catalog, folder: Path = paths.RECORDINGS) -> list[Path]:
    """Write what was said under every changed prompt of `records` below `folder`; the files.

    The prompt as it is is recorded with its set already, from a run of its own: an answer to one request has
    one recording. Raises `TargetError` for an evaluation without the tokens of its answers.
    """
    return [
        _keep(records[v.name], v, catalog, folder) for v in VARIANTS if v is not AS_IS and v.name in records
    ]


def _keep(record: Record, variant: Variant, catalog: Catalog, folder: Path) -> Path:
    server: Json = record.body["server"] or {}
    path = folder / slug(str(server.get("model"))) / f"{SET}-ablation_{variant.name}-{HOW.contract}.jsonl"
    about = {
        "model": server.get("model"),
        "server": {k: v for k, v in server.items() if k != "model" and v is not None},
        "set": SET,
        "contract": HOW.contract,
        "prompt": f"{BASE}, {variant.name}",
        "prompt_sha256": hashlib.sha256(system_text(variant, catalog).encode()).hexdigest(),
        "recorded_at": record.run["completed_at"],
        "machine": platform.machine(),
    }
    save_recordings(path, as_recordings(record, variant, catalog), about)
    return path


def as_recordings(record: Record, variant: Variant, catalog: Catalog) -> list[Recording]:
    """One recording for each answer of `record`. Raises `TargetError` where the tokens are missing."""
    model = str((record.body["server"] or {}).get("model"))
    sent = {request.request_id: request for request in asked(variant, catalog)}
    how, rows = replace(HOW, prompt=f"{BASE}, {variant.name}"), record.samples()
    if any(not row.get("token_ids") for row in rows):
        raise TargetError(
            f"{record.path.name} holds no token ids, which only a vLLM tells: "
            "measure it anew with TARGET=local REMEASURE=1"
        )
    return [recorded(sent[row["question_id"]], _done(row), model, how, CONCURRENCY) for row in rows]


def _done(row: Json) -> Completion:
    return Completion(
        request_id=row["question_id"],
        outcome="ok",
        text=row["said"],
        finish_reason=row["finish_reason"],
        prompt_tokens=row["prompt_tokens"],
        token_ids=tuple(row["token_ids"]),
    )
