"""Which kind a model takes a question for, and how sure it is: labels, their log-probabilities, calibration.

A small model likes one label whatever the question; what it likes is measured once over the development
questions and subtracted (batch calibration, Zhou et al. 2023). Without log-probabilities its word is taken.
"""

import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from nlqlib.nlq.intent import Kind
from nlqlib.nlq.prompt import FOLDER
from nlqlib.records import Completion, Json

LABELS: Mapping[str, Kind] = {
    "breakdown": "breakdown",
    "ranking": "top_n_by_metric",
    "series": "time_series",
}
"""The word a model answers with for each kind; the first token of each is different."""
WORDS = {kind: label for label, kind in LABELS.items()}
LABEL = re.compile(rf"\b({'|'.join(LABELS)})\b", re.IGNORECASE)
PRIORS = FOLDER / "planner_prior.toml"
Scores = Mapping[Kind, float]
"""A log-probability (nats) for each kind."""


@dataclass(frozen=True)
class Belief:
    """Which kind the model takes a question for."""

    kind: Kind | None
    """The likeliest kind, calibrated; `None`: the answer names none."""
    logprobs: Scores | None = None
    """Calibrated log-probabilities of all kinds; `None` where the endpoint gives none."""
    said: Kind | None = None
    """The kind that the answer names, before calibration."""

    def margin(self, kind: Kind) -> float | None:
        """How many nats `kind` lies below the likeliest kind, 0 for that one; `None` when not known."""
        if self.logprobs is None:
            return None
        return max(self.logprobs.values()) - self.logprobs[kind]


def read_belief(completion: Completion) -> Belief:
    """The belief in `completion`, calibrated for its model where that is known."""
    named = LABEL.search(completion.text or "")
    said = LABELS[named[1].lower()] if named else None
    told = label_logprobs(completion.logprobs or ())
    if told is None:
        return Belief(said, None, said)
    scores = calibrated(told, priors().get(completion.model or "", {}))
    likeliest: Kind = max(scores, key=scores.__getitem__)
    return Belief(likeliest, scores, said)


def label_logprobs(tokens: Sequence[Json]) -> dict[Kind, float] | None:
    """Log-probability of each label at the token where a label begins; `None` where none is told.

    All tokens that begin a label count for it. A label that none of the alternatives begins has at most the
    probability of the least of them, and is given that: its true margin is larger.
    """
    for token in tokens:
        alternatives = {a["token"]: float(a["logprob"]) for a in token.get("top_logprobs") or ()}
        if not _begun(str(token.get("token", ""))) or not alternatives:
            continue
        least = min(alternatives.values())
        return {kind: _total(label, alternatives, least) for label, kind in LABELS.items()}
    return None


def _begun(token: str) -> str | None:
    """The label that `token` begins."""
    bare = token.strip(" \n\"'{:").lower()
    return next((label for label in LABELS if bare and label.startswith(bare)), None)


def _total(label: str, alternatives: Mapping[str, float], least: float) -> float:
    own = [p for token, p in alternatives.items() if _begun(token) == label]
    return _log_sum(own) if own else least


def _log_sum(logs: Sequence[float]) -> float:
    """log Σ exp."""
    most = max(logs)
    return most + math.log(sum(math.exp(p - most) for p in logs))


def calibrated(told: Scores, prior: Mapping[str, float]) -> dict[Kind, float]:
    """`told` without what the model likes whatever the question, normalised again."""
    scores = {kind: p - prior.get(kind, 0.0) for kind, p in told.items()}
    total = _log_sum(list(scores.values()))
    return {kind: p - total for kind, p in scores.items()}


def prior_of(told: Sequence[Scores]) -> dict[Kind, float]:
    """What a model likes: the logarithm of the mean probability of each kind over many questions."""
    n = math.log(len(told))
    return {kind: _log_sum([one[kind] for one in told]) - n for kind in WORDS}


@lru_cache(maxsize=1)
def priors() -> Mapping[str, Mapping[str, Any]]:
    """The priors that are known, by model."""
    return tomllib.loads(PRIORS.read_text("utf-8"))
