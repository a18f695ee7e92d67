"""All that a diagnosis is decided on, gathered before any step decides."""

from dataclasses import dataclass

from nlqlib.analysis.diagnosis_burst import Burst
from nlqlib.analysis.diagnosis_layers import MEETS, InsideView
from nlqlib.analysis.diagnosis_levels import SweepLevel
from nlqlib.analysis.diagnosis_replicas import ReplicasSeen
from nlqlib.analysis.diagnosis_shape import Shape
from nlqlib.analysis.staircase import Staircase


@dataclass(frozen=True)
class Findings:
    """All there is to decide on: pooled levels, ascending, and the readings of them."""

    levels: tuple[SweepLevel, ...]
    shape: Shape | None
    view: InsideView
    burst: Burst | None
    stairs: Staircase | None
    """The endpoint's own, if its controls held."""
    max_num_seqs: int | None = None
    """As the server declares it, if it does."""
    replicas: tuple[ReplicasSeen, ...] = ()
    """Who answered, watched through every level; empty: the answers do not say."""

    @property
    def largest(self) -> int:
        return self.levels[-1].concurrency

    def seqs_to_spare(self, running: int) -> bool:
        """The server declares a `max_num_seqs` that `running` requests leave unused."""
        return self.max_num_seqs is not None and self.max_num_seqs > (1 + MEETS) * running
