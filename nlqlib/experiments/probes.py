"""Short points of one shape each, from which a twin is calibrated and on which it is judged.

A probe is a closed loop of prompts of a given length and reuse, with answers of a fixed length. Its prompts
mean nothing: words drawn by a seed, one token each, so that length and shared prefix are known to the token.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from nlqlib import tokens
from nlqlib.analysis.latency import latencies, throughput_run, tpot_s
from nlqlib.analysis.window import Window, window
from nlqlib.load.closed_loop import closed_loop
from nlqlib.records import ChatRequest, Completion
from nlqlib.serving.client import Client
from nlqlib.serving.metrics import MetricsReader

ASK = "Continue."
WORDS = ("the", "of", "and", "to", "in", "is", "that", "it", "for", "was", "on", "are", "as", "with", "they",
         "at", "be", "this", "from", "have", "or", "by", "one", "had")  # fmt: skip
"""Each is one token after a blank."""


@dataclass(frozen=True)
class Probe:
    """One load. `shared_tokens` of each prompt are the same for all and cached before."""

    name: str
    use: Literal["fit", "judge"]
    prompt_tokens: int
    shared_tokens: int
    concurrency: int
    requests: int
    output_tokens: int = 16


PROBES = (
    Probe("one warm request", "fit", 3300, 3300, 1, 3),
    Probe("one short prompt", "fit", 128, 128, 1, 3),
    Probe("cold prompt of 1,000", "fit", 1000, 0, 1, 2, 2),
    Probe("cold prompt of 3,000", "fit", 3000, 0, 1, 1, 2),
    Probe("4 warm requests", "fit", 3300, 3300, 4, 12),
    Probe("16 warm requests", "fit", 3300, 3300, 16, 48),
    Probe("16 short prompts", "fit", 128, 128, 16, 48),
    Probe("2 warm requests", "judge", 3300, 3300, 2, 8),
    Probe("8 warm requests", "judge", 3300, 3300, 8, 24),
    Probe("32 warm requests", "judge", 3300, 3300, 32, 96),
    Probe("8 prompts of 1,600", "judge", 1600, 1600, 8, 24),
    Probe("cold prompt of 2,000", "judge", 2000, 0, 1, 2, 2),
    Probe("prompt of 2,000, half of it cached", "judge", 2000, 1000, 1, 2, 2),
)
"""At most eight to fit on. Those to judge by change concurrency, prompt length and hit rate."""


@dataclass(frozen=True)
class Probed:
    """What a probe measured; seconds, `None` where it could not be observed."""

    name: str
    use: Literal["fit", "judge"]
    concurrency: int
    requests: int
    prompt_tokens: int
    """As the server counts them."""
    shared_tokens: int
    output_tokens: int
    throughput_run: float | None
    e2e_s: float | None
    ttft_s: float | None
    """By the client."""
    itl_s: float | None
    server_ttft_s: float | None
    server_e2e_s: float | None
    queue_s: float | None
    prefill_s: float | None
    hit_rate: float | None


class ProbeError(RuntimeError):
    """The endpoint cannot be probed; says why, and what to do."""


async def measure(client: Client, reader: MetricsReader | None, probe: Probe, seed: int) -> Probed:
    """Measure `probe`. Raises `ProbeError` if any request fails: no twin is fitted to half a point."""
    asked = prompts(probe, seed)
    if probe.shared_tokens:
        _check(probe, [await client.complete(warming(probe, seed))])
    before = await reader.scrape() if reader else None
    run = await closed_loop(client, asked, probe.concurrency, probe.requests)
    after = await reader.scrape() if reader else None
    _check(probe, run.completions)
    seen = window(before, after) if before and after else None
    return _probed(probe, run.completions, seen)


def _check(probe: Probe, done: Sequence[Completion]) -> None:
    failed = [c for c in done if not c.ok]
    if failed:
        raise ProbeError(
            f"{len(failed)} of {len(done)} requests of the point {probe.name!r} failed ({failed[0].outcome}: "
            f"{failed[0].error}); nothing was fitted. The endpoint must serve {probe.prompt_tokens} prompt "
            "tokens and honour ignore_eos"
        )


def _probed(probe: Probe, done: Sequence[Completion], seen: Window | None) -> Probed:
    counted = [c.prompt_tokens for c in done if c.prompt_tokens is not None]
    length = round(sum(counted) / len(counted)) if counted else probe.prompt_tokens
    gaps = [gap for c in done if (gap := tpot_s(c)) is not None]
    firsts = [c.ttft_s for c in done if c.ttft_s is not None]
    whole = latencies(done)
    return Probed(
        name=probe.name,
        use=probe.use,
        concurrency=probe.concurrency,
        requests=probe.requests,
        prompt_tokens=length,
        shared_tokens=round(probe.shared_tokens * length / probe.prompt_tokens),
        output_tokens=probe.output_tokens,
        throughput_run=throughput_run(done),
        e2e_s=float(whole.mean()) if len(whole) else None,
        ttft_s=float(np.mean(firsts)) if firsts else None,
        itl_s=float(np.mean(gaps)) if gaps else None,
        server_ttft_s=seen.ttft_s if seen else None,
        server_e2e_s=seen.e2e_s if seen else None,
        queue_s=seen.queue_s if seen else None,
        prefill_s=seen.prefill_s if seen else None,
        hit_rate=seen.hit_rate if seen else None,
    )


def prompts(probe: Probe, seed: int) -> list[ChatRequest]:
    """The requests of `probe`: streamed, with answers of exactly `output_tokens`."""
    return [_request(probe, seed, str(i), probe.output_tokens) for i in range(probe.requests)]


def warming(probe: Probe, seed: int) -> ChatRequest:
    """The request that puts the shared prefix into the cache, and nothing more of the others' prompts."""
    return _request(probe, seed, "warm-up", 1)


def _request(probe: Probe, seed: int, which: str, output_tokens: int) -> ChatRequest:
    own = random.Random(f"{seed} {probe.name} {which}")
    words = random.Random(f"{seed} {probe.name}").choices(WORDS, k=probe.shared_tokens)
    words += own.choices(WORDS, k=probe.prompt_tokens - probe.shared_tokens)
    return ChatRequest(
        f"{probe.name} {which}",
        _chat(words[: probe.prompt_tokens - overhead()]),
        max_tokens=output_tokens,
        stream=True,
        extra={"ignore_eos": True},
    )


@lru_cache(maxsize=1)
def overhead() -> int:
    """Tokens of such a chat beside its words."""
    return tokens.count_chat(_chat(["the"])) - 1


def _chat(words: Sequence[str]) -> tuple[dict[str, str], ...]:
    text = "".join(f" {word}" for word in words)
    return ({"role": "system", "content": text}, {"role": "user", "content": ASK})
