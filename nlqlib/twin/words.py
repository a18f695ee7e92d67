"""Where the twin's words come from: recordings of a real model, or lengths drawn from a distribution."""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

import numpy as np

from nlqlib.records import Json
from nlqlib.twin.answer import HINT, Answer, Refused, cut
from nlqlib.twin.asked import Asked
from nlqlib.twin.recordings import Recordings

_DRAWN_AT_ONCE = 1024
_KEPT = 1024  # requests whose recording is remembered
FILLER = "word "


class Words(Protocol):
    """What the modelled endpoint says."""

    @property
    def model(self) -> str:
        """The model whose words are heard."""

    def answer(self, asked: Asked) -> Answer:
        """The answer to a request. Raises `Refused` (422) when there is none."""

    def about(self) -> Json:
        """What these words are, for identities and fingerprints."""


class Replayed:
    """The recorded answers, token by token.

    `engine`: server flags that decide what is answered; heard is only what was recorded under the same ones.
    """

    def __init__(self, recordings: Recordings, engine: Mapping[str, Any] = MappingProxyType({})) -> None:
        self._recordings, self._engine = recordings, dict(engine)

    @property
    def model(self) -> str:
        return self._recordings.model

    def answer(self, asked: Asked) -> Answer:
        """The recorded answer. Raises `Refused` (422) naming the command that records it."""
        recording = self._recordings.find({**asked.body, **self._engine})
        if recording is None:
            raise Refused(
                422, f"the twin only replays, and this prompt was never recorded; {HINT}", "recording"
            )
        if asked.body.get("logprobs") and recording.logprobs is None:
            raise Refused(422, f"this prompt was recorded without log-probabilities; {HINT}", "recording")
        return cut(recording, asked.max_tokens)

    def about(self) -> Json:
        return {"words": "recordings", "recordings": self._recordings.sha256, **self._engine}


class Drawn:
    """Output lengths drawn from a normal distribution, at least one token, in order of arrival.

    The text is the recorded one where there is a recording, else filler: only its length in tokens is
    modelled, and it says nothing about meaning. `ignore_eos` gives exactly `max_tokens`.
    """

    def __init__(self, recordings: Recordings, mean: float = 115.0, sd: float = 3.0, seed: int = 0) -> None:
        if not (mean >= 1 and sd >= 0 and np.isfinite([mean, sd]).all()):
            raise ValueError(
                f"output lengths of {mean} ± {sd} tokens: the mean must be ≥ 1 and the spread ≥ 0"
            )
        self._recordings, self._mean, self._sd, self._seed = recordings, mean, sd, seed
        self._random = np.random.default_rng(seed)
        self._lengths: list[int] = []
        self._texts: dict[Asked, str | None] = {}

    @property
    def model(self) -> str:
        return self._recordings.model

    def answer(self, asked: Asked) -> Answer:
        """An answer of the next drawn length. Raises `Refused` (422) where the tokens are asked for."""
        if asked.body.get("logprobs") or asked.body.get("return_token_ids"):
            raise Refused(422, "lengths are drawn here: there are no tokens to show; use recordings", "words")
        wanted = asked.max_tokens if asked.body.get("ignore_eos") else self._next()
        n = min(wanted, asked.max_tokens)
        ended = wanted < asked.max_tokens or (wanted == asked.max_tokens and not asked.body.get("ignore_eos"))
        return Answer(self._text(asked) or FILLER * n, "stop" if ended else "length", n)

    def about(self) -> Json:
        return {
            "words": "synthetic",
            "output_tokens": self._mean,
            "output_sd": self._sd,
            "seed": self._seed,
            "recordings": self._recordings.sha256,
        }

    def _next(self) -> int:
        if not self._lengths:
            drawn = self._random.normal(self._mean, self._sd, _DRAWN_AT_ONCE)
            self._lengths = [int(n) for n in np.maximum(1, np.rint(drawn))][::-1]
        return self._lengths.pop()

    def _text(self, asked: Asked) -> str | None:
        if asked not in self._texts:
            if len(self._texts) >= _KEPT:
                self._texts.clear()
            recording = self._recordings.find(asked.body)
            self._texts[asked] = None if recording is None else recording.text
        return self._texts[asked]
