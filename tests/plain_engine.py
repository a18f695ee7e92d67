"""vLLM v1's scheduling rules written the slow and obvious way: one request, one block, one token at a time.

The referee of `test_scheduler.py` and `test_invariants.py`. It shares nothing with `nlqlib.twin`.
"""

from dataclasses import dataclass, field


@dataclass(eq=False)
class Request:
    name: str
    tokens: list  # prompt, then what has been generated
    output: list
    prompt: int = 0
    computed: int = 0
    blocks: list = field(default_factory=list)
    preemptions: int = 0
    cached: int | None = None

    def __post_init__(self):
        self.prompt = len(self.tokens)

    def prefix(self, block: int, size: int) -> tuple:
        return tuple(self.tokens[: (block + 1) * size])


class PlainEngine:
    def __init__(self, blocks, size, budget, seqs, whole_prompt, unhashed_first, watermark, every_lookup):
        self.size, self.budget, self.seqs = size, budget, seqs
        self.whole_prompt, self.unhashed_first, self.every_lookup = whole_prompt, unhashed_first, every_lookup
        self.watermark = int(watermark * blocks)
        self.queue, self.ref = list(range(1, blocks)), [0] * blocks
        self.hash_of, self.blocks_of = {}, {}
        self.waiting, self.running = [], []
        self.queries = self.hits = 0

    # blocks
    def lookup(self, r):
        found = []
        for i in range((len(r.tokens) - 1) // self.size):
            copies = self.blocks_of.get(r.prefix(i, self.size))
            if not copies:
                break
            found.append(copies[0])
        return found

    def needed(self, tokens):
        return -(-tokens // self.size)

    def allocate(self, r, new, hits=()):
        need = self.needed(r.computed + new) - len(r.blocks) - len(hits)
        for b in hits:
            if self.ref[b] == 0:
                self.queue.remove(b)
            self.ref[b] += 1
            r.blocks.append(b)
        for _ in range(need):
            b = self.queue.pop(0)
            self.ref[b] = 1
            if b in self.hash_of:
                self.blocks_of[self.hash_of.pop(b)].remove(b)
            r.blocks.append(b)
        for i in range(min(r.computed + new, len(r.tokens)) // self.size):
            if r.blocks[i] not in self.hash_of:
                self.hash_of[r.blocks[i]] = r.prefix(i, self.size)
                self.blocks_of.setdefault(r.prefix(i, self.size), []).append(r.blocks[i])

    def free(self, r):
        front = []
        for b in reversed(r.blocks):
            self.ref[b] -= 1
            if self.ref[b] == 0:
                (front if self.unhashed_first and b not in self.hash_of else self.queue).append(b)
        self.queue = front + self.queue
        r.blocks = []

    # one step
    def plan(self):
        """What each request computes in this step, and who was preempted."""
        step, preempted, budget, i = {}, [], self.budget, 0
        while i < len(self.running) and budget > 0:
            r = self.running[i]
            new = min(len(r.tokens) - r.computed, budget)
            while self.needed(r.computed + new) - len(r.blocks) > len(self.queue):
                victim = self.running.pop()
                self.free(victim)
                victim.computed, victim.preemptions = 0, victim.preemptions + 1
                self.waiting.insert(0, victim)
                preempted.append(victim.name)
                if victim is r:
                    break
            if r not in self.running:
                break
            self.allocate(r, new)
            step[r.name], budget, i = new, budget - new, i + 1
        while not preempted and self.waiting and budget > 0 and len(self.running) < self.seqs:
            r = self.waiting[0]
            hits = self.lookup(r)
            cached = len(hits) * self.size
            new = min(len(r.tokens) - cached, budget)
            upto = len(r.tokens) if self.whole_prompt else cached + new
            need = self.needed(upto) - len(hits) + sum(self.ref[b] == 0 for b in hits)
            fits = need + (self.watermark if self.running else 0) <= len(self.queue)
            if not r.preemptions and (fits or self.every_lookup):
                self.queries, self.hits = self.queries + r.prompt, self.hits + cached
            if not fits:
                break
            self.waiting.pop(0)
            self.running.append(r)
            r.computed = cached
            r.cached = cached if r.cached is None else r.cached
            self.allocate_admitted(r, new, hits)
            step[r.name], budget = new, budget - new
        for r in self.running:
            r.computed += step.get(r.name, 0)
        return step, preempted

    def allocate_admitted(self, r, new, hits):
        self.allocate(r, new, hits)

    def finish(self):
        """Everyone computed to the end gets a token; returns who got the last one."""
        over = []
        for r in list(self.running):
            if r.computed == len(r.tokens):
                r.tokens.append(r.output[len(r.tokens) - r.prompt])
                if len(r.tokens) == r.prompt + len(r.output):
                    self.running.remove(r)
                    self.free(r)
                    over.append(r.name)
        return over
