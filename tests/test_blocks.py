"""The block pool against a plain model of it: a list as free queue, a dictionary as cache."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nlqlib.twin.blocks import EMPTY, BlockPool, Chain, HashTable


class PlainPool:
    """The same rules, written the slow and obvious way: ordered lists, one block at a time."""

    def __init__(self, num_blocks: int, reuse_unhashed_first: bool) -> None:
        self.queue = list(range(1, num_blocks))
        self.ref = [0] * num_blocks
        self.hash_of: dict[int, int] = {}
        self.blocks_of: dict[int, list[int]] = {}
        self.reuse_unhashed_first = reuse_unhashed_first

    def lookup(self, ids: list[int]) -> list[int]:
        found = []
        for key in ids:
            if not self.blocks_of.get(key):
                break
            found.append(self.blocks_of[key][0])
        return found

    def touch(self, blocks: list[int]) -> None:
        for b in blocks:
            if self.ref[b] == 0:
                self.queue.remove(b)
            self.ref[b] += 1

    def take(self, n: int) -> list[int]:
        taken, self.queue = self.queue[:n], self.queue[n:]
        for b in taken:
            self.ref[b] = 1
            if b in self.hash_of:
                self.blocks_of[self.hash_of.pop(b)].remove(b)
        return taken

    def register(self, blocks: list[int], ids: list[int]) -> None:
        for b, key in zip(blocks, ids, strict=True):
            self.hash_of[b] = key
            self.blocks_of.setdefault(key, []).append(b)

    def release(self, blocks: list[int]) -> None:
        front = []
        for b in reversed(blocks):
            self.ref[b] -= 1
            if self.ref[b] == 0:
                if self.reuse_unhashed_first and b not in self.hash_of:
                    front.append(b)
                else:
                    self.queue.append(b)
        self.queue = front + self.queue


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9), st.booleans()), min_size=1, max_size=60),
    st.booleans(),
    st.integers(14, 40),
)
def test_every_operation_agrees_with_the_plain_pool(requests, reuse_unhashed_first, num_blocks):
    table = HashTable()
    chains = [table.chain([prompt] * 16 + list(range(16 * 9))) for prompt in range(4)]
    pool, plain = (
        BlockPool(num_blocks, table, True, reuse_unhashed_first),
        PlainPool(num_blocks, reuse_unhashed_first),
    )
    held: list[tuple[np.ndarray, list[int], int]] = []
    for prompt, length, leave in requests:
        chain = chains[prompt]
        hits = pool.lookup(chain, length)
        assert hits.tolist() == plain.lookup(chain.ids[:length].tolist())
        need = length + 1 - len(hits)
        if need + pool.idle(hits) <= pool.free:
            pool.touch(hits)
            plain.touch(hits.tolist())
            own = pool.take(need)
            assert own == plain.take(need)
            pool.register(own[:-1], chain.ids[len(hits) : length])
            plain.register(own[:-1], chain.ids[len(hits) : length].tolist())
            held.append((hits, own, length))
        if held and (leave or need > pool.free):
            hits, own, full = held.pop(0)
            pool.release(hits, own, full)
            plain.release(hits.tolist() + own)
        assert pool.free == len(plain.queue)
        assert pool.used == sum(r > 0 for r in plain.ref)
        assert pool.saved == sum(r - 1 for r in plain.ref if r > 1)


def test_equal_prefixes_have_equal_hashes_and_only_full_blocks_have_any():
    table = HashTable()
    a, b = table.chain(list(range(47))), table.chain([*range(32), 99, 98] + [0] * 20)
    assert len(a.ids) == 2 and len(b.ids) == 3
    assert a.ids.tolist() == b.ids[:2].tolist()


def test_equal_blocks_after_different_prefixes_have_different_hashes():
    table = HashTable()
    a, b = table.chain([1] * 16 + [7] * 16), table.chain([2] * 16 + [7] * 16)
    assert a.ids[1] != b.ids[1]


def test_a_salt_keeps_equal_prompts_apart():
    table = HashTable()
    assert table.chain([1] * 16, "a").ids[0] != table.chain([1] * 16, "b").ids[0]
    assert table.chain([1] * 16, "a").ids[0] == table.chain([1] * 16, "a").ids[0]


def test_block_zero_is_never_given_out():
    pool = BlockPool(5, HashTable())
    assert sorted(pool.take(4)) == [1, 2, 3, 4]
    assert pool.free == 0 and pool.usage == 1.0


def test_taking_more_than_is_free_is_refused():
    with pytest.raises(ValueError, match="3 blocks wanted, 2 free"):
        BlockPool(3, HashTable()).take(3)


def test_the_tail_of_a_released_prompt_is_evicted_first():
    table = HashTable()
    pool, chain = BlockPool(4, table), table.chain(list(range(48)))
    own = pool.take(3)
    pool.register(own, chain.ids)
    pool.release(EMPTY, own, 3)
    assert pool.take(1) == [own[2]]
    assert pool.lookup(chain, 3).tolist() == own[:2]


def test_a_duplicate_takes_over_when_the_first_copy_is_evicted():
    table = HashTable()
    pool, chain = BlockPool(3, table), table.chain([5] * 16)
    first, second = pool.take(2)
    pool.register([first], chain.ids)
    pool.register([second], chain.ids)
    pool.release(EMPTY, [first], 1)
    assert pool.lookup(chain, 1).tolist() == [first]
    assert pool.take(1) == [first]
    assert pool.lookup(chain, 1).tolist() == [second]


def test_a_forgotten_private_hash_finds_nothing_and_can_be_given_out_again():
    table = HashTable()
    pool, ids = BlockPool(4, table), table.private(2)
    blocks = pool.take(2)
    pool.register(blocks, ids)
    pool.forget(ids)
    again = table.private(2)
    assert sorted(again.tolist()) == sorted(ids.tolist())
    assert len(pool.lookup(Chain(again), 2)) == 0 and pool.cached() == 0


def test_reset_empties_the_cache_only_when_nothing_is_held():
    table = HashTable()
    pool, chain = BlockPool(4, table), table.chain([1] * 16)
    own = pool.take(1)
    pool.register(own, chain.ids)
    assert not pool.reset()
    pool.release(EMPTY, own, 1)
    assert pool.reset()
    assert len(pool.lookup(chain, 1)) == 0


def test_a_long_run_of_hits_leaves_the_queue_short():
    table = HashTable()
    pool, chain = BlockPool(50, table), table.chain(list(range(160)))
    own = pool.take(10)
    pool.register(own, chain.ids)
    pool.release(EMPTY, own, 10)
    for _ in range(1000):
        hits = pool.lookup(chain, 10)
        pool.touch(hits)
        pool.release(hits, [], 10)
    assert pool._queued <= 8 * 50 and pool.free == 49
