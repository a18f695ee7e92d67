"""KV memory by arithmetic: bytes of a token from the model's shape, blocks of the requests in flight.

Two savings are kept apart. *Grouped-query attention* makes every token smaller: keys and values of `kv_heads`
instead of `heads`. *Prefix sharing* makes fewer tokens: a block that several requests read is held once.

Block rules are vLLM's: only full blocks are shared, equal blocks of answers are not merged, block 0 is
reserved. Requests take the prompts in turn, so N in flight hold min(N, number of prompts) different ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from nlqlib.twin.datasheet import Transformer

RESERVED_BLOCKS = 1


@dataclass(frozen=True)
class ModelShape:
    """A dense Qwen2 decoder, by the fields of its published configuration."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    tied: bool
    """Whether the output head is the embedding table."""
    value_bytes: int = 2
    """Of a weight, and of a key or value (2: bfloat16)."""

    @property
    def layer_parameters(self) -> int:
        """Attention with biases on q, k and v; a gated MLP; two norms."""
        q, kv = self.heads * self.head_dim, self.kv_heads * self.head_dim
        attention = (self.hidden + 1) * (q + 2 * kv) + q * self.hidden
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def streamed_parameters(self) -> int:
        """What one decode step reads: all layers, the last norm, the output head; of an embedding table that
        is not the head a row per token only."""
        return self.layers * self.layer_parameters + self.hidden + self.vocab * self.hidden

    @property
    def parameters(self) -> int:
        """All of them."""
        return self.streamed_parameters + (0 if self.tied else self.vocab * self.hidden)

    @property
    def transformer(self) -> Transformer:
        """The same model as `twin.datasheet` describes one, by what a step reads."""
        return Transformer(
            self.streamed_parameters, self.layers, self.heads, self.kv_heads, self.head_dim, self.value_bytes
        )

    @property
    def multi_head(self) -> "ModelShape":
        """The same model with keys and values for every head."""
        return replace(self, kv_heads=self.heads)

    @property
    def kv_bytes_per_token(self) -> int:
        """2 (key, value) · layers · KV heads · head size · bytes of a value."""
        return self.transformer.kv_bytes_per_token

    @property
    def weight_bytes(self) -> int:
        """Memory of all parameters."""
        return self.parameters * self.value_bytes

    @property
    def gqa_factor(self) -> float:
        """How many times smaller a token is than under multi-head attention."""
        return self.heads / self.kv_heads


@dataclass(frozen=True)
class InFlight:
    """`requests` in flight at any time, in a steady closed loop over `prompts`."""

    requests: int
    prompts: tuple[int, ...]
    """Length in tokens of each different prompt."""
    shared: int
    """Leading tokens that all prompts have in common."""
    output_tokens: int
    """Of one answer; a request is seen at every length of it equally often."""

    def __post_init__(self) -> None:
        if self.requests < 1 or not self.prompts or min(self.prompts) < 1 or self.output_tokens < 1:
            raise ValueError("at least one request, prompt and token of each are needed to fill a block")
        if not 0 <= self.shared <= min(self.prompts):
            raise ValueError(
                f"{self.shared} shared tokens cannot begin every prompt: the shortest has {min(self.prompts)}"
            )

    @property
    def distinct(self) -> int:
        """Different prompts in flight."""
        return min(self.requests, len(self.prompts))

    @property
    def context_tokens(self) -> float:
        """Mean tokens that one request attends to."""
        return _mean(self.prompts) + (self.output_tokens - 1) / 2


@dataclass(frozen=True)
class Blocks:
    """Mean KV blocks in use, by who holds them."""

    shared: float
    """By every request."""
    per_prompt: float
    """By the requests of one prompt, summed over prompts."""
    own: float
    """By one request alone, summed over requests."""

    @property
    def total(self) -> float:
        return self.shared + self.per_prompt + self.own


def blocks(load: InFlight, block_size: int, sharing: bool = True) -> Blocks:
    """Mean blocks in use under `load`; without `sharing` every request holds all of its own."""
    _check(block_size)
    # of a prompt that ends with a block the last block is computed again, and equal blocks are not merged
    full = [(p - 1) // block_size if sharing else 0 for p in load.prompts]
    common = min(load.shared // block_size if sharing else 0, min(full))
    need = [_mean_need(p, load.output_tokens, block_size) for p in load.prompts]
    own = _mean([n - f for n, f in zip(need, full, strict=True)])
    return Blocks(common, load.distinct * (_mean(full) - common), load.requests * own)


def _mean_need(prompt: int, output: int, block_size: int) -> float:
    """Blocks of one request, over the lengths at which a decode step finds it: prompt + 0 … output − 1."""
    return _mean([-(-(prompt + k) // block_size) for k in range(output)])


def usage(in_use: float, num_blocks: float) -> float:
    """Share of the blocks in use, as vLLM's gauge has it; more than 1 does not fit."""
    if num_blocks <= RESERVED_BLOCKS:
        raise ValueError(f"{num_blocks:g} KV blocks hold nothing: one is reserved by the engine")
    return in_use / (num_blocks - RESERVED_BLOCKS)


def blocks_in(memory_bytes: float, model: ModelShape, block_size: int) -> float:
    """KV blocks that fit into `memory_bytes` beside the weights.

    An upper bound: activations, graphs and the driver's own memory come off. Raises `ValueError` when the
    weights alone do not fit.
    """
    _check(block_size)
    left = memory_bytes - model.weight_bytes
    if left <= 0:
        raise ValueError(f"{memory_bytes:g} bytes do not hold the weights ({model.weight_bytes:g} bytes)")
    return left / (block_size * model.kv_bytes_per_token)


@dataclass(frozen=True)
class Need:
    """KV memory of one load under one combination of the two savings."""

    sharing: bool
    grouped: bool
    kv_bytes: float


def needs(model: ModelShape, load: InFlight, block_size: int) -> tuple[Need, ...]:
    """All four combinations: both savings, each alone, none; in bytes of blocks held."""
    tokens = {s: blocks(load, block_size, s).total * block_size for s in (True, False)}
    shapes = {True: model, False: model.multi_head}
    return tuple(
        Need(sharing, grouped, tokens[sharing] * shapes[grouped].kv_bytes_per_token)
        for sharing in (True, False)
        for grouped in (True, False)
    )


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _check(block_size: int) -> None:
    if block_size < 1:
        raise ValueError(f"a block of {block_size} tokens holds nothing")
