"""One request inside the engine, and what one engine step computes."""

from typing import Any, NamedTuple

from nlqlib.twin.blocks import EMPTY, Chain, Ids

WAITING, PREFILL, DECODE, FINISHING, DONE, ABORTED = range(6)


class Sequence:
    """A request in the engine: tokens and blocks (the scheduler's), times in seconds (the replica's).

    `output_tokens` is what the model will say; only the scheduler's decode clock looks at it, and only to
    notice the last token. Admission and routing never see it.
    """

    __slots__ = (
        "arrival_s",
        "cached_tokens",
        "chain",
        "computed",
        "first_token_s",
        "generated",
        "hits",
        "last_token_s",
        "offset",
        "output_tokens",
        "own",
        "payload",
        "preemptions",
        "private_from",
        "prompt_tokens",
        "registered",
        "request_id",
        "scheduled_s",
        "state",
        "told",
        "watched",
    )

    def __init__(
        self,
        request_id: str,
        prompt_tokens: int,
        output_tokens: int,
        chain: Chain | None = None,
        watched: bool = False,
        payload: Any = None,
    ) -> None:
        self.request_id = request_id
        self.prompt_tokens = prompt_tokens
        self.output_tokens = output_tokens
        self.chain = chain
        """Hashes of the full blocks whose content is known; `None`: nobody shares them."""
        self.watched = watched
        """Every token is reported as an event (streaming), not only the last."""
        self.payload = payload
        self.state = WAITING
        self.computed = 0
        self.generated = 0
        self.offset = 0
        self.registered = 0
        self.private_from: int | None = None
        self.hits: Ids = EMPTY
        self.own: list[int] = []
        self.cached_tokens: int | None = None
        self.preemptions = 0
        self.told = 0
        """Output tokens reported as events (watched sequences only)."""
        self.arrival_s: float = 0.0
        self.scheduled_s: float | None = None
        self.first_token_s: float | None = None
        self.last_token_s: float | None = None

    def times(self) -> tuple[float, float, float, float] | None:
        """Arrival, first schedule, first and last token, in seconds; `None` if it did not finish."""
        if self.state != DONE or self.scheduled_s is None:
            return None
        assert self.first_token_s is not None and self.last_token_s is not None
        return self.arrival_s, self.scheduled_s, self.first_token_s, self.last_token_s

    def __repr__(self) -> str:
        return f"<Sequence {self.request_id}: {self.prompt_tokens} + {self.generated}/{self.output_tokens}>"


class Chunk(NamedTuple):
    """Prompt tokens of one sequence computed in one step: `tokens` of them after `start`."""

    sequence: Sequence
    start: int
    tokens: int


class Batch:
    """One planned step: `decodes` sequences get one token each, and the `chunks` of prompts beside them."""

    __slots__ = ("admitted", "chunks", "completed", "context", "decodes", "finishing", "preempted", "saved")

    def __init__(self, decodes: int, context: int) -> None:
        self.decodes = decodes
        self.context = context
        """KV tokens the decoding sequences read, each counted by every sequence that reads it."""
        self.chunks: list[Chunk] = []
        self.admitted: list[Sequence] = []
        self.completed: list[Sequence] = []
        """Prompts (or recomputed sequences) whose last chunk this is: they get a token from it."""
        self.finishing: list[Sequence] = []
        """Sequences that get their last token from this step."""
        self.preempted: list[Sequence] = []
        self.saved = 0
        """KV tokens that `context` and the chunks count more than once."""

    @property
    def tokens(self) -> int:
        """Tokens computed in this step."""
        return self.decodes + sum(c.tokens for c in self.chunks)
