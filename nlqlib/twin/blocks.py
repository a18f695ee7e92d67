"""Paged KV blocks and the prefix cache, exact to the block.

Source: the block pool of vLLM v1 (read for facts at 0.12, 0.19 and 0.32). Blocks are freed tail first, reused
in least-recently-used order; only full blocks carry a hash; a hash covers its block and everything before it;
blocks of equal content are not merged. Block 0 is reserved, as vLLM reserves it.

Everything is an array of small integers, so that a hit of 200 blocks costs microseconds: hashes are interned
(`HashTable`), and the free queue keeps stale entries that are recognised when they are popped.
"""

from collections import deque
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]

_NONE = -1
_MEMO_CHAINS = 4096  # lookups remembered; beyond that the memo starts afresh
_STALE_FACTOR = 8  # queue entries per block before the stale ones are swept out
EMPTY: Ids = np.empty(0, dtype=np.int64)


class Chain:
    """The block hashes of one token sequence: `ids[i]` stands for blocks 0 … i."""

    __slots__ = ("ids",)

    def __init__(self, ids: Ids) -> None:
        self.ids = ids


class HashTable:
    """Gives equal prefixes equal integers. Shared by every pool that may see the same prompts."""

    def __init__(self, block_size: int = 16) -> None:
        self.block_size = block_size
        self.size = 0
        self._ids: dict[tuple[int, tuple[int, ...]], int] = {}
        self._roots: dict[str, int] = {"": _NONE}
        self._recycled: list[int] = []

    def chain(self, tokens: Sequence[int], salt: str = "") -> Chain:
        """Hashes of the full blocks of `tokens`; a `salt` keeps equal tokens apart (vLLM's `cache_salt`)."""
        parent = self._roots.setdefault(salt, -2 - len(self._roots))
        ids = np.empty(len(tokens) // self.block_size, dtype=np.int64)
        for i in range(len(ids)):
            key = (parent, tuple(tokens[i * self.block_size : (i + 1) * self.block_size]))
            parent = self._ids.get(key, _NONE)
            if parent == _NONE:
                parent = self._ids[key] = self._new()
            ids[i] = parent
        return Chain(ids)

    def private(self, n: int) -> Ids:
        """`n` hashes that no other request can have: content nobody knows (synthetic tokens)."""
        return np.array(
            [self._recycled.pop() if self._recycled else self._new() for _ in range(n)], dtype=np.int64
        )

    def recycle(self, ids: Ids) -> None:
        """Give private hashes back; no block may carry them any more."""
        self._recycled.extend(ids.tolist())

    def _new(self) -> int:
        self.size += 1
        return self.size - 1


class BlockPool:
    """`num_blocks` KV blocks. Without `caching` blocks have no identity and only `free` is kept.

    `reuse_unhashed_first`: engines since 2026-05 reuse blocks without a hash before any cached one.
    """

    def __init__(
        self, num_blocks: int, table: HashTable, caching: bool = True, reuse_unhashed_first: bool = False
    ) -> None:
        self.num_blocks, self.table, self.caching = num_blocks, table, caching
        self.reuse_unhashed_first = reuse_unhashed_first
        self.free = num_blocks - 1
        self.saved = 0
        """References beyond the first: blocks that several sequences read but that exist once."""
        self._ref = np.zeros(num_blocks if caching else 1, dtype=np.int64)
        self._ref[0] = 1
        self._hash_of = np.full(len(self._ref), _NONE, dtype=np.int64)
        self._order = np.arange(len(self._ref), dtype=np.int64)
        self._block_of = np.full(1024, _NONE, dtype=np.int64)
        self._duplicates: dict[int, list[int]] = {}
        # Single items are read and written through these views: a third of the time an array takes.
        self._ref_at, self._hash_at = memoryview(self._ref), memoryview(self._hash_of)  # type: ignore[arg-type]
        self._order_at = memoryview(self._order)  # type: ignore[arg-type]
        self._version = 0
        self._memo: dict[Chain, tuple[int, int, Ids]] = {}
        self._unhashed: list[int] = []
        self._head: list[int] = list(range(1, len(self._ref)))
        self._head_at, self._head_base = 0, 1
        self._queue: deque[tuple[int, Ids]] = deque()
        self._queued, self._next_order = 0, len(self._ref)

    @property
    def used(self) -> int:
        """Blocks held by somebody."""
        return self.num_blocks - 1 - self.free

    @property
    def usage(self) -> float:
        """vLLM's `kv_cache_usage_perc`, 0 to 1."""
        return self.used / (self.num_blocks - 1)

    def lookup(self, chain: Chain, limit: int) -> Ids:
        """Cached blocks of the longest prefix of `chain`, at most `limit` of them, first block first."""
        known = self._memo.get(chain)
        if known is not None and known[0] == self._version and known[1] == limit:
            return known[2]
        self._fit()
        found = self._block_of[chain.ids[:limit]]
        missing = found == _NONE
        if missing.any():
            found = found[: int(missing.argmax())]
        if len(self._memo) >= _MEMO_CHAINS:
            self._memo.clear()
        self._memo[chain] = (self._version, limit, found)
        return found

    def idle(self, blocks: Ids) -> int:
        """How many of `blocks` are cached but held by nobody: holding them takes them out of `free`."""
        return len(blocks) - int(np.count_nonzero(self._ref[blocks]))

    def touch(self, blocks: Ids) -> None:
        """Hold `blocks`, which a lookup found."""
        held = self._ref[blocks]
        already = int(np.count_nonzero(held))
        self._ref[blocks] = held + 1
        self.saved += already
        self.free -= len(blocks) - already

    def take(self, n: int) -> list[int]:
        """Hold `n` blocks nobody holds, evicting what they cached; the caller has checked `free`."""
        if n > self.free:
            raise ValueError(f"{n} blocks wanted, {self.free} free: check `free` before taking")
        self.free -= n
        if not self.caching:
            return []
        return [self._pop()] if n == 1 else [self._pop() for _ in range(n)]

    def register(self, blocks: Sequence[int], ids: Ids) -> None:
        """Make full `blocks` findable under the hashes `ids`."""
        self._fit()
        for block, key in zip(blocks, ids.tolist(), strict=True):
            self._hash_of[block] = key
            if self._block_of[key] == _NONE:
                self._block_of[key] = block
                self._version += 1
            else:
                self._duplicates.setdefault(key, []).append(block)

    def release(self, hits: Ids, own: list[int], full: int) -> None:
        """Let go of a sequence's blocks, `hits` then `own`, the first `full` of them full; tail first."""
        blocks = np.concatenate((hits, np.array(own, dtype=np.int64))) if own else hits
        held = self._ref[blocks] - 1
        self._ref[blocks] = held
        if self.reuse_unhashed_first and full < len(blocks):
            unhashed = blocks[full:][held[full:] == 0]
            self._unhashed.extend(unhashed.tolist())
            self._order[unhashed] = _NONE
            self.free += len(unhashed)
            blocks, held = blocks[:full], held[:full]
        idle = blocks[held == 0][::-1]
        self.free += len(idle)
        self.saved -= len(blocks) - len(idle)
        self._append(idle)

    def release_count(self, n: int) -> None:
        """Let go of `n` blocks without identity (`caching` off)."""
        self.free += n

    def forget(self, ids: Ids) -> None:
        """Drop private hashes `ids`: their request is over and nobody can ask for them again."""
        self._fit()
        for key in ids.tolist():
            block = int(self._block_of[key])
            if block != _NONE:
                self._block_of[key] = self._hash_of[block] = _NONE
            for copy in self._duplicates.pop(key, ()):
                self._hash_of[copy] = _NONE
        self.table.recycle(ids)

    def reset(self) -> bool:
        """Empty the prefix cache; `False`, and nothing done, while any block is held (as vLLM answers)."""
        if self.used:
            return False
        self._block_of[:] = self._hash_of[:] = _NONE
        self._duplicates.clear()
        self._version += 1
        return True

    def cached(self) -> int:
        """Number of blocks that carry a hash."""
        return int(np.count_nonzero(self._hash_of != _NONE))

    def _pop(self) -> int:
        block = self._unhashed.pop() if self._unhashed else self._pop_oldest()
        self._ref_at[block] = 1
        key = self._hash_at[block]
        if key != _NONE:
            self._evict(block, key)
        return block

    def _pop_oldest(self) -> int:
        while True:
            while self._head_at == len(self._head):
                self._head_base, blocks = self._queue.popleft()
                self._head, self._head_at = blocks.tolist(), 0
                self._queued -= len(blocks)
            at = self._head_at
            block = self._head[at]
            self._head_at = at + 1
            if self._order_at[block] == self._head_base + at and not self._ref_at[block]:
                return block

    def _evict(self, block: int, key: int) -> None:
        self._hash_of[block] = _NONE
        others = self._duplicates.get(key)
        if self._block_of[key] == block:
            self._block_of[key] = others.pop(0) if others else _NONE
            self._version += 1
        elif others:
            others.remove(block)
        if others is not None and not others:
            del self._duplicates[key]

    def _append(self, blocks: Ids) -> None:
        if not len(blocks):
            return
        self._order[blocks] = np.arange(self._next_order, self._next_order + len(blocks))
        self._queue.append((self._next_order, blocks))
        self._next_order += len(blocks)
        self._queued += len(blocks)
        if self._queued > _STALE_FACTOR * self.num_blocks:
            self._sweep()

    def _sweep(self) -> None:
        """Rebuild the queue from the blocks that are really free, oldest first."""
        idle = np.flatnonzero((self._ref == 0) & (self._order != _NONE))
        idle = idle[np.argsort(self._order[idle], kind="stable")]
        self._head, self._head_at, self._queued = [], 0, 0
        self._queue.clear()
        self._append(idle)

    def _fit(self) -> None:
        if self.table.size > len(self._block_of):
            more = np.full(self.table.size, _NONE, dtype=np.int64)
            self._block_of = np.concatenate((self._block_of, more))
