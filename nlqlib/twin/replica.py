"""One engine in time: scheduler + blocks + step time. Driven by times it is told, so it runs under any clock.

The engine is a chain of steps. `submit` puts a request in front of it, `advance(now)` lets it run up to `now`
and returns what happened, `next_event_s` says when to call again. Pure decode steps are not walked but solved
(`Run`), and cut where something changes. With `async_scheduling` a step is planned when the one before it
starts, so an arrival waits one step longer, as in vLLM since 0.14.

Invariants, each with a test of that number in `tests/test_invariants.py`:

1. Conservation: every request ends exactly once, finished or aborted.
2. Causality: arrival ≤ scheduled < first token ≤ last token, and no event before its cause.
3. Blindness: output length shows in nothing that happens before the last token.
4. Running requests ≤ `max_num_seqs`.
5. Tokens of a step ≤ `max_num_batched_tokens`.
6. Blocks in use ≤ blocks there are, and none in use when nobody is left.
7. A prefix-cache hit never exceeds what somebody computed before.
8. Little's law in every window: N = X·R.
9. Virtual and real time give the same token schedule.
10. The same seed gives the same bytes.

Whoever drives it, however often, the tokens come at the same times: they depend on the arrivals only. A
request that arrives exactly when a step ends joins the plan made there if it is submitted before `advance`
reaches that time.
"""

from typing import NamedTuple

from nlqlib.twin.blocks import HashTable
from nlqlib.twin.counters import Counters
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.run import Run
from nlqlib.twin.scheduler import Scheduler
from nlqlib.twin.sequence import ABORTED, DONE, WAITING, Sequence
from nlqlib.twin.step_time import StepTime


class Event(NamedTuple):
    """`tokens` output tokens of `sequence` exist at `at_s`; the last one makes it `finished`."""

    at_s: float
    sequence: Sequence
    tokens: int
    finished: bool


class Replica:
    """One engine. All times are seconds of the caller's clock and must not go backwards."""

    def __init__(
        self,
        limits: EngineLimits,
        step_time: StepTime,
        table: HashTable | None = None,
        frontend_s: float = 0.0,
    ) -> None:
        self.limits, self.step_time = limits, step_time
        self.scheduler = Scheduler(limits, table)
        self.counters = Counters(frontend_s)
        self._current: Run | None = None
        self._ready: Run | None = None
        self._asked = False
        """The step after `_current` was planned already, even if there was nothing to plan."""
        self._wake: float | None = None
        """When an idle engine looks at its queue."""
        self._streams: dict[Sequence, None] = {}
        """Watched sequences that decode."""
        self._watched = 0
        self._events: list[Event] = []

    def submit(self, seq: Sequence, now: float) -> None:
        """`seq` reaches the engine at `now`; raises `EngineError` if the engine could never finish it."""
        self._run_until(now, including=False)
        may_admit = self.scheduler.may_admit
        self.scheduler.add(seq)
        seq.arrival_s = now
        self._watched += seq.watched
        if self._current is None:
            self._wake = now if self._wake is None else self._wake
        elif may_admit:
            self._cut(now)

    def abort(self, seq: Sequence, now: float) -> None:
        """The client of `seq` is gone at `now`; steps already planned still compute it."""
        self._run_until(now, including=False)
        if seq.state in (DONE, ABORTED):
            return
        if self._current is not None and seq.state != WAITING:
            self._cut(now)
            if self._ready is None:
                self._commit(self._current, self._current.steps)
        self.counters.aborted += 1
        self._watched -= seq.watched
        self._streams.pop(seq, None)
        self.scheduler.abort(seq)

    def advance(self, now: float) -> list[Event]:
        """Run up to and including `now`; what happened since the last call, in order of time."""
        self._run_until(now, including=True)
        if self._watched and self._current is not None:
            self._tell(self._current, self._current.ended(now))
        events, self._events = self._events, []
        return events

    def next_event_s(self) -> float | None:
        """When to call `advance` next, if nothing is submitted or aborted before; `None`: never."""
        if self._events:
            return self._events[0].at_s
        if self._current is None:
            return self._wake
        return self._current.end_s(self._current.done + 1) if self._watched else self._current.over_s

    def settle(self, now: float) -> None:
        """Bring queues, blocks and counters to `now`: before gauges are read. Events stay for `advance`."""
        self._run_until(now, including=True)
        run = self._current
        if run is not None:
            ended = run.ended(now)
            self._tell(run, ended)
            self._commit(run, min(run.steps, ended + 1))

    # --- the chain of steps -------------------------------------------------------------------------------

    def _run_until(self, now: float, including: bool) -> None:
        while True:
            run = self._current
            ahead = False
            if run is not None:
                ahead = self.limits.async_scheduling and not self._asked
                at = run.end_s(run.steps - 1) if ahead else run.over_s
            elif self._wake is not None:
                at = self._wake
            else:
                return
            if at > now or (at == now and not including):
                return
            if run is None:
                self._wake = None
                self._begin(self._plan(at), at)
            elif ahead:
                self._commit(run, run.steps)
                self._ready, self._asked = self._plan(at), True
            else:
                self._complete(run, at)

    def _plan(self, now: float) -> Run | None:
        batch = self.scheduler.plan()
        if batch is None:
            return None
        for seq in batch.admitted:
            if seq.scheduled_s is None:
                seq.scheduled_s = now
        for seq in batch.preempted:  # its newest token comes from the step that is running now, if any
            if seq.generated:
                seq.last_token_s = now if self._current is None else self._current.over_s
        first_s = self.step_time.batch_s(batch)
        ending = batch.finishing or (self._current is not None and self._current.finishing)
        if batch.chunks or batch.preempted or ending:
            return Run(batch, first_s)
        return Run(batch, first_s, self.step_time.growth_s(batch.decodes), 1 + self.scheduler.extension())

    def _begin(self, run: Run | None, now: float) -> None:
        self._current, self._asked = run, False
        if run is not None:
            run.begin(now)

    def _complete(self, run: Run, now: float) -> None:
        """The last step of `run` is over: tell its tokens, free who is finished, start what follows."""
        self._commit(run, run.steps)
        self._tell(run, run.steps)
        self.scheduler.finish(run.finishing)
        if run.finishing:
            self.counters.finish(seq for seq in run.finishing if seq.state == DONE)
        following, self._ready, self._current = self._ready, None, None
        self._begin(following or self._plan(now), now)
        if following is not None and run.finishing and self.scheduler.waiting:
            following.cut(1)

    def _cut(self, now: float) -> None:
        """Something changed at `now`: no step that is not planned by then may be taken for granted."""
        run = self._current
        assert run is not None
        if self._ready is not None:
            self._ready.cut(1)
        elif not self._asked:
            boundary = run.boundary(now)
            planned = boundary + 1 if self.limits.async_scheduling else max(boundary, 1)
            run.cut(max(planned, run.planned))

    def _commit(self, run: Run, steps: int) -> None:
        """Let the scheduler know of the first `steps` steps of `run`."""
        if steps > run.planned:
            run.finishing = self.scheduler.extend(steps - run.planned)
            run.planned = steps

    # --- tokens -------------------------------------------------------------------------------------------

    def _tell(self, run: Run, upto: int) -> None:
        """Tokens of `run`'s steps up to number `upto`: counters, times, events."""
        steps = upto - run.done
        if steps < 1:
            return
        last = upto == run.steps
        if run.batch.decodes:
            end = run.over_s if last else run.end_s(upto)
            seconds = (end - (run.end_s(run.done) if run.done else run.start_s)) / steps
            self.counters.inter_token_latency.observe(seconds, steps * run.batch.decodes)
        self.counters.steps += steps
        self.counters.generation_tokens += steps * run.batch.decodes
        if self._watched:
            self._stream(run, upto)
        run.done = upto
        if run.batch.completed:
            self._tell_prompts(run)
        if last and run.finishing:
            self._tell_last(run)

    def _stream(self, run: Run, upto: int) -> None:
        for seq in run.batch.preempted:
            self._streams.pop(seq, None)
        ending = run.finishing if upto == run.steps else []
        for step in range(run.done + 1, upto + 1):
            at = run.end_s(step)
            for seq in self._streams:
                seq.told += 1
                if step < upto or seq not in ending:
                    self._events.append(Event(at, seq, seq.told, False))

    def _tell_prompts(self, run: Run) -> None:
        """Prompts computed to their end have a token; for a preempted one it is the next, not the first."""
        at = run.end_s(1)
        self.counters.generation_tokens += len(run.batch.completed)
        for seq in run.batch.completed:
            if seq.first_token_s is None:
                seq.first_token_s = at
                self.counters.time_to_first_token.observe(at - seq.arrival_s + self.counters.frontend_s)
                self.counters.prompt_tokens += seq.prompt_tokens
            elif seq.last_token_s is not None:
                self.counters.inter_token_latency.observe(at - seq.last_token_s)
            if seq.watched and seq.state != ABORTED:
                seq.told += 1
                self._streams[seq] = None
                if seq not in run.finishing:
                    self._events.append(Event(at, seq, seq.told, False))

    def _tell_last(self, run: Run) -> None:
        at = run.over_s
        for seq in run.finishing:
            if seq.state == ABORTED:
                continue
            seq.last_token_s = at
            self._streams.pop(seq, None)
            self._watched -= seq.watched
            self._events.append(Event(at, seq, seq.output_tokens, True))
