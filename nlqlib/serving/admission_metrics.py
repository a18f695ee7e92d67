"""The gateway's own metrics: Prometheus text of its limits, read from them at the moment of a scrape."""

from collections.abc import Iterator, Mapping

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from nlqlib.serving.admission import WAIT_BOUNDS_S, Limit, Waits

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
PREFIX = "nlqlib_gateway_"
LABELS = ("layer", "replica")
OUTCOMES = ("admitted", "rejected", "timed_out", "left")
GAUGES = {
    "in_flight": "Requests that hold a slot now.",
    "peak_in_flight": "Most requests that ever held a slot at once.",
    "queue_depth": "Requests that wait for a slot now.",
    "peak_queue_depth": "Most requests that ever waited at once.",
    "limit": "Slots; absent where there is no limit.",
}
"""Name without its prefix → help text."""


def exposition(router: Limit, replicas: Mapping[str, Limit]) -> str:
    """Prometheus text; the layers are `router` (its `replica` label is empty) and `replica`."""
    registry = CollectorRegistry()
    registry.register(_Limits({("router", ""): router, **{("replica", n): x for n, x in replicas.items()}}))
    return generate_latest(registry).decode()


class _Limits(Collector):
    def __init__(self, limits: Mapping[tuple[str, str], Limit]) -> None:
        self._limits = limits

    def collect(self) -> Iterator[Metric]:
        for name, text in GAUGES.items():
            gauge = GaugeMetricFamily(PREFIX + name, text, labels=LABELS)
            for labels, limit in self._limits.items():
                if (value := _gauge(limit, name)) is not None:
                    gauge.add_metric(labels, value)
            yield gauge
        yield from self._requests()
        yield self._waits()

    def _requests(self) -> Iterator[Metric]:
        simple = {
            "arrived": "Requests that came to this limit.",
            "finished": "Requests that gave a slot back.",
        }
        for name, text in simple.items():
            counter = CounterMetricFamily(f"{PREFIX}{name}", text, labels=LABELS)
            for labels, limit in self._limits.items():
                counter.add_metric(labels, getattr(limit.counts, name))
            yield counter
        text = "What became of them: admitted, rejected (queue full), timed out, or left while they queued."
        outcomes = CounterMetricFamily(f"{PREFIX}requests", text, labels=(*LABELS, "outcome"))
        for labels, limit in self._limits.items():
            for outcome in OUTCOMES:
                outcomes.add_metric((*labels, outcome), getattr(limit.counts, outcome))
        yield outcomes

    def _waits(self) -> Metric:
        text = "Seconds that admitted requests waited for their slot."
        waits = HistogramMetricFamily(f"{PREFIX}queue_wait_seconds", text, labels=LABELS)
        for labels, limit in self._limits.items():
            waits.add_metric(labels, _cumulated(limit.waits), limit.waits.sum_s)
        return waits


def _gauge(limit: Limit, name: str) -> float | None:
    if name == "queue_depth":
        return limit.depth
    if name == "peak_queue_depth":
        return limit.peak_depth
    value: int | None = getattr(limit, name)
    return value


def _cumulated(waits: Waits) -> list[tuple[str, float]]:
    """Upper bound and number of waits up to it, as Prometheus writes buckets."""
    bounds = [*(f"{bound:g}" for bound in WAIT_BOUNDS_S), "+Inf"]
    return [(bound, float(sum(waits.buckets[: i + 1]))) for i, bound in enumerate(bounds)]
