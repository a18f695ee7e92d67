"""The world of `diagnose_world`, with the L4 twin's own scheduler as one more engine."""

import numpy as np

from nlqlib.experiments.diagnose_engines import Prefilled, Shared, Slots, constant, varied
from nlqlib.experiments.diagnose_world import (
    GRID,
    Site,
    from_outside,
    of_the_curve,
    offer,
    sweep,
    without_headers,
)
from nlqlib.twin import model
from nlqlib.twin.load import Load, prompts
from nlqlib.twin.replica import Replica
from nlqlib.twin.sequence import Sequence

__all__ = [
    "GRID",
    "Prefilled",
    "Shared",
    "Site",
    "Slots",
    "Twin",
    "constant",
    "from_outside",
    "of_the_curve",
    "offer",
    "sweep",
    "varied",
    "without_headers",
]


class Twin:
    """The L4 twin's scheduler and step times; output lengths are drawn, 115 ± `sd` tokens."""

    def __init__(self, max_num_seqs: int = 32, sd: float = 3.0, seed: int = 0) -> None:
        twin = model.load()
        limits = twin.limits.__class__(**{**vars(twin.limits), "max_num_seqs": max_num_seqs})
        table, self.chains = prompts(Load(1, 1), limits.block_size)
        self.replica = Replica(limits, twin.step_time, table)
        self.rng, self.sd = np.random.default_rng(seed), sd
        self.index: dict[Sequence, int] = {}

    def submit(self, i: int, now: float) -> None:
        tokens = max(1, round(self.rng.normal(115, self.sd)))
        seq = Sequence(str(i), 3300, tokens, self.chains[i % len(self.chains)])
        self.index[seq] = i
        self.replica.submit(seq, now)

    def next_s(self) -> float | None:
        return self.replica.next_event_s()

    def advance(self, now: float) -> list[int]:
        return [self.index.pop(event.sequence) for event in self.replica.advance(now) if event.finished]

    def running(self) -> int:
        return len(self.replica.scheduler.running)

    def waiting(self) -> int:
        return len(self.replica.scheduler.waiting)
