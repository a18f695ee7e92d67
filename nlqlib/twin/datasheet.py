"""A first guess of step times from public numbers: what a model weighs, what a GPU moves and computes."""

from dataclasses import dataclass

from nlqlib.twin.step_time import StepTime


@dataclass(frozen=True)
class Transformer:
    """A dense decoder with grouped-query attention; `value_bytes` per weight and per KV value (2: bf16)."""

    parameters: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    value_bytes: int = 2

    @property
    def weight_bytes(self) -> int:
        return self.parameters * self.value_bytes

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of one token over all layers."""
        return 2 * self.layers * self.kv_heads * self.head_dim * self.value_bytes

    @property
    def flops_per_token(self) -> int:
        """Two operations per weight; embeddings are counted, as they are the output head too."""
        return 2 * self.parameters

    @property
    def flops_per_pair(self) -> int:
        """Attention of one token to one other: scores and weighted sum, over all heads and layers."""
        return 4 * self.layers * self.heads * self.head_dim


@dataclass(frozen=True)
class Accelerator:
    """Data-sheet peaks: memory bandwidth in bytes/s, dense 16-bit arithmetic in FLOP/s."""

    bandwidth: float
    flops: float


QWEN25_3B = Transformer(parameters=3_085_938_688, layers=36, heads=16, kv_heads=2, head_dim=128)
LLAMA31_8B = Transformer(parameters=8_030_261_248, layers=32, heads=32, kv_heads=8, head_dim=128)
L4 = Accelerator(bandwidth=300e9, flops=121e12)
RTX_4090 = Accelerator(bandwidth=1008e9, flops=165e12)


def roofline(model: Transformer, accelerator: Accelerator, shared: bool = False) -> StepTime:
    """Step times at the data sheet's peaks. `shared`: a prefix that several sequences read is read once."""
    kv_s = model.kv_bytes_per_token / accelerator.bandwidth
    return StepTime(
        weights_s=model.weight_bytes / accelerator.bandwidth,
        token_s=model.flops_per_token / accelerator.flops,
        attention_s=model.flops_per_pair / accelerator.flops,
        kv_distinct_s=kv_s if shared else 0.0,
        kv_logical_s=0.0 if shared else kv_s,
    )
