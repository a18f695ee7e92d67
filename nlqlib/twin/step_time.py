"""How long one engine step takes: a fitted roofline, linear in its coefficients.

    t = max(weights, tokens · token) + sequences · sequence + graph size · padded + KV read
        + pairs · attention + (mixed, if it computes prompt tokens) + fixed

`weights` is the time to stream the weights once, `token` the time of one token's arithmetic; a step pays the
larger. KV that several sequences share is read once (`distinct`) or by each of them (`logical`): two
features. Prompt tokens also pay for the context they attend to (`attention`), and a step that holds any runs
without the full graph (`mixed`). CUDA graphs run a captured size, so 17 sequences cost what 24 cost
(`padded`, `graph_sizes`).
"""

import dataclasses
import math
from bisect import bisect_left
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from nlqlib.twin.limits import EngineError
from nlqlib.twin.sequence import Batch


@dataclass(frozen=True)
class StepTime:
    """Seconds per unit. A coefficient of 0 means: this cost is not modelled."""

    fixed_s: float = 0.0
    """Per step."""
    weights_s: float = 0.0
    """Streaming the weights: weight bytes / achieved bandwidth."""
    token_s: float = 0.0
    """Arithmetic of one token: FLOPs per token / achieved rate."""
    sequence_s: float = 0.0
    """Per sequence in the step."""
    kv_logical_s: float = 0.0
    """Per KV token read, counted for every sequence that reads it."""
    kv_distinct_s: float = 0.0
    """Per KV token read, shared ones once."""
    attention_s: float = 0.0
    """Per pair of a prompt token and a token it attends to."""
    padded_s: float = 0.0
    """Per sequence after padding to the next of `graph_sizes`."""
    mixed_s: float = 0.0
    """Once per step that computes prompt tokens."""
    graph_sizes: tuple[int, ...] = ()
    """Captured batch sizes, ascending; a larger batch is not padded."""

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            if field.name != "graph_sizes" and not (math.isfinite(value) and value >= 0):
                raise EngineError(f"step_time.{field.name} is {value}; it must be finite and not negative")
        if any(a >= b for a, b in pairwise((0, *self.graph_sizes))):
            raise EngineError("step_time.graph_sizes must be ascending positive whole numbers")

    def padded(self, sequences: int) -> int:
        """`sequences` as the captured graph runs them."""
        at = bisect_left(self.graph_sizes, sequences)
        return self.graph_sizes[at] if at < len(self.graph_sizes) else sequences

    def batch_s(self, batch: Batch) -> float:
        """Seconds of the step `batch`."""
        tokens, context, pairs = batch.decodes, batch.context, 0.0
        for _, start, chunk in batch.chunks:
            tokens += chunk
            context += start + chunk
            pairs += chunk * (start + 0.5 * (chunk + 1))
        sequences = batch.decodes + len(batch.chunks)
        return self.features_s(tokens, sequences, context, context - batch.saved, pairs, bool(batch.chunks))

    def features_s(
        self,
        tokens: int,
        sequences: int,
        logical: int,
        distinct: int,
        pairs: float = 0.0,
        mixed: bool = False,
    ) -> float:
        """The formula: seconds of a step that computes `tokens` tokens of `sequences` and reads so many KV
        tokens.

        `pairs`: how often a prompt token attends to a token; `mixed`: there are prompt tokens in it.
        """
        return (
            self.fixed_s
            + max(self.weights_s, self.token_s * tokens)
            + self.sequence_s * sequences
            + (self.padded_s * self.padded(sequences) if self.padded_s else 0.0)
            + self.kv_logical_s * logical
            + self.kv_distinct_s * max(distinct, 0)
            + self.attention_s * pairs
            + (self.mixed_s if mixed else 0.0)
        )

    def growth_s(self, sequences: int) -> float:
        """How much longer each decode step is than the one before: every sequence reads one token more."""
        return (self.kv_logical_s + self.kv_distinct_s) * sequences


NAMES = tuple(f.name for f in dataclasses.fields(StepTime))


def from_json(values: Mapping[str, Any]) -> StepTime:
    """A `StepTime` from its stored coefficients; raises `EngineError` for what it does not know."""
    unknown = set(values) - set(NAMES)
    if unknown:
        raise EngineError(f"unknown step_time field {sorted(unknown)[0]!r}; known are {', '.join(NAMES)}")
    sizes = tuple(values.get("graph_sizes", ()))
    return StepTime(**{k: v for k, v in values.items() if k != "graph_sizes"}, graph_sizes=sizes)
