"""The replica's `/metrics` in Prometheus' text format, under the names of vLLM 0.12.

Several series are cheap and several are not: a filtered scrape (`name[]=`) computes only what it names.
"""

from collections.abc import Callable, Collection, Iterator, Mapping

from nlqlib.twin.counters import Histogram
from nlqlib.twin.replica import Replica

PREFIX = "vllm:"
PHASE_NAMES = {
    "queue": "request_queue_time_seconds",
    "prefill": "request_prefill_time_seconds",
    "decode": "request_decode_time_seconds",
    "inference": "request_inference_time_seconds",
    "e2e": "e2e_request_latency_seconds",
}


class Exposition:
    """Renders one replica; `finished` counts its requests by finish reason."""

    def __init__(self, replica: Replica, finished: Mapping[str, int], model: str, engine: int = 0) -> None:
        self._replica, self._finished = replica, finished
        self._labels = f'engine="{engine}",model_name="{model}"'
        self._filters: dict[tuple[str, ...], tuple[str, ...]] = {}
        self._families = self._gauges() | self._counters() | self._histograms()

    def text(self, wanted: Collection[str] = ()) -> str:
        """The exposition, or only the families that hold a series named in `wanted`."""
        lines: list[str] = []
        for name in self._chosen(tuple(wanted)):
            kind, render = self._families[name]
            lines.append(f"# TYPE {PREFIX}{name} {kind}")
            lines += render(name)
        return "\n".join(lines) + "\n"

    def _chosen(self, wanted: tuple[str, ...]) -> tuple[str, ...]:
        """Names of the families to be shown, found once for each filter."""
        if wanted not in self._filters:
            named = (n for n, (kind, _) in self._families.items() if not wanted or _named(n, kind, wanted))
            self._filters[wanted] = tuple(named)
        return self._filters[wanted]

    def _gauges(self) -> dict[str, tuple[str, Callable[[str], list[str]]]]:
        scheduler = self._replica.scheduler

        def gauge(value: Callable[[], float]) -> tuple[str, Callable[[str], list[str]]]:
            return "gauge", lambda name: [f"{PREFIX}{name}{{{self._labels}}} {_number(value())}"]

        return {
            "num_requests_running": gauge(lambda: len(scheduler.running)),
            "num_requests_waiting": gauge(lambda: len(scheduler.waiting)),
            "kv_cache_usage_perc": gauge(lambda: scheduler.pool.usage),
            "cache_config_info": ("gauge", lambda name: [self._config(name)]),
        }

    def _config(self, name: str) -> str:
        limits = self._replica.limits
        told = {
            "block_size": limits.block_size,
            "enable_prefix_caching": limits.enable_prefix_caching,
            "num_gpu_blocks": limits.num_gpu_blocks,
        }
        labels = ",".join(f'{k}="{v}"' for k, v in told.items())
        return f'{PREFIX}{name}{{{labels},engine="0"}} 1.0'

    def _counters(self) -> dict[str, tuple[str, Callable[[str], list[str]]]]:
        scheduler, counters = self._replica.scheduler, self._replica.counters

        def counter(value: Callable[[], int]) -> tuple[str, Callable[[str], list[str]]]:
            return "counter", lambda name: [f"{PREFIX}{name}_total{{{self._labels}}} {_number(value())}"]

        return {
            "prefix_cache_queries": counter(lambda: scheduler.queries),
            "prefix_cache_hits": counter(lambda: scheduler.hits),
            "num_preemptions": counter(lambda: scheduler.preemptions),
            "prompt_tokens": counter(lambda: counters.prompt_tokens),
            "generation_tokens": counter(lambda: counters.generation_tokens),
            "request_success": ("counter", self._by_reason),
        }

    def _by_reason(self, name: str) -> list[str]:
        counts = dict.fromkeys(("stop", "length", "abort"), 0) | dict(self._finished)
        return [
            f'{PREFIX}{name}_total{{{self._labels},finished_reason="{reason}"}} {_number(n)}'
            for reason, n in counts.items()
        ]

    def _histograms(self) -> dict[str, tuple[str, Callable[[str], list[str]]]]:
        counters = self._replica.counters

        def histogram(value: Callable[[], Histogram]) -> tuple[str, Callable[[str], list[str]]]:
            return "histogram", lambda name: list(self._buckets(name, value()))

        found = {
            "time_to_first_token_seconds": histogram(lambda: counters.time_to_first_token),
            "inter_token_latency_seconds": histogram(lambda: counters.inter_token_latency),
            "request_time_per_output_token_seconds": histogram(lambda: counters.time_per_output_token),
        }
        for phase, name in PHASE_NAMES.items():
            found[name] = histogram(lambda phase=phase: counters.phases[phase])  # type: ignore[misc]
        return found

    def _buckets(self, name: str, histogram: Histogram) -> Iterator[str]:
        counts = histogram.cumulative
        edges = [*(_number(bound) for bound in histogram.bounds), "+Inf"]
        for edge, count in zip(edges, counts, strict=True):
            yield f'{PREFIX}{name}_bucket{{{self._labels},le="{edge}"}} {_number(count)}'
        yield f"{PREFIX}{name}_sum{{{self._labels}}} {histogram.sum!r}"
        yield f"{PREFIX}{name}_count{{{self._labels}}} {_number(counts[-1])}"


def _named(name: str, kind: str, wanted: Collection[str]) -> bool:
    full = PREFIX + name
    if kind == "counter":
        return f"{full}_total" in wanted
    if kind == "histogram":
        return any(full + end in wanted for end in ("_sum", "_count", "_bucket"))
    return full in wanted


def _number(value: float) -> str:
    return repr(float(value))
