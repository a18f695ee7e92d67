"""The twin as a target: a model of one endpoint, in this process and in virtual time."""

import difflib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

from nlqlib import paths
from nlqlib.records import Json
from nlqlib.serving.endpoint import Endpoint
from nlqlib.serving.target import TIMEOUT_S, Connection, Target, TargetError
from nlqlib.twin import model as twins
from nlqlib.twin import recordings as twin_recordings
from nlqlib.twin.app import VERSION, TwinApp, create_app
from nlqlib.twin.clock import VirtualLoop
from nlqlib.twin.limits import EngineError, EngineLimits
from nlqlib.twin.model import TwinModel
from nlqlib.twin.recordings import Recordings
from nlqlib.twin.words import Drawn, Replayed, Words

LIMITS = tuple(EngineLimits.__dataclass_fields__)


@dataclass(frozen=True)
class TwinSettings:
    """Which endpoint is modelled, and where its words come from."""

    twin: str = twins.DEFAULT
    """Name of a document in `data/twins/`, or the path of one."""
    words: str = "recordings"
    """`recordings`, or `synthetic`: lengths drawn from a normal distribution."""
    output_tokens: float = 115.0
    output_sd: float = 3.0
    seed: int = 0
    limits: Mapping[str, Any] = field(default_factory=dict)
    """Engine settings that differ from the document's."""
    structured_outputs_config: Json | None = None
    """vLLM's server flag of that name: the answers recorded under it are replayed (recordings only)."""

    def changed(self, flags: Mapping[str, Any]) -> "TwinSettings":
        """These settings with `flags` on top; raises `TargetError` for one that is not known."""
        own = {k: v for k, v in flags.items() if k in self.__dataclass_fields__ and k != "limits"}
        engine = {k: v for k, v in flags.items() if k in LIMITS}
        unknown = sorted(set(flags) - set(own) - set(engine))
        if unknown:
            known = [*(k for k in self.__dataclass_fields__ if k != "limits"), *LIMITS]
            close = difflib.get_close_matches(unknown[0], known, 1)
            hint = f"; did you mean {close[0]}?" if close else f"; known are {', '.join(known)}"
            raise TargetError(f"the twin has no setting {unknown[0]!r}{hint}")
        return replace(self, **own, limits={**self.limits, **engine})


def open_twin(settings: TwinSettings | None = None) -> Target:
    """The twin with `settings`, by default the one that the environment's `TWIN` names.

    Raises `TargetError` for settings that no endpoint could have.
    """
    settings = settings or TwinSettings(twin=os.environ.get("TWIN") or twins.DEFAULT)
    model = twin_model(settings)
    recorded = recordings()
    make_words(settings, recorded)  # a mistake is told here, before anything runs
    endpoint = Endpoint("http://twin/v1", recorded.model, timeout_s=TIMEOUT_S)
    engine = {
        "engine": "twin",
        "version": VERSION,
        "accelerator": f"modelled: {model.title}",
        "args": {k: getattr(model.limits, k) for k in ("max_num_seqs", "max_num_batched_tokens")},
    }

    def connect() -> Connection:
        app = create_app(make_words(settings, recorded), model)
        return Connection(endpoint, app, ("http://twin/metrics",), engine)

    return Target(
        name="twin",
        kind="twin",
        clock="virtual",
        can=frozenset({"restart", "set_limits", "reset_cache", "metrics"}),
        declared=_declared(settings, recorded),
        speaker=recorded.model,
        connect=connect,
        models=model.title,
        new_loop=VirtualLoop,
        variant=lambda flags: open_twin(settings.changed(flags)),
    )


def twin_app(settings: TwinSettings) -> TwinApp:
    """The same endpoint as an application to be served on a socket, in real time."""
    return create_app(make_words(settings, recordings()), twin_model(settings))


def twin_model(settings: TwinSettings) -> TwinModel:
    """The model of the endpoint with the settings' limits. Raises `TargetError`."""
    try:
        model = twins.load(settings.twin)
        return replace(model, limits=replace(model.limits, **settings.limits))
    except EngineError as error:
        raise TargetError(f"the twin cannot be like that: {error}") from error


def make_words(settings: TwinSettings, recorded: Recordings) -> Words:
    """Fresh words for one endpoint. Raises `TargetError`."""
    if settings.words == "recordings":
        flag = settings.structured_outputs_config
        return Replayed(recorded, {"structured_outputs_config": flag} if flag else {})
    if settings.words != "synthetic":
        raise TargetError(f"the twin has no words {settings.words!r}: use recordings or synthetic")
    try:
        return Drawn(recorded, settings.output_tokens, settings.output_sd, settings.seed)
    except ValueError as error:
        raise TargetError(str(error)) from error


@lru_cache(maxsize=1)
def recordings() -> Recordings:
    """What the twin replays. Raises `TargetError` when there is nothing."""
    folders = sorted(p for p in paths.RECORDINGS.iterdir() if p.is_dir()) if paths.RECORDINGS.exists() else []
    if not folders:
        raise TargetError("the twin has nothing to replay: data/recordings/ is empty; run `make record`")
    return twin_recordings.load_recordings(folders[0])


def _declared(settings: TwinSettings, recorded: Recordings) -> Json:
    """Name, model and settings, the document by its content and never by its path."""
    document = json.dumps(twins.document(settings.twin), sort_keys=True)
    return {
        "name": "twin",
        "model": recorded.model,
        "clock": "virtual",
        "twin": twins.load(settings.twin).name,
        "twin_sha256": hashlib.sha256(document.encode()).hexdigest(),
        **make_words(settings, recorded).about(),
        **({"limits": dict(settings.limits)} if settings.limits else {}),
    }
