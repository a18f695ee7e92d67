"""What the engine counts, in vLLM's buckets; a histogram is folded from raw values when it is read.

When each is observed is vLLM's: time to first token and the gaps between tokens as they happen, everything
else when a request finishes.
"""

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt

from nlqlib.twin.sequence import Sequence

Bounds = tuple[float, ...]

REQUEST_LATENCY: Bounds = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
FIRST_TOKEN: Bounds = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
INTER_TOKEN: Bounds = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0),
)

_FOLD_AT = 8192  # raw values kept before they are folded into buckets


class Histogram:
    """Counts per bucket (`bounds` are upper bounds, the last bucket is open), sum and number of values."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._counts = np.zeros(len(bounds) + 1, dtype=np.int64)
        self._sum = 0.0
        self._raw: list[float] = []
        self._weights: list[int] = []

    def observe(self, value: float, times: int = 1) -> None:
        """Add `value`, `times` times."""
        self._raw.append(value)
        self._weights.append(times)
        if len(self._raw) >= _FOLD_AT:
            self._fold()

    def observe_all(self, values: npt.NDArray[np.float64]) -> None:
        """Add every one of `values`."""
        at = np.searchsorted(np.array(self.bounds), values, side="left")
        self._counts += np.bincount(at, minlength=len(self._counts))
        self._sum += float(values.sum())

    @property
    def sum(self) -> float:
        self._fold()
        return self._sum

    @property
    def count(self) -> int:
        self._fold()
        return int(self._counts.sum())

    @property
    def cumulative(self) -> list[int]:
        """Values at or below each bound, then all of them: Prometheus' `le` counts."""
        self._fold()
        return [int(n) for n in np.cumsum(self._counts)]

    def _fold(self) -> None:
        if self._raw:
            values, weights = np.array(self._raw), np.array(self._weights)
            at = np.searchsorted(np.array(self.bounds), values, side="left")
            self._counts += np.bincount(at, weights, len(self._counts)).astype(np.int64)
            self._sum += float(values @ weights)
            self._raw, self._weights = [], []


class Counters:
    """Everything that only grows. Requests in flight and blocks are gauges: ask the scheduler.

    `frontend_s`: what a request spends between the HTTP server and the engine. It counts towards the time to
    the first token and end to end, as the server sees them, and towards no phase of the engine.
    """

    def __init__(self, frontend_s: float = 0.0) -> None:
        self.frontend_s = frontend_s
        self.steps = 0
        self.aborted = 0
        self.prompt_tokens = 0
        self.generation_tokens = 0
        self.time_to_first_token = Histogram(FIRST_TOKEN)
        self.inter_token_latency = Histogram(INTER_TOKEN)
        self._finished: list[Sequence] = []
        self._done = 0
        self._by_phase = {name: Histogram(REQUEST_LATENCY) for name in PHASES}
        self._per_token = Histogram(INTER_TOKEN)

    def finish(self, sequences: Iterable[Sequence]) -> None:
        """Count finished `sequences`, whose times are complete."""
        self._finished += sequences
        if len(self._finished) >= _FOLD_AT:
            self._fold()

    @property
    def finished(self) -> int:
        """Requests that got their last token."""
        return self._done + len(self._finished)

    @property
    def phases(self) -> dict[str, Histogram]:
        """`queue`, `prefill`, `decode`, `inference` and `e2e` time of finished requests, in seconds."""
        self._fold()
        return self._by_phase

    @property
    def time_per_output_token(self) -> Histogram:
        """(last − first token) / (n − 1) of finished requests with more than one token, in seconds."""
        self._fold()
        return self._per_token

    def _fold(self) -> None:
        if not self._finished:
            return
        times = np.array([seq.times() for seq in self._finished], dtype=float)
        arrival, scheduled, first, last = times.T
        for name, values in zip(
            PHASES,
            (
                scheduled - arrival,
                first - scheduled,
                last - first,
                last - scheduled,
                last - arrival + self.frontend_s,
            ),
            strict=True,
        ):
            self._by_phase[name].observe_all(values)
        gaps = np.array([seq.output_tokens - 1 for seq in self._finished])
        self._per_token.observe_all((last - first)[gaps > 0] / gaps[gaps > 0])
        self._done += len(self._finished)
        self._finished = []


PHASES = ("queue", "prefill", "decode", "inference", "e2e")
