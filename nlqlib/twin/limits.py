"""What an engine is started with, under vLLM's own names, and what differs between its versions."""

import dataclasses
from dataclasses import dataclass
from typing import Any

RESERVED_BLOCKS = 1  # vLLM keeps block 0 for itself
_MOST_BLOCKS = 10_000_000  # terabytes of KV; above it a typing error is likelier than a device


class EngineError(ValueError):
    """A setting or a request that no engine could serve; the text says which, and what would do."""


@dataclass(frozen=True)
class EngineLimits:
    """Settings of one engine. `num_gpu_blocks` is read from the server's `vllm:cache_config_info`."""

    num_gpu_blocks: int
    block_size: int = 16
    max_num_batched_tokens: int = 2048
    max_num_seqs: int = 32
    max_model_len: int | None = None
    """Prompt plus output tokens of one request; `None`: whatever the blocks hold."""
    enable_prefix_caching: bool = True
    enable_chunked_prefill: bool = True
    async_scheduling: bool = False
    """The next step is planned while one runs (vLLM's default since 0.14)."""
    scheduler_reserve_full_isl: bool = False
    """A request is admitted only if its whole prompt fits, not just its first chunk (default since 0.19)."""
    watermark: float = 0.0
    """Share of the blocks kept free when a request is admitted beside others."""
    count_at_admission: bool = False
    """Prefix-cache queries count once per admission; older engines count every attempt."""
    reuse_unhashed_first: bool = False
    """Blocks without a hash are reused before cached ones."""

    def __post_init__(self) -> None:
        for name in ("num_gpu_blocks", "block_size", "max_num_batched_tokens", "max_num_seqs"):
            if getattr(self, name) < 1:
                raise EngineError(f"{name} is {getattr(self, name)}; it must be at least 1")
        if self.num_gpu_blocks <= RESERVED_BLOCKS:
            raise EngineError("num_gpu_blocks must be at least 2: one block is reserved by the engine")
        if self.num_gpu_blocks > _MOST_BLOCKS:
            raise EngineError(f"num_gpu_blocks is {self.num_gpu_blocks}, more than any device holds")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise EngineError(
                f"max_num_batched_tokens ({self.max_num_batched_tokens}) is below max_num_seqs "
                f"({self.max_num_seqs}): every running sequence needs one token per step; raise the first"
            )
        if not 0 <= self.watermark < 1:
            raise EngineError(f"watermark is {self.watermark}; it is a share, 0 ≤ watermark < 1")
        if self.max_model_len is not None and self.max_model_len < 2:
            raise EngineError(
                f"max_model_len is {self.max_model_len}; a prompt and an answer need at least 2"
            )
        if not self.enable_chunked_prefill and self.max_num_batched_tokens < self.window:
            raise EngineError(
                f"without chunked prefill max_num_batched_tokens ({self.max_num_batched_tokens}) must reach "
                f"the window ({self.window})"
            )

    @property
    def capacity(self) -> int:
        """Tokens the blocks hold."""
        return (self.num_gpu_blocks - RESERVED_BLOCKS) * self.block_size

    @property
    def window(self) -> int:
        """Most tokens a request may have, prompt and output together."""
        return self.capacity if self.max_model_len is None else self.max_model_len

    def blocks(self, tokens: int) -> int:
        """Blocks that hold `tokens` tokens."""
        return -(-tokens // self.block_size)

    def check(self, prompt_tokens: int, output_tokens: int) -> None:
        """Raise `EngineError` for a request that this engine could never finish."""
        if prompt_tokens < 1 or output_tokens < 1:
            raise EngineError(
                "a request needs at least one prompt and one output token, "
                f"got {prompt_tokens} and {output_tokens}"
            )
        total = prompt_tokens + output_tokens
        if total > self.window:
            raise EngineError(
                f"{prompt_tokens} prompt tokens + {output_tokens} output tokens = {total} exceed the window "
                f"of {self.window}; shorten the request or raise max_model_len"
            )
        if self.blocks(total - 1) > self.num_gpu_blocks - RESERVED_BLOCKS:
            raise EngineError(
                f"{total} tokens need {self.blocks(total - 1)} blocks; the engine has "
                f"{self.num_gpu_blocks - RESERVED_BLOCKS}: raise num_gpu_blocks"
            )


FIELDS = tuple(f.name for f in dataclasses.fields(EngineLimits))


def version_defaults(version: str) -> dict[str, Any]:
    """Flags that a vLLM of this `version` ("0.12.0", "0.19", …) has on unless told otherwise.

    Source: pull requests 27614, 37307, 42656 and 48860 of vLLM (the releases of the last two by date) and its
    source at 0.32. On a CPU the engine plans one step at a time whatever its version: set `async_scheduling`
    to false there.
    """
    parts = version.lstrip("v").split(".")
    try:
        at = (int(parts[0]), int(parts[1]))
    except (ValueError, IndexError):
        raise EngineError(f"vLLM version {version!r} is not of the form 0.12 or 0.12.0") from None
    return {
        "async_scheduling": at >= (0, 14),
        "scheduler_reserve_full_isl": at >= (0, 19),
        "count_at_admission": at >= (0, 26),
        "reuse_unhashed_first": at >= (0, 22),
    }
