"""The decoding sequences of one engine, advanced together.

Every decoding sequence gets one token per step, so none of them needs to be touched in a step: one of
`offset` o has `steps − o` computed tokens, needs a block when that is a multiple of the block size, and its
last step is known from the day it joins. What a step costs in bookkeeping is therefore the few sequences at a
block boundary.
"""

import heapq

from nlqlib.twin.sequence import DECODE, FINISHING, Sequence


class DecodeClock:
    """`steps` planned so far, and who decodes."""

    def __init__(self, block_size: int) -> None:
        self.steps = 0
        self.size = 0
        """Sequences that decode."""
        self._block_size = block_size
        self._offsets = 0
        self._by_residue: list[list[Sequence]] = [[] for _ in range(block_size)]
        self._by_last: dict[int, list[Sequence]] = {}
        self._lasts: list[int] = []

    @property
    def context(self) -> int:
        """KV tokens that the next step reads, counted by every sequence that reads them."""
        return self.size * (self.steps + 1) - self._offsets

    def computed(self, seq: Sequence) -> int:
        """Computed tokens of a decoding `seq`."""
        return self.steps - seq.offset

    def growing(self) -> list[Sequence]:
        """Those that need a block for the next step, in running order."""
        return self._by_residue[self.steps % self._block_size]

    def filling(self) -> list[Sequence]:
        """Those whose last block the next step fills."""
        return self._by_residue[(self.steps + 1) % self._block_size]

    def blocks_for(self, steps: int) -> int:
        """Blocks that the next `steps` steps need."""
        whole, rest = divmod(steps, self._block_size)
        at = self.steps
        return whole * self.size + sum(
            len(self._by_residue[(at + j) % self._block_size]) for j in range(rest)
        )

    def steps_to_last(self) -> int:
        """Steps up to and including the next that ends a sequence; someone must decode."""
        while self._lasts[0] not in self._by_last:
            heapq.heappop(self._lasts)
        return self._lasts[0] - self.steps + 1

    def join(self, seq: Sequence) -> None:
        """`seq`, computed to its end by the newest step, decodes from the next step on."""
        seq.state, seq.offset = DECODE, self.steps - seq.computed
        self.size += 1
        self._offsets += seq.offset
        self._by_residue[seq.offset % self._block_size].append(seq)
        last = self._last(seq)
        if last in self._by_last:
            self._by_last[last].append(seq)
        else:
            self._by_last[last] = [seq]
            heapq.heappush(self._lasts, last)

    def leave(self, seq: Sequence) -> None:
        """`seq` is preempted or aborted; its tokens so far stay with it."""
        seq.computed = self.computed(seq)
        seq.generated = seq.computed + 1 - seq.prompt_tokens
        last = self._last(seq)
        self._by_last[last].remove(seq)
        if not self._by_last[last]:
            del self._by_last[last]
        self._remove(seq)

    def retire(self) -> list[Sequence]:
        """Take out those whose last token the newest step computes."""
        finishing = self._by_last.pop(self.steps - 1, None)
        if finishing is None:
            return []
        for seq in finishing:
            self._remove(seq)
            seq.state, seq.generated = FINISHING, seq.output_tokens
            seq.computed = seq.prompt_tokens + seq.output_tokens - 1
        return finishing

    def _remove(self, seq: Sequence) -> None:
        self.size -= 1
        self._offsets -= seq.offset
        self._by_residue[seq.offset % self._block_size].remove(seq)

    def _last(self, seq: Sequence) -> int:
        """The step that computes the last token of `seq`: its first came with the step before it joined."""
        return seq.offset + seq.prompt_tokens + seq.output_tokens - 2
