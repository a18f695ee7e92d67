"""What vLLM calls its metrics, from 0.8 to 0.32: the names of each quantity the suite reads, newest first.

A scrape is read by the names it holds, never by a version number; `since` and `until` say where a name was
met and serve messages only. Names match exactly: `num_requests_waiting` is not `…_waiting_by_reason`,
`iteration_tokens_total` is a histogram, and `…_created` is a time and no count. Where an old and a new name
stand side by side, they are one quantity and give one value.

Sources: `vllm/v1/metrics/loggers.py` of 0.32, and vLLM's changes 18354 (`gpu_` dropped from the cache
metrics), 24110 and 29330 (`time_per_output_token` renamed, old names removed), 38435 (waiting by reason).
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["gauge", "counter", "histogram", "info"]

PREFIXES = ("vllm:", "ray_vllm:", "ray_vllm_")
"""In front of every name: vLLM's own, and what Ray's exporter makes of it."""
OLDEST, NEWEST = "0.8", "0.32"
START_TIME = "process_start_time_seconds"
"""When the process that answers was started, in seconds since 1970 (prometheus_client's own gauge)."""


class MetricNameError(KeyError):
    """A quantity that this map does not know."""

    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Name:
    """One name of a quantity, without prefix and suffix."""

    name: str
    since: str = OLDEST
    until: str = NEWEST
    """First and last version known to show it without being asked to."""


@dataclass(frozen=True)
class Quantity:
    """One thing vLLM measures; every name that it has had."""

    key: str
    kind: Kind
    unit: str
    names: tuple[Name, ...]
    """Newest first: where several are there, the first is read."""

    @property
    def bases(self) -> tuple[str, ...]:
        """Every full name without suffix, in the order of reading: `vllm:prompt_tokens` …"""
        return tuple(prefix + n.name for n in self.names for prefix in PREFIXES)

    @property
    def samples(self) -> tuple[str, ...]:
        """The sample names by which its presence shows: a counter's `_total`, a histogram's `_count`."""
        ending = {"counter": "_total", "histogram": "_count"}.get(self.kind, "")
        return tuple(base + ending for base in self.bases)


def _quantity(key: str, kind: Kind, unit: str, *names: str | Name) -> Quantity:
    return Quantity(key, kind, unit, tuple(Name(n) if isinstance(n, str) else n for n in names))


_ALL = (
    _quantity("running", "gauge", "requests", "num_requests_running"),
    _quantity(
        "waiting",
        "gauge",
        "requests",
        "num_requests_waiting",  # its sum over reasons is the same number
        Name("num_requests_waiting_by_reason", since="0.19"),
    ),
    _quantity(
        "kv_usage",
        "gauge",
        "share",
        Name("kv_cache_usage_perc", since="0.10"),
        Name("gpu_cache_usage_perc", until="0.11"),
    ),
    _quantity(
        "queries",
        "counter",
        "tokens",
        Name("prefix_cache_queries", since="0.10"),
        Name("gpu_prefix_cache_queries", until="0.11"),
    ),
    _quantity(
        "hits",
        "counter",
        "tokens",
        Name("prefix_cache_hits", since="0.10"),
        Name("gpu_prefix_cache_hits", until="0.11"),
    ),
    _quantity("prompt_tokens", "counter", "tokens", "prompt_tokens"),
    _quantity("generation_tokens", "counter", "tokens", "generation_tokens"),
    _quantity("preemptions", "counter", "preemptions", "num_preemptions"),
    _quantity("requests_finished", "counter", "requests", "request_success"),
    _quantity("ttft_s", "histogram", "s", "time_to_first_token_seconds"),
    _quantity(
        "itl_s",
        "histogram",
        "s",
        Name("inter_token_latency_seconds", since="0.11"),
        Name("time_per_output_token_seconds", until="0.12"),
    ),
    _quantity("tpot_s", "histogram", "s", Name("request_time_per_output_token_seconds", since="0.11")),
    _quantity("e2e_s", "histogram", "s", "e2e_request_latency_seconds"),
    _quantity(
        "queue_s",
        "histogram",
        "s",
        "request_queue_time_seconds",
        Name("time_in_queue_requests", until="0.8"),
    ),
    _quantity("prefill_s", "histogram", "s", "request_prefill_time_seconds"),
    _quantity("decode_s", "histogram", "s", "request_decode_time_seconds"),
    _quantity("inference_s", "histogram", "s", "request_inference_time_seconds"),
    _quantity("cache_config", "info", "", "cache_config_info"),
)
QUANTITIES: Mapping[str, Quantity] = {q.key: q for q in _ALL}
"""By the name that `analysis.window.Window` gives them."""
COUNTERS = tuple(q.key for q in _ALL if q.kind == "counter")
HISTOGRAMS = tuple(q.key for q in _ALL if q.kind == "histogram")
SAMPLED = ("running", "waiting", "kv_usage")
"""What is read four times a second through a run."""
SAMPLED_NAMES = tuple(name for key in SAMPLED for name in QUANTITIES[key].samples)
"""Every sample name of those, for a filtered scrape."""


def quantity(key: str) -> Quantity:
    """The quantity called `key`. Raises `MetricNameError` naming those there are."""
    if key not in QUANTITIES:
        raise MetricNameError(f"no quantity is called {key!r}: use one of {', '.join(QUANTITIES)}")
    return QUANTITIES[key]


def name_in(key: str, version: str) -> str | None:
    """What vLLM `version` (`0.12.0`) calls `key`, with prefix; `None` where it had no name yet."""
    wanted = _numbers(version)
    for name in quantity(key).names:
        if _numbers(name.since) <= wanted <= _numbers(name.until) or (
            name.until == NEWEST and wanted > _numbers(NEWEST)
        ):
            return PREFIXES[0] + name.name
    return None


def is_of_vllm(sample: str) -> bool:
    """Whether a sample of this name comes from vLLM."""
    return sample.startswith(PREFIXES)


def _numbers(version: str) -> tuple[int, int]:
    found = re.match(r"v?(\d+)\.(\d+)", version)
    if found is None:
        raise MetricNameError(f"{version!r} is no version of vLLM: write it as 0.12 or 0.12.0")
    return int(found[1]), int(found[2])
