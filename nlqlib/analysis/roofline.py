"""The roofline of decode: what memory bandwidth and arithmetic allow, and where a step lies under it.

A decode step of n sequences reads every weight once and the KV of its context, and does two operations per
weight and sequence; its time is at least bytes / bandwidth and at least FLOPs / peak. Intensity is FLOPs per
byte; left of the ridge (peak / bandwidth) memory is the lower roof. Source: Williams, Waterman and Patterson
(2009), "Roofline: an insightful visual performance model".

A shared prefix can be read once for all sequences (it stays in cache) or once for each: both are bounds, and
the caller says which `kv_tokens` it means.
"""

from dataclasses import dataclass
from typing import Literal

from nlqlib.twin.datasheet import Accelerator, Transformer

Bound = Literal["memory", "compute"]


@dataclass(frozen=True)
class DecodeStep:
    """One engine step in which every sequence gets one token."""

    sequences: float
    context_tokens: float
    """Tokens attended to, summed over sequences."""
    kv_tokens: float
    """KV tokens read from memory: `context_tokens`, or fewer where sequences share."""

    def __post_init__(self) -> None:
        if self.sequences <= 0 or self.context_tokens < 0 or self.kv_tokens < 0:
            raise ValueError("a decode step has at least part of a sequence, and no negative tokens")

    def bytes_moved(self, model: Transformer) -> float:
        """Weights and context read, one new token per sequence written."""
        return model.weight_bytes + (self.kv_tokens + self.sequences) * model.kv_bytes_per_token

    def flops(self, model: Transformer) -> float:
        """Two per weight and sequence, and attention over the context."""
        return self.sequences * model.flops_per_token + self.context_tokens * model.flops_per_pair

    def intensity(self, model: Transformer) -> float:
        """FLOPs per byte."""
        return self.flops(model) / self.bytes_moved(model)


@dataclass(frozen=True)
class Ceilings:
    """The least time of a step by each roof, in seconds, and the most tokens per second by each."""

    memory_s: float
    compute_s: float
    memory_tokens_per_s: float
    compute_tokens_per_s: float

    @property
    def step_s(self) -> float:
        return max(self.memory_s, self.compute_s)

    @property
    def bound(self) -> Bound:
        """The roof that is lower."""
        return "memory" if self.memory_s >= self.compute_s else "compute"


def ceilings(step: DecodeStep, model: Transformer, machine: Accelerator) -> Ceilings:
    """What `machine` allows at its data sheet's peaks."""
    memory_s = step.bytes_moved(model) / machine.bandwidth
    compute_s = step.flops(model) / machine.flops
    return Ceilings(memory_s, compute_s, step.sequences / memory_s, step.sequences / compute_s)


def ridge(machine: Accelerator) -> float:
    """The intensity in FLOPs per byte at which both roofs meet."""
    return machine.flops / machine.bandwidth


def attainable(intensity: float, machine: Accelerator) -> float:
    """FLOP/s under both roofs at `intensity` FLOPs per byte."""
    return min(machine.flops, intensity * machine.bandwidth)


@dataclass(frozen=True)
class Placed:
    """A step that took `gap_s` seconds, under the roofs."""

    intensity: float
    flops_per_s: float
    bytes_per_s: float
    bandwidth_share: float
    """Of the peak; the share of the step's time that moving bytes explains."""
    compute_share: float
    bound: Bound

    @property
    def unexplained(self) -> float:
        """Share of the step's time that the lower roof does not explain."""
        return 1 - max(self.bandwidth_share, self.compute_share)


def place(step: DecodeStep, model: Transformer, machine: Accelerator, gap_s: float) -> Placed:
    """Where a step lies that gave every sequence one token in `gap_s` seconds. A gap is positive."""
    if gap_s <= 0:
        raise ValueError(f"a gap between tokens of {gap_s} s is none: leave the point out")
    roofs = ceilings(step, model, machine)
    return Placed(
        step.intensity(model),
        step.flops(model) / gap_s,
        step.bytes_moved(model) / gap_s,
        roofs.memory_s / gap_s,
        roofs.compute_s / gap_s,
        roofs.bound,
    )
