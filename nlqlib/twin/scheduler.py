"""vLLM v1's scheduler as a pure state machine: `plan()` one step, `finish(…)` it. It knows no time.

Source: vLLM v1 (scheduler, KV-cache manager; read for facts at 0.12, 0.19 and 0.32). There is no prefill and
no decode phase: a request needs `tokens − computed`. Running requests come first, in order; then waiting
ones, first come first served, unless the step had to preempt; a failed allocation ends the loop; preemption
takes the tail of the running list, whose blocks are freed and which goes back to the head of the queue with
nothing computed.

Two consequences keep a step cheap. At most one running prompt is unfinished, and it is the last of the
running: whoever leaves a chunk undone has used up the budget. And as `max_num_seqs ≤ max_num_batched_tokens`,
every decoding sequence gets its token in every step, so they advance together (`DecodeClock`).
"""

from bisect import bisect_right
from collections import deque

import numpy as np

from nlqlib.twin.blocks import EMPTY, BlockPool, Chain, HashTable
from nlqlib.twin.decode_clock import DecodeClock
from nlqlib.twin.limits import EngineLimits
from nlqlib.twin.sequence import ABORTED, DECODE, DONE, FINISHING, PREFILL, WAITING, Batch, Chunk, Sequence


class Scheduler:
    """Queues, blocks and the decode clock of one engine."""

    def __init__(self, limits: EngineLimits, table: HashTable | None = None) -> None:
        self.limits = limits
        self.table = table or HashTable(limits.block_size)
        self.pool = BlockPool(
            limits.num_gpu_blocks, self.table, limits.enable_prefix_caching, limits.reuse_unhashed_first
        )
        self.waiting: deque[Sequence] = deque()
        self.running: dict[Sequence, None] = {}
        self.partial: Sequence | None = None
        """The one running prompt that is not computed to its end."""
        self.decode = DecodeClock(limits.block_size)
        self.queries = self.hits = 0
        """Prefix-cache tokens asked for and found; lookups of preempted requests count in neither."""
        self.preemptions = 0
        self._blocked: Sequence | None = None
        """The head of the queue that the newest plan looked up and could not admit."""
        self._unreported: list[Sequence] = []
        """Preempted by a plan that came to nothing: the next batch reports them."""
        self._watermark = int(limits.watermark * limits.num_gpu_blocks)

    def add(self, seq: Sequence) -> None:
        """Queue `seq`; raises `EngineError` if this engine could never finish it."""
        self.limits.check(seq.prompt_tokens, seq.output_tokens)
        self.waiting.append(seq)

    def abort(self, seq: Sequence) -> None:
        """The client is gone: forget `seq`, wherever it is. Nothing happens to one that is done."""
        if seq.state in (DONE, ABORTED):
            return
        if seq.state == WAITING:
            self.waiting.remove(seq)
            self._blocked = None if seq is self._blocked else self._blocked
        else:
            del self.running[seq]
            self._leave(seq)
            self._release(seq)
        self._end(seq, ABORTED)

    @property
    def may_admit(self) -> bool:
        """A request that came now would be looked at in the next step."""
        return not self.waiting and len(self.running) < self.limits.max_num_seqs

    def tokens(self, seq: Sequence) -> int:
        """Output tokens of `seq` planned so far."""
        return self.decode.computed(seq) + 1 - seq.prompt_tokens if seq.state == DECODE else seq.generated

    def plan(self) -> Batch | None:
        """The next step, or `None` if nothing can be computed. Allocates, hashes, preempts and admits."""
        self._blocked = None
        preempted = self._grow()
        batch = Batch(self.decode.size, self.decode.context)
        batch.preempted = preempted
        budget = self.limits.max_num_batched_tokens - self.decode.size
        if self.partial is not None and budget > 0:
            budget = self._continue_prompt(self.partial, budget, batch)
        if self.waiting and not preempted and budget > 0:
            self._admit(budget, batch)
        if not batch.decodes and not batch.chunks:
            self._unreported += batch.preempted
            return None
        if self._unreported:
            batch.preempted, self._unreported = self._unreported + batch.preempted, []
        batch.saved = self.pool.saved * self.limits.block_size
        self.decode.steps += 1
        for seq in batch.completed:
            self.decode.join(seq)
        batch.finishing = self.decode.retire()
        return batch

    def extension(self) -> int:
        """How many further steps are certain to hold the same sequences, one token each, and nothing else.

        To be asked after a plan without chunks that ends nobody. The step that ends a sequence is included.
        """
        if self.partial is not None or not self.decode.size:
            return 0
        steps = self.decode.steps_to_last()
        if self.decode.blocks_for(steps) <= self.pool.free:
            return steps
        return bisect_right(range(steps), self.pool.free, key=self.decode.blocks_for) - 1

    def extend(self, steps: int) -> list[Sequence]:
        """Plan `steps` of the steps that `extension` promised; returns those who get their last token."""
        if not self.pool.caching:
            self.pool.take(self.decode.blocks_for(steps))
            self.decode.steps += steps
            return self.decode.retire()
        for _ in range(steps):
            self._give_blocks()
            self._register_filled()
            if self._blocked is not None:
                self._lookup(self._blocked)
                self._count_lookup(self._blocked, False)
            self.decode.steps += 1
        return self.decode.retire()

    def finish(self, finishing: list[Sequence]) -> None:
        """The step that computed these last tokens is over: free places and blocks."""
        for seq in finishing:
            if seq.state == FINISHING:
                del self.running[seq]
                self._release(seq)
            if seq.state != ABORTED:
                self._end(seq, DONE)

    # --- running requests ---------------------------------------------------------------------------------

    def _grow(self) -> list[Sequence]:
        """Blocks for the decoding sequences at a block boundary; returns whom that preempted."""
        preempted: list[Sequence] = []
        if len(self.decode.growing()) <= self.pool.free:
            self._give_blocks()
        else:
            for seq in tuple(self.decode.growing()):
                while seq.state == DECODE and not self.pool.free:
                    preempted.append(self._preempt_tail())
                if seq.state == DECODE:
                    seq.own += self.pool.take(1)
        self._register_filled()
        return preempted

    def _give_blocks(self) -> None:
        growing = self.decode.growing()
        if growing:
            for seq, block in zip(growing, self.pool.take(len(growing)), strict=False):
                seq.own.append(block)

    def _register_filled(self) -> None:
        """Hash the blocks that this step fills with generated tokens of known content."""
        if not self.pool.caching:
            return
        for seq in self.decode.filling():
            if seq.chain is not None and seq.registered < len(seq.chain.ids):
                self._register(seq, self.decode.computed(seq) + 1)

    def _continue_prompt(self, seq: Sequence, budget: int, batch: Batch) -> int:
        chunk = min(seq.prompt_tokens + seq.generated - seq.computed, budget)
        need = self.limits.blocks(seq.computed + chunk) - self.limits.blocks(seq.computed)
        if need > self.pool.free:  # it is the tail itself
            batch.preempted.append(self._preempt_tail())
            return budget
        self._compute(seq, chunk, need, batch)
        return budget - chunk

    def _preempt_tail(self) -> Sequence:
        """Free the last running request and send it back to the head of the queue."""
        seq, _ = self.running.popitem()
        self.preemptions += 1
        seq.preemptions += 1
        if seq.state == FINISHING:  # its last token is on the way: nothing to compute again
            self._release(seq)
            seq.state = DONE
            return seq
        self._leave(seq)
        if self.pool.caching:
            self._hash_private(seq)
        self._release(seq)
        seq.state = WAITING
        seq.computed = seq.registered = 0
        self.waiting.appendleft(seq)
        return seq

    def _leave(self, seq: Sequence) -> None:
        if seq.state == DECODE:
            self.decode.leave(seq)
        if seq is self.partial:
            self.partial = None

    # --- waiting requests ---------------------------------------------------------------------------------

    def _admit(self, budget: int, batch: Batch) -> None:
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            seq = self.waiting[0]
            self._lookup(seq)
            cached = len(seq.hits) * self.limits.block_size
            tokens = seq.prompt_tokens + seq.generated
            chunk = min(tokens - cached, budget)
            whole = chunk == tokens - cached
            fits = (whole or self.limits.enable_chunked_prefill) and self._fits(seq, cached + chunk, tokens)
            self._count_lookup(seq, fits)
            if not fits:
                self._blocked = seq
                return
            self._start(seq, chunk, batch)
            budget -= chunk

    def _lookup(self, seq: Sequence) -> None:
        """Finds the cached prefix of `seq`; its last token is always computed."""
        if seq.chain is not None and self.pool.caching:
            limit = (seq.prompt_tokens + seq.generated - 1) // self.limits.block_size
            seq.hits = self.pool.lookup(seq.chain, limit)

    def _fits(self, seq: Sequence, now: int, whole: int) -> bool:
        upto = whole if self.limits.scheduler_reserve_full_isl else now
        need = self.limits.blocks(upto) - len(seq.hits)
        if len(seq.hits):
            need += self.pool.idle(seq.hits)
        if self.running:
            need += self._watermark
        return need <= self.pool.free

    def _count_lookup(self, seq: Sequence, admitted: bool) -> None:
        counted = admitted or not self.limits.count_at_admission
        if counted and self.pool.caching and not seq.preemptions:
            self.queries += seq.prompt_tokens
            self.hits += len(seq.hits) * self.limits.block_size

    def _start(self, seq: Sequence, chunk: int, batch: Batch) -> None:
        self.waiting.popleft()
        self.running[seq] = None
        if len(seq.hits):
            self.pool.touch(seq.hits)
        seq.registered = len(seq.hits)
        seq.computed = seq.registered * self.limits.block_size
        if seq.cached_tokens is None:
            seq.cached_tokens = seq.computed
        seq.state = PREFILL
        batch.admitted.append(seq)
        self._compute(seq, chunk, self.limits.blocks(seq.computed + chunk) - len(seq.hits), batch)

    # --- both ---------------------------------------------------------------------------------------------

    def _compute(self, seq: Sequence, chunk: int, blocks: int, batch: Batch) -> None:
        """Put `chunk` tokens of `seq` into the step, with `blocks` new blocks."""
        seq.own += self.pool.take(blocks)
        batch.chunks.append(Chunk(seq, seq.computed, chunk))
        seq.computed += chunk
        if seq.chain is not None and self.pool.caching:
            self._register(seq, seq.computed)
        if seq.computed == seq.prompt_tokens + seq.generated:
            self.partial = None
            batch.completed.append(seq)
        else:
            self.partial = seq

    def _register(self, seq: Sequence, computed: int) -> None:
        """Hash the blocks of `seq` that `computed` tokens fill, as far as their content is known."""
        assert seq.chain is not None
        full = min(computed // self.limits.block_size, len(seq.chain.ids))
        if full > seq.registered:
            hits = len(seq.hits)
            self.pool.register(
                seq.own[seq.registered - hits : full - hits], seq.chain.ids[seq.registered : full]
            )
            seq.registered = full

    def _hash_private(self, seq: Sequence) -> None:
        """Before a preemption: hash full blocks of unknown content too, so that `seq` finds them again."""
        known = seq.chain.ids if seq.chain is not None else EMPTY
        full = seq.computed // self.limits.block_size
        if full > len(known):
            if seq.private_from is None:
                seq.private_from = len(known)
            seq.chain = Chain(np.concatenate((known, self.table.private(full - len(known)))))
        if seq.chain is not None:
            self._register(seq, seq.computed)

    def _release(self, seq: Sequence) -> None:
        if self.pool.caching:
            self.pool.release(seq.hits, seq.own, seq.computed // self.limits.block_size)
            seq.hits, seq.own = EMPTY, []
        else:
            self.pool.release_count(self.limits.blocks(seq.computed))

    def _end(self, seq: Sequence, state: int) -> None:
        seq.state = state
        if seq.private_from is not None and seq.chain is not None:
            self.pool.forget(seq.chain.ids[seq.private_from :])
            seq.private_from = None
