"""Equal steps in closed form: one planned step, or a run of pure decode steps."""

import math

from nlqlib.twin.sequence import Batch


class Run:
    """`steps` equal steps from `start_s`: the first takes `first_s`, each further one `growth_s` more."""

    __slots__ = ("batch", "done", "finishing", "first_s", "growth_s", "over_s", "planned", "start_s", "steps")

    def __init__(self, batch: Batch, first_s: float, growth_s: float = 0.0, steps: int = 1) -> None:
        self.batch, self.first_s, self.growth_s, self.steps = batch, first_s, growth_s, steps
        self.start_s = self.over_s = 0.0
        """Begin of the first step, end of the last one."""
        self.planned = 1
        """Steps the scheduler knows of."""
        self.done = 0
        """Steps whose tokens have been told."""
        self.finishing = batch.finishing
        """Who gets a last token from the newest planned step."""

    def begin(self, now: float) -> None:
        """The first step starts."""
        self.start_s = now
        self.over_s = self.end_s(self.steps)

    def cut(self, steps: int) -> None:
        """Only `steps` steps of those hoped for."""
        if steps < self.steps:
            self.steps = steps
            self.over_s = self.end_s(steps)

    def end_s(self, step: int) -> float:
        """When step number `step` (from 1) ends; 0 gives the start."""
        return self.start_s + step * (self.first_s + 0.5 * self.growth_s * (step - 1))

    def ended(self, now: float) -> int:
        """Steps that end at or before `now`."""
        steps = min(self.steps, max(0, self._guess(now - self.start_s)))
        while steps < self.steps and self.end_s(steps + 1) <= now:
            steps += 1
        while steps > 0 and self.end_s(steps) > now:
            steps -= 1
        return steps

    def boundary(self, now: float) -> int:
        """Number of the first step end at or after `now`; 0 is the start of the run."""
        ended = self.ended(now)
        return ended if self.end_s(ended) >= now else ended + 1

    def _guess(self, elapsed: float) -> int:
        """Root of the series, to be corrected by the exact ends."""
        if elapsed <= 0 or self.first_s <= 0:
            return self.steps if self.first_s <= 0 else 0
        linear = elapsed / self.first_s
        curvature = self.growth_s / self.first_s
        return int(2 * linear / (1 + math.sqrt(1 + 2 * curvature * linear)))
